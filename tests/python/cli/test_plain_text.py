"""Tests that output is safe to show on a terminal.

Control characters (but tab and newline), line separators and marks of writing direction are printed as escapes.
Other characters are printed as they are. A command whose output is not read any more (a closed pipe) ends without
a message.
"""

import os
import signal
import subprocess

import pytest

from nkisim_profile import plain
from running import PROGRAM, ROOT, cli

pytestmark = pytest.mark.process


@pytest.mark.parametrize("letter", ["\x80", "\x9f", "\u061c", "\u200e", "\u200f", "\u2028", "\u202e", "\u2066",
                                    "\u2069"], ids=lambda c: f"{ord(c):04x}")
def test_marks_that_act_are_escaped(letter, tmp_path):
    said = cli("run", f"k{letter}k.jsonl", code=None, cwd=tmp_path).stderr
    assert f"k\\u{ord(letter):04x}k.jsonl" in said and letter not in said


@pytest.mark.parametrize("letter", ["\xa0", "\xff", "\u061b", "\u061d", "\u200d", "\u2010", "\u2027", "\u202f",
                                    "\u2065", "\u206a", "\u20ac", "\U0001f600"], ids=lambda c: f"{ord(c):04x}")
def test_other_letters_are_left(letter, tmp_path):
    assert f"k{letter}k.jsonl" in cli("run", f"k{letter}k.jsonl", code=None, cwd=tmp_path).stderr


def test_the_stream_below_is_reached(tmp_path):
    """plain.Plain escapes text and passes it on to the stream that it wraps."""
    path = tmp_path / "said"
    with open(path, "w", encoding="utf-8", newline="") as file:
        stream = plain.Plain(file)
        assert stream.write("a\x1b[2Jb\tc\n") == len("a\\u001b[2Jb\tc\n")
        assert path.read_bytes() == b""  # held back, until
        stream.flush()
        assert path.read_bytes() == b"a\\u001b[2Jb\tc\n"
        assert stream.fileno() == file.fileno() and not stream.isatty()


@pytest.mark.parametrize("words", [
    ("advise", ROOT / "traces/softmax.jsonl", "--effort", "2"), ("view", "SESSION"), ("compare", "SESSION", "SESSION"),
    ("model", "--help"), ("evaluate", "--help"), ("validate", "--help"), ("doctor",), ("new", "--help"),
    ("kernel", "--help"), ("isa",)], ids=lambda w: str(w[0]))
def test_a_reader_that_has_gone_ends_a_command_quietly(words, tmp_path):
    session = tmp_path / "s.npz"
    cli("run", ROOT / "traces/softmax.jsonl", "--session", session)
    words = [str(session) if w == "SESSION" else str(w) for w in words]
    reading, writing = os.pipe()
    os.close(reading)  # before the first line is written
    done = subprocess.run([PROGRAM, *words], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert done.returncode in (128 + signal.SIGPIPE, -signal.SIGPIPE), done.stderr
    assert done.stderr == ""
