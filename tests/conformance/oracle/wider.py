"""Makes random tests of forms that kernels write: default types, broadcasts, Python operators,
several axes.
"""

import numpy as np

from .alu import ARITHMETIC, BITVEC, LOGICAL, apply, bitvec
from .case import Case, bits, draws, exact, within, nl, as_stored
from .elementwise import draw_for, fold, native, unsure
from .formats import FLOATS, INTEGERS, SMALL_INTEGERS, numpy_type, widen
from .language import nl_type

OPERATORS = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "less": lambda x, y: x < y,
    "less_equal": lambda x, y: x <= y,
    "greater": lambda x, y: x > y,
    "greater_equal": lambda x, y: x >= y,
}


@draws("nl.binary")
def broadcast(d):
    """nl.add .. of a tile and one column [P, 1], which NumPy's rules (the pages name NumPy's functions) broadcast; a
    number may come first."""
    op, shape = d.pick(*ARITHMETIC), d.shape()
    dtype, out = d.pick("float32", "bfloat16", "float16"), d.pick("float32", "bfloat16", "uint8", "int32")
    case = Case("nl.binary", d.generation, f"{op}, {dtype} to {out}, broadcast")
    x, y = draw_for(d, op, shape, dtype), draw_for(d, op, (shape[0], 1), dtype)
    first, second = case.load("x", x, dtype), case.load("y", y, dtype)
    if d.coin(0.3):
        y = np.float32(d.scalar())
        second = float(y)
    if d.coin():
        first, second, x, y = second, first, y, x
    dst = case.make("dst", shape, out, op, first, second, dtype=nl_type(out))
    case.result(dst, exact(*(lambda r, s: (r, out, s))(*apply(op, widen(x), widen(y)))))
    return case


@draws("nl.binary")
def default_type(d):
    """nl.add .. without dtype, of two tiles of one type: the result has it (pages of the comparisons: "defaults to the
    input tile dtype"). 32-bit integers are exact, since tensor_tensor computes them so by default."""
    op, shape, dtype = d.pick(*ARITHMETIC), d.shape(), d.pick(*FLOATS, *INTEGERS)
    case = Case("nl.binary", d.generation, f"{op}, {dtype}, default type")
    x, y = draw_for(d, op, shape, dtype), draw_for(d, op, shape, dtype)
    dst = case.make("dst", shape, dtype, op, case.load("x", x, dtype), case.load("y", y, dtype))
    if dtype in ("int32", "uint32"):
        case.result(dst, native(op, x, y, dtype))
    else:
        case.result(dst, exact(*(lambda r, s: (r, dtype, s))(*apply(op, widen(x), widen(y)))))
    return case


@draws("nl.operator")
def operators(d):
    """Operators of Python on tiles (nki/get-started/nki-language-guide.rst): x + y as nl.add(x, y) and so on."""
    op, shape, dtype = d.pick(*OPERATORS), d.shape(), d.pick("float32", "bfloat16")
    case = Case("nl.operator", d.generation, f"{op}, {dtype}")
    x, y = d.values(shape, dtype), d.values(shape, dtype)
    first, second, dst = case.load("x", x, dtype), case.load("y", y, dtype), case.new("dst", shape, dtype)

    def body(isa, lang, tiles):
        isa.tensor_copy(
            dst=tiles[dst.name], src=OPERATORS[op](tiles[first.name], tiles[second.name]), engine=isa.engine.vector
        )

    case.body(body)
    case.result(dst, exact(*(lambda r, s: (r, dtype, s))(*apply(op, widen(x), widen(y)))))
    return case


@draws("nl.reduction")
def axes(d):
    """nl.sum, max, min, prod over the last axes of a tile of three or four dimensions, with and without keepdims."""
    op, rows, dims = d.pick("sum", "max", "min", "prod"), d.partitions(), [d.number(1, 4) for _ in range(d.pick(2, 3))]
    shape, count, keep = (rows, *dims), d.number(1, len(dims)), d.coin()
    axis = tuple(range(len(shape) - count, len(shape)))
    case = Case("nl.reduction", d.generation, f"{op}, axes {axis}, keepdims={keep}")
    data = d.values(shape, "float32", "tame")
    flat = data.reshape(*shape[: len(shape) - count], -1)
    left = shape[: len(shape) - count]
    out = left + (1,) * count if keep or len(left) == 1 else left
    dst = case.make(
        "dst", out, "float32", op, case.load("x", data, "float32"), axis=list(axis), keepdims=keep or len(left) == 1
    )
    inner = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}[op]
    value, bound = fold(inner, flat, flat.ndim - 1)
    case.result(
        dst, within(value.reshape(out), bound.reshape(out), "float32", unsure(inner, flat, flat.ndim - 1).reshape(out))
    )
    return case


@draws("tensor_reduce")
def reduce_forms(d):
    """nki.isa.tensor_reduce: axis as an int, keepdims False, any operator that the table calls legal for reductions:
    logical ones of zeros and ones, subtract not compared with NumPy (its order is not documented)."""
    op, rows, a, b = d.pick("add", "maximum", *LOGICAL), d.partitions(), d.number(1, 5), d.number(1, 6)
    dtype = d.pick("float32", "bfloat16", *SMALL_INTEGERS)
    case = Case("tensor_reduce", d.generation, f"{op}, {dtype}, axis 2")
    data = d.booleans((rows, a, b), dtype) if op in LOGICAL else d.values((rows, a, b), dtype, "tame")
    dst = case.new("dst", (rows, a), "float32")
    case.call("tensor_reduce", dst=dst, op=nl(op), data=case.load("data", data, dtype), axis=2)
    x = widen(data)
    if op in LOGICAL:
        value = getattr(np, op).reduce(x != 0, 2).astype(np.float32)
        case.result(dst, within(value, 0, "float32"))
    else:
        value, bound = fold(op, x, 2)
        case.result(dst, within(value, bound, "float32", unsure(op, x, 2)))
    return case


@draws("tensor_scalar_reduce")
def reduce_comparisons(d):
    """nki.isa.tensor_scalar_reduce: any arithmetic op0; the number of elements that compare true, by add."""
    op, shape, dtype = (
        d.pick("less", "greater", "equal", "greater_equal", "less_equal", "not_equal"),
        d.shape(),
        d.any_type(),
    )
    case = Case("tensor_scalar_reduce", d.generation, f"{op}, {dtype}, count")
    data, limit = d.values(shape, dtype, "finite"), float(d.number(-3, 3))
    dst, res = case.new("dst", shape, "uint8"), case.new("res", (shape[0], 1), "float32")
    case.call(
        "tensor_scalar_reduce",
        dst=dst,
        data=case.load("data", data, dtype),
        op0=nl(op),
        operand0=limit,
        reduce_op=nl("add"),
        reduce_res=res,
    )
    value, silent = apply(op, widen(data), limit)
    case.result(dst, exact(value, "uint8", silent))
    case.result(res, within(value.sum(1, keepdims=True), 0, "float32", silent.any(1, keepdims=True)))
    return case


@draws("dropout")
def dropout_vector(d):
    """nki.isa.dropout: prob as a tile [P, 1], each for its partition; 0 keeps, 1 drops."""
    dtype, shape = d.pick("float32", "bfloat16", "float16", "int16"), d.shape()
    case = Case("dropout", d.generation, f"{dtype}, vector")
    data, prob = d.values(shape, dtype, "tame"), d.booleans((shape[0], 1), "float32")
    dst = case.new("dst", shape, dtype)
    case.call("dropout", dst=dst, data=case.load("data", data, dtype), prob=case.load("prob", prob, "float32"))
    result = np.where(prob == 1, np.zeros(1, data.dtype), data)
    case.result(dst, as_stored(result, result == 0))
    return case


@draws("tensor_copy")
def run_time_offset(d):
    """nki.language.NkiTensor.ap with scalar_offset on a tile in SBUF: columns from a run-time start, on every
    engine."""
    dtype, rows, free = d.any_type(), d.partitions(), d.number(2, 30)
    count = d.number(1, free)
    start = d.number(0, free - count)
    case = Case("tensor_copy", d.generation, f"scalar_offset, {dtype}")
    data = d.values((rows, free), dtype)
    offset = case.load("offset", np.array([[start]], np.int32), "int32")
    view = case.load("src", data, dtype).do(
        "ap", pattern=[[free, rows], [1, count]], scalar_offset=offset, indirect_dim=1
    )
    dst = case.new("dst", (rows, count), dtype)
    case.call("tensor_copy", dst=dst, src=view)
    case.result(dst, bits(np.ascontiguousarray(data[:, start : start + count])))
    return case


@draws("nl.bitvec")
def shift_numbers(d):
    """nl.left_shift and right_shift by a number, nl.bitwise_and .. with a number, and the operators << >> & | ^ ~."""
    op, dtype, shape = d.pick(*BITVEC), d.pick(*INTEGERS), d.shape()
    case = Case("nl.bitvec", d.generation, f"{op}, {dtype}, number")
    data = d.values(shape, dtype)
    value = d.number(0, numpy_type(dtype).itemsize * 8 - 1) if op.endswith("shift") else d.number(0, 127)
    dst = case.make("dst", shape, dtype, op, case.load("x", data, dtype), value)
    case.result(dst, as_stored(*bitvec(op, data, np.array(value, data.dtype))))
    return case


@draws("nl.unary")
def logical_not(d):
    """nl.logical_not of zeros and ones: XOR with 1."""
    dtype, shape = d.pick(*INTEGERS), d.shape()
    case = Case("nl.unary", d.generation, f"logical_not, {dtype}")
    data = d.booleans(shape, dtype)
    case.result(case.make("dst", shape, dtype, "logical_not", case.load("x", data, dtype)), as_stored(1 - data))
    return case
