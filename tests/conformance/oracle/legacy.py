"""Tests functions of neuronxcc.nki, the API of SDK 2.20 to 2.29, against its documents alone: random tiles, indices and
masks.

    python tests/conformance/oracle/legacy.py [--cases 2000] [--seed 1]

Numbers are small integers, whose sums and products each type holds, so a result is one number whatever the order. Where
a mask is false a result is not documented, but what a store leaves out stays. The type of a result is `dtype`; without
it that of the input, or of the one with the higher precision.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "oracle"

from .engines import FUNCTIONS, activated  # noqa: E402
from .legacy_case import (  # noqa: E402
    ARITHMETIC, BEFORE, BITS, DRAWERS, FLOATS, TRUTH, UNARY, Case, Draw, as_tile, draws, higher, indices, masked, store)
from .surveys import main  # noqa: E402

@draws
def elementwise(d):
    shape, types = d.shape(), (d.pick(*FLOATS),) * 2 if d.coin() else ("float32", d.pick(*FLOATS))
    op, scalar, dtype = d.pick(*ARITHMETIC), d.coin(0.3), d.pick(None, *FLOATS)
    mask, where = d.mask(shape)
    column = not scalar and d.coin(0.3)
    x = d.whole(shape, FLOATS[types[0]])
    y = float(d.whole(())) if scalar else d.whole((shape[0], 1) if column else shape, FLOATS[types[1]])
    made = dtype or ("float32" if scalar else higher(*types))  # a number of Python is a float32
    keywords = {"dtype": getattr(nl, dtype)} if dtype else {}

    def body(x, *y):
        p, f = indices(shape)
        other = nl.load(y[0]) if y else number
        return store(getattr(nl, op)(nl.load(x), other, mask=mask(p, f), **keywords), shape, mask)

    number = y
    result = ARITHMETIC[op](x.astype(np.float32), np.asarray(y, np.float32))
    return Case(f"nl.{op}, {types}, dtype {dtype}, scalar {scalar}, column {column}", [x] if scalar else [x, y], body,
                masked(result, where, FLOATS[made]))


@draws
def truth(d):
    shape, op = d.shape(), d.pick(*TRUTH)
    mask, where = d.mask(shape)
    x, y = d.whole(shape, most=2), d.whole(shape, most=2)

    def body(x, y):
        p, f = indices(shape)
        return store(getattr(nl, op)(nl.load(x), nl.load(y), dtype=nl.float32, mask=mask(p, f)), shape, mask)

    return Case(f"nl.{op}", [x, y], body, masked(TRUTH[op](x, y), where, np.float32))


@draws
def unary(d):
    shape, op, dtype = d.shape(), d.pick(*UNARY), d.pick(*FLOATS)
    mask, where = d.mask(shape)
    x = d.whole(shape, FLOATS[dtype])

    def body(x):
        p, f = indices(shape)
        return store(getattr(nl, op)(nl.load(x), mask=mask(p, f)), shape, mask)

    return Case(f"nl.{op}, {dtype}", [x], body, masked(UNARY[op](x.astype(np.float32)), where, FLOATS[dtype]))


@draws
def roundings(d):
    shape, op = d.shape(), d.pick("floor", "ceil", "trunc")
    x = (d.whole(shape) + d.rng.integers(0, 8, shape) / 8).astype(np.float32)
    return Case(f"nl.{op}", [x], lambda x: store(getattr(nl, op)(nl.load(x)), shape), getattr(np, op)(x))


@draws
def bitwise(d):
    shape, dtype = d.shape(), d.pick("int32", "uint8", "uint16")
    op = d.pick(*BITS, "invert", "left_shift", "right_shift")
    x, y = (d.rng.integers(0, 2 ** 7, shape).astype(dtype) for _ in range(2))
    if op == "invert":
        result = ~x
    elif op.endswith("shift"):
        y = (y % 5).astype(dtype)
        result = (x << y if op == "left_shift" else x >> y).astype(dtype)
    else:
        result = BITS[op](x, y)

    def body(x, *y):
        return store(getattr(nl, op)(nl.load(x), *map(nl.load, y)), shape)

    return Case(f"nl.{op}, {dtype}", [x] if op == "invert" else [x, y], body, result)


@draws
def reductions(d):
    op, keep, axes = d.pick("sum", "max", "min", "prod"), d.coin(), d.pick([1], [2], [1, 2])
    shape = (d.pick(1, 32, 128), int(d.rng.integers(1, 5)), int(d.rng.integers(1, 6)))
    shape, axes = (shape, axes) if axes != [1] else (shape[:2], axes)
    x = d.whole(shape) if op != "prod" else d.rng.choice([-1.0, 1.0, 2.0], shape).astype(np.float32)

    def body(x):
        tile = getattr(nl, op)(nl.load(x), axis=axes, keepdims=keep)
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    result = getattr(np, op)(x, axis=tuple(axes), keepdims=keep).astype(np.float32)
    return Case(f"nl.{op}, axis {axes}, keepdims {keep}", [x], body, as_tile(result))


@draws
def addresses(d):
    """Parts of a tensor: steps and beginnings by index arithmetic, nl.ds or nl.mgrid; the reverse by a store."""
    shape, steps, first = d.shape(), d.rng.integers(1, 4, 2), d.rng.integers(0, 5, 2)
    way = d.pick("arange", "mgrid", "ds", "store")
    if way == "ds":
        steps = np.ones(2, int)
    large = tuple(int((s - 1) * k + a + 1 + d.rng.integers(3)) for s, k, a in zip(shape, steps, first))
    x = d.whole(shape if way == "store" else large)
    (a, b), (s, t) = first.tolist(), steps.tolist()
    rows, columns = np.indices(shape)

    def body(x):
        p, f = nl.mgrid[0:shape[0], 0:shape[1]] if way == "mgrid" else indices(shape)
        if way == "ds":
            return store(nl.load(x[nl.ds(a, shape[0]), nl.ds(b, shape[1])]), shape)
        if way != "store":
            return store(nl.load(x[a + s * p, b + t * f]), shape)
        out = nl.ndarray((large[0] if large[0] <= 128 else 128, large[1]), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.full(out.shape, BEFORE, dtype=x.dtype))
        tile = nl.load(x)
        nl.store(out[a + s * p, b + t * f], tile, mask=a + s * p < out.shape[0])
        return out

    if way != "store":
        return Case(f"load by {way}", [x], body, x[a + s * rows, b + t * columns])
    held = np.full((min(large[0], 128), large[1]), BEFORE, np.float32)
    fits = a + s * rows < held.shape[0]
    held[(a + s * rows)[fits], (b + t * columns)[fits]] = x[fits]
    return Case("store to steps", [x], body, held)


@draws
def tails(d):
    """A loop over tiles whose last one is masked by the loop's index."""
    tile, columns, rows = int(d.pick(32, 64)), int(d.rng.integers(1, 9)), int(d.rng.integers(1, 200))
    x, loop = d.whole((rows, columns)), d.pick("affine_range", "sequential_range", "static_range")

    def body(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        p, f = indices((tile, columns))
        for i in getattr(nl, loop)(-(-rows // tile)):
            part = nl.load(x[i * tile + p, f], mask=i * tile + p < rows)
            nl.store(out[i * tile + p, f], nl.multiply(part, 3.0), mask=i * tile + p < rows)
        return out

    return Case(f"tail of {loop}", [x], body, x * 3)


@draws
def sums(d):
    """Products added up in PSUM over a loop, and a tile that a sequential loop changes."""
    k, parts, dtype = d.pick(3, 32, 128), d.pick(1, 2, 5), d.pick(*FLOATS)
    m, n = (int(v) for v in d.rng.integers(1, 40, 2))
    x, y = d.whole((parts, k, m), FLOATS[dtype], 2), d.whole((parts, k, n), FLOATS[dtype], 2)

    def body(x, y):
        total = nl.zeros((m, n), dtype=nl.float32, buffer=nl.psum)
        seen = nl.zeros((m, n), dtype=nl.float32)
        for i in nl.affine_range(parts):
            total += nl.matmul(nl.load(x[i]), nl.load(y[i]), transpose_x=True)
        for i in nl.sequential_range(parts):
            seen[...] = nl.add(seen, total)
        return store(seen, (m, n))

    product = np.einsum("pkm,pkn->mn", x.astype(np.float32), y.astype(np.float32))
    return Case(f"sums, {dtype}", [x, y], body, parts * product)


@draws
def matmul(d):
    k, m, n = (int(v) for v in (d.pick(2, 32, 128), d.rng.integers(1, 100), d.rng.integers(1, 60)))
    turned, by_isa = d.coin(), d.coin(0.3)
    x, y = d.whole((k, m) if turned or by_isa else (m, k), most=3), d.whole((k, n), most=3)

    def body(x, y):
        x, y = nl.load(x), nl.load(y)
        found = nisa.nc_matmul(x, y) if by_isa else nl.matmul(x, y, transpose_x=turned)
        return store(nl.copy(found, dtype=nl.float32), (m, n))

    return Case(f"matmul, transposed {turned}, nc_matmul {by_isa}", [x, y], body,
                (x.T if turned or by_isa else x) @ y)


@draws
def transposes(d):
    way = d.pick("transpose", "nc_transpose", "load_transpose2d")
    shape = int(d.pick(1, 7, 32, 96)), int(d.pick(1, 5, 32, 128))
    x = d.whole(shape)

    def body(x):
        if way == "load_transpose2d":
            return store(nl.load_transpose2d(x), shape[::-1])
        found = nl.transpose(nl.load(x)) if way == "transpose" else nisa.nc_transpose(nl.load(x))
        return store(nl.copy(found, dtype=nl.float32), shape[::-1])

    return Case(way, [x], body, x.T)


@draws
def tensor_scalar(d):
    shape, ops, reverse = d.shape(), [d.pick(*ARITHMETIC) for _ in range(2)], [d.coin(), d.coin()]
    mask, where = d.mask(shape)
    two, column = d.coin(0.7), d.coin()
    x, y, z = d.whole(shape, most=5), d.whole((shape[0], 1), most=5), float(d.whole((), most=5))

    def body(x, y):
        p, f = indices(shape)
        more = {"op1": getattr(np, ops[1]), "operand1": z, "reverse1": reverse[1]} if two else {}
        by = nl.load(y) if column else z
        return store(nisa.tensor_scalar(nl.load(x), getattr(np, ops[0]), by, reverse[0], mask=mask(p, f), **more),
                     shape, mask)

    by = y if column else z
    result = ARITHMETIC[ops[0]](*((by, x) if reverse[0] else (x, by)))
    if two:
        result = ARITHMETIC[ops[1]](*((z, result) if reverse[1] else (result, z)))
    return Case(f"tensor_scalar, {ops}, {reverse}, two {two}, column {column}", [x, y], body,
                masked(result, where, np.float32))


@draws
def tensor_tensor(d):
    shape, op, types, dtype = d.shape(), d.pick(*ARITHMETIC), (d.pick(*FLOATS), "float32"), d.pick(None, *FLOATS)
    x, y = (d.whole(shape, FLOATS[t]) for t in types)
    keywords = {"dtype": getattr(nl, dtype)} if dtype else {}

    def body(x, y):
        return store(nisa.tensor_tensor(nl.load(x), nl.load(y), getattr(np, op), **keywords), shape)

    result = ARITHMETIC[op](x.astype(np.float32), y)
    return Case(f"tensor_tensor, {op}, {types}, {dtype}", [x, y], body, result.astype(FLOATS[dtype or "float32"]))


@draws
def scalar_tensor_tensor(d):
    shape, ops, reverse = d.shape(), [d.pick(*ARITHMETIC) for _ in range(2)], [d.coin(), d.coin()]
    x, y, z = d.whole(shape, most=5), d.whole(shape, most=5), float(d.whole((), most=5))

    def body(x, y):
        found = nisa.scalar_tensor_tensor(data=nl.load(x), op0=getattr(np, ops[0]), operand0=z, reverse0=reverse[0],
                                          op1=getattr(np, ops[1]), operand1=nl.load(y), reverse1=reverse[1])
        return store(found, shape)

    result = ARITHMETIC[ops[0]](*((z, x) if reverse[0] else (x, z)))
    result = ARITHMETIC[ops[1]](*((y, result) if reverse[1] else (result, y)))
    return Case(f"scalar_tensor_tensor, {ops}, {reverse}", [x, y], body, result.astype(np.float32))


@draws
def tensor_reduce(d):
    op, negate, keep = d.pick("add", "maximum", "minimum"), d.coin(), d.coin()
    shape, across = d.shape(), d.coin(0.2)
    x = d.whole(shape)

    def body(x):
        if across:
            tile = nisa.tensor_partition_reduce(np.add, nl.load(x))
        else:
            tile = nisa.tensor_reduce(getattr(np, op), nl.load(x), axis=[1], negate=negate, keepdims=keep)
        out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    if across:
        return Case("tensor_partition_reduce", [x], body, x.sum(axis=0, keepdims=True))
    result = as_tile(ARITHMETIC[op].reduce(x, axis=1, keepdims=keep))
    return Case(f"tensor_reduce, {op}, negate {negate}, keepdims {keep}", [x], body, -result if negate else result)


@draws
def scans(d):
    shape, op0, op1, reverse = d.shape(), d.pick("multiply", "add"), d.pick("add", "subtract", "maximum"), d.coin()
    x = d.rng.choice([-1.0, 0.0, 1.0], shape).astype(np.float32)
    y, first = d.whole(shape, most=3), float(d.whole((), most=3))

    def body(x, y):
        return store(nisa.tensor_tensor_scan(nl.load(x), nl.load(y), first, getattr(np, op0), getattr(np, op1),
                                             reverse1=reverse), shape)

    held, result = np.full(shape[0], first, np.float32), np.empty(shape, np.float32)
    for i in range(shape[1]):
        inner = ARITHMETIC[op0](x[:, i], held)
        held = result[:, i] = ARITHMETIC[op1](*((y[:, i], inner) if reverse else (inner, y[:, i])))
    return Case(f"tensor_tensor_scan, {op0}, {op1}, reverse1 {reverse}", [x, y], body, result)


@draws
def patterns(d):
    """nisa.iota and nisa.affine_select, by an affine expression of indices."""
    shape, select = d.shape(), d.coin()
    a, b, c = (int(v) for v in d.rng.integers(-3, 4, 3))
    x, (rows, columns) = d.whole(shape), np.indices(shape)
    op = d.pick("less", "less_equal", "greater", "greater_equal")
    compare = {"less": lambda u, v: u < v, "less_equal": lambda u, v: u <= v, "greater": lambda u, v: u > v,
               "greater_equal": lambda u, v: u >= v}[op]

    def where(p, f):
        return compare((abs(a) + 1) * p + (abs(b) + 1) * f, abs(c) + 5)

    def body(x):
        p, f = indices(shape)
        if not select:
            return store(nisa.iota(a * p + b * f + c, dtype=nl.int32), shape)
        return store(nisa.affine_select(where(p, f), nl.load(x), -4.0), shape)

    if not select:
        return Case("iota", [x], body, (a * rows + b * columns + c).astype(np.int32))
    return Case(f"affine_select, {op}", [x], body, np.where(where(rows, columns), x, -4).astype(np.float32))


@draws
def choices(d):
    """nl.where, nisa.tensor_copy_predicated, nl.gather_flattened, nl.broadcast_to."""
    way, shape = d.pick("where", "predicated", "gather", "broadcast"), d.shape()
    x, y = d.whole(shape), d.whole(shape)
    c = d.rng.integers(0, 2, shape).astype(np.uint8)
    at = d.rng.integers(0, shape[1], (shape[0], int(d.rng.integers(1, 9)))).astype(np.uint32)
    reverse = d.coin()

    def body(x, y, c, at):
        if way == "where":
            return store(nl.where(nl.load(c), nl.load(x), nl.load(y)), shape)
        if way == "gather":
            return store(nl.gather_flattened(nl.load(x), nl.load(at)), at.shape)
        if way == "broadcast":
            return store(nl.broadcast_to(nl.load(x[0:1, :]), shape=shape), shape)
        held = nl.load(y)
        nisa.tensor_copy_predicated(src=nl.load(x), dst=held, predicate=nl.load(c), reverse_pred=reverse)
        return store(held, shape)

    result = {"where": np.where(c, x, y), "gather": np.take_along_axis(x, at, axis=1),
              "broadcast": np.broadcast_to(x[:1], shape), "predicated": np.where((c != 0) != reverse, x, y)}[way]
    return Case(way, [x, y, c, at], body, result)


@draws
def activation(d):
    shape, op, scaled, biased = d.shape(), d.pick("relu", "copy", "square"), d.coin(), d.coin()
    x, bias, scale = d.whole(shape, most=5), d.whole((shape[0], 1), most=5), float(d.pick(-2, 1, 3)) if scaled else 1.0
    biased = biased and op != "copy"

    def body(x, bias):
        more = {"bias": nl.load(bias)} if biased else {}
        return store(nisa.activation(getattr(nl, op), nl.load(x), scale=scale, **more), shape)

    result = UNARY[op](x * scale + (bias if biased else 0))
    return Case(f"activation, {op}, scale {scale}, bias {biased}", [x, bias], body, result.astype(np.float32))


@draws
def largest(d):
    rows, columns = int(d.pick(1, 32, 128)), int(d.rng.integers(8, 40))
    x = np.stack([d.rng.permutation(columns) for _ in range(rows)]).astype(np.float32)
    where = d.coin()

    def body(x):
        tile = nl.load(x)
        found = nisa.max8(src=tile)
        return store(nisa.nc_find_index8(data=tile, vals=found) if where else found, (rows, 8))

    order = np.argsort(-x, axis=1)[:, :8]
    result = order.astype(np.uint32) if where else np.take_along_axis(x, order, axis=1)
    return Case(f"max8, indices {where}", [x], body, result)


@draws
def functions(d):
    """Functions of the Scalar Engine, by nl or nisa.activation; nl.softmax and nl.rms_norm; within 2^-7."""
    shape, op = d.shape(), d.pick(*FUNCTIONS, "softmax", "rms_norm", "mean", "var")
    low, high = FUNCTIONS[op][1:] if op in FUNCTIONS else (-4, 4)
    x, w = d.rng.uniform(low, high, shape).astype(np.float32), d.whole(shape, most=3)
    by_isa, y = d.coin() and op in FUNCTIONS, x.astype(np.float64)

    def body(x, w):
        tile = nl.load(x)
        if by_isa:
            return store(nisa.activation(getattr(nl, op), tile), shape)
        if op == "softmax":
            return store(nl.softmax(tile, axis=[1]), shape)
        if op == "rms_norm":
            return store(nl.rms_norm(tile, nl.load(w), axis=[1], n=shape[1]), shape)
        if op in ("mean", "var"):
            return store(getattr(nl, op)(tile, axis=[1]), (shape[0], 1))
        return store(getattr(nl, op)(tile), shape)

    if op == "softmax":
        result = np.exp(y - y.max(axis=1, keepdims=True))
        result /= result.sum(axis=1, keepdims=True)
    elif op == "rms_norm":
        result = y / np.sqrt((y * y).mean(axis=1, keepdims=True) + 1e-6) * w
    elif op in ("mean", "var"):
        result = getattr(np, op)(y, axis=1, keepdims=True)
    else:
        result, bound = activated(op, y, 0)
        return Case(f"{op}, by activation {by_isa}", [x, w], body, result.astype(np.float32), bound + 1e-6)
    return Case(op, [x, w], body, result.astype(np.float32), np.abs(result) * 2.0 ** -7 + 2.0 ** -12)


def draw(seed, number):
    """Case `number` of a seed; its drawer follows the number."""
    return DRAWERS[number % len(DRAWERS)](Draw(np.random.default_rng((seed, number))))


def run(cases):
    """The results of several cases, from one kernel."""
    @nki.jit
    def kernel(*arrays):
        left = list(arrays)
        return tuple(case.body(*[left.pop(0) for _ in case.arrays]) for case in cases)

    found = nkisim.run(kernel, *(a for case in cases for a in case.arrays), timing=False, target="trn2").outputs
    return list(found) if len(cases) > 1 else [found[0] if isinstance(found, (list, tuple)) else found]


def results(cases):
    """For each case its result, or the error that refuses it. A refused kernel is run in halves."""
    try:
        return run(cases)
    except Exception as problem:
        if len(cases) == 1:
            return [problem]
        half = len(cases) // 2
        return results(cases[:half]) + results(cases[half:])


def survey(seed, count, batch=20):
    """A line for each case that differs or is refused."""
    warnings.simplefilter("ignore")
    for first in range(0, count, batch):
        cases = [draw(seed, n) for n in range(first, min(first + batch, count))]
        for number, (case, got) in enumerate(zip(cases, results(cases)), first):
            if isinstance(got, Exception):
                yield f"case {number}: {case.option}: {type(got).__name__}: {got}".split("\n")[0]
            elif case.differs(got):
                got = np.asarray(got)
                yield (f"case {number}: {case.option}: {got.dtype}{got.shape} for "
                       f"{case.expected.dtype}{case.expected.shape}; {got.reshape(-1)[:4]} for "
                       f"{case.expected.reshape(-1)[:4]}")


if __name__ == "__main__":
    sys.exit(main(__doc__, survey, 2000))
