"""Tests two edits of `nkisim advise`, wider tiles and transposes by the tensor engine: values stay
equal.
"""

import json

import pytest

from nkisim_advise import transposes, widen
from nkisim_advise.program import Program
from running import cli

pytestmark = [pytest.mark.process, pytest.mark.slow]
HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
"""
NARROW = HEAD + """    for j in range(x.shape[1] // 32):
        t = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[:, nl.ds(j * 32, 32)])
        nisa.activation(dst=t, op=nl.exp, data=t)
        nisa.dma_copy(dst=out[:, nl.ds(j * 32, 32)], src=t)
    return out
"""
BLOCKS = HEAD + """    for j in range(x.shape[1] // 128):
        t = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[:, nl.ds(j * 128, 128)])
        y = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        for r in range(4):
            for c in range(4):
                nisa.nc_transpose(dst=y[nl.ds(c * 32, 32), nl.ds(r * 32, 32)],
                                  data=t[nl.ds(r * 32, 32), nl.ds(c * 32, 32)], engine=nisa.engine.vector)
        nisa.dma_copy(dst=out[:, nl.ds(j * 128, 128)], src=y)
    return out
"""


def advice(folder, text):
    (folder / "k.py").write_text(text)
    return json.loads(cli("advise", folder / "k.py:kernel", "--arg", "x=f32[128,1024]:normal", "--json").stdout)


def recorded(folder, text):
    (folder / "k.py").write_text(text)
    cli("kernel", folder / "k.py:kernel", "--arg", "x=f32[128,1024]:normal", "--timing-only", "--save-recorded",
        folder / "k.jsonl")
    return Program.read(folder / "k.jsonl", folder)


def test_whole_iterations_are_the_first_step(tmp_path):
    said = advice(tmp_path, NARROW)
    first = said["findings"][0]
    assert first["kind"] == "widen" and first["gain_percent"] > 75
    assert "32 iterations of dma_copy, activation and dma_copy on tiles [128, 32]" in first["write"]


def test_the_tensor_engine_transposes_whole_tiles(tmp_path):
    said = advice(tmp_path, BLOCKS)
    assert said["findings"][0]["kind"] == "transpose" and "128 transposes of blocks" in said["findings"][0]["write"]
    assert said["combined"] is None or said["combined"]["latency_us"] <= said["findings"][0]["latency_us"]


#: Iterations that are not as one, by what sets them apart.
APART = {
    "another operator": NARROW.replace("op=nl.exp", "op=nl.exp if j % 2 else nl.square"),
    "another scale": NARROW.replace("data=t)", "data=t, scale=float(j))"),
    "a sum of a row": NARROW.replace("nisa.activation(dst=t, op=nl.exp, data=t)",
                                     "nisa.tensor_reduce(dst=t[:, 0:1], op=nl.add, data=t, axis=1)"),
    "the other direction": NARROW.replace("nl.ds(j * 32, 32)], src=t", "nl.ds((31 - j) * 32, 32)], src=t"),
    "what the last one left": NARROW.replace(
        "    for j in", "    s = nl.zeros((128, 32), x.dtype, buffer=nl.sbuf)\n    for j in").replace(
        "nisa.activation(dst=t, op=nl.exp, data=t)",
        "nisa.tensor_tensor(dst=s, data1=s, data2=t, op=nl.add)\n        nisa.tensor_copy(dst=t, src=s)"),
}


@pytest.mark.parametrize("why", APART)
def test_iterations_that_differ_stay_apart(why, tmp_path):
    assert APART[why] != NARROW
    program = recorded(tmp_path, APART[why])
    assert not list(widen.edits(program))
    assert list(widen.edits(recorded(tmp_path, NARROW)))


def test_blocks_that_do_not_come_to_a_transpose_stay(tmp_path):
    swapped = BLOCKS.replace("y[nl.ds(c * 32, 32), nl.ds(r * 32, 32)]", "y[nl.ds(r * 32, 32), nl.ds(c * 32, 32)]")
    part = BLOCKS.replace("for r in range(4)", "for r in range(3)")
    read = BLOCKS.replace("engine=nisa.engine.vector)", "engine=nisa.engine.vector)\n"
                          "                if (r, c) == (1, 1):\n"
                          "                    nisa.tensor_copy(dst=t[0:32, 0:32], src=y[0:32, 0:32])")
    for text in (swapped, part, read):
        assert text != BLOCKS and not list(transposes.edits(recorded(tmp_path, text)))
    assert list(transposes.edits(recorded(tmp_path, BLOCKS)))
