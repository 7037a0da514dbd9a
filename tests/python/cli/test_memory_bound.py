"""Tests that a growing run ends with one error before it fills the machine's memory (here at 150 MB, not 80 %)."""

import json
import os
import subprocess
import sys

import pytest

from running import PEAK_BYTES, PROGRAM, write_trace

pytestmark = pytest.mark.process
SCRIPT = PEAK_BYTES + """
import resource, sys
import numpy as np
import nkisim
import nki, nki.isa as nisa, nki.language as nl
@nki.jit
def grows(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(100_000_000):
        other = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=other, src=tile)
        tile = other
    nisa.dma_copy(dst=out, src=tile)
    return out
if __name__ == "__main__":
    before = resource.getrlimit(resource.RLIMIT_DATA)
    for _ in range(2):  # a run after it has memory again
        try:
            nkisim.run(grows, np.ones((128, 64), np.float32), target="trn2")
        except nkisim.Error as problem:
            print(problem.rule, problem)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    print(peak_bytes())
"""


LINES = [{"nisa": 1, "target": "trn2", "name": "k"},
         {"tensor": {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [128, 64], "address": 0}},
         {"i": "memset", "dst": "t", "value": 1.0}]


BOUND = 150_000_000


def run_bounded(*words):
    import nkisim
    share = BOUND / nkisim._core.host()["memory_bytes"] * 100
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, check=False,
                          env={**os.environ, "NKISIM_MEMORY_PERCENT": f"{share:.6g}"})
    return done


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not refuse memory")
def test_a_kernel_that_grows_in_python(tmp_path):
    (tmp_path / "k.py").write_text(SCRIPT)
    done = run_bounded(sys.executable, tmp_path / "k.py")
    *said, peak = done.stdout.splitlines()
    assert len(said) == 2 and all(line.startswith("host_memory the run needs more than") for line in said), done
    # The recorder looks every 1,024 instructions, and the system refuses more at the eighth part beyond the bound.
    assert int(peak) < BOUND + BOUND // 4


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not refuse memory")
def test_a_kernel_that_grows_in_a_command(tmp_path):
    (tmp_path / "k.py").write_text(SCRIPT)
    done = run_bounded(PROGRAM, "kernel", f"{tmp_path / 'k.py'}:grows", "--arg", "x=f32[128,64]", "--json")
    assert done.returncode == 3 and "Traceback" not in done.stderr, done
    assert "the run needs more than" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not refuse memory")
def test_a_trace_that_grows(tmp_path):
    path = write_trace(tmp_path / "k.jsonl", LINES)
    with open(path, "a") as file:
        for _ in range(30):
            file.write((json.dumps(LINES[2]) + "\n") * 50_000)
    for words in (("run", path, "-q"), ("check", path)):
        done = run_bounded(PROGRAM, *words, "--json")
        assert done.returncode == 3, done
        assert "needs more than" in json.loads(done.stdout)["error"]["message"]


def test_workers_share_what_one_run_may_take(tmp_path, monkeypatch):
    """Each of two has half: a kernel's trace that one run may hold is too much for one of two workers."""
    from nkisim_work import Worker, share_of_machine
    monkeypatch.setenv("NKISIM_MEMORY_PERCENT", "3")
    monkeypatch.setenv("NKISIM_THREADS", "6")
    assert share_of_machine(2) == {"NKISIM_MEMORY_PERCENT": "1.5", "NKISIM_THREADS": "3"}
    assert share_of_machine(8) == {"NKISIM_MEMORY_PERCENT": "0.375", "NKISIM_THREADS": "1"}
    monkeypatch.delenv("NKISIM_MEMORY_PERCENT")
    monkeypatch.delenv("NKISIM_THREADS")
    assert share_of_machine(1) == {"NKISIM_MEMORY_PERCENT": "80",
                                   "NKISIM_THREADS": str(len(os.sched_getaffinity(0)))}
    path = write_trace(tmp_path / "k.jsonl", LINES)
    with open(path, "a") as file:
        for _ in range(4):
            file.write((json.dumps(LINES[2]) + "\n") * 50_000)
    import nkisim
    whole = 400e6 / nkisim._core.host()["memory_bytes"] * 100  # 400 MB for all
    monkeypatch.setenv("NKISIM_MEMORY_PERCENT", f"{whole:.6g}")
    said = []
    for of in (1, 16):
        with Worker(of=of) as worker:
            said.append(worker.run({"trace": str(path), "want": "time"}))
    alone, shared = said
    assert "error" not in alone and shared["error"]["rule"] == "host_refuses", said
    assert f"which is {whole / 16:.3g} %" in shared["error"]["message"]


def test_so_many_jobs_as_fit(capsys):
    import nkisim
    from nkisim_evaluate.evaluator import _that_fit
    memory = nkisim._core.host()["memory_bytes"]
    assert _that_fit(4, memory // 8) == 4 and not capsys.readouterr().err
    assert _that_fit(4, memory // 2) == 1 and "1 jobs at a time" in capsys.readouterr().err
    assert _that_fit(4, memory * 2) == 1
