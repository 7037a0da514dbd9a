"""Every femtosecond of every engine and DMA queue has one cause, in every trace of the repository
and in the kernels of the examples."""

import importlib
import sys

import pytest

import nkisim
from accounting import check
from running import ROOT, cli

nkisim.install()
sys.path.insert(0, str(ROOT / "examples"))

import common  # noqa: E402

NAMES = sorted(p.stem for p in (ROOT / "examples").glob("*.py") if p.stem != "common")
CASES = [case for name in NAMES for case in importlib.import_module(name).cases()]
TRACES = sorted(p for pattern in ("*.jsonl", "*.nisa", "*.nisa.gz") for p in ROOT.rglob(pattern)
                if not {"build", ".git"} & set(p.relative_to(ROOT).parts))


@pytest.mark.process
@pytest.mark.parametrize("trace", TRACES, ids=lambda p: p.stem)
def test_traces(trace, tmp_path):
    out = tmp_path / "a.json"
    cli("run", trace, "-q", "--accounting-json", out)
    check(out)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_examples(case, tmp_path):
    target = "trn2" if "trn2" in case.targets else case.targets[0]
    result, _ = common.run(case, target)
    result.write(accounting_json=tmp_path / "a.json")
    accounting = check(tmp_path / "a.json")
    assert accounting["end_fs"] >= round(result.latency_ns * 1e6)
