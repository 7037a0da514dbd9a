#!/usr/bin/env python3
"""Writes tests/stored/VERSION: files that this version of nkisim makes and later ones must read.

    tests/stored/make.py            # with NKISIM_PROGRAM, default build/release/nkisim

A folder may be written again until its version is released; after that it never changes, and
tests/python/cli/test_stored_files.py fails where a later program does not read it.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("NKISIM_PROGRAM", str(ROOT / "build" / "release" / "nkisim"))
#: Traces, and how near to NumPy their values are: bfloat16 keeps 8 bits.
TRACES = {"softmax": 1e-5, "matmul_psum": 2**-8, "gather_loop": 0}
#: Commands whose --json output others' programs read: name of the file, words after the program.
OUTPUTS = {
    "run": ("run", "softmax.jsonl"),
    "explain": ("run", "softmax.jsonl", "--explain"),
    "targets": ("run", "softmax.jsonl", "--targets", "trn1,trn2"),
    "check": ("check", "softmax.jsonl"),
    "disasm": ("disasm", "softmax.jsonl"),
    "isa": ("isa", "show", "nc_matmul"),
    "config": ("config", "validate", "config.json"),
    "view": ("view", "session.npz"),
}


def nkisim(*words, cwd=None):
    """Standard output of a command that must succeed."""
    return subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True, text=True,
                          cwd=cwd).stdout


def outline(value):
    """The parts of a JSON value that may not change: keys and types, of a list those of its first element."""
    if isinstance(value, dict):
        return {key: outline(v) for key, v in value.items()}
    if isinstance(value, list):
        return [outline(v) for v in value[:1]]
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "null" if value is None else "text"


def main():
    """Writes the folder of the program's version."""
    version = nkisim("--version").split()[1]
    folder = ROOT / "tests" / "stored" / ".".join(version.split(".")[:2])
    folder.mkdir(exist_ok=True)
    for name in TRACES:
        nkisim("convert", ROOT / "traces" / f"{name}.jsonl", "-o", folder / f"{name}.nisa")
        shutil.copy(ROOT / "traces" / f"{name}.jsonl", folder)
        shutil.copy(ROOT / "traces" / f"{name}.npz", folder)
    nkisim("run", "softmax.jsonl", "-q", "--session", folder / "session.npz", cwd=folder)
    shutil.copy(ROOT / "configs" / "trn2.json", folder / "config.json")
    outlines = {}
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(folder, scratch, dirs_exist_ok=True)
        for name, words in OUTPUTS.items():
            outlines[name] = outline(json.loads(nkisim(*words, "--json", cwd=scratch)))
    (folder / "outputs.json").write_text(json.dumps(outlines, indent=1) + "\n")


if __name__ == "__main__":
    main()
