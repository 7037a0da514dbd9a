"""Writes a program of N instructions as the Python front end would give it to the compiler. The
loop is that of million.py, with a separate tile in every iteration, as kernels of the API `nki`
allocate them.
"""
import json
import sys
from pathlib import Path

P, WIDTH, TILES = 128, 512, 8


def tile_lines(tile, line):
    """One tile: a load, four matmuls, an activation, an addition, a row maximum, a scaling, a store."""
    rows = f"{tile % TILES * P}:{(tile % TILES + 1) * P}"
    data, acc, act, added, top, out = (f"{name}{tile}" for name in
                                       ("in", "acc", "act", "sum", "max", "out"))
    for name in (data, act, added, out):
        line({"tensor": {"name": name, "space": "sbuf", "shape": [P, WIDTH], "dtype": "bfloat16"}})
    line({"tensor": {"name": top, "space": "sbuf", "shape": [P, 1], "dtype": "float32"}})
    line({"tensor": {"name": acc, "space": "psum", "shape": [P, WIDTH], "dtype": "float32"}})
    line({"i": "dma_copy", "dst": data, "src": f"x[{rows},:]"})
    for j in range(4):
        line({"i": "nc_matmul", "dst": acc, "stationary": f"weights[:,{j},:]", "moving": data,
              "accumulate": j > 0})
    line({"i": "activation", "dst": act, "op": "relu", "data": acc})
    line({"i": "tensor_tensor", "dst": added, "data1": act, "data2": data, "op": "add"})
    line({"i": "tensor_reduce", "dst": top, "op": "max", "data": added, "axis": [1]})
    line({"i": "tensor_scalar", "dst": out, "data": added, "op0": "multiply", "operand0": top})
    line({"i": "dma_copy", "dst": f"y[{rows},:]", "src": out})


def write(path, instructions):
    with open(path, "w", encoding="utf-8") as file:
        def line(value):
            file.write(json.dumps(value) + "\n")
        line({"nisa": 1, "target": "trn2", "name": "kernel", "addresses": "open",
              "about": f"{instructions} instructions for the compiler"})
        for name, role, shape in (("x", "input", [TILES * P, WIDTH]),
                                  ("y", "output", [TILES * P, WIDTH]), ("w", "input", [P, 4 * P])):
            line({"tensor": {"name": name, "space": "hbm", "shape": shape, "dtype": "bfloat16",
                             "role": role}})
        line({"tensor": {"name": "weights", "space": "sbuf", "shape": [P, 4, P],
                         "dtype": "bfloat16"}})
        line({"i": "dma_copy", "dst": "weights", "src": "w"})
        for tile in range((instructions - 1) // 10):
            tile_lines(tile, line)


if __name__ == "__main__":
    write(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
