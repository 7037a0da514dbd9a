"""Tests that commands show their progress on a terminal, and nowhere else."""

import os
import re
import subprocess
import sys

import pytest

from running import PROGRAM, ROOT, run

pexpect = pytest.importorskip("pexpect", reason="pexpect is not installed (scripts/setup --dev)")
pytestmark = pytest.mark.process
KERNEL = """import time
import nki
import nki.language as nl
time.sleep(0.6)

# nkisim: x=f32[128,64]
@nki.jit
def kernel(x):
    time.sleep(0.6)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.exp(nl.load(x)))
    print("from the kernel")
    return out

def reference(x):
    import numpy as np
    time.sleep(0.6)
    return np.exp(x)
"""
#: A process whose ProgressLine begins at once.
SOON = "import nkisim_work.progress_line as d; d.FIRST_SECONDS = d.STEP_SECONDS = 0.02\n"


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "TERM": "xterm"}


def on_a_terminal(*words):
    """The text that a command writes to a terminal, and its exit code."""
    child = pexpect.spawn(str(words[0]), list(map(str, words[1:])), env=environment(), timeout=120, encoding="utf-8",
                          dimensions=(40, 120))
    said = child.read()
    child.close()
    return said.replace("\r\n", "\n"), child.exitstatus


def text_left(said):
    """The text that is left on the terminal: a carriage return goes back to the beginning of the line."""
    lines = []
    for line in said.split("\n"):
        left = ""
        for piece in line.split("\r"):
            left = piece + left[len(piece):]
        lines.append(left.rstrip())
    return lines


def test_a_kernels_phases_are_reported_and_gone_at_the_end(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL)
    words = [f"{tmp_path / 'k.py'}:kernel", "--expect", "reference", "--html", tmp_path / "k.html"]
    code = SOON + "import sys; from nkisim.tools.kernel_cli import main; sys.exit(main(sys.argv[1:]))"
    said, status = on_a_terminal(sys.executable, "-c", code, *words)
    assert status == 0, said
    for phase in (f"executing {tmp_path}"[:40], "simulating kernel on trn2", "computing reference"):
        assert "\r" + phase in said
    assert re.search(r"\(1 s\)", said)
    plain = run(sys.executable, "-c", code, *words, env=environment())
    assert plain.stderr == "" and "simulating kernel on" not in plain.stdout
    assert text_left(said) == [line.rstrip() for line in plain.stdout.split("\n")]


def test_what_is_quick_says_nothing(tmp_path):
    (tmp_path / "k.py").write_text(KERNEL.replace("time.sleep(0.6)", "pass"))
    said, status = on_a_terminal(PROGRAM, "kernel", f"{tmp_path / 'k.py'}:kernel", "--timing-only")
    assert status == 0 and "simulating kernel on trn2 (" not in said


@pytest.mark.parametrize("command, phase", [
    (("report", "SESSION", "-o", "report.html"), "drawing the report"),
    (("view", "SESSION", "--output-format", "summary-text"), "reading the session"),
    (("compare", "SESSION", "SESSION"), "comparing")])
def test_profile_files(command, phase, tmp_path):
    session = tmp_path / "s.npz"
    run(PROGRAM, "run", ROOT / "traces" / "flash_attention.jsonl", "--timing-only", "--session", session)
    words = [str(session) if w == "SESSION" else str(tmp_path / w) if w.endswith(".html") else w for w in command]
    code = SOON + "import sys; from nkisim_profile.__main__ import main; sys.exit(main())"
    said, status = on_a_terminal(sys.executable, "-c", code, *words)
    assert status == 0 and f"\r{phase} (0 s)" in said
    plain = run(sys.executable, "-c", code, *words, env=environment())
    assert plain.stderr == "" and text_left(said) == [line.rstrip() for line in plain.stdout.split("\n")]


def test_evaluations_count(tmp_path):
    search = ROOT / "examples" / "search"
    (tmp_path / "k.py").write_text("x = 1\n")
    code = SOON + "import sys; from nkisim_evaluate.command import main; sys.exit(main(sys.argv[1:]))"
    said, status = on_a_terminal(sys.executable, "-c", code, "--reference", search / "reference.py", "--candidates",
                                 tmp_path, tmp_path, "--jobs", "1")
    assert status == 1 and "\rcomputing the reference, starting workers (0 s)" in said
    left = text_left(said)
    assert sum(line.startswith("error ") for line in left) == 2 and "2 candidates in" in left[-2]


def test_an_inner_one_leaves_the_word_to_the_outer():
    code = SOON + """
import time
from nkisim_work import ProgressLine
with ProgressLine("outer"):
    time.sleep(0.1)
    with ProgressLine("inner"):
        time.sleep(0.1)
    print("printed")
    time.sleep(0.1)
print("after")
"""
    said, _ = on_a_terminal(sys.executable, "-c", code)
    assert "outer" in said and "inner" not in said
    assert text_left(said) == ["printed", "after", ""]
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(),
                          check=True).stderr == ""
