"""What acts on a terminal is written out, and other letters are left."""

import pytest

from nkisim_profile import plain
from running import cli

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
    path = tmp_path / "said"
    with open(path, "w", encoding="utf-8", newline="") as file:
        stream = plain.Plain(file)
        assert stream.write("a\x1b[2Jb\tc\n") == len("a\\u001b[2Jb\tc\n")
        assert path.read_bytes() == b""  # held back, until
        stream.flush()
        assert path.read_bytes() == b"a\\u001b[2Jb\tc\n"
        assert stream.fileno() == file.fileno() and not stream.isatty()
