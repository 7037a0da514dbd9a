"""Tests that nkisim advise says first, of kernels with one mistake each, what an author would do first."""

import json

import pytest

from running import cli

pytestmark = [pytest.mark.process, pytest.mark.slow]
HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


def tile(x, columns, buffer=nl.sbuf):
    return nl.ndarray((128, columns), dtype=nl.float32, buffer=buffer)


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    n = x.shape[1]
"""
WHOLE = """    t = tile(x, n)
    nisa.dma_copy(dst=t, src=x)
    for j in range(16):
{}
    nisa.dma_copy(dst=out, src=t)
    return out
"""
#: By what is wrong: the kernel's body, the kind of the first finding, part of what it says, the least gain (%).
KERNELS = {
    "narrow iterations": ("""    for j in range(n // 32):
        t = tile(x, 32)
        nisa.dma_copy(dst=t, src=x[:, nl.ds(j * 32, 32)])
        nisa.activation(dst=t, op=nl.exp, data=t)
        nisa.dma_copy(dst=out[:, nl.ds(j * 32, 32)], src=t)
    return out
""", "widen", "iterations of dma_copy, activation and dma_copy", 75),
    "blocks on another engine": ("""    for j in range(n // 128):
        t, y = tile(x, 128), tile(x, 128)
        nisa.dma_copy(dst=t, src=x[:, nl.ds(j * 128, 128)])
        for r in range(4):
            for c in range(4):
                nisa.nc_transpose(dst=y[nl.ds(c * 32, 32), nl.ds(r * 32, 32)],
                                  data=t[nl.ds(r * 32, 32), nl.ds(c * 32, 32)], engine=nisa.engine.vector)
        nisa.dma_copy(dst=out[:, nl.ds(j * 128, 128)], src=y)
    return out
""", "transpose", "engine=nisa.engine.tensor", 20),
    "a tile loaded again": ("""    for j in range(16):
        t, w = tile(x, n), tile(x, n)
        nisa.dma_copy(dst=w, src=x)
        nisa.tensor_scalar(dst=t, data=w, op0=nl.multiply, operand0=float(j))
        nisa.dma_copy(dst=out, src=t) if j == 15 else None
    return out
""", "keep", "load each once", 30),
    "three instructions for one": (WHOLE.format("""        a, b, c = tile(x, n), tile(x, n), tile(x, n)
        nisa.tensor_scalar(dst=a, data=t, op0=nl.multiply, operand0=0.5)
        nisa.tensor_scalar(dst=b, data=a, op0=nl.add, operand0=0.25)
        nisa.activation(dst=c, op=nl.tanh, data=b)
        t = c"""), "fuse", "scale and bias", 40),
    "the form of a busy engine": (WHOLE.format("""        a, b, c = tile(x, n), tile(x, n), tile(x, n)
        nisa.activation(dst=a, op=nl.relu, data=t)
        nisa.activation(dst=b, op=nl.tanh, data=t)
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
        t = c"""), "form", "a maximum with 0", 15),
    "one tile for all iterations": ("""    y = tile(x, 256)
    for j in range(n // 256 * 4):
        t = tile(x, 256)
        nisa.dma_copy(dst=t, src=x[:, nl.ds(j % (n // 256) * 256, 256)])
        nisa.activation(dst=y, op=nl.exp, data=t, scale=float(j))
        nisa.dma_copy(dst=out[:, nl.ds(j // 4 * 256, 256)], src=y)
    return out
""", "buffers", "allocate inside the loop", 3),
}


@pytest.mark.parametrize("wrong", KERNELS)
def test_the_right_step_is_first(wrong, tmp_path):
    body, kind, says, least = KERNELS[wrong]
    (tmp_path / "k.py").write_text(HEAD + body)
    said = json.loads(cli("advise", tmp_path / "k.py:kernel", "--arg", "x=f32[128,1024]:normal", "--json").stdout)
    first = said["findings"][0]
    assert (first["kind"], says in first["write"]) == (kind, True), said["findings"]
    assert first["gain_percent"] > least
