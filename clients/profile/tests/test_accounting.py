"""Tests the accounting of simulated time: every femtosecond of every engine and DMA queue has one
cause, in every program of the repository and in the kernels of the examples.
"""

import importlib
import sys

import pytest

import nkisim
from accounting import check
from running import ROOT, cli, write_trace

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


@pytest.mark.process
def test_a_port_that_no_engine_holds_takes_no_time(tmp_path):
    """On trn1 VectorE shares the port of SBUF with GpSimdE. Alone it was charged for waiting for that port, in the
    name of a DMA queue."""
    tile = {"space": "sbuf", "shape": [128, 512], "dtype": "float32"}
    trace = write_trace(tmp_path / "k.jsonl", [
        {"nisa": 1, "target": "trn1"},
        {"tensor": {"name": "o", "space": "hbm", "shape": [128, 512], "dtype": "float32", "role": "output"}},
        *({"tensor": {"name": f"t{i}", **tile, "address": 2048 * i}} for i in range(4)),
        *({"i": "memset", "dst": f"t{i}", "value": 1.0, "engine": "vector"} for i in range(4)),
        {"i": "dma_copy", "dst": "o", "src": "t3"}])
    said = cli("run", trace, "--explain", "--accounting-json", tmp_path / "a.json").stdout
    check(tmp_path / "a.json")
    assert "Vector Engine" in said and "memory port" not in said


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_examples(case, tmp_path):
    target = "trn2" if "trn2" in case.targets else case.targets[0]
    result, _ = common.run(case, target)
    result.write(accounting_json=tmp_path / "a.json")
    accounting = check(tmp_path / "a.json")
    assert accounting["end_fs"] >= round(result.latency_ns * 1e6)
