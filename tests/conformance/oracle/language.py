"""Computes the functions of nki.language in NumPy, from their pages (nki/api/nki/language/__init__.py).

Each names the NumPy function it is similar to. The result has the type `dtype`; the math is float32 as on the engines
(nki/api/nki.api.shared.rst). Undocumented: which engine runs them, so arithmetic is not tested on 32-bit integers.
"""

import numpy as np

from .alu import ARITHMETIC, BITVEC, apply, bitvec, tiny
from .case import Case, draws, exact, satisfies, within, nl, as_stored
from .elementwise import draw_for, fold, unsure
from .engines import FUNCTIONS, activated
from .formats import FLOATS, INTEGERS, SMALL_INTEGERS, numpy_type, widen


@draws("nl.binary")
def binary(d):
    """nl.add .. nl.logical_xor: `x op y` in float32, y a tile or a number, cast to dtype."""
    op, shape = d.pick(*ARITHMETIC), d.shape()
    types = d.pick(*FLOATS, *SMALL_INTEGERS), d.pick(*FLOATS, *SMALL_INTEGERS), d.pick(*FLOATS, *INTEGERS)
    case = Case("nl.binary", d.generation, f"{op}, {types}")
    data = draw_for(d, op, shape, types[0])
    other = draw_for(d, op, shape, types[1])
    x, y = case.load("x", data, types[0]), case.load("y", other, types[1])
    if d.coin(0.3):
        other = np.float32(d.scalar())
        y = float(other)
    dst = case.make("dst", shape, types[2], op, x, y, dtype=nl_type(types[2]))
    result, silent = apply(op, widen(data), widen(other))
    case.result(dst, exact(result, types[2], silent))
    return case


def nl_type(dtype):
    """The name of a type as nki.language has it."""
    return nl(dtype)


@draws("nl.bitvec")
def bits_of(d):
    """nl.bitwise_and, bitwise_or, bitwise_xor, left_shift, right_shift (logical), invert (XOR with all ones)."""
    op, dtype, shape = d.pick(*BITVEC, "invert"), d.pick(*INTEGERS), d.shape()
    case = Case("nl.bitvec", d.generation, f"{op}, {dtype}")
    data, other = d.values(shape, dtype), d.values(shape, dtype)
    x = case.load("x", data, dtype)
    if op == "invert":
        case.result(case.make("dst", shape, dtype, op, x), as_stored(~data))
        return case
    if op.endswith("shift"):
        other = d.rng.integers(0, numpy_type(dtype).itemsize * 8, shape).astype(numpy_type(dtype))
    dst = case.make("dst", shape, dtype, op, x, case.load("y", other, dtype))
    case.result(dst, as_stored(*bitvec(op, data, other)))
    return case


UNARY = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "negative": np.negative,
    "sign": np.sign,
    "abs": np.abs,
    "copy": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "square": np.square,
}


@draws("nl.unary")
def unary(d):
    """nl.floor, ceil, trunc, negative, sign, abs, copy, relu, square: exact in float32. Undocumented: NaN, infinities
    of the roundings, the sign of a zero."""
    op, shape, types = d.pick(*UNARY), d.shape(), (d.float_type(), d.float_type())
    case = Case("nl.unary", d.generation, f"{op}, {types}")
    data = d.values(shape, types[0])
    dst = case.make("dst", shape, types[1], op, case.load("x", data, types[0]), dtype=nl_type(types[1]))
    x = widen(data)
    with np.errstate(all="ignore"):
        result = UNARY[op](x)
        silent = tiny(x) | tiny(result) | np.isnan(x) | ((result == 0) & (op not in ("negative", "abs", "copy")))
    silent = silent | (~np.isfinite(x) & (op in ("floor", "ceil", "trunc")))
    case.result(dst, exact(result, types[1], silent))
    return case


@draws("nl.function")
def function(d):
    """nl.exp .. nl.mish: the functions of the Scalar Engine; nl.sin reduces its argument, cos and tan are here
    alone."""
    op, shape, types = (
        d.pick(*FUNCTIONS, "cos", "tan", "sin"),
        d.shape(),
        (d.pick("float32", "bfloat16"), d.float_type()),
    )
    case = Case("nl.function", d.generation, f"{op}, {types}")
    low, high = {"cos": (-20, 20), "sin": (-20, 20), "tan": (-1.2, 1.2)}.get(op) or FUNCTIONS[op][1:]
    data = d.rng.uniform(low, high, shape).astype(numpy_type(types[0]))
    dst = case.make("dst", shape, types[1], op, case.load("x", data, types[0]), dtype=nl_type(types[1]))
    x = data.astype(np.float64)
    if op in ("cos", "tan", "sin"):
        value = getattr(np, op)(x)
        bound = np.abs(value) * 2.0**-7 + 2.0**-8
    else:
        value, bound = activated(op, x, 0)
    case.result(dst, within(value, bound, types[1]))
    return case


@draws("nl.division")
def division(d):
    """nl.divide within four units in the last place; nl.mod (sign of the divisor) and nl.fmod (sign of the dividend) of
    whole numbers, which float32 holds exactly. Undocumented: the sign of a remainder of zero; a divisor of zero."""
    op, shape = d.pick("divide", "mod", "fmod"), d.shape()
    case = Case("nl.division", d.generation, op)
    if op == "divide":
        x, y = (np.where(np.abs(v) < 0.01, 1, v).astype(np.float32) for v in d.rng.uniform(-9, 9, (2, *shape)))
    else:
        x = d.rng.integers(-60, 61, shape).astype(np.float32)
        y = (d.rng.integers(1, 12, shape) * d.rng.choice([-1, 1], shape)).astype(np.float32)
    dst = case.make("dst", shape, "float32", op, case.load("x", x, "float32"), case.load("y", y, "float32"))
    value = getattr(np, op)(x.astype(np.float64), y.astype(np.float64))
    case.result(dst, within(value, np.abs(value) * 2.0**-21 if op == "divide" else 0, "float32"))
    return case


@draws("nl.power")
def power(d):
    """nl.power of positive bases, within 2^-10 (GpSimd's accuracy is not documented)."""
    shape = d.shape()
    case = Case("nl.power", d.generation)
    x, y = d.rng.uniform(0.2, 4, shape).astype(np.float32), d.rng.uniform(-3, 3, shape).astype(np.float32)
    dst = case.make("dst", shape, "float32", "power", case.load("x", x, "float32"), case.load("y", y, "float32"))
    value = x.astype(np.float64) ** y
    case.result(dst, within(value, value * 2.0**-10, "float32"))
    return case


@draws("nl.reduction")
def reduction(d):
    """nl.sum, max, min, prod, mean, var, all along the free axis: any order of additions; var is the variance of NumPy;
    all is a logical and of zeros and ones."""
    op, shape, dtype = (
        d.pick("sum", "max", "min", "prod", "mean", "var", "all"),
        d.shape(),
        d.pick("float32", "bfloat16"),
    )
    case = Case("nl.reduction", d.generation, f"{op}, {dtype}")
    data = d.booleans(shape, dtype) if op == "all" else d.values(shape, dtype, "tame")
    keywords = {} if op == "all" else {"keepdims": True}
    dst = case.make(
        "dst", (shape[0], 1), "float32", op, case.load("x", data, dtype), axis=1, dtype=nl_type("float32"), **keywords
    )
    x, inner = (
        widen(data),
        {"sum": "add", "mean": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}.get(op),
    )
    if inner:
        value, bound = fold(inner, x)
        share = shape[1] if op == "mean" else 1
        case.result(
            dst, within((value / share)[:, None], (bound / share * 2)[:, None], "float32", unsure(inner, x)[:, None])
        )
    else:
        value = getattr(np, op)(x.astype(np.float64), 1)
        case.result(dst, within(np.float64(value)[:, None], 1e-4 if op == "var" else 0, "float32"))
    return case


@draws("nl.normal")
def softmax_rms(d):
    """nl.softmax along the free axis; nl.rms_norm: x / RMS(x) * w with epsilon 1e-6; within 2^-7."""
    op, shape = d.pick("softmax", "rms_norm"), (d.partitions(), d.number(2, 24))
    case = Case("nl.normal", d.generation, op)
    data = d.rng.uniform(-4, 4, shape).astype(np.float32)
    x = data.astype(np.float64)
    if op == "softmax":
        value = np.exp(x - x.max(1, keepdims=True))
        value /= value.sum(1, keepdims=True)
        dst = case.make("dst", shape, "float32", op, case.load("x", data, "float32"), axis=1)
    else:
        weight = d.rng.uniform(-2, 2, shape).astype(np.float32)
        value = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * weight
        dst = case.make(
            "dst",
            shape,
            "float32",
            op,
            case.load("x", data, "float32"),
            case.load("w", weight, "float32"),
            axis=1,
            n=shape[1],
        )
    case.result(dst, within(value, np.abs(value) * 2.0**-7 + 2.0**-14, "float32"))
    return case


@draws("nl.where")
def where(d):
    """nl.where: elements of x where the condition (0.0 or 1.0) is true, of y elsewhere."""
    dtype, shape = d.pick(*FLOATS), d.shape()
    case = Case("nl.where", d.generation, dtype)
    mask, x, y = d.booleans(shape, "float32"), d.values(shape, dtype), d.values(shape, dtype)
    dst = case.make(
        "dst",
        shape,
        dtype,
        "where",
        case.load("c", mask, "float32"),
        case.load("x", x, dtype),
        case.load("y", y, dtype),
    )
    result = np.where(mask != 0, x, y)
    case.result(dst, as_stored(result, tiny(widen(result))))
    return case


@draws("nl.fill")
def fill(d):
    """nl.zeros, ones and full; nl.rand within [0, 1); nl.dropout of rate 0 or 1 as nki.isa.dropout."""
    op, dtype, shape = d.pick("zeros", "ones", "full", "rand", "dropout"), d.pick(*FLOATS), d.shape()
    case = Case("nl.fill", d.generation, f"{op}, {dtype}")
    if op == "rand":
        dst = case.make("dst", shape, "float32", op, list(shape), dtype=nl_type("float32"))
        case.result(dst, satisfies(lambda got: ~((got >= 0) & (got <= 1)), shape))
        return case
    if op == "dropout":
        data, rate = d.values(shape, dtype, "tame"), d.pick(0.0, 1.0)
        dst = case.make("dst", shape, dtype, op, case.load("x", data, dtype), rate)
        case.result(dst, satisfies(lambda got: got != (data if rate == 0 else 0), shape))
        return case
    value = {"zeros": 0, "ones": 1, "full": d.number(-8, 8)}[op]
    arguments = [tuple(shape), float(value)] if op == "full" else [tuple(shape)]
    dst = case.make("dst", shape, dtype, op, *arguments, dtype=nl_type(dtype))
    case.result(dst, satisfies(lambda got: got.astype(np.float32) != value, shape))
    return case


@draws("nl.matmul")
def matmul(d):
    """nl.matmul: x @ y, or x.T @ y with transpose_x, in PSUM; whole numbers are exact in any order."""
    k, m, n, turned = d.partitions(), d.number(1, 32), d.number(1, 32), d.coin()
    dtype = d.pick("bfloat16", "float32")
    case = Case("nl.matmul", d.generation, f"{dtype}, transpose_x={turned}")
    x = d.rng.integers(-4, 5, (k, m) if turned else (m, k)).astype(numpy_type(dtype))
    y = d.rng.integers(-4, 5, (k, n)).astype(numpy_type(dtype))
    dst = case.make(
        "dst",
        (m, n),
        "float32",
        "matmul",
        case.load("x", x, dtype),
        case.load("y", y, dtype),
        buffer="psum",
        transpose_x=turned,
    )
    value = (x.T if turned else x).astype(np.float64) @ y.astype(np.float64)
    case.result(dst, within(value, 0, "float32"))
    return case


@draws("nl.move")
def move(d):
    """nl.load, nl.load_transpose2d and nl.gather_flattened: the elements of the source, in their type."""
    op, dtype = d.pick("load", "load_transpose2d", "gather_flattened"), d.pick("float32", "bfloat16", "float16")
    rows, free = d.pick(16, 32, 64, 128), d.pick(16, 32, 64)
    case = Case("nl.move", d.generation, f"{op}, {dtype}")
    data = d.values((rows, free), dtype, "finite")
    if op == "gather_flattened":
        index = d.rng.integers(0, free, (rows, free)).astype(np.uint32)
        dst = case.make("dst", (rows, free), dtype, op, case.load("x", data, dtype), case.load("i", index, "uint32"))
        result = np.take_along_axis(data, index.astype(np.int64), 1)
    else:
        result = data.T if op == "load_transpose2d" else data
        dst = case.make("dst", result.shape, dtype, op, case.load("x", data, dtype, "hbm"))
    case.result(dst, as_stored(result, (result == 0) & (op != "load")))
    return case
