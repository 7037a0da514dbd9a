"""Writes a program of N instructions for timing the simulator: ten per tile, on all engines, with
four buffers.
"""
import itertools
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "traces"))
from builder import Trace  # noqa: E402

P, WIDTH, BUFFERS, TILES = 128, 512, 4, 8


def body(t, x, y, weights, buffers, tile):
    """One tile: load, four matmuls, activation, add, row maximum, scale, store."""
    rows = slice(tile % TILES * P, (tile % TILES + 1) * P)
    b = buffers[tile % BUFFERS]
    t.dma_copy(dst=b["in"], src=x[rows, :])
    for j in range(4):
        t.nc_matmul(dst=b["acc"], stationary=weights[:, j, :], moving=b["in"], accumulate=j > 0)
    t.activation(dst=b["act"], op="relu", data=b["acc"])
    t.tensor_tensor(dst=b["sum"], data1=b["act"], data2=b["in"], op="add")
    t.tensor_reduce(dst=b["max"], op="max", data=b["sum"], axis=[1])
    t.tensor_scalar(dst=b["out"], data=b["sum"], op0="multiply", operand0=b["max"],
                    engine="vector")
    t.dma_copy(dst=y[rows, :], src=b["out"])


def write(path, instructions):
    t = Trace("million", f"{instructions} instructions for timing", locations=False)
    x = t.input("x", (TILES * P, WIDTH), "bfloat16", generator="uniform", seed=1)
    y = t.output("y", (TILES * P, WIDTH), "bfloat16")
    w = t.input("w", (P, 4 * P), "bfloat16", generator="uniform", seed=2)
    weights = t.sbuf("weights", (P, 4, P), "bfloat16")
    buffers = [{**{name: t.sbuf(f"{name}{b}", (P, WIDTH), "bfloat16")
                   for name in ("in", "act", "sum", "out")},
                "max": t.sbuf(f"max{b}", (P, 1), "float32"),
                "acc": t.psum(f"acc{b}", (P, WIDTH))} for b in range(BUFFERS)]
    t.dma_copy(dst=weights, src=w)
    head = len(t.lines)
    for tile in range(TILES):  # TILES is a multiple of BUFFERS: the lines repeat from here
        body(t, x, y, weights, buffers, tile)
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in t.lines[:head])
        repeated = [json.dumps(line) + "\n" for line in t.lines[head:]]
        out.writelines(itertools.islice(itertools.cycle(repeated), instructions - 1))


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
