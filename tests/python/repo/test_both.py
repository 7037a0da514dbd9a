"""Tests tests/differential/both.py, which gives each test to two programs and compares their
answers.
"""

import struct
import subprocess
import sys

import pytest

from running import ROOT

pytestmark = pytest.mark.process
BOTH = ROOT / "tests" / "differential" / "both.py"
#: Answers every request with one tensor: the text of the trace, its first byte changed where CHANGE is in it.
DRIVER = """
import struct, sys
change = sys.argv[1]
word = lambda: struct.unpack("<I", sys.stdin.buffer.read(4))[0]
while head := sys.stdin.buffer.read(4):
    text = sys.stdin.buffer.read(struct.unpack("<I", head)[0])
    for _ in range(word()):
        word()
        sys.stdin.buffer.read(word() * (2 if "--undefined" in sys.argv else 1))
    if text == b"refuse":
        sys.stdout.buffer.write(bytes([1]) + struct.pack("<I", 2) + b"no")
    else:
        if change.encode() in text:
            text = b"?" + text[1:]
        out = b"\\0" + struct.pack("<III", 0, 1, len(text)) + text + (text if "--undefined" in sys.argv else b"")
        sys.stdout.buffer.write(out + struct.pack("<I", 3) + b"hey")
    sys.stdout.buffer.flush()
"""


def request(text, flags=False):
    data = b"\1\2\3" * (2 if flags else 1)
    return struct.pack("<I", len(text)) + text + struct.pack("<III", 1, 0, 3) + data


def run_both(folder, change, asked, *options):
    driver = folder / "driver.py"
    driver.write_text(DRIVER)
    words = [sys.executable, BOTH, sys.executable, driver, "xxx", "--", sys.executable, driver, change, "--", *options]
    return subprocess.run(words, input=asked, capture_output=True, check=False, timeout=60)


def test_what_agrees_is_answered(tmp_path):
    done = run_both(tmp_path, "xxx", request(b"one") + request(b"refuse"))
    answer = b"\0" + struct.pack("<III", 0, 1, 3) + b"one" + struct.pack("<I", 3) + b"hey"
    assert done.returncode == 0, done.stderr
    assert done.stdout == answer + b"\1" + struct.pack("<I", 2) + b"no"
    done = run_both(tmp_path, "xxx", request(b"one", flags=True), "--undefined")
    assert (done.returncode, len(done.stdout)) == (0, len(answer) + 3)


def test_what_differs_ends_it(tmp_path):
    done = run_both(tmp_path, "two", request(b"one") + request(b"two") + request(b"one"))
    assert done.returncode == 1 and len(done.stdout) == 1 + 12 + 3 + 7  # the first answer alone
    assert b"the drivers' answers differ at byte 13 of 23 and 23" in done.stderr
