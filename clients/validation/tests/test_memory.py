"""Tests how addresses and spills are chosen in the rebuilt versions of measured kernels,
instruction by instruction.
"""
import random
import sys

import pytest

from running import ROOT

sys.path.insert(0, str(ROOT / "clients" / "validation" / "table"))
from programs import memory  # noqa: E402
from programs.common import Program  # noqa: E402

TILE = 128  # bytes per partition of a [128, 32] float32 tile


def operands(line):
    return {k: v.partition("[")[0] for k, v in line.items() if k in ("dst", "src", "data1", "data2")}


def replay(program, capacity):
    """Runs the fitted trace on symbols: what every SBUF tile holds, and that no two overlap.

    Returns what the HBM output holds. A tile is overwritten by whatever takes its address.
    """
    ranges, holds = {}, {name: name for name in program.constants}
    for line in program.lines[1:]:
        if "tensor" in line:
            t = line["tensor"]
            if t["space"] == "sbuf":
                low = t["address"]
                assert 0 <= low and low + program.bytes_of(t) <= capacity
                for other in [o for o, (a, b) in ranges.items()
                              if low < b and a < low + program.bytes_of(t)]:
                    del ranges[other]
                    holds.pop(other, None)  # a later read of it fails
                ranges[t["name"]] = (low, low + program.bytes_of(t))
            continue
        names = operands(line)
        if line["i"] == "dma_copy":
            holds[names["dst"]] = holds[names["src"]]
        else:
            holds[names["dst"]] = (line["op"], holds[names["data1"]], holds[names["data2"]])
    return holds["out"]


def chain(order, seed=None):
    """Adds tiles of x0..x5 in the given order; all are loaded first, so all are live."""
    p = Program("sum", "trn1")
    out = p.output("out", (128, 32), "float32")
    tiles = []
    for i in range(6):
        x = p.input(f"x{i}", (128, 32), "float32")
        tile = p.tile("t", (128, 32))
        p.load(tile, x)
        tiles.append(tile)
    rng = random.Random(seed)
    total = tiles[order[0]]
    for i in order[1:]:
        result = total if seed is not None and rng.random() < 0.3 else p.tile("s", (128, 32))
        p.tensor_tensor(dst=result, data1=total, data2=tiles[i], op="add", engine="vector")
        total = result
    p.store(out, total)
    return p


def interpreted(program):
    """The output if every tile keeps a place of its own."""
    holds = {name: name for name in program.constants}
    for line in program.lines:
        if "i" in line:
            n = operands(line)
            holds[n["dst"]] = holds[n["src"]] if line["i"] == "dma_copy" else \
                (line["op"], holds[n["data1"]], holds[n["data2"]])
    return holds["out"]


def dmas(program, kind):
    return [line for line in program.lines if line.get("i") == "dma_copy"
            and kind in line["src"] + line["dst"]]


@pytest.mark.parametrize("seed", range(30))
def test_values_survive_every_capacity(seed):
    rng = random.Random(seed)
    order = rng.sample(range(6), 6) + rng.choices(range(6), k=10)
    for tiles in (3, 4, 5, 7, 20):
        p = chain(order, seed)
        expected = interpreted(p)
        assert replay(memory.fit(p, tiles * TILE), tiles * TILE) == expected


def test_enough_space_moves_nothing():
    p = memory.fit(chain(range(6)), 20 * TILE)
    assert len(dmas(p, "")) == 7  # six loads, one store


def test_a_loaded_tile_is_dropped_and_loaded_again():
    # Four places: the loads of x4 and x5 each send away the tile whose use is farthest, and the sum
    # needs a place of its own. None is stored, as the inputs still hold them.
    p = memory.fit(chain(range(6)), 4 * TILE)
    assert not dmas(p, "spilled")
    assert len(dmas(p, "x3")) == 2 and len(dmas(p, "x0")) == 1


def test_the_farthest_use_leaves_and_a_changed_tile_is_stored():
    p = Program("far", "trn1")
    out = p.output("out", (128, 32), "float32")
    x = p.input("x", (128, 32), "float32")
    a, b, c = (p.tile(n, (128, 32)) for n in "abc")
    p.load(a, x)
    p.tensor_tensor(dst=b, data1=a, data2=a, op="add", engine="vector")   # b: used last
    p.tensor_tensor(dst=c, data1=a, data2=a, op="add", engine="vector")   # needs b's place
    p.tensor_tensor(dst=a, data1=a, data2=c, op="add", engine="vector")
    p.tensor_tensor(dst=a, data1=a, data2=b, op="add", engine="vector")
    p.store(out, a)
    p = memory.fit(p, 2 * TILE)
    spilled = dmas(p, "spilled")
    assert [("spilled" in line["dst"]) for line in spilled] == [True, False]
    double = ("add", "x", "x")
    assert replay(p, 2 * TILE) == ("add", ("add", "x", double), double)


def test_one_instruction_too_large():
    with pytest.raises(ValueError, match="needs more SBUF"):
        memory.fit(chain(range(6)), 2 * TILE)
