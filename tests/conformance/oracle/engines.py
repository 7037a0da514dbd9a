"""Makes random tests of the Scalar, Tensor and DMA engines, with results from the pages of nki.isa."""

from math import erf, pi, sqrt

import ml_dtypes
import numpy as np

from .case import Case, bits, draws, exact, within, nisa, nl, as_stored
from .copies import place
from .elementwise import UNIT, fold, unsure
from .formats import numpy_type, widen

ERF = np.vectorize(erf, otypes=[np.float64])


def logistic(x):
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def normal(x):
    """The density of the normal distribution."""
    return np.exp(-x * x / 2) / sqrt(2 * pi)


# name: function, low and high end of the drawn inputs (within the valid range of nki.api.shared.rst)
FUNCTIONS = {
    "copy": (lambda x: x, -8, 8),
    "square": (np.square, -8, 8),
    "relu": (lambda x: np.maximum(x, 0), -8, 8),
    "abs": (np.abs, -8, 8),
    "sign": (np.sign, -8, 8),
    "sigmoid": (logistic, -8, 8),
    "tanh": (np.tanh, -8, 8),
    "exp": (np.exp, -8, 8),
    "log": (np.log, 0.01, 100),
    "sqrt": (np.sqrt, 0.01, 100),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.01, 100),
    "reciprocal": (lambda x: 1 / x, 0.05, 100),
    "sin": (np.sin, -3.14, 3.14),
    "arctan": (np.arctan, -1.57, 1.57),
    "erf": (ERF, -4, 4),
    "erf_dx": (lambda x: 2 / sqrt(pi) * np.exp(-x * x), -4, 4),
    "gelu": (lambda x: x * (1 + ERF(x / sqrt(2))) / 2, -6, 6),
    "gelu_dx": (lambda x: (1 + ERF(x / sqrt(2))) / 2 + x * normal(x), -6, 6),
    "gelu_apprx_tanh": (lambda x: x / 2 * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))), -6, 6),
    "gelu_apprx_sigmoid": (lambda x: x * logistic(1.702 * x), -6, 6),
    "silu": (lambda x: x * logistic(x), -8, 8),
    "silu_dx": (lambda x: logistic(x) * (1 + x * (1 - logistic(x))), -8, 8),
    "softplus": (lambda x: np.log1p(np.exp(x)), -8, 8),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), -8, 8),
}
PLAIN = ("copy", "relu", "abs", "sign")


def activated(op, x, spread):
    """The function of `x` and its bound: 2^-8 of the value and 2^-12 for the pieces of polynomials, whose accuracy no
    page gives, and what an error of `spread` in x makes of it."""
    function = FUNCTIONS[op][0]
    with np.errstate(all="ignore"):
        value = function(x)
        moved = np.maximum(np.abs(function(x + spread) - value), np.abs(function(x - spread) - value))
        bound = moved + (0 if op in PLAIN else np.abs(value) * 2.0**-8 + 2.0**-12)
    return value, np.where(np.isfinite(bound), bound, 0)


@draws("activation")
def activation(d):
    """nki.isa.activation: op(data * scale + bias) in float32; scale float32, a constant or a vector; bias a vector, or
    a constant from NeuronCore-v3; reduce_op add sums the free axes into reduce_res with reset_reduce.
    Undocumented: whether the sum sees dst after its cast (drawn with float32), how exact the functions are."""
    op, shape, types = d.pick(*FUNCTIONS), d.shape(), (d.pick("float32", "bfloat16", "float16"), d.float_type())
    reduce = d.coin(0.3)
    types = (types[0], "float32") if reduce else types
    case = Case("activation", d.generation, f"{op}, {types}, reduce={reduce}")
    low, high = FUNCTIONS[op][1:]
    data = d.rng.uniform(low, high, shape).astype(numpy_type(types[0]))
    x, spread, arguments = data.astype(np.float64), np.zeros(shape), {}
    if d.coin(0.4) and low < 0 and op not in ("sin", "arctan"):
        scale = d.rng.uniform(-1, 1, (shape[0], 1)).astype(np.float32)
        constant = d.coin()
        scale = scale[:1] if constant else scale
        arguments["scale"] = float(scale[0, 0]) if constant else case.load("scale", scale, "float32")
        bias = np.zeros((1, 1), np.float32)
        if d.coin():
            bias = d.rng.uniform(-1, 1, (shape[0], 1)).astype(np.float32)
            arguments["bias"] = case.load("bias", bias, "float32")
        spread = (np.abs(x * scale) + np.abs(bias)) * UNIT
        x = x * scale + bias
    value, bound = activated(op, x, spread)
    dst = case.new("dst", shape, types[1], place(d))
    if reduce:
        res = case.new("res", (shape[0], 1), "float32")
        arguments |= dict(reduce_op=nl("add"), reduce_res=res, reduce_cmd=nisa("reduce_cmd.reset_reduce"))
        more = fold("add", value)[1] + bound.sum(1)
        case.result(res, within(value.sum(1)[:, None], more[:, None], "float32"))
    case.call("activation", dst=dst, op=nl(op), data=case.load("data", data, types[0], place(d)), **arguments)
    jump = (op == "sign") & (np.abs(x) <= 2 * spread)
    case.result(dst, within(value, bound, types[1], jump))
    return case


@draws("activation")
def activation_edges(d):
    """nki.isa.activation of edge values, for functions that are valid on all of [-inf, inf] and need no polynomial:
    identity, relu, abs; a NaN is undocumented for relu."""
    op, types, shape = d.pick("copy", "relu", "abs"), (d.any_type(), d.any_type()), d.shape()
    case = Case("activation", d.generation, f"{op}, {types}, edges")
    data = d.values(shape, types[0])
    dst = case.new("dst", shape, types[1])
    case.call("activation", dst=dst, op=nl(op), data=case.load("data", data, types[0]))
    x = widen(data)
    with np.errstate(all="ignore"):
        value = FUNCTIONS[op][0](x)
        silent = ((np.abs(x) < 2.0**-126) & (x != 0)) | (np.isnan(x) & (op == "relu")) | ((x == 0) & (op == "relu"))
    case.result(dst, exact(value, types[1], silent))
    return case


@draws("activation_reduce")
def activation_reduce(d):
    """nki.isa.activation_reduce: activation with reset_reduce: dst and the sum of it over the free axes."""
    op, shape = d.pick("copy", "exp", "square", "relu", "tanh"), d.shape()
    case = Case("activation_reduce", d.generation, op)
    data = d.rng.uniform(-4, 4, shape).astype(np.float32)
    dst, res = case.new("dst", shape, "float32"), case.new("res", (shape[0], 1), "float32")
    case.call(
        "activation_reduce",
        dst=dst,
        op=nl(op),
        data=case.load("data", data, "float32"),
        reduce_op=nl("add"),
        reduce_res=res,
    )
    value, bound = activated(op, data.astype(np.float64), 0)
    case.result(dst, within(value, bound, "float32"))
    case.result(res, within(value.sum(1)[:, None], (fold("add", value)[1] + bound.sum(1))[:, None], "float32"))
    return case


@draws("activate2", 4)
def activate2(d):
    """nki.isa.activate2: op((data op0 imm0) op1 imm1), six pairs of operators, reversible; a reduction by add, maximum
    or minimum of the free axes, from the identity with reset_reduce."""
    first, second = d.pick(
        ("multiply", "add"),
        ("multiply", "subtract"),
        ("multiply", "bypass"),
        ("add", "bypass"),
        ("subtract", "bypass"),
        ("bypass", "bypass"),
    )
    op, shape, reduce = (
        d.pick("copy", "relu", "square", "tanh", "abs"),
        d.shape(),
        d.pick(None, "add", "maximum", "minimum"),
    )
    case = Case("activate2", d.generation, f"{first}, {second}, {op}, {reduce}")
    data, (i0, i1) = d.rng.uniform(-4, 4, shape).astype(np.float32), np.float32(d.rng.uniform(-2, 2, 2))
    r0, r1 = d.coin(0.3) and first != "bypass", d.coin(0.3) and second != "bypass"
    x = data
    for name, imm, reverse in ((first, i0, r0), (second, i1, r1)):
        if name != "bypass":
            x = getattr(np, name)(*((imm, x) if reverse else (x, imm)))
    spread = (np.abs(data * i0) + abs(i0) + abs(i1) + np.abs(data)) * UNIT
    value, bound = activated(op, x.astype(np.float64), spread)
    dst, arguments = case.new("dst", shape, "float32"), {}
    if reduce:
        res = case.new("res", (shape[0], 1), "float32")
        arguments = dict(reduce_op=nl(reduce), reduce_res=res, reduce_cmd=nisa("reduce_cmd.reset_reduce"))
        total, more = fold(reduce, value)
        slack = bound.sum(1) if reduce == "add" else bound.max(1)
        case.result(res, within(total[:, None], (more + slack)[:, None], "float32"))
    case.call(
        "activate2",
        dst=dst,
        op=nl(op),
        data=case.load("data", data, "float32"),
        imm0=float(i0),
        imm1=float(i1),
        op0=nl(first),
        op1=nl(second),
        reverse0=r0,
        reverse1=r1,
        **arguments,
    )
    case.result(dst, within(value, bound, "float32"))
    return case


@draws("exponential", 4)
def exponential(d):
    """nki.isa.exponential: exp(src - max_value), max_value float32, a constant or a vector; a running sum with
    reset_reduce, or from reduce_init with load_reduce."""
    types, shape = (d.pick("float32", "bfloat16", "float16"), "float32"), d.shape()
    load = d.coin(0.3)
    case = Case("exponential", d.generation, f"{types}, load={load}")
    data = d.rng.uniform(-8, 4, shape).astype(numpy_type(types[0]))
    most = d.rng.uniform(-2, 4, (shape[0], 1)).astype(np.float32)
    x = data.astype(np.float64) - most
    value, bound = activated("exp", x, np.abs(x) * UNIT)
    dst, res = case.new("dst", shape, types[1]), case.new("res", (shape[0], 1), "float32")
    arguments = (
        dict(reduce_cmd=nisa("reduce_cmd.load_reduce"), reduce_init=1.5)
        if load
        else dict(reduce_cmd=nisa("reduce_cmd.reset_reduce"))
    )
    case.call(
        "exponential",
        dst=dst,
        src=case.load("src", data, types[0]),
        max_value=case.load("most", most, "float32"),
        reduce_res=res,
        **arguments,
    )
    case.result(dst, within(value, bound, types[1]))
    total = value.sum(1) + (1.5 if load else 0)
    case.result(res, within(total[:, None], (fold("add", value)[1] + bound.sum(1) + 1e-6)[:, None], "float32"))
    return case


@draws("nc_matmul")
def nc_matmul(d):
    """nki.isa.nc_matmul: dst = stationary.T @ moving, products and sums in float32, dst float32 in PSUM (or bfloat16 on
    NeuronCore-v4); formats may differ unless one is float32; accumulate=True adds to what a matmul wrote. Integers up
    to 8 are exact in any order; other values are bounded by any order of additions."""
    generation = d.generation
    types = (
        ("float32", "float32")
        if d.coin(0.2)
        else tuple(d.pick("bfloat16", "float16", "float8_e4m3", "float8_e5m2") for _ in range(2))
    )
    k, m, n, twice = d.partitions(), d.number(1, 32), d.number(1, 32), d.coin(0.3)
    out = d.pick("float32", "bfloat16") if generation > 3 else "float32"
    case = Case("nc_matmul", generation, f"{types} to {out}, accumulate={twice}")
    if d.coin():
        a, b = (d.rng.integers(-4, 5, s).astype(numpy_type(t)) for s, t in zip(((k, m), (k, n)), types))
    else:
        a, b = d.values((k, m), types[0], "tame"), d.values((k, n), types[1], "tame")
    x, y = a.astype(np.float64), b.astype(np.float64)
    value, bound = x.T @ y, np.abs(x).T @ np.abs(y) * UNIT * (k + 1)
    stationary, moving, dst = (
        case.load("a", a, types[0]),
        case.load("b", b, types[1]),
        case.new("dst", (m, n), out, "psum"),
    )
    case.call("nc_matmul", dst=dst, stationary=stationary, moving=moving, accumulate=False)
    if twice:
        case.call("nc_matmul", dst=dst, stationary=stationary, moving=moving, accumulate=True)
        bound = bound * 4 + (np.abs(value) * 2.0**-8 if out == "bfloat16" else 0)
        value = value * 2
    if (x == np.rint(x)).all() and (y == np.rint(y)).all() and not (twice and out == "bfloat16"):
        bound = bound * 0
    case.result(dst, within(value, bound, out))
    return case


@draws("nc_matmul", 3)
def nc_matmul_double_row(d):
    """nki.isa.nc_matmul with double_row: FP8 tiles [K, 2, M] and [K, 2, N], the contraction over both K and the
    pair."""
    types = tuple(d.pick("float8_e4m3", "float8_e5m2") for _ in range(2))
    k, m, n = d.partitions(), d.number(1, 32), d.number(1, 32)
    case = Case("nc_matmul", d.generation, f"double_row, {types}")
    a, b = (d.rng.integers(-4, 5, s).astype(numpy_type(t)) for s, t in zip(((k, 2, m), (k, 2, n)), types))
    dst = case.new("dst", (m, n), "float32", "psum")
    case.call(
        "nc_matmul",
        dst=dst,
        stationary=case.load("a", a, types[0]),
        moving=case.load("b", b, types[1]),
        perf_mode=nisa("matmul_perf_mode.double_row"),
    )
    value = np.einsum("kjm,kjn->mn", a.astype(np.float64), b.astype(np.float64))
    case.result(dst, within(value, 0, "float32"))
    return case


X4 = {"float8_e5m2_x4": (ml_dtypes.float8_e5m2, 15), "float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 8)}


def spread_scales(scale, rows):
    """Scales of groups of 8 partitions where the layout puts them: partition p // 32 * 32 + p % 32 // 8."""
    if rows <= 32:
        return scale
    wide = np.zeros((rows, scale.shape[1]), np.uint8)
    for group in range(rows // 8):
        wide[group // 4 * 32 + group % 4] = scale[group]
    return wide


@draws("quantize_mx", 4)
def quantize_mx(d):
    """nki.isa.quantize_mx: groups of 8 partitions x 4 elements; X = 2^(floor(log2 amax) - (Emax - 1)), 2^-127 for a
    group of zeros; elements are v / X cast to FP8; packed little end first (4 neighbours,
    nki/deep-dives/src/mxfp-matmul). Undocumented: groups with values that are not finite; a scale exponent below
    -127."""
    rows, free, dtype = d.pick(32, 64, 128), 4 * d.number(1, 6), d.pick("float16", "bfloat16")
    out = d.pick(*X4)
    element, most = X4[out]
    case = Case("quantize_mx", d.generation, f"{dtype} to {out}")
    data = d.values((rows, free), dtype, d.pick("finite", "tame"))
    if d.coin(0.2):
        data[:8, :4] = 0
    x = data.astype(np.float64)
    top = np.abs(x).reshape(rows // 8, 8, free // 4, 4).max((1, 3))
    exponent = np.where(top > 0, np.floor(np.log2(np.where(top > 0, top, 1))).astype(int) - (most - 1), -127)
    low = exponent < -127
    exponent = np.maximum(exponent, -127)
    factor = np.repeat(np.repeat(2.0**exponent, 8, 0), 4, 1)
    packed = np.ascontiguousarray((x / factor).astype(np.float32).astype(element)).view(np.uint32)
    scale = (exponent + 127).astype(np.uint8)
    doubt = low | (top < 2.0**-126)
    zero = np.repeat(doubt & (top > 0), 8, 0)
    wide = spread_scales(scale, rows)
    written = spread_scales(np.ones_like(scale), rows) if rows > 32 else np.ones_like(scale)
    held = d.pick("uint8", "float8_e8m0fnu")
    dst, dst_scale = case.new("dst", (rows, free // 4), out), case.load("scale", np.zeros(wide.shape, np.uint8), held)
    case.call("quantize_mx", dst=dst, src=case.load("src", data, dtype), dst_scale=dst_scale)
    case.result(dst, as_stored(packed, zero))
    case.result(dst_scale, as_stored(wide, (written == 0) | (spread_scales(doubt & (top > 0), rows) != 0)))
    return case


def mx_product(case, operands, wide):
    """The call of nc_matmul_mx with (stationary, its scale, moving, its scale), and the product of their values."""
    dst = case.new("dst", (wide[0].shape[1], wide[1].shape[1]), "float32", "psum")
    case.call(
        "nc_matmul_mx",
        dst=dst,
        stationary=operands[0],
        moving=operands[2],
        stationary_scale=operands[1],
        moving_scale=operands[3],
    )
    case.result(dst, within(np.einsum("kmq,knq->mn", *wide), 0, "float32"))


@draws("nc_matmul_mx", 4)
def nc_matmul_mx(d):
    """nki.isa.nc_matmul_mx: sum over K and the 4 packed elements of the dequantised values, element * 2^(scale -
    127)."""
    rows, m, n = d.pick(32, 64, 128), 2 * d.number(1, 16), d.number(1, 32)
    kinds = d.pick(*X4), d.pick(*X4)
    case = Case("nc_matmul_mx", d.generation, f"{kinds}")
    operands, wide = [], []
    for name, kind, count in (("a", kinds[0], m), ("b", kinds[1], n)):
        value = d.rng.integers(-4, 5, (rows, 4 * count)).astype(X4[kind][0])
        scale = d.rng.integers(125, 130, (rows // 8, count)).astype(np.uint8)
        operands.append(case.load(name, value.view(np.uint32), kind))
        operands.append(case.load(name + "_scale", spread_scales(scale, rows), "uint8"))
        factor = 2.0 ** (np.repeat(scale, 8, 0).astype(int) - 127)
        wide.append(value.astype(np.float64).reshape(rows, count, 4) * factor[:, :, None])
    mx_product(case, operands, wide)
    return case


@draws("dma_copy")
def dma_copy(d):
    """nki.isa.dma_copy: dst = src, through float32 where the formats differ. Equal formats: a copy of bits."""
    types, shape = (d.any_type(), d.any_type()), d.shape()
    types = (types[0], types[0]) if d.coin() else types
    case = Case("dma_copy", d.generation, f"{types}")
    data = d.values(shape, types[0])
    dst = case.new("dst", shape, types[1])
    case.call("dma_copy", dst=dst, src=case.load("src", data, types[0], step=d.pick(1, 2)))
    case.result(dst, bits(data) if types[0] == types[1] else exact(widen(data), types[1]))
    return case


@draws("dma_copy")
def dma_gather(d):
    """nki.isa.dma_copy with vector_offset on an HBM source: row i comes from row index[i]; with oob_mode.skip a row
    whose index is out of bounds is not transferred."""
    dtype, rows, free, count = d.any_type(), d.number(2, 40), d.number(1, 16), d.partitions()
    skip = d.coin(0.4)
    case = Case("dma_copy", d.generation, f"gather, {dtype}, skip={skip}")
    data, old = d.values((rows, free), dtype), d.values((count, free), dtype)
    index = d.rng.integers(0, rows + (4 if skip else 0), (count, 1)).astype(np.uint32)
    src = case.load("src", data, dtype, "hbm")
    dst, where = case.load("dst", old, dtype), case.load("index", index, "uint32")
    view = src.do("ap", pattern=[[free, count], [1, free]], vector_offset=where, indirect_dim=0)
    case.call("dma_copy", dst=dst, src=view, oob_mode=nisa("oob_mode." + ("skip" if skip else "error")))
    good = index < rows
    case.result(dst, bits(np.where(good, data[np.where(good, index, 0)[:, 0]], old)))
    return case


@draws("dma_transpose")
def dma_transpose(d):
    """nki.isa.dma_transpose: 2-d (1, 0), 3-d (2, 1, 0), 4-d (3, 1, 2, 0); src and dst have one format."""
    dtype, rank = d.pick("bfloat16", "float16", "float32"), d.pick(2, 3, 4)
    shape = [(32, 64), (16, 3, 32), (16, 2, 3, 32)][rank - 2]
    axes = [(1, 0), (2, 1, 0), (3, 1, 2, 0)][rank - 2]
    case = Case("dma_transpose", d.generation, f"{dtype}, {axes}")
    data = d.values(shape, dtype)
    result = np.ascontiguousarray(data.transpose(axes))
    dst = case.new("dst", result.shape, dtype)
    case.call("dma_transpose", dst=dst, src=case.load("src", data, dtype, "hbm"), axes=axes)
    case.result(dst, bits(result))
    return case


@draws("dma_compute")
def dma_compute(d):
    """nki.isa.dma_compute: dst = sum of the sources in float32 (add, scales 1.0), cast to dst; up to 16 sources."""
    count, shape, dtype, out = d.number(2, 5), d.shape(), d.float_type(), d.float_type()
    case = Case("dma_compute", d.generation, f"{dtype} to {out}, {count}")
    data = [d.values(shape, dtype, "tame") for _ in range(count)]
    dst = case.new("dst", shape, out)
    case.call(
        "dma_compute", dst=dst, srcs=[case.load(f"src{i}", v, dtype) for i, v in enumerate(data)], reduce_op=nl("add")
    )
    stack = np.stack([widen(v) for v in data], 1)
    value, bound = fold("add", stack)
    case.result(dst, within(value, bound, out, unsure("add", stack)))
    return case
