"""Makes random tests of element-wise instructions, reductions and scans, with results from the
pages of nki.isa.
"""

import numpy as np

from .alu import ARITHMETIC, BITVEC, LOGICAL, MAGNITUDE, UNARY, apply, bitvec, tiny
from .case import Case, draws, exact, within, nisa, nl, as_stored
from .copies import place
from .formats import FLOATS, INTEGERS, SMALL_INTEGERS, numpy_type, widen

UNIT = 2.0**-23


def operators(d):
    """The arithmetic operators of a generation: abs_max and abs_min need NeuronCore-v4."""
    return [*ARITHMETIC, *(MAGNITUDE if d.generation > 3 else ())]


def native(op, x, y, dtype):
    """`x op y` in integers of 32 bits ("native integer arithmetic", nki.isa.tensor_tensor); overflow is
    undocumented."""
    bounds = np.iinfo(numpy_type(dtype))
    x, y = x.astype(np.int64), y.astype(np.int64)
    with np.errstate(all="ignore"):
        value = (ARITHMETIC | MAGNITUDE)[op](x, y).astype(np.int64)
    real = ARITHMETIC[op](x.astype(object), y.astype(object)) if op == "multiply" else value
    silent = ((real < bounds.min) | (real > bounds.max)).astype(bool)
    if op in LOGICAL:
        silent = silent | ~np.isin(x, (0, 1)) | ~np.isin(y, (0, 1))
    if op in MAGNITUDE:  # no page says that GpSimd has them
        silent = silent | True
    return as_stored(np.where(silent, 0, value).astype(numpy_type(dtype)), silent)


@draws("tensor_tensor")
def tensor_tensor(d):
    """nki.isa.tensor_tensor: arithmetic operators in float32, cast to dst; where all tiles are int32 or uint32 the
    default engine is GpSimd and exact integers, unless engine=vector or a tile is in PSUM; not both inputs in PSUM."""
    op, shape = d.pick(*operators(d)), d.shape()
    if d.coin(0.3):
        return whole_tensor_tensor(d, op, shape)
    types = [d.any_type() for _ in range(3)]
    if all(t in ("int32", "uint32") for t in types):
        types[0] = "float32"
    case = Case("tensor_tensor", d.generation, f"{op}, {types[0]}, {types[1]} to {types[2]}")
    x, y = (draw_for(d, op, shape, t) for t in types[:2])
    first = place(d)
    data1 = case.load("x", x, types[0], first)
    data2 = case.load("y", y, types[1], place(d, first), step=d.pick(1, 2))
    dst = case.new("dst", shape, types[2], place(d))
    case.call("tensor_tensor", dst=dst, data1=data1, data2=data2, op=nl(op))
    result, silent = apply(op, widen(x), widen(y))
    case.result(dst, exact(result, types[2], silent))
    return case


def draw_for(d, op, shape, dtype):
    """Values for an operator: zeros and ones for the logical ones."""
    return d.booleans(shape, dtype) if op in LOGICAL and d.coin(0.8) else d.values(shape, dtype)


def whole_tensor_tensor(d, op, shape):
    """Integers of 32 bits on both engines, and the bit operators."""
    if d.coin():
        return bit_tensor_tensor(d, shape)
    dtype, engine = d.pick("int32", "uint32"), d.pick("unknown", "vector")
    case = Case("tensor_tensor", d.generation, f"{op}, {dtype}, {engine}")
    x, y = draw_for(d, op, shape, dtype), draw_for(d, op, shape, dtype)
    if d.coin(0.3):
        y = x.copy()
    dst = case.new("dst", shape, dtype)
    case.call(
        "tensor_tensor",
        dst=dst,
        data1=case.load("x", x, dtype),
        data2=case.load("y", y, dtype),
        op=nl(op),
        engine=nisa("engine." + engine),
    )
    if engine == "vector":
        case.result(dst, exact(*apply_typed(op, x, y, dtype)))
    else:
        case.result(dst, native(op, x, y, dtype))
    return case


def apply_typed(op, x, y, dtype):
    """The arguments of `exact` for `x op y`."""
    result, silent = apply(op, widen(x), widen(y))
    return result, dtype, silent


def bit_tensor_tensor(d, shape):
    """nki.isa.tensor_tensor, bitvec operators: bit patterns of integers, no cast."""
    op, dtype = d.pick(*BITVEC), d.pick(*INTEGERS)
    case = Case("tensor_tensor", d.generation, f"{op}, {dtype}")
    x, y = d.values(shape, dtype), d.values(shape, dtype)
    if op.endswith("shift"):
        y = d.rng.integers(0, numpy_type(dtype).itemsize * 8 + 1, shape).astype(numpy_type(dtype))
    dst = case.new("dst", shape, dtype)
    case.call("tensor_tensor", dst=dst, data1=case.load("x", x, dtype), data2=case.load("y", y, dtype), op=nl(op))
    case.result(dst, as_stored(*bitvec(op, x, y)))
    return case


def operand(d, case, name, rows):
    """A scalar operand: a float32 constant or a vector of one float32 a partition."""
    if d.coin():
        value = d.scalar()
        return value, np.float32(value)
    value = d.values((rows, 1), "float32")
    return case.load(name, value, "float32"), value


def ordered(op, x, y, reverse):
    """`x op y`, or `y op x` where the operands are reversed."""
    return apply(op, y, x) if reverse else apply(op, x, y)


@draws("tensor_scalar")
def tensor_scalar(d):
    """nki.isa.tensor_scalar: (data op0 operand0) op1 operand1 in float32, each reversible; operands are constants or
    float32 vectors. Scalar Engine on trn2: multiply/add only. Bit operators: integers as bit patterns.
    Undocumented: the address arithmetic that 32-bit integers get ("tensor_scalar_addr")."""
    if d.coin(0.2):
        return bit_tensor_scalar(d)
    if d.coin(0.15):
        return unary_tensor_scalar(d)
    shape, types = d.shape(), (d.any_type(), d.any_type())
    op0, op1 = d.pick(*operators(d)), d.pick(None, *operators(d))
    reverse0, reverse1 = d.coin(0.3), d.coin(0.3)
    case = Case("tensor_scalar", d.generation, f"{op0} {reverse0}, {op1} {reverse1}, {types[0]} to {types[1]}")
    data = draw_for(d, op0, shape, types[0])
    operand0, value0 = operand(d, case, "operand0", shape[0])
    arguments = dict(
        data=case.load("data", data, types[0], place(d)), op0=nl(op0), operand0=operand0, reverse0=reverse0
    )
    result, silent = ordered(op0, widen(data), value0, reverse0)
    if op1:
        operand1, value1 = operand(d, case, "operand1", shape[0])
        arguments |= dict(op1=nl(op1), operand1=operand1, reverse1=reverse1)
        result, more = ordered(op1, result, value1, reverse1)
        silent = silent | more
    if types[0] in ("int32", "uint32") and types[1] in ("int32", "uint32"):
        silent = silent | True
    dst = case.new("dst", shape, types[1], place(d))
    case.call("tensor_scalar", dst=dst, **arguments)
    case.result(dst, exact(result, types[1], silent))
    return case


def bit_tensor_scalar(d):
    """nki.isa.tensor_scalar with bit operators and integer constants."""
    ops, dtype, shape = [d.pick(*BITVEC), d.pick(None, *BITVEC)], d.pick(*INTEGERS), d.shape()
    case = Case("tensor_scalar", d.generation, f"{ops}, {dtype}")
    kind = numpy_type(dtype)
    data = d.values(shape, dtype)
    result, silent = data, np.zeros(shape, bool)
    arguments = dict(data=case.load("data", data, dtype))
    for number, op in enumerate(o for o in ops if o):
        value = d.number(0, kind.itemsize * 8 - 1) if op.endswith("shift") else d.number(0, 127)
        reverse = d.coin(0.2) and not op.endswith("shift")
        arguments |= {f"op{number}": nl(op), f"operand{number}": value, f"reverse{number}": reverse}
        result, more = bitvec(op, result, np.array(value, kind))
        silent = silent | more
    dst = case.new("dst", shape, dtype)
    case.call("tensor_scalar", dst=dst, **arguments)
    case.result(dst, as_stored(result, silent))
    return case


def unary_tensor_scalar(d):
    """nki.isa.tensor_scalar with a unary operator: operand0 is None or 0. square and relu run on trn3 only (release
    notes, 0.4.0); reciprocal is compared with two units in the last place, rsqrt with 2^-16 (GpSimd is "precise")."""
    op = d.pick("abs", "reciprocal", "rsqrt", *(("square", "relu") if d.generation > 3 else ()))
    shape, types = d.shape(), (d.any_type(), d.float_type())
    case = Case("tensor_scalar", d.generation, f"{op}, {types[0]} to {types[1]}")
    data = d.values(shape, types[0])
    dst = case.new("dst", shape, types[1])
    engine = {"engine": nisa("engine.gpsimd")} if op == "rsqrt" else {}
    case.call("tensor_scalar", dst=dst, data=case.load("data", data, types[0]), op0=nl(op), operand0=0.0, **engine)
    x = widen(data)
    with np.errstate(all="ignore"):
        result = 1 / np.sqrt(x.astype(np.float64)) if op == "rsqrt" else UNARY[op](x)
        silent = (
            tiny(x) | tiny(result) | (np.isnan(x) if op in ("abs", "relu") else (x <= 0 if op == "rsqrt" else x == 0))
        )
    slack = {"reciprocal": 2 * UNIT, "rsqrt": 2.0**-16}.get(op, 0)
    case.result(
        dst, within(result, np.abs(result) * slack, types[1], silent) if slack else exact(result, types[1], silent)
    )
    return case


@draws("scalar_tensor_tensor")
def scalar_tensor_tensor(d):
    """nki.isa.scalar_tensor_tensor: (data op0 operand0) op1 operand1 in float32, reversible, cast to dst."""
    shape, types = d.shape(), [d.any_type() for _ in range(3)]
    op0, op1, r0, r1 = d.pick(*operators(d)), d.pick(*operators(d)), d.coin(0.3), d.coin(0.3)
    case = Case("scalar_tensor_tensor", d.generation, f"{op0} {r0}, {op1} {r1}, {types}")
    data, other = draw_for(d, op0, shape, types[0]), draw_for(d, op1, shape, types[1])
    operand0, value0 = operand(d, case, "operand0", shape[0])
    dst = case.new("dst", shape, types[2])
    first = place(d)
    case.call(
        "scalar_tensor_tensor",
        dst=dst,
        data=case.load("data", data, types[0], first),
        op0=nl(op0),
        operand0=operand0,
        op1=nl(op1),
        operand1=case.load("other", other, types[1], place(d, first)),
        reverse0=r0,
        reverse1=r1,
    )
    middle, silent = ordered(op0, widen(data), value0, r0)
    result, more = ordered(op1, middle, widen(other), r1)
    case.result(dst, exact(result, types[2], silent | more))
    return case


def fold(op, x, axis=1):
    """The reduction of float32 values and its error bound: any order of additions, or of products."""
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if op == "add":
            return wide.sum(axis), np.abs(wide).sum(axis) * UNIT * x.shape[axis]
        if op == "multiply":
            value = wide.prod(axis)
            return value, np.abs(value) * UNIT * x.shape[axis]
        value = (wide.max if op == "maximum" else wide.min)(axis)
        return value, np.zeros(value.shape)


def unsure(op, x, axis=1):
    """True where a reduction of `x` is not decided: NaN, values not finite in a sum, zeros of both signs, overflow."""
    with np.errstate(all="ignore"):
        if op in ("add", "multiply"):
            total = (
                np.abs(x).astype(np.float64).sum if op == "add" else np.maximum(np.abs(x), 1).astype(np.float64).prod
            )(axis)
            small = np.where(x == 0, 1, np.minimum(np.abs(x), 1)).astype(np.float64).prod(axis)
            bad = ~(total < 3e38) | (op == "multiply" and (small < 1e-37))
            return bad | tiny(x).any(axis)
        value = (np.max if op == "maximum" else np.min)(x, axis)
    return np.isnan(x).any(axis) | (value == 0) | tiny(value)


@draws("tensor_reduce")
def tensor_reduce(d):
    """nki.isa.tensor_reduce: the last free axes, float32 math, negate multiplies an arithmetic result by -1; bit
    operators on integers. The order of additions is undocumented: the bound allows any."""
    rows, dims = d.partitions(), [d.number(1, 6) for _ in range(d.pick(1, 2, 3))]
    axes = d.number(1, len(dims))
    shape = (rows, *dims)
    axis = tuple(range(len(dims) + 1 - axes, len(dims) + 1))
    if d.coin(0.2):
        op, dtype, dst_type, negate = d.pick("bitwise_and", "bitwise_or", "bitwise_xor"), d.pick(*INTEGERS), None, False
        dst_type = dtype
    else:
        op, dtype, dst_type = d.pick("add", "multiply", "maximum", "minimum"), d.any_type(), d.any_type()
        negate = d.coin(0.3)
    case = Case("tensor_reduce", d.generation, f"{op}, {dtype} to {dst_type}, negate={negate}")
    data = d.values(shape, dtype, d.pick("any", "finite", "tame"))
    out = shape[: len(shape) - axes] + (1,) * axes
    dst = case.new("dst", out, dst_type)
    case.call(
        "tensor_reduce",
        dst=dst,
        op=nl(op),
        data=case.load("data", data, dtype),
        axis=d.pick(axis, list(axis)),
        negate=negate,
        keepdims=True,
    )
    flat = data.reshape(*shape[: len(shape) - axes], -1)
    if op in BITVEC:
        case.result(dst, as_stored(getattr(np, op).reduce(flat, -1).reshape(out)))
        return case
    x = widen(flat)
    value, bound = fold(op, x, x.ndim - 1)
    value = -value if negate else value
    case.result(dst, within(value.reshape(out), bound.reshape(out), dst_type, unsure(op, x, x.ndim - 1).reshape(out)))
    return case


@draws("tensor_partition_reduce")
def tensor_partition_reduce(d):
    """nki.isa.tensor_partition_reduce: across partitions: add, average, max, bitwise_or, bitwise_and. The page gives no
    formats and no precision; float32 and bfloat16 within any order of additions, bit operators on integers."""
    op = d.pick("add", "maximum", "bitwise_or", "bitwise_and")
    dtype = d.pick(*INTEGERS) if op in BITVEC else d.pick("float32", "bfloat16")
    shape = d.shape()
    case = Case("tensor_partition_reduce", d.generation, f"{op}, {dtype}")
    data = d.values(shape, dtype, "tame" if op == "add" else "finite")
    dst = case.new("dst", (1, shape[1]), dtype)
    case.call("tensor_partition_reduce", dst=dst, op=nl(op), data=case.load("data", data, dtype))
    if op in BITVEC:
        case.result(dst, as_stored(getattr(np, op).reduce(data, 0)[None]))
    else:
        value, bound = fold(op, widen(data), 0)
        case.result(dst, within(value[None], bound[None], dtype, unsure(op, widen(data), 0)[None]))
    return case


@draws("tensor_scalar_reduce")
def tensor_scalar_reduce(d):
    """nki.isa.tensor_scalar_reduce: data op0 operand0 to dst; its reduction (add, multiply, max, min) over all free
    axes to reduce_res, from the identity or, with load_reduce, from reduce_init; reduce_res_negate negates it.
    Undocumented: whether the reduction sees dst after its cast; drawn with a float32 dst only."""
    shape, dtype, op0 = d.shape(), d.any_type(), d.pick("add", "subtract", "multiply", "maximum", "minimum")
    op, load, negate = d.pick("add", "multiply", "maximum", "minimum"), d.coin(0.3), d.coin(0.3)
    case = Case("tensor_scalar_reduce", d.generation, f"{op0}, {op}, {dtype}, load={load}, negate={negate}")
    data = d.values(shape, dtype, d.pick("finite", "tame"))
    operand0, value0 = operand(d, case, "operand0", shape[0])
    dst, res = case.new("dst", shape, "float32"), case.new("res", (shape[0], 1), "float32")
    arguments = dict(reduce_cmd=nisa("reduce_cmd.load_reduce"), reduce_init=2.5) if load else {}
    case.call(
        "tensor_scalar_reduce",
        dst=dst,
        data=case.load("data", data, dtype),
        op0=nl(op0),
        operand0=operand0,
        reduce_op=nl(op),
        reduce_res=res,
        reduce_res_negate=negate,
        **arguments,
    )
    result, silent = apply(op0, widen(data), value0)
    case.result(dst, exact(result, "float32", silent))
    entries = np.concatenate([result, np.full((shape[0], 1), 2.5, np.float32)], 1) if load else result
    value, bound = fold(op, entries)
    doubt = (unsure(op, entries) | silent.any(1))[:, None]
    case.result(res, within((-value if negate else value)[:, None], bound[:, None], "float32", doubt))
    return case


def reals(d):
    """Formats that tensor_scalar_cumulative allows."""
    return d.pick(*FLOATS, *SMALL_INTEGERS)


@draws("tensor_scalar_cumulative")
def tensor_scalar_cumulative(d):
    """nki.isa.tensor_scalar_cumulative: reg = op1(op0(in[i], imm0), reg); out[i] = reg, from the identity of op1, or
    from imm1 with load_reduce. The pseudo code fixes the order, and the registers are float32: exact."""
    shape, types = d.shape(), (reals(d), reals(d))
    op0, op1 = (
        d.pick("add", "subtract", "multiply", "maximum", "minimum"),
        d.pick("add", "subtract", "multiply", "maximum", "minimum"),
    )
    load = d.coin(0.4)
    case = Case("tensor_scalar_cumulative", d.generation, f"{op0}, {op1}, {types}, load={load}")
    data = d.values(shape, types[0], d.pick("any", "tame", "tame"))
    imm0, value0 = operand(d, case, "imm0", shape[0])
    reg = np.full(shape[0], {"multiply": 1, "maximum": -np.inf, "minimum": np.inf}.get(op1, 0), np.float32)
    arguments = {}
    if load:
        imm1, value1 = operand(d, case, "imm1", shape[0])
        reg = np.broadcast_to(np.asarray(value1, np.float32).reshape(-1), shape[0])
        arguments = dict(imm1=imm1, reduce_cmd=nisa("reduce_cmd.load_reduce"))
    dst = case.new("dst", shape, types[1])
    case.call(
        "tensor_scalar_cumulative",
        dst=dst,
        src=case.load("src", data, types[0]),
        op0=nl(op0),
        op1=nl(op1),
        imm0=imm0,
        **arguments,
    )
    first, silent = apply(op0, widen(data), value0)
    result, doubt = np.empty(shape, np.float32), np.zeros(shape[0], bool)
    unknown = np.zeros(shape, bool)
    for i in range(shape[1]):
        reg, more = apply(op1, first[:, i], reg)
        doubt = doubt | more | silent[:, i]
        result[:, i], unknown[:, i] = reg, doubt
    case.result(dst, exact(result, types[1], unknown))
    return case


@draws("tensor_tensor_scan")
def tensor_tensor_scan(d):
    """nki.isa.tensor_tensor_scan: result[i] = op1(op0(data0[i], result[i-1]), data1[i]), float32, reversible; the order
    is fixed, so exact. Undocumented: whether a step casts the state to the type of dst (the page says float32 math)."""
    shape, types = d.shape(), (d.any_type(), d.any_type(), d.float_type())
    ops = ("add", "subtract", "multiply", "maximum", "minimum")
    op0, op1, r0, r1 = d.pick(*ops), d.pick(*ops), d.coin(0.3), d.coin(0.3)
    case = Case("tensor_tensor_scan", d.generation, f"{op0} {r0}, {op1} {r1}, {types}")
    x, y = d.values(shape, types[0], d.pick("any", "tame")), d.values(shape, types[1], d.pick("any", "tame"))
    initial, state = operand(d, case, "initial", shape[0])
    state = np.broadcast_to(np.asarray(state, np.float32).reshape(-1), shape[0])
    dst = case.new("dst", shape, types[2])
    first = place(d)
    case.call(
        "tensor_tensor_scan",
        dst=dst,
        data0=case.load("x", x, types[0], first),
        data1=case.load("y", y, types[1], place(d, first)),
        initial=initial,
        op0=nl(op0),
        op1=nl(op1),
        reverse0=r0,
        reverse1=r1,
    )
    result, unknown, doubt = np.empty(shape, np.float32), np.zeros(shape, bool), np.zeros(shape[0], bool)
    for i in range(shape[1]):
        middle, one = ordered(op0, widen(x)[:, i], state, r0)
        state, two = ordered(op1, middle, widen(y)[:, i], r1)
        doubt = doubt | one | two
        result[:, i], unknown[:, i] = state, doubt
    case.result(dst, exact(result, types[2], unknown))
    return case


@draws("reciprocal")
def reciprocal(d):
    """nki.isa.reciprocal: 1/x in float32; its accuracy is undocumented: two units in the last place are allowed.
    Undocumented: the reciprocal of a zero."""
    shape, types = d.shape(), (d.any_type(), d.float_type())
    case = Case("reciprocal", d.generation, f"{types[0]} to {types[1]}")
    data = d.values(shape, types[0])
    dst = case.new("dst", shape, types[1], place(d))
    case.call("reciprocal", dst=dst, data=case.load("data", data, types[0], place(d)))
    x = widen(data)
    with np.errstate(all="ignore"):
        value = 1 / x.astype(np.float64)
        case.result(
            dst, within(value, np.abs(value) * 2 * UNIT, types[1], tiny(x) | (x == 0) | (np.abs(value) < 2.0**-126))
        )
    return case
