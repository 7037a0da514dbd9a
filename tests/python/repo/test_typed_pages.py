"""Tests the commands of some documentation pages, typed as they stand there, one after the other in
one folder.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from running import PROGRAM, ROOT, cli

pytestmark = [pytest.mark.process, pytest.mark.slow]
#: A command line of a page, with those that it goes on to.
COMMAND = re.compile(r"^(?: {4}|\$ |)((?:[A-Z_]+=\S+ )*(?:nkisim|python -m nkisim) (?:.*\\\n *)*.*)$", re.M)
BLOCKS = re.compile(r"^```(\w*)\n(.*?)^```$|((?:^ {4}\S[^\n]*\n)+)", re.M | re.S)
#: A file that pages take for granted.
KERNEL = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def matmul(a, b):
    c = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
    tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=left, src=a[0:128, 0:128])
    nisa.dma_copy(dst=right, src=b[0:128, 0:512])
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    nisa.tensor_copy(dst=tile, src=total)
    nisa.dma_copy(dst=c, src=tile)
    return c


@nki.jit
def chain(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0]):
        t = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[i])
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=y[i], src=t)
    return y
"""
PAGES = ("tutorial", "debug", "log", "advise", "same", "profile")
#: Commands whose exit code is another: the programs that a page compares differ, a budget is broken.
CODES = {"nkisim same old.nisa new.nisa": (0, 1), "--budget": (0, 1)}


def commands_of(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for block in BLOCKS.finditer(text):
        lines = block[3] or (block[2] if block[1] in ("", "sh", "console") else "")
        for found in COMMAND.finditer(lines):
            yield re.sub(r"\s{2,}#.*| +# .*", "", found[1].replace("\\\n", " ")).strip()


def prepare(folder):
    for name in ("examples", "traces"):
        (folder / name).symlink_to(ROOT / name)
    above, line = KERNEL.split("@nki.jit\ndef chain"), 42  # which profile.md names
    begin = line - above[1][:above[1].index("tensor_scalar")].count("\n") - 1
    empty = "\n" * (begin - above[0].count("\n") - 1)
    (folder / "k.py").write_text(f"{above[0]}{empty}@nki.jit\ndef chain{above[1]}")
    for name in ("k", "before", "after"):
        cli("kernel", folder / "k.py:chain", "--arg", "x=f32[4,128,512]", "-o", folder / f"{name}.jsonl")
    for name in ("my", "a", "b"):
        shutil.copy(ROOT / "configs/trn2.json", folder / f"{name}.json")
    for name in ("a", "b"):
        cli("run", folder / "k.jsonl", "--quiet", "--session", folder / f"{name}.npz")
    for name in ("k", "old", "new"):
        cli("convert", folder / "k.jsonl", "-o", folder / f"{name}.nisa")
    for name in ("naive", "tiled"):
        cli("kernel", f"{ROOT}/examples/matmul.py:{name}", "--arg", "a_t=bf16[512,512]", "--arg", "b=bf16[512,512]",
            "-o", folder / f"{name}.nisa", "--save-recorded", folder / "recorded.nisa")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page(tmp_path, page):
    prepare(tmp_path)
    found = list(commands_of(page))
    assert found, page
    build = os.path.dirname(PROGRAM)
    environment = {**os.environ, "PATH": f"{build}:{os.environ['PATH']}", "NKISIM_PROGRAM": PROGRAM}
    for command in found:
        words = command.replace("python -m", f"{sys.executable} -m")
        done = subprocess.run(["bash", "-c", words], cwd=tmp_path, env=environment, capture_output=True, text=True,
                              check=False, input="quit\n", timeout=600)
        allowed = next((codes for text, codes in CODES.items() if text in command), (0,))
        assert done.returncode in allowed, (command, done.returncode, done.stdout[-2000:], done.stderr[-2000:])
        assert "Traceback" not in done.stderr, command


def test_the_reader_of_pages():
    """It finds the commands of a page of each form."""
    assert [len(list(commands_of(page))) > least for page, least in zip(PAGES, (3, 1, 3, 1, 1, 15))] == [True] * 6
    assert not [command for page in PAGES for command in commands_of(page) if " # " in command]
