#!/usr/bin/env python3
"""Runs the commands that README.md shows, and compares what they print with what it shows.

    scripts/readme.py --check     # exit code 1 and a difference if an output is another (scripts/fresh)
    scripts/readme.py             # writes the outputs into README.md

A block ```console has one command, after "$ ", and its output; a line "..." stands for any lines. A block ```python
is the file that the text above it names. Commands run in one folder, which sees examples/ and traces/. A command with
--library needs a checkout of nki-library: NKISIM_LIBRARY names it, and without one the command is left out.
"""

import difflib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n\$ (?P<command>[^\n]*)\n(?P<output>.*?)^```$", re.M | re.S)
FILE = re.compile(r"`(?P<name>[\w.]+)`:\n\n```python\n(?P<text>.*?)^```$", re.M | re.S)
# The model of the example, as its authors publish it (Llama 3 8B).
MODEL = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "rms_norm_eps": 1e-5}


def environment():
    """Commands find the build's program, its interpreter and its package."""
    build = pathlib.Path(os.environ.get("NKISIM_PROGRAM", ROOT / "build/release/nkisim")).parent
    path = [str(build), str(pathlib.Path(sys.executable).parent), os.environ["PATH"]]
    packages = [str(build / "python"), str(ROOT / "python")]
    return {**os.environ, "PATH": os.pathsep.join(path), "PYTHONPATH": os.pathsep.join(packages),
            "NKISIM_PROGRAM": str(build / "nkisim")}


def prepare(folder, page):
    """The files that the commands read."""
    for name in ("examples", "traces"):
        (folder / name).symlink_to(ROOT / name)
    for block in FILE.finditer(page):
        (folder / block["name"]).write_text(block["text"], encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    if "NKISIM_LIBRARY" in os.environ:
        (folder / "nki-library").symlink_to(os.environ["NKISIM_LIBRARY"])


def output_of(command, folder):
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment(), check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


def shown(output, pattern):
    """An output as a block shows it: where the block has "...", as many lines before and after it."""
    lines, wanted = output.splitlines(), pattern.splitlines()
    if "..." not in wanted:
        return "\n".join(lines) + "\n"
    before = wanted.index("...")
    after = len(wanted) - before - 1
    return "\n".join(lines[:before] + ["..."] + lines[len(lines) - after:]) + "\n"


def outputs(page, folder):
    """(start and end of the shown output, command, what it prints now) of every command that can run."""
    prepare(folder, page)
    for block in BLOCK.finditer(page):
        if "--library" in block["command"] and "NKISIM_LIBRARY" not in os.environ:
            continue
        yield block.span("output"), block["command"], shown(output_of(block["command"], folder), block["output"])


def renewed(page):
    """The page with what its commands print now."""
    with tempfile.TemporaryDirectory() as folder:
        for (start, end), _, text in reversed(list(outputs(page, pathlib.Path(folder)))):
            page = page[:start] + text + page[end:]
    return page


def main(words):
    old = PAGE.read_text(encoding="utf-8")
    new = renewed(old)
    if words == ["--check"]:
        sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "README.md", "now"))
        return int(old != new)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
