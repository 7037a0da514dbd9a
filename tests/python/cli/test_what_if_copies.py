"""Tests that what-ifs computed in copies of the process are those of one processor, and that nothing of
the copies is left after Ctrl-C.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from running import PROGRAM, ROOT

pytestmark = [pytest.mark.process, pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    def written(instructions):
        path = tmp_path_factory.mktemp("traces") / f"{instructions}.jsonl"
        subprocess.run([sys.executable, ROOT / "bench/million.py", path, str(instructions)], check=True)
        return path
    return written


def copies_of(process):
    """The processes that it started."""
    try:
        text = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
    except FileNotFoundError:
        return []
    return [int(pid) for pid in text.split()]


def explain(trace):
    return [PROGRAM, "run", trace, "--timing-only", "--explain"]


def seen_copies(process):
    deadline, seen = time.monotonic() + 120, []
    while not seen and process.poll() is None and time.monotonic() < deadline:
        seen = copies_of(process)
    return seen


def test_copies_find_what_one_processor_finds(trace):
    words = explain(trace(40_000))
    one = {min(os.sched_getaffinity(0))}
    alone = subprocess.run(words, capture_output=True, text=True, check=True,
                           preexec_fn=lambda: os.sched_setaffinity(0, one))
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        seen = seen_copies(process)
        output = process.communicate()[0]
    assert process.returncode == 0 and output == alone.stdout
    assert "twice as fast" in output and len(seen) >= 1


def test_ctrl_c_ends_the_copies(trace):
    with subprocess.Popen(explain(trace(400_000)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        seen = seen_copies(process)
        assert seen
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert not [pid for pid in seen if pathlib.Path(f"/proc/{pid}").exists()]
