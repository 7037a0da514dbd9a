"""Tests that `nkisim debug` refuses a kernel as `nkisim kernel` does: the same exit code, rule and line."""

import re

import pytest

from running import cli

pytestmark = pytest.mark.process
KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
CASES = {
    "no such kernel": (KERNEL.replace("def kernel", "def other"), ("--arg", "x=f32[128,64]")),
    "syntax": (KERNEL.replace("kernel(x):", "kernel(x)"), ("--arg", "x=f32[128,64]")),
    "an exception": (KERNEL.replace("    return out", "    raise ValueError('mine')"), ("--arg", "x=f32[128,64]")),
    "a rule of recording": (KERNEL.replace("src=x)", "src=x[0:64])"), ("--arg", "x=f32[128,64]")),
    "no argument": (KERNEL, ()),
    "an option": (KERNEL, ("--arg", "x=f32[128,64]", "--no-such-option")),
}


def refusal(said):
    """(exit code, rules, lines of the kernel) of a refusal."""
    return said.returncode, re.findall(r"\[(\w+)\]", said.stderr), re.findall(r"k\.py:(\d+)", said.stderr)


@pytest.mark.parametrize("text, words", CASES.values(), ids=CASES)
def test_the_refusal_is_that_of_kernel(text, words, tmp_path):
    (tmp_path / "k.py").write_text(text)
    kernel, debug = (cli(command, "k.py:kernel", *words, cwd=tmp_path, code=None, input="") for command in
                     ("kernel", "debug"))
    assert kernel.returncode in (2, 3) and kernel.stderr.strip()
    assert refusal(debug) == refusal(kernel), (kernel.stderr, debug.stderr)
