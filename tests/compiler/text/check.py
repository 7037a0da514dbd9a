#!/usr/bin/env python3
"""Tests the compiler's passes by text: each file has a program and the lines that a pass is
expected to make of it.

    tests/compiler/text/check.py [--bless] [NAME.pass ...]

A file has a line `; pass NAME OPTIONS`, a program, and behind `; check` the compiled program as `nkisim disasm`
prints it. The pass must have changed something, outputs must keep their values, and the lines must be the same. --bless
writes the lines that there are now, and shows the difference.
"""

import difflib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAM = os.environ.get("NKISIM_PROGRAM", str(HERE.parents[2] / "build" / "release" / "nkisim"))


def nkisim(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False,
                          env={**os.environ, "NKISIM_CHECK_PASSES": "1"})
    if done.returncode != 0:
        raise SystemExit(f"nkisim {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def compiled(name, options, program):
    """(changes of the pass, lines of the compiled program)."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.jsonl", Path(folder) / "after.jsonl"
        before.write_text(program)
        found = json.loads(nkisim("compile", before, "-o", after, *options, "--json"))
        changed = {step["pass"]: step["changed"] for step in found["passes"]}[name]
        return changed, nkisim("disasm", after).splitlines()


def check(path, bless=False):
    """The first thing that is wrong with a file, as text; empty if nothing is."""
    head, rest = path.read_text().split("\n", 1)
    program, _, expected = rest.partition("; check\n")
    name, *options = head.removeprefix("; pass ").split()
    changed, lines = compiled(name, options, program)
    if name != path.stem or changed == 0:
        return f"{path.name}: the pass {name} changed nothing"
    wanted = [line.removeprefix("; ") for line in expected.splitlines()]
    if lines == wanted:
        return ""
    difference = "\n".join(difflib.unified_diff(wanted, lines, "checked", "compiled", lineterm=""))
    if bless:
        path.write_text(f"{head}\n{program}; check\n" + "".join(f"; {line}\n" for line in lines))
        print(f"{path.name}\n{difference}")
        return ""
    return f"{path.name}\n{difference}"


def main():
    words = [word for word in sys.argv[1:] if word != "--bless"]
    files = [Path(word) for word in words] or sorted(HERE.glob("*.pass"))
    wrong = [text for text in (check(path, "--bless" in sys.argv) for path in files) if text]
    print("\n".join(wrong) or f"{len(files)} passes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
