"""Tests that Ctrl-C ends a program that only waits, unless the program was started to ignore it, and one that
starts.
"""

import os
import signal
import subprocess
import time

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


@pytest.mark.parametrize("after", [0.03, 0.1, 0.25, 0.5])
@pytest.mark.parametrize("command", [("evaluate", "--reference", "ref.py", "--candidates", "ref.py"),
                                     ("kernel", "ref.py:reference")], ids=lambda c: c[0])
def test_a_command_in_python_that_starts(command, after, tmp_path):
    """Imports take most of the first second, and NumPy's makes an ImportError of an interrupt within it. What a
    kernel's file does when it is loaded is ended."""
    wait = "time.sleep(60)" if command[0] == "kernel" else ""
    (tmp_path / "ref.py").write_text(f"import time\n{wait}\n\ndef inputs(seed): time.sleep(60)\n\n\n"
                                     "def reference(x): return x\n")
    with subprocess.Popen([PROGRAM, *command], cwd=tmp_path,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as starting:
        time.sleep(after)
        os.killpg(starting.pid, signal.SIGINT)
        said = starting.communicate(timeout=60)[1]
    assert "Traceback" not in said and starting.returncode in (130, -signal.SIGINT), said
