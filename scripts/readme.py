#!/usr/bin/env python3
"""Runs the commands that README.md and docs/tutorial.md show, and compares what they print with what is shown.

    scripts/readme.py --check     # exit code 1 and a difference if an output is another (scripts/fresh)
    scripts/readme.py             # writes the outputs, and the figures that the tutorial's text takes from them

A block ```console has one command, after "$ ", and its output; a line "..." stands for any lines. A line that ends in
"\\" goes on. A block ```python is the file that the text above it names. Commands run in one folder, which sees
examples/ and traces/. A command with --library needs a checkout of nki-library: NKISIM_LIBRARY names it, and without
one the command is left out.
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
PAGES = (ROOT / "README.md", ROOT / "docs/tutorial.md")
BLOCK = re.compile(r"^```console\n\$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)\n(?P<output>.*?)^```$", re.M | re.S)
#: The tutorial's table: step, latency, three shares of busy time, MFU, MiB.
ROW = re.compile(r"^(\w+) +([\d.]+) +([\d.]+) % +([\d.]+) % +([\d.]+) % +([\d.]+) % +[\d.]+$", re.M)
US, TENSOR, VECTOR, DMA, MFU = range(5)


#: The same on other pages, from the tutorial's table.
ELSEWHERE = ((ROOT / "README.md", r"makes this kernel (\d+) times faster"),
             (ROOT / "docs/README.md", r"a matmul made (\d+) times faster"))


def _times(step, other="naive"):
    return lambda rows: f"{rows[other][US] / rows[step][US]:.0f}"


def _figure(step, column):
    return lambda rows: f"{rows[step][column]:.0f}"


#: Figures in the tutorial's text: an expression whose groups they are, and each of them from the table's rows. Rows of
#: the table without reordering are named "hoisted as written".
TEXT = (
    (r"The\sfirst takes ([\d.]+) ms, the last (\d+) us",
     (lambda rows: f"{rows['naive'][US] / 1000:.1f}", _figure("buffered", US))),
    (r"takes \*\*(\d+) us, (\d+) times faster\*\*", (_figure("tiled", US), _times("tiled"))),
    (r"busiest of the engines, (\d+) %", (_figure("tiled", VECTOR),)),
    (r"the vector engine falls to (\d+) %", (_figure("accumulated", VECTOR),)),
    (r"The latency does not: \*\*(\d+) us\*\*", (_figure("accumulated", US),)),
    (r"6 MiB and \*\*(\d+) us, (\d+) % MFU\*\*, (\d+)\stimes faster",
     (_figure("hoisted", US), _figure("hoisted", MFU), _times("hoisted"))),
    (r"\*\*(\d+) us, (\d+) % MFU\*\*, (\d+) times faster than the first version, and (\d+) us when",
     (_figure("buffered", US), _figure("buffered", MFU), _times("buffered"), _figure("buffered as written", US))),
)
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


def rows_of(page):
    """The numbers of each step in the tutorial's tables."""
    rows = {}
    for name, *numbers in ROW.findall(page):
        rows[name if name not in rows else f"{name} as written"] = [float(n) for n in numbers]
    return rows


def with_figures(page, texts, rows):
    """The page with the figures of its text as the rows have them: `texts` as TEXT."""
    for expression, figures in texts:
        found = re.search(expression, page)
        if found is None:
            raise SystemExit(f"no text {expression!r}, whose figures are those of the tutorial's table")
        for group in range(len(figures), 0, -1):
            page = page[:found.start(group)] + figures[group - 1](rows) + page[found.end(group):]
    return page


def renewed_pages():
    """{path: (text, new text)} of all pages that have figures."""
    pages = {path: path.read_text(encoding="utf-8") for path in (*PAGES, *dict(ELSEWHERE))}
    new = {path: renewed(text) if path in PAGES else text for path, text in pages.items()}
    tutorial = PAGES[1]
    rows = rows_of(new[tutorial])
    new[tutorial] = with_figures(new[tutorial], TEXT, rows)
    for path, expression in ELSEWHERE:
        new[path] = with_figures(new[path], ((expression, (_times("buffered"),)),), rows)
    return {path: (text, new[path]) for path, text in pages.items()}


def main(words):
    differ = False
    for path, (old, new) in renewed_pages().items():
        if words == ["--check"]:
            name = str(path.relative_to(ROOT))
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), name, "now"))
        else:
            path.write_text(new, encoding="utf-8")
        differ |= old != new
    return int(differ) if words == ["--check"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
