"""Starts programs for tests, and finds the built nkisim that they test.

A test that starts a program is marked `process`: conftest.py fails one that is not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Where Python packages are: the core's, and those of each client.
SOURCES = [ROOT / "python", *sorted((ROOT / "clients").glob("*/"))]
#: For tests of the core that look at its clients' files, which may be left out, too.
needs_clients = pytest.mark.skipif(not (ROOT / "clients").is_dir(), reason="needs clients/")
#: The program: NKISIM_PROGRAM, or that of the build folder. Whatever a test starts sees it as well.
PROGRAM = os.environ.setdefault("NKISIM_PROGRAM", str(ROOT / "build" / "release" / "nkisim"))


#: The start of a script: peak_bytes() is the most memory that its own process had. Its ru_maxrss may be that of the
#: process that started it: Linux carries it over fork and exec.
PEAK_BYTES = """
def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024
"""


def run(*words, code=0, **options):
    """Runs a command: what subprocess.run gives, with text. Any exit code but `code` fails; None allows all."""
    options = {"capture_output": True, "text": True, **options}
    done = subprocess.run([str(word) for word in words], check=False, **options)
    assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def cli(*words, **options):
    """Runs nkisim."""
    return run(PROGRAM, *words, **options)


def python(*words, **options):
    """Runs the interpreter of these tests."""
    return run(sys.executable, *words, **options)


def write_trace(path, lines):
    """Writes lines, texts or values of JSON, as a trace; the path."""
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path
