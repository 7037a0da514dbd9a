"""Tests special cases that the pages of nki.isa settle: packed scales, FP4, accumulation, in-place
calls, odd shapes.
"""

import ml_dtypes
import numpy as np

from .alu import BITVEC, apply, bitvec
from .case import Case, bits, draws, exact, within, nisa, nl, as_stored
from .elementwise import fold, unsure
from .engines import X4, activated, mx_product, spread_scales
from .formats import INTEGERS, numpy_type, widen
from .search import occurrences, wanted


@draws("memset", 4)
def memset_packed(d):
    """nki.isa.memset: of x4 types only the value 0 is supported."""
    dtype, shape = d.pick("float8_e4m3fn_x4", "float8_e5m2_x4"), d.shape()
    case = Case("memset", d.generation, dtype)
    dst = case.load("dst", d.rng.integers(0, 2**32, shape).astype(np.uint32), dtype)
    case.call("memset", dst=dst, value=0)
    case.result(dst, as_stored(np.zeros(shape, np.uint32)))
    return case


@draws("quantize_mx", 4)
def quantize_packed(d):
    """nki/deep-dives/mxfp-matmul.rst: scales of up to four tensors share a tile, each at offset 0, 4, 8 or 12 of every
    quadrant; a call writes its own rows alone."""
    rows, free, out, shift = d.pick(64, 128), 4 * d.number(1, 5), d.pick(*X4), d.pick(0, 4, 8, 12)
    element, most = X4[out]
    case = Case("quantize_mx", d.generation, f"{out}, scales at {shift}")
    data = d.rng.uniform(1, 100, (rows, free)).astype(numpy_type("bfloat16"))
    x = data.astype(np.float64)
    exponent = np.floor(np.log2(x.reshape(rows // 8, 8, free // 4, 4).max((1, 3)))).astype(int) - (most - 1)
    old = d.rng.integers(0, 255, (rows, free // 4)).astype(np.uint8)
    result = old.copy()
    for group in range(rows // 8):
        result[group // 4 * 32 + group % 4 + shift] = exponent[group] + 127
    dst, scale = case.new("dst", (rows, free // 4), out), case.load("scale", old, "uint8")
    case.call("quantize_mx", dst=dst, src=case.load("src", data, "bfloat16"), dst_scale=scale[shift:, :])
    factor = np.repeat(np.repeat(2.0**exponent, 8, 0), 4, 1)
    case.result(dst, as_stored(np.ascontiguousarray((x / factor).astype(np.float32).astype(element)).view(np.uint32)))
    case.result(scale, as_stored(result))
    return case


@draws("nc_matmul_mx", 4)
def matmul_fp4(d):
    """nki.isa.nc_matmul_mx of float4_e2m1fn_x4: four values of 4 bits in 16, the first in the lowest (little end
    first, as nki/deep-dives/src/mxfp-matmul packs neighbours); FP4 and FP8 may be mixed (trainium3_arch)."""
    rows, m, n = d.pick(32, 64, 128), 2 * d.number(1, 16), d.number(1, 32)
    case = Case("nc_matmul_mx", d.generation, "FP4")
    operands, wide = [], []
    for name, count in (("a", m), ("b", n)):
        value = d.rng.integers(-4, 5, (rows, count, 4)).astype(ml_dtypes.float4_e2m1fn)
        code = value.view(np.uint8).astype(np.uint16) & 15
        packed = (code << (4 * np.arange(4, dtype=np.uint16))).sum(2).astype(np.uint16)
        scale = d.rng.integers(125, 130, (rows // 8, count)).astype(np.uint8)
        operands += [
            case.load(name, packed, "float4_e2m1fn_x4"),
            case.load(name + "_scale", spread_scales(scale, rows), "uint8"),
        ]
        wide.append(value.astype(np.float64) * 2.0 ** (np.repeat(scale, 8, 0).astype(int) - 127)[:, :, None])
    mx_product(case, operands, wide)
    return case


@draws("nc_matmul")
def matmul_inferred(d):
    """nki.isa.nc_matmul without accumulate: the first write of a place overwrites, later ones accumulate, also where
    they overlap a part of it (release notes 0.6.0)."""
    k, m, n = d.partitions(), d.number(1, 32), 2 * d.number(1, 16)
    case = Case("nc_matmul", d.generation, "accumulate is inferred")
    a, b = (d.rng.integers(-4, 5, (k, w)).astype(numpy_type("bfloat16")) for w in (m, n))
    stationary, moving, dst = (
        case.load("a", a, "bfloat16"),
        case.load("b", b, "bfloat16"),
        case.new("dst", (m, n), "float32", "psum"),
    )
    case.call("nc_matmul", dst=dst, stationary=stationary, moving=moving)
    part = slice(0, n // 2) if d.coin() else slice(0, n)
    case.call("nc_matmul", dst=dst[:, part], stationary=stationary, moving=moving[:, part])
    value = a.astype(np.float64).T @ b.astype(np.float64)
    value[:, part] *= 2
    case.result(dst, within(value, 0, "float32"))
    return case


@draws("nc_matmul")
def matmul_wide_values(d):
    """nki.isa.nc_matmul of values of all sizes, infinities included: float32 sums within any order; a sum that is not
    finite, or whose parts overflow, is not compared."""
    dtype, k, m, n = d.pick("bfloat16", "float16", "float32"), d.partitions(), d.number(1, 16), d.number(1, 16)
    case = Case("nc_matmul", d.generation, f"{dtype}, wide values")
    a, b = d.values((k, m), dtype), d.values((k, n), dtype)
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        value, total = x.T @ y, np.abs(x).T @ np.abs(y)
        small = np.where(x == 0, 1, np.abs(x)).min(0)[:, None] * np.where(y == 0, 1, np.abs(y)).min(0) < 1e-30
    dst = case.new("dst", (m, n), "float32", "psum")
    case.call("nc_matmul", dst=dst, stationary=case.load("a", a, dtype), moving=case.load("b", b, dtype))
    case.result(dst, within(value, total * 2.0**-22 * (k + 1), "float32", ~(total < 1e38) | small))
    return case


@draws("activation")
def activation_integers(d):
    """nki.isa.activation: data and dst of any type, bias of any but tfloat32, scale float32, [N, 1] from SBUF or
    PSUM."""
    types, shape = (d.any_type(), d.any_type()), d.shape()
    case = Case("activation", d.generation, f"copy, {types}, bias and scale")
    data, bias_type = d.values(shape, types[0], "tame"), d.pick("bfloat16", "float16", "float32", "int8")
    scale = (2.0 ** d.rng.integers(-2, 3, (shape[0], 1))).astype(np.float32)
    bias = d.rng.integers(-8, 9, (shape[0], 1)).astype(numpy_type(bias_type))
    dst = case.new("dst", shape, types[1])
    case.call(
        "activation",
        dst=dst,
        op=nl("copy"),
        data=case.load("data", data, types[0]),
        scale=case.load("scale", scale, "float32", d.pick("sbuf", "psum")),
        bias=case.load("bias", bias, bias_type),
    )
    value = (widen(data) * scale + widen(bias)).astype(np.float32)
    rough = widen(data).astype(np.float64) * scale + widen(bias) != value
    case.result(dst, exact(value, types[1], rough | (value == 0)))
    return case


@draws("dma_copy")
def dma_forms(d):
    """nki.isa.dma_copy: as many elements in src as in dst, whatever their shapes; any mode of descriptors."""
    dtype, rows, free = d.any_type(), d.pick(2, 4, 16, 64), 2 * d.number(1, 12)
    mode = d.pick("none", "unknown", "swdge", *(("hwdge",) if d.generation > 2 else ()))
    case = Case("dma_copy", d.generation, f"{dtype}, {mode}, other shape")
    data = d.values((rows, free), dtype)
    dst = case.new("dst", (rows // 2, 2 * free), dtype)
    case.call("dma_copy", dst=dst, src=case.load("src", data, dtype, "hbm"), dge_mode=nisa("dge_mode." + mode))
    case.result(dst, bits(data.reshape(rows // 2, 2 * free)))
    return case


@draws("dma_transpose")
def dma_transpose_on_chip(d):
    """nki.isa.dma_transpose: src in SBUF or HBM; of two-byte data with hwdge, 16 rows and at most 128 columns."""
    hardware = d.coin() and d.generation > 2
    dtype, shape = d.pick("bfloat16", "float16"), (16, d.pick(16, 32, 128)) if hardware else (32, 64)
    case = Case("dma_transpose", d.generation, f"{dtype}, hwdge={hardware}")
    data = d.values(shape, dtype)
    dst = case.new("dst", shape[::-1], dtype)
    case.call(
        "dma_transpose",
        dst=dst,
        src=case.load("src", data, dtype, "hbm" if hardware else d.pick("hbm", "sbuf")),
        axes=(1, 0),
        **({"dge_mode": nisa("dge_mode.hwdge")} if hardware else {}),
    )
    case.result(dst, bits(np.ascontiguousarray(data.T)))
    return case


@draws("local_gather")
def local_gather_some(d):
    """nki.isa.local_gather with num_valid_indices below the number of indices: the first of the flattened ones."""
    dtype, groups, size, count = d.any_type(), d.pick(1, 2, 8), d.number(2, 30), d.number(1, 3)
    rows, valid = 16 * groups, d.number(1, 16 * count)
    case = Case("local_gather", d.generation, f"{dtype}, {valid} valid")
    data, index = d.values((rows, size), dtype), d.rng.integers(0, size, (rows, count)).astype(np.uint16)
    result = np.empty((rows, valid), data.dtype)
    for group in range(groups):
        part = slice(16 * group, 16 * group + 16)
        result[part] = data[part][:, index[part].flatten(order="F")[:valid]]
    dst = case.new("dst", (rows, valid), dtype)
    case.call(
        "local_gather",
        dst=dst,
        src_buffer=case.load("src", data, dtype),
        index=case.load("index", index, "uint16"),
        num_elem_per_idx=1,
        num_valid_indices=valid,
    )
    case.result(dst, bits(result))
    return case


@draws("nc_stream_shuffle")
def shuffle_in_place(d):
    """nki.isa.nc_stream_shuffle: dst may be src."""
    dtype, free = d.any_type(), d.number(1, 12)
    mask = [255 if d.coin(0.1) else d.number(0, 31) for _ in range(32)]
    case = Case("nc_stream_shuffle", d.generation, f"{dtype}, in place")
    data = d.values((32, free), dtype)
    tile = case.load("tile", data, dtype)
    case.call("nc_stream_shuffle", dst=tile, src=tile, shuffle_mask=mask)
    case.result(tile, bits(np.stack([data[i if m == 255 else m] for i, m in enumerate(mask)])))
    return case


@draws("nc_find_index8")
def find_in_planes(d):
    """nki.isa.nc_find_index8 and max8: data of three dimensions, positions in the flattened free ones."""
    rows, a, b = d.partitions(), d.number(2, 5), d.number(4, 8)
    case = Case("nc_find_index8", d.generation, "three dimensions")
    data = d.rng.integers(1, 40, (rows, a * b)).astype(np.float32)
    vals = wanted(d, data)
    source = case.load("data", data.reshape(rows, a, b), "float32")
    dst, most = case.new("dst", (rows, 8), "uint32"), case.new("most", (rows, 8), "float32")
    case.call("nc_find_index8", dst=dst, data=source, vals=case.load("vals", vals, "float32"))
    case.call("max8", dst=most, src=source)
    case.result(dst, as_stored(occurrences(data, vals, range(8), -1).astype(np.uint32)))
    case.result(most, as_stored(-np.sort(-data, 1)[:, :8]))
    return case


@draws("tensor_scalar")
def bit_vectors(d):
    """nki.isa.tensor_scalar with a bit operator and a vector operand of the same integer type."""
    op, dtype, shape = d.pick(*BITVEC), d.pick(*INTEGERS), d.shape()
    case = Case("tensor_scalar", d.generation, f"{op}, {dtype}, vector")
    data, other = d.values(shape, dtype), d.values((shape[0], 1), dtype)
    if op.endswith("shift"):
        other = d.rng.integers(0, numpy_type(dtype).itemsize * 8, other.shape).astype(numpy_type(dtype))
    dst = case.new("dst", shape, dtype)
    case.call(
        "tensor_scalar",
        dst=dst,
        data=case.load("data", data, dtype),
        op0=nl(op),
        operand0=case.load("other", other, dtype),
    )
    case.result(dst, as_stored(*bitvec(op, data, other)))
    return case


@draws("tensor_tensor")
def broadcast_operand(d):
    """nki.isa.tensor_tensor of a view that repeats one column: the elements of the view count."""
    op, shape, types = d.pick("add", "subtract", "multiply", "less"), d.shape(), (d.float_type(), d.float_type())
    case = Case("tensor_tensor", d.generation, f"{op}, {types}, broadcast")
    x, y = d.values(shape, types[0]), d.values((shape[0], 1), types[1])
    dst = case.new("dst", shape, "float32")
    case.call(
        "tensor_tensor",
        dst=dst,
        data1=case.load("x", x, types[0]),
        data2=case.load("y", y, types[1]).do("broadcast", 1, shape[1]),
        op=nl(op),
    )
    case.result(dst, exact(*(lambda r, s: (r, "float32", s))(*apply(op, widen(x), widen(y)))))
    return case


@draws("dma_compute")
def dma_many(d):
    """nki.isa.dma_compute: up to 16 sources of different types, scales all 1.0."""
    count, shape, out = d.pick(1, 2, 16), d.shape(), d.float_type()
    kinds = [d.float_type() for _ in range(count)]
    case = Case("dma_compute", d.generation, f"{count} sources to {out}")
    data = [d.values(shape, k, "tame") for k in kinds]
    dst = case.new("dst", shape, out)
    case.call(
        "dma_compute",
        dst=dst,
        srcs=[case.load(f"s{i}", v, k) for i, (v, k) in enumerate(zip(data, kinds))],
        reduce_op=nl("add"),
        scales=[1.0] * count,
    )
    stack = np.stack([widen(v) for v in data], 1)
    value, bound = fold("add", stack)
    case.result(dst, within(value, bound, out, unsure("add", stack)))
    return case


@draws("bn_aggr")
def statistics(d):
    """nki.isa.bn_stats and then bn_aggr: the mean and the variance of the tile, of two halves joined."""
    rows, free = d.partitions(), 2 * d.number(2, 20)
    case = Case("bn_aggr", d.generation, "after bn_stats")
    data = d.values((rows, 2 * free), "float32", "tame")
    src, stats, dst = (
        case.load("data", data, "float32"),
        case.new("stats", (rows, 12), "float32"),
        case.new("dst", (rows, 2), "float32"),
    )
    for half in range(2):
        case.call("bn_stats", dst=stats[:, 6 * half : 6 * half + 6], data=src[:, half * free : half * free + free])
    case.call("bn_aggr", dst=dst, data=stats)
    x = data.astype(np.float64)
    case.result(dst, within(np.stack([x.mean(1), x.var(1)], 1), 1e-4, "float32"))
    return case


@draws("exponential", 4)
def exponential_types(d):
    """nki.isa.exponential: dst and src of the listed types, max_value a constant."""
    types, shape = (
        (d.pick("float32", "bfloat16", "int8", "uint8"), d.pick("float32", "bfloat16", "float16", "uint16")),
        d.shape(),
    )
    case = Case("exponential", d.generation, f"{types}")
    data = d.values(shape, types[0], "tame")
    value, bound = activated("exp", data.astype(np.float64) - 1.5, 0)
    dst = case.new("dst", shape, types[1])
    case.call("exponential", dst=dst, src=case.load("src", data, types[0]), max_value=1.5)
    case.result(dst, within(value, bound, types[1]))
    return case


# name: what the function tends to at -inf and +inf
LIMITS = {
    "sigmoid": (0, 1),
    "tanh": (-1, 1),
    "exp": (0, np.inf),
    "erf": (-1, 1),
    "erf_dx": (0, 0),
    "gelu": (0, np.inf),
    "gelu_dx": (0, 1),
    "gelu_apprx_tanh": (0, np.inf),
    "gelu_apprx_sigmoid": (0, np.inf),
    "silu": (0, np.inf),
    "silu_dx": (0, 1),
    "softplus": (0, np.inf),
    "mish": (0, np.inf),
    "square": (np.inf, np.inf),
    "abs": (np.inf, np.inf),
    "sign": (-1, 1),
    "relu": (0, np.inf),
    "copy": (-np.inf, np.inf),
}
RANGES = {"log": (-64, 64), "sqrt": (-116, 118), "rsqrt": (-87, 97), "reciprocal": (-42, 42)}


@draws("activation")
def activation_limits(d):
    """nki/api/nki.api.shared.rst: functions whose valid range is [-inf, inf], of infinities and of values near which a
    naive formula overflows: the limit, or the value; exp(0) is 1 exactly and exp(-inf) 0 exactly (range_select).
    Undocumented: results below the normal numbers of float32."""
    op, shape = d.pick(*LIMITS), d.shape()
    case = Case("activation", d.generation, f"{op}, limits")
    low, high = LIMITS[op]
    choice = d.rng.choice([-np.inf, np.inf, -1e30, 1e30, -1e4, 1e4, -100.0, 100.0, 30.0, -30.0, 0.0], shape)
    data = choice.astype(np.float32)
    with np.errstate(all="ignore"):
        value, bound = activated(op, data.astype(np.float64), 0)
        far = np.abs(data) >= 1e4
        infinite = {np.inf: np.inf, 0: 0}.get(high, high)
        if op in ("gelu", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "silu", "softplus", "mish", "relu", "copy", "abs"):
            value = np.where((data >= 1e4) & np.isfinite(data), data, value)
        elif np.isfinite(high):
            value = np.where(data >= 1e4, high, value)
        value = np.where(far & (data < 0) & (np.isfinite(low)), low, value)
        value = np.where(data == np.inf, infinite, np.where(data == -np.inf, low, value))
        value = np.where(np.abs(value) > 3.4e38, np.copysign(np.inf, value), value)
        bound = np.where(np.isfinite(value), np.abs(value) * 2.0**-8 + 2.0**-12, 0)
        if op == "exp":
            bound = np.where((data == 0) | (data == -np.inf), 0, bound)
    dst = case.new("dst", shape, "float32")
    case.call("activation", dst=dst, op=nl(op), data=case.load("data", data, "float32"))
    case.result(dst, within(value, bound, "float32"))
    return case


@draws("activation")
def activation_ranges(d):
    """nki/api/nki.api.shared.rst: log, sqrt, rsqrt and reciprocal over the whole of their valid ranges, within 2^-8."""
    op, shape = d.pick(*RANGES), d.shape()
    case = Case("activation", d.generation, f"{op}, whole range")
    first, last = RANGES[op]
    data = (2.0 ** d.rng.uniform(first, last, shape)).astype(np.float32)
    value, bound = activated(op, data.astype(np.float64), 0)
    dst = case.new("dst", shape, "float32")
    case.call("activation", dst=dst, op=nl(op), data=case.load("data", data, "float32"))
    case.result(dst, within(value, np.abs(value) * 2.0**-8 + (2.0**-12 if op == "log" else 0), "float32"))
    return case


@draws("activation")
def sine_outside(d):
    """nki/api/nki.api.shared.rst: the sine is neither reduced nor clamped: sin(9.0) is about 27.65."""
    case = Case("activation", d.generation, "sin of 9")
    dst = case.new("dst", (d.partitions(), 1), "float32")
    rows = case.tiles["dst"].shape[0]
    case.call("activation", dst=dst, op=nl("sin"), data=case.load("data", np.full((rows, 1), 9, np.float32), "float32"))
    case.result(dst, within(np.full((rows, 1), 27.65), 0.02, "float32"))
    return case
