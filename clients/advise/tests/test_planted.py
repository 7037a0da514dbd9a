"""Tests that `nkisim advise` finds what is planted in random programs, counts it as one counts by hand, and changes no
value: NumPy runs the programs before and after. Near misses, where one thing is in the way, give no edit.
"""

import random
import re

import numpy as np
import pytest

from nkisim_advise import transfers, transposes
from nkisim_advise.program import Program

pytestmark = pytest.mark.process  # `nkisim isa` says which parameters are operands
DTYPES = {"float32": np.float32, "float16": np.float16}
OPERANDS = ("dst", "src", "data", "data1", "data2")
LOAD, STORE, SWAP = "k.py:10", "k.py:20", "k.py:30"


def tensor(name, space, shape, dtype="float32", **more):
    return {"name": name, "space": space, "shape": list(shape), "dtype": dtype, **more}


def copy(dst, src, loc, **more):
    return {"i": "dma_copy", "dst": dst, "src": src, "loc": loc, **more}


def pattern(text, tensors):
    """The access pattern of a slice, as `nkisim convert --patterns` writes it, by NumPy's strides."""
    name, _, inside = text.rstrip("]").partition("[")
    array = np.empty(tensors[name]["shape"], DTYPES[tensors[name]["dtype"]])
    view = eval(f"array[{inside or '...'}]", {"array": array})
    at, row = view.ctypes.data - array.ctypes.data, array.strides[0]
    dims = [[step // array.itemsize, count] for step, count in zip(view.strides, view.shape)]
    if tensors[name]["space"] == "hbm":
        return {"tensor": name, "offset": at, "ap": dims}
    return {"tensor": name, "partition": at // row, "partitions": dims[0][1], "offset": at % row, "ap": dims[1:]}


def program(tensors, insts):
    named = {t["name"]: t for t in tensors}
    return Program({"nisa": 1, "target": "trn2", "addresses": "open"}, named,
                   [{k: pattern(v, named) if k in OPERANDS else v for k, v in i.items()} for i in insts])


def selected(value, arrays):
    """The array that an operand of a trace selects, by NumPy alone."""
    if isinstance(value, str):
        return arrays[value]
    array = arrays[value["tensor"]]
    size, counts = array.itemsize, [n for _, n in value["ap"]]
    steps = [step * size for step, _ in value["ap"]]
    if "partitions" in value:  # on chip: a row for each partition
        array = array.reshape(len(array), -1)
        counts, steps = [value["partitions"], *counts], [array.strides[0], *steps]
    flat = array.reshape(-1)[(value.get("partition", 0) * array.strides[0] + value["offset"]) // size:]
    return np.lib.stride_tricks.as_strided(flat, counts, steps)


def outputs(given, inputs):
    """The outputs of a program of these few instructions."""
    arrays = {t["name"]: np.array(inputs[t["name"]]) if t["name"] in inputs else
              np.zeros(t["shape"], DTYPES[t["dtype"]]) for t in given.tensors.values()}
    for inst in given.insts:
        dst = selected(inst["dst"], arrays)
        if inst["i"] == "tensor_tensor":
            dst[...] = selected(inst["data1"], arrays) + selected(inst["data2"], arrays).reshape(dst.shape)
        elif inst["i"] == "nc_transpose":
            dst[...] = selected(inst["data"], arrays).T
        else:
            dst[...] = selected(inst["src"], arrays).reshape(dst.shape)
    return {t["name"]: arrays[t["name"]] for t in given.tensors.values() if t.get("role") == "output"}


def assert_same_values(before, after, inputs):
    was, now = outputs(before, inputs), outputs(after, inputs)
    assert was.keys() == now.keys() and all(was[k].tobytes() == now[k].tobytes() for k in was)
    assert any(a.any() for a in was.values())


def dmas(given, line):
    return sum(i["loc"] == line and i["i"] == "dma_copy" for i in given.insts)


def bytes_text(n):
    for unit, most in (("bytes", 1024), ("KiB", 1024 ** 2), ("MiB", 1024 ** 3)):
        if n < most:
            value = n / (most / 1024)
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
    raise AssertionError(n)


class Repeated:
    """`times` rounds over `tiles` tiles of w, each loaded into a tile of its own and added to a tile that is stored."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.rows, self.columns = draw.choice((16, 64, 128)), draw.choice((32, 256, 1000))
        self.tiles, self.times = draw.randint(1, 4), draw.randint(2, 4)
        self.dtype = draw.choice(list(DTYPES))
        self.order = [k for _ in range(self.times) for k in range(self.tiles)]
        if draw.random() < 0.5:
            draw.shuffle(self.order)

    def program(self, spoilt=""):
        shape = self.rows, self.columns
        tensors = [tensor("w", "hbm", (self.rows * self.tiles, self.columns), self.dtype, role="input"),
                   tensor("y", "hbm", shape, self.dtype, role="output"), tensor("sum", "sbuf", shape, self.dtype)]
        insts = [copy("sum", f"w[0:{self.rows},:]", "k.py:1")]
        for n, k in enumerate(self.order):
            source = f"w[{k * self.rows}:{(k + 1) * self.rows},:]"
            tensors.append(tensor(f"t{n}", "sbuf", shape, self.dtype, **({"address": 0} if spoilt == "placed" else {})))
            insts.append(copy(f"t{n}", source, LOAD, **({"id": f"d{n}"} if spoilt == "named" else {})))
            insts.append({"i": "tensor_tensor", "dst": f"t{n}" if spoilt == "changed" else "sum", "data1": "sum",
                          "data2": f"t{n}", "op": "add", "loc": "k.py:11"})
            if spoilt == "written":
                insts.append(copy(source, "sum", "k.py:12"))
        return program(tensors, [*insts, copy("y", "sum", STORE)])

    def inputs(self):
        shape = self.rows * self.tiles, self.columns
        return {"w": np.random.default_rng(1).integers(-8, 8, shape).astype(DTYPES[self.dtype])}


@pytest.mark.parametrize("seed", range(12))
def test_tiles_loaded_again_are_kept(seed):
    """Each tile is loaded once; the sentence has the numbers of loads, tiles and bytes."""
    case = Repeated(seed)
    given = case.program()
    found = [e for e in transfers.edits(given) if e.kind == "keep" and e.line == LOAD]
    kept = found[0].apply(given)
    assert_same_values(given, kept, case.inputs())
    assert dmas(given, LOAD) == len(case.order) and dmas(kept, LOAD) == case.tiles
    each = case.columns * (4 if case.dtype == "float32" else 2)
    tiles = "1 different tile" if case.tiles == 1 else f"{case.tiles} different tiles"
    assert found[0].say.startswith(f"{len(case.order)} DMAs load {tiles} of {bytes_text(each)} per partition")
    assert found[0].say.endswith(f"{bytes_text(each * case.rows * case.tiles)} instead of "
                                 f"{bytes_text(each * case.rows * len(case.order))}")


@pytest.mark.parametrize("spoilt", ["changed", "written", "placed", "named"])
def test_tiles_that_change_or_are_bound_are_not_kept(spoilt):
    for seed in range(4):
        assert not [e for e in transfers.edits(Repeated(seed).program(spoilt)) if e.kind == "keep"]


class Rows:
    """Rows of x at drawn places, each through a tile of its own to the same place of y."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.rows, self.columns = draw.choice((8, 32, 128)), draw.choice((64, 256))
        self.places, at = [], 0
        for _ in range(draw.randint(1, 3)):  # runs at one distance, with a gap of another between
            step, count = draw.choice((1, 2)), draw.randint(1, 9)
            self.places += [at + step * k for k in range(count)]
            at = self.places[-1] + draw.choice((3, 4))
        self.blocks = self.places[-1] + 1

    def program(self):
        tensors = [tensor(n, "hbm", (self.blocks * self.rows, self.columns), role=r)
                   for n, r in (("x", "input"), ("y", "output"))]
        insts = []
        for n, at in enumerate(self.places):
            part = f"[{at * self.rows}:{(at + 1) * self.rows},:]"
            tensors.append(tensor(f"t{n}", "sbuf", (self.rows, self.columns)))
            insts += [copy(f"t{n}", "x" + part, LOAD), copy("y" + part, f"t{n}", STORE)]
        return program(tensors, insts)

    def merged(self, most):
        """The DMAs that are left if runs at one distance become one, at most `most` together, greedily."""
        left, at = 0, 0
        while at < len(self.places):
            end = at + 1
            while end < len(self.places) and end - at < most and (
                    self.places[end] - self.places[end - 1] == self.places[at + 1] - self.places[at]):
                end += 1
            left, at = left + 1, end
        return left


@pytest.mark.parametrize("line", [LOAD, STORE])
@pytest.mark.parametrize("seed", range(12))
def test_rows_at_one_distance_become_one_dma(seed, line):
    case = Rows(seed)
    given = case.program()
    inputs = {"x": np.random.default_rng(2).standard_normal((case.blocks * case.rows, case.columns), np.float32)}
    found = [e for e in transfers.edits(given) if e.kind == "merge" and e.line == line]
    assert bool(found) == (len(case.places) > 1)
    for edit in found:
        changed = edit.apply(given)
        assert_same_values(given, changed, inputs)
        said = re.search(r"\b(?:load|store) (\d+) tiles at once.* \(([\d,]+) DMAs\)$", edit.say)
        assert dmas(changed, line) == int(said[2].replace(",", ""))
        assert int(said[2]) in {case.merged(most) for most in (2, 4, 8, 16)}
        assert max(t["shape"][1] for t in changed.tensors.values() if len(t["shape"]) == 3) == int(said[1])


class Blocks:
    """A tile transposed in blocks of 32 by the vector engine."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.rows, self.columns = draw.choice(((32, 64), (64, 32), (64, 128), (128, 96), (128, 128)))
        self.order = [(r, c) for r in range(0, self.rows, 32) for c in range(0, self.columns, 32)]
        draw.shuffle(self.order)

    def program(self, spoilt=""):
        to_dtype = "float16" if spoilt == "cast" else "float32"
        tensors = [tensor("x", "hbm", (self.rows, self.columns), role="input"),
                   tensor("y", "hbm", (self.columns, self.rows), to_dtype, role="output"),
                   tensor("s", "sbuf", (self.rows, self.columns)),
                   tensor("t", "sbuf", (self.columns, self.rows), to_dtype)]
        insts = [copy("s", "x", LOAD)]
        order = self.order[:-1] if spoilt == "left out" else self.order
        if spoilt == "twice":
            order = [*order[:-1], order[0]]
        for r, c in order:
            to = (r, c) if spoilt == "in place" else (c, r)
            insts.append({"i": "nc_transpose", "engine": "tensor" if spoilt == "engine" else "vector",
                          "dst": f"t[{to[0]}:{to[0] + 32},{to[1]}:{to[1] + 32}]",
                          "data": f"s[{r}:{r + 32},{c}:{c + 32}]", "loc": SWAP,
                          **({"id": f"b{r}.{c}"} if spoilt == "named" else {})})
            if spoilt == "read":
                insts.append({"i": "tensor_copy", "dst": "s", "src": "s", "loc": "k.py:31"})
        return program(tensors, [*insts, copy("y", "t", STORE)])


@pytest.mark.parametrize("seed", range(8))
def test_blocks_become_one_transpose(seed):
    case = Blocks(seed)
    given = case.program()
    (edit,) = transposes.edits(given)
    changed = edit.apply(given)
    x = np.random.default_rng(3).standard_normal((case.rows, case.columns), np.float32)
    assert_same_values(given, changed, {"x": x})
    assert edit.say.startswith(f"{len(case.order)} transposes of blocks") and edit.say.endswith("(1 transpose)")
    assert [i.get("engine") for i in changed.insts if i["i"] == "nc_transpose"] == ["tensor"]


@pytest.mark.parametrize("spoilt", ["cast", "left out", "twice", "in place", "engine", "read", "named"])
def test_blocks_that_are_no_whole_transpose_stay(spoilt):
    cases = [c for c in map(Blocks, range(20)) if spoilt != "in place" or c.rows == c.columns]
    assert cases and not any(list(transposes.edits(c.program(spoilt))) for c in cases)
