"""Every femtosecond of every engine and DMA queue has one cause, in every trace of the repository
and in the kernels of the examples."""

import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest

import nkisim

nkisim.install()
ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("NKISIM_PROGRAM", str(ROOT / "build" / "release" / "nkisim"))
sys.path.insert(0, str(ROOT / "examples"))

import common  # noqa: E402

NAMES = sorted(p.stem for p in (ROOT / "examples").glob("*.py") if p.stem != "common")
CASES = [case for name in NAMES for case in importlib.import_module(name).cases()]
TRACES = sorted(p for pattern in ("*.jsonl", "*.nisa", "*.nisa.gz") for p in ROOT.rglob(pattern)
                if not {"build", ".git"} & set(p.relative_to(ROOT).parts))


def check(path):
    """The parts of the file sum to the run, by engine, by queue and over the instructions."""
    accounting = json.loads(path.read_text())
    end, whole = accounting["end_fs"], 0
    for core in accounting["cores"]:
        rows = {}
        for row in core["instructions"]:
            engine = "Tensor" if row["row"] == "TensorMatrix" else row["row"]
            rows[engine] = rows.get(engine, 0) + sum(row["fs"].values())
        for name, engine in core["engines"].items():
            total = engine["total_fs"]
            assert sum(total.values()) == end, name
            idle = sum(fs for cause, fs in total.items() if cause.startswith(("idle", "unfinished")))
            assert rows.get(name, 0) == end - idle, name
            assert sum(sum(c.values()) for c in engine["by_line_fs"].values()) == end - idle
            assert sum(sum(c.values()) for c in engine["by_opcode_fs"].values()) == end - idle
            whole += end
        for name, queue in core["dma_queues"].items():
            assert sum(queue["total_fs"].values()) == end, name
        path_rows = core["critical_path"]
        assert all(a["to_fs"] == b["from_fs"] for a, b in zip(path_rows, path_rows[1:]))
        if path_rows:
            assert path_rows[0]["from_fs"] == 0
            assert len(accounting["cores"]) > 1 or path_rows[-1]["to_fs"] == end
    assert whole > 0
    return accounting


@pytest.mark.parametrize("trace", TRACES, ids=lambda p: p.stem)
def test_traces(trace, tmp_path):
    out = tmp_path / "a.json"
    subprocess.run([PROGRAM, "run", str(trace), "-q", "--accounting-json", str(out)], check=True)
    check(out)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_examples(case, tmp_path):
    target = "trn2" if "trn2" in case.targets else case.targets[0]
    result, _ = common.run(case, target)
    result.write(accounting_json=tmp_path / "a.json")
    accounting = check(tmp_path / "a.json")
    assert accounting["end_fs"] >= round(result.latency_ns * 1e6)
