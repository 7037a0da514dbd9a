"""Tests `nkisim same` on thirty pairs of programs of which it is known if they compute the same.

Ten of the pairs differ in a corner that random inputs miss: a NaN, an infinity, the sign of a zero, a tie, 2^24, a
subnormal, the last element of a mask, one padded row. No verdict may be wrong, and at least twenty must be decided.
"""

import json

import numpy as np
import pytest

from running import cli, write_trace

pytestmark = pytest.mark.process

ROWS, COLUMNS = 97, 16  # an instruction may begin at the last row, 96
INF, NAN = np.inf, np.nan


def tensor(name, role="", shape=(ROWS, COLUMNS), space="hbm"):
    return {"tensor": {"name": name, "space": space, "shape": list(shape), "dtype": "float32",
                       **({"role": role} if role else {})}}


def program(path, lines):
    """x in tile t, z in tile v, to y from tile u; w is another tile, s and q are columns, h is a bfloat16 tile."""
    half = tensor("h", space="sbuf")
    half["tensor"]["dtype"] = "bfloat16"
    return write_trace(path, [
        {"nisa": 1, "target": "trn2", "addresses": "virtual"}, tensor("x", "input"), tensor("z", "input"),
        tensor("y", "output"), *(tensor(t, space="sbuf") for t in "tuvw"),
        *(tensor(t, shape=(ROWS, 1), space="sbuf") for t in "sq"), half,
        {"i": "dma_copy", "dst": "t", "src": "x"}, {"i": "dma_copy", "dst": "v", "src": "z"}, *lines,
        {"i": "dma_copy", "dst": "y", "src": "u"}])


def by(op, value, data="t", dst="u", **more):
    return {"i": "tensor_scalar", "dst": dst, "data": data, "op0": op, "operand0": value, **more}


def binary_op(op, one="t", two="v", dst="u"):
    return {"i": "tensor_tensor", "dst": dst, "data1": one, "data2": two, "op": op}


def act(op, data="t", dst="u", **more):
    return {"i": "activation", "dst": dst, "data": data, "op": op, **more}


def copy(dst, src):
    return {"i": "tensor_copy", "dst": dst, "src": src}


def fill(dst, value):
    return {"i": "memset", "dst": dst, "value": value}


def total(dst, data, op="add"):
    return {"i": "tensor_reduce", "dst": dst, "data": data, "op": op, "axis": [1]}


LAST = f"[{ROWS - 1}:{ROWS}, {COLUMNS - 1}:{COLUMNS}]"
PADDED = f"[{ROWS - 1}:{ROWS}, 0:{COLUMNS}]"

#: Equal for all inputs, up to the order of sums in FP32: the two programs.
SAME = {
    "operands of a sum in the other order": ([binary_op("add")], [binary_op("add", "v", "t")]),
    "operands of a product in the other order": ([binary_op("multiply")], [binary_op("multiply", "v", "t")]),
    "a copy between": ([act("exp")], [copy("w", "t"), act("exp", "w")]),
    "a detour through HBM's own tile": ([act("tanh")], [copy("u", "t"), act("tanh", "u")]),
    "column by column": (
        [act("exp")], [act("exp", f"t[:, {c}:{c + 1}]", f"u[:, {c}:{c + 1}]") for c in range(COLUMNS)]),
    "rows in two parts": ([act("exp")], [act("exp", f"t[{r}, :]", f"u[{r}, :]") for r in ("0:64", "64:97")]),
    "two operators or two instructions": ([by("multiply", 3.0, op1="add", operand1=1.0)],
                                          [by("multiply", 3.0), by("add", 1.0, "u")]),
    "scale of an activation": ([by("multiply", 3.0), act("tanh", "u")], [act("tanh", scale=3.0)]),
    "times one": ([act("exp")], [by("multiply", 1.0), act("exp", "u")]),
    "a row's sum in two halves": (
        [total("s", "t"), by("multiply", "s", "v")],
        [total("s", "t[:, 0:8]"), total("q", "t[:, 8:16]"), binary_op("add", "s", "q", "s"), by("multiply", "s", "v")]),
    "a sum from the back": ([binary_op("add"), binary_op("add", "u", "t")],
                            [binary_op("add", "t", "t"), binary_op("add", "u", "v")]),
    "bfloat16 twice": (
        [copy("h", "t"), copy("u", "h")], [copy("h", "t"), copy("w", "h"), copy("h", "w"), copy("u", "h")]),
    "what is overwritten": ([act("exp")], [fill("u", 7.0), act("exp")]),
    "a difference that nothing uses": ([act("exp")], [binary_op("subtract", dst="w"), act("exp")]),
    "a constant's tile or an immediate": ([by("add", 0.5)], [fill("w", 0.5), binary_op("add", "t", "w")]),
}

#: Different: the two programs, and x and z that show it at one element (row, column).
DIFFERENT = {
    "another constant": ([by("add", 1.0)], [by("add", 1.5)], (0, 0), 0, 0),
    "another operand": ([act("exp")], [act("exp", "v")], (0, 0), 1, 2),
    "a difference turned round": ([binary_op("subtract")], [binary_op("subtract", "v", "t")], (0, 0), 1, 2),
    "a row that is left out": ([act("exp")], [fill("u", 1.0), act("exp", "t[0:96, :]", "u[0:96, :]")], (96, 3), 1, 0),
    "a cast between": ([act("exp")], [copy("h", "t"), act("exp", "h")], (0, 0), 1.00390625, 0),
    # The corners.
    "infinity: a relu by a mask": ([by("maximum", 0.0)],
                                   [by("greater", 0.0, dst="w"), binary_op("multiply", "t", "w")], (0, 0), -INF, 0),
    "infinity: x - x": ([fill("u", 0.0)], [binary_op("subtract", "t", "t")], (0, 0), INF, 0),
    "NaN: x equals x": ([fill("u", 1.0)], [binary_op("equal", "t", "t")], (0, 0), NAN, 0),
    "the sign of zero: 1 / (x + 0)": ([act("reciprocal")], [by("add", 0.0), act("reciprocal", "u")], (0, 0), -0.0, 0),
    "a tie: greater or equal": ([binary_op("greater")], [binary_op("greater_equal")], (5, 5), 2, 2),
    "2^24: (x + 1) - x": ([fill("u", 1.0)], [by("add", 1.0), binary_op("subtract", "u", "t")], (0, 0), 2.0 ** 25, 0),
    "a subnormal: a small factor before a test": (
        [by("greater", 0.0)], [by("multiply", 1e-20, op1="greater", operand1=0.0)],
                                                  (0, 0), 1e-40, 0),
    "a mask's last element": ([copy("u", "t")], [copy("u", "t"), by("minimum", 1e6, "t" + LAST, "u" + LAST)],
                              (ROWS - 1, COLUMNS - 1), 3e38, 0),
    "one padded row": ([copy("u", "t")], [copy("u", "t"), by("maximum", -1e6, "t" + PADDED, "u" + PADDED)],
                       (ROWS - 1, 0), -3e38, 0),
    "overflow between": ([by("multiply", 1e30, op1="multiply", operand1=1e-30)], [copy("u", "t")], (0, 0), 1e20, 0),
}


def verdict(folder, one, two):
    pair = [program(folder / f"{name}.jsonl", lines) for name, lines in (("a", one), ("b", two))]
    return json.loads(cli("same", *pair, "--json", code=None).stdout), pair


def outputs(folder, pair, x, z):
    np.savez(folder / "in.npz", x=np.asarray(x, np.float32), z=np.asarray(z, np.float32))
    for trace in pair:
        cli("run", trace, "--functional", "--inputs", folder / "in.npz", "--outputs", folder / "out.npz",
            "--allow-unwritten")
        yield np.load(folder / "out.npz")["y"]


def corners():
    """Inputs of both tiles that meet every corner, and ordinary ones."""
    random = np.random.default_rng(5)
    values = np.array([0.0, -0.0, 1, -1, 2.0 ** 24, 2.0 ** 24 + 2, 1e-40, -1e-40, 3e38, -3e38, INF, -INF, NAN],
                      np.float32)
    yield [random.choice(values, (ROWS, COLUMNS)) for _ in "xz"]
    yield [random.normal(0, 3, (ROWS, COLUMNS)) for _ in "xz"]


@pytest.mark.parametrize("name", SAME)
def test_equal_programs_are_never_reported_to_differ(name, tmp_path):
    found, pair = verdict(tmp_path, *SAME[name])
    assert found["verdict"] != "differ"
    for x, z in corners():  # the truth: they give the same values
        one, two = outputs(tmp_path, pair, x, z)
        finite = np.isfinite(one) & np.isfinite(two)
        np.testing.assert_allclose(one[finite], two[finite], rtol=1e-5, atol=1e-30)


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_programs_are_never_reported_to_be_the_same(name, tmp_path):
    one, two, place, x_value, z_value = DIFFERENT[name]
    found, pair = verdict(tmp_path, one, two)
    assert found["verdict"] != "same"
    x, z = (np.ones((ROWS, COLUMNS), np.float32) for _ in "xz")
    x[place], z[place] = x_value, z_value  # the truth: these inputs show it
    a, b = outputs(tmp_path, pair, x, z)
    assert not np.array_equal(a[place], b[place], equal_nan=True), (a[place], b[place])


def test_at_least_twenty_of_the_thirty_are_decided(tmp_path):
    found = {name: verdict(tmp_path, *pair[:2])[0]["verdict"] for name, pair in {**SAME, **DIFFERENT}.items()}
    assert len(found) == 30
    decided = [name for name, said in found.items() if said != "undecided"]
    assert len(decided) >= 28, [name for name in found if name not in decided]
