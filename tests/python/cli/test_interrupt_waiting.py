"""Tests that Ctrl-C ends a program that only waits, unless the program was started to ignore it."""

import signal
import subprocess

import pytest

from running import PROGRAM

pytestmark = pytest.mark.process


@pytest.mark.parametrize("before, code", [(signal.SIG_DFL, 130), (signal.SIG_IGN, 0)], ids=["received", "ignored"])
def test_a_program_that_waits(before, code):
    with subprocess.Popen([PROGRAM, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, before)) as waiting:
        waiting.stdin.write(b'{"trace": "none.jsonl"}\n')
        waiting.stdin.flush()
        assert b"nkisim_job" in waiting.stdout.readline()  # it has begun, and waits for more
        waiting.send_signal(signal.SIGINT)
        try:
            found = waiting.wait(30 if code else 0.5)
        except subprocess.TimeoutExpired:
            waiting.stdin.close()
            found = waiting.wait(30)
    assert found == code
