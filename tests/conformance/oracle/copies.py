"""Makes random tests of on-chip copies, fills, selections and transposes, with results from the
pages of nki.isa.
"""

import numpy as np

from .alu import apply
from .case import Case, Expect, bits, draws, exact, nisa, nl, as_stored
from .formats import FLOATS, is_integer, numpy_type, widen

FP32_MIN = float(np.finfo(np.float32).min)


def place(d, *shut):
    """A memory of a tile: PSUM now and then."""
    return "psum" if d.coin(0.2) and "psum" not in shut else "sbuf"


@draws("tensor_copy")
def tensor_copy(d):
    """nki.isa.tensor_copy: bit-accurate where the formats agree, through float32 where they differ (Vector, GpSimd);
    GpSimd reads no PSUM; Scalar needs NeuronCore-v3. Undocumented: a Scalar copy of equal formats whose values float32
    does not keep (32-bit integers, payloads of NaN)."""
    engine = d.pick("unknown", "vector", "gpsimd", "scalar" if d.generation > 2 else "vector")
    src_type = d.any_type()
    dst_type = src_type if d.coin(0.4) else d.any_type()
    shut = ("psum",) if engine == "gpsimd" else ()
    case = Case("tensor_copy", d.generation, f"{src_type} to {dst_type}, {engine}")
    shape = d.shape()
    data = d.values(shape, src_type)
    src = case.load("src", data, src_type, place(d, *shut), step=d.pick(1, 1, 2))
    dst = case.new("dst", shape, dst_type, place(d, *shut))
    case.call("tensor_copy", dst=dst, src=src, engine=nisa("engine." + engine))
    if src_type == dst_type:
        through = widen(data).astype(numpy_type(dst_type)) if engine == "scalar" else data
        case.result(dst, bits(data, (through != data) if engine == "scalar" else False))
    else:
        case.result(dst, exact(widen(data), dst_type))
    return case


@draws("memset")
def memset(d):
    """nki.isa.memset: every element becomes the constant. Undocumented: a constant the format does not hold exactly."""
    dtype = d.any_type()
    shape = d.shape()
    case = Case("memset", d.generation, dtype)
    value = d.values((1,), dtype, "any" if is_integer(dtype) else "finite")[0]
    value = int(value) if is_integer(dtype) else d.scalar() if d.coin(0.1) else float(value)
    dst = case.new("dst", shape, dtype, place(d))
    case.call("memset", dst=dst, value=value)
    full = np.full(shape, value, np.float64)
    with np.errstate(all="ignore"):
        result = full.astype(numpy_type(dtype))
        silent = result.astype(np.float64) != full
    case.result(dst, as_stored(result, silent))
    return case


@draws("tensor_copy_predicated")
def tensor_copy_predicated(d):
    """nki.isa.tensor_copy_predicated: where the predicate is true dst becomes src, elsewhere it stays; src and dst have
    one type; the predicate is uint8, uint16 or uint32; reverse_pred reverses it. A value other than 0 is true (the
    truth of an integer); src may be a number."""
    dtype, mask_type = d.any_type(), d.pick("uint8", "uint16", "uint32")
    shape = d.shape()
    reverse = d.coin(0.3)
    case = Case("tensor_copy_predicated", d.generation, f"{dtype}, {mask_type}, reverse={reverse}")
    old, new = d.values(shape, dtype), d.values(shape, dtype)
    mask = d.booleans(shape, mask_type) if d.coin(0.7) else d.values(shape, mask_type)
    dst = case.load("dst", old, dtype)
    if d.coin(0.2) and not is_integer(dtype):
        value = float(d.number(-4, 4))
        src, new = value, np.full(shape, value, numpy_type(dtype))
        case.option += ", number"
    else:
        src = case.load("src", new, dtype)
    predicate = case.load("predicate", mask, mask_type)
    case.call("tensor_copy_predicated", dst=dst, src=src, predicate=predicate, reverse_pred=reverse)
    case.result(dst, bits(np.where((mask != 0) ^ reverse, new, old)))
    return case


@draws("select_reduce")
def select_reduce(d):
    """nki.isa.select_reduce: np.where(predicate, on_true, on_false), the maximum of each partition with reset_reduce.
    The page shows reverse_pred as `~predicate`, which of an integer 1 is -2; the words say "reverse the meaning".
    Undocumented: the maximum with a NaN; reduce_res in a narrower type than the selected values."""
    dtype, mask_type = d.pick(*FLOATS, "int8", "uint8", "int16"), d.pick("int8", "uint8", "int16", "uint16")
    shape = d.shape()
    reverse, reduce = d.coin(0.3), d.coin(0.6)
    case = Case("select_reduce", d.generation, f"{dtype}, {mask_type}, reverse={reverse}, reduce={reduce}")
    data, mask = d.values(shape, dtype), d.booleans(shape, mask_type)
    other = widen(d.values((shape[0], 1), "float32")) if d.coin() else None
    value = d.scalar() if other is None else 0
    on_false = case.load("other", other, "float32") if other is not None else value
    dst_type = d.pick(dtype, "float32")
    dst = case.new("dst", shape, dst_type)
    arguments = dict(
        predicate=case.load("predicate", mask, mask_type),
        on_true=case.load("on_true", data, dtype),
        on_false=on_false,
        reverse_pred=reverse,
    )
    result = np.where((mask != 0) ^ reverse, widen(data), np.float32(value) if other is None else other).astype(
        np.float32
    )
    if reduce:
        res = case.new("res", (shape[0], 1), "float32")
        arguments |= dict(reduce_res=res, reduce_cmd=nisa("reduce_cmd.reset_reduce"), reduce_op=nl("maximum"))
        narrowed = exact(result, dst_type)
        silent = np.isnan(result).any(1, keepdims=True) | narrowed.unknown.any(1, keepdims=True)
        case.result(res, exact(result.max(1, keepdims=True), "float32", silent | (result.max(1, keepdims=True) == 0)))
    case.call("select_reduce", dst=dst, **arguments)
    case.result(dst, exact(result, dst_type))
    return case


@draws("range_select", 3)
def range_select(d):
    """nki.isa.range_select: index + range_start against bound0 and bound1 (float32), both true keep the element, else
    FP32_MIN, which fp16, bf16 and fp8 make -inf; the maximum of each partition goes to reduce_res."""
    dtype, dst_type = d.float_type(), d.float_type()
    shape = d.shape()
    ops = [d.pick("equal", "less", "less_equal", "greater", "greater_equal") for _ in range(2)]
    start = d.pick(0, 0, d.number(-100, 1000), 2**24 - 64)
    case = Case("range_select", d.generation, f"{dtype} to {dst_type}, {ops}")
    data = d.values(shape, dtype)
    bounds = [
        np.float32(start + d.rng.integers(-2, shape[1] + 2, (shape[0], 1))) + np.float32(d.pick(0, 0.5)) for _ in ops
    ]
    index = np.broadcast_to(np.float32(start + np.arange(shape[1])), shape)
    mask = (apply(ops[0], index, bounds[0])[0] != 0) & (apply(ops[1], index, bounds[1])[0] != 0)
    result = np.where(mask, widen(data), np.float32(FP32_MIN))
    dst, res = case.new("dst", shape, dst_type), case.new("res", (shape[0], 1), "float32")
    case.call(
        "range_select",
        dst=dst,
        on_true_tile=case.load("data", data, dtype),
        comp_op0=nl(ops[0]),
        comp_op1=nl(ops[1]),
        bound0=case.load("bound0", bounds[0], "float32"),
        bound1=case.load("bound1", bounds[1], "float32"),
        range_start=start,
        on_false_value=FP32_MIN,
        reduce_cmd=nisa("reduce_cmd.reset_reduce"),
        reduce_res=res,
        reduce_op=nl("maximum"),
    )
    case.result(dst, exact(result, dst_type))
    most = result.max(1, keepdims=True)
    case.result(res, exact(most, "float32", np.isnan(result).any(1, keepdims=True) | (most == 0)))
    return case


def pattern(d):
    """An affine pattern of up to four dimensions, and its values for one partition."""
    dims = [[d.pick(0, 1, -1, 3, d.number(-50, 50)), d.number(1, 5)] for _ in range(d.number(1, 4))]
    value = np.zeros((1,), np.int64)
    for step, count in dims:
        value = (value[:, None] + step * np.arange(count)).reshape(-1)
    return dims, value


@draws("iota")
def iota(d):
    """nki.isa.iota: offset + channel * channel_multiplier + the pattern, in 32-bit integers, cast to the type of dst.
    Undocumented: a value that the integer type of dst does not hold; overflow of 32 bits."""
    dims, free = pattern(d)
    rows, dtype = d.partitions(), d.any_type()
    offset, factor = d.pick(0, 7, -100, 2**24 + 1), d.pick(0, 1, -3, 1000)
    value = offset + factor * np.arange(rows)[:, None] + free
    case = Case("iota", d.generation, dtype)
    dst = case.new("dst", value.shape, dtype)
    case.call("iota", dst=dst, pattern=dims, offset=offset, channel_multiplier=factor)
    if is_integer(dtype):
        bounds = np.iinfo(numpy_type(dtype))
        silent = (value < bounds.min) | (value > bounds.max)
        case.result(dst, as_stored(np.where(silent, 0, value).astype(numpy_type(dtype)), silent))
    else:
        case.result(dst, exact(widen(value.astype(np.int32)), dtype))
    return case


@draws("affine_select")
def affine_select(d):
    """nki.isa.affine_select: cmp_op(offset + channel * multiplier + pattern, 0) picks on_true_tile, else on_false_value
    (float32). Types that differ cast through float32."""
    dims, free = pattern(d)
    rows, dtype = d.partitions(), d.pick(*FLOATS, "int8", "uint8", "int16", "int32")
    dst_type = dtype if d.coin() else d.float_type()
    op = d.pick("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    offset, factor = d.pick(0, 3, -10), d.pick(0, 1, -1, 2)
    case = Case("affine_select", d.generation, f"{dtype} to {dst_type}, {op}")
    value = offset + factor * np.arange(rows)[:, None] + free
    data = d.values(value.shape, dtype)
    other = float(d.number(-100, 100)) if is_integer(dst_type) else d.pick(FP32_MIN, 0.0, d.scalar())
    mask = getattr(np, op)(value, 0)
    dst = case.new("dst", value.shape, dst_type)
    case.call(
        "affine_select",
        dst=dst,
        pattern=dims,
        offset=offset,
        channel_multiplier=factor,
        on_true_tile=case.load("data", data, dtype),
        on_false_value=other,
        cmp_op=nl(op),
    )
    fill = exact(np.full(value.shape, other), dst_type)
    kept = as_stored(data) if dtype == dst_type else exact(widen(data), dst_type)
    result = np.where(mask, kept.low, fill.low)
    case.result(dst, Expect(result, result, np.where(mask, kept.unknown, fill.unknown)))
    return case


@draws("nc_stream_shuffle")
def nc_stream_shuffle(d):
    """nki.isa.nc_stream_shuffle: in each quadrant of 32, partition i takes partition shuffle_mask[i]; 255 leaves it."""
    dtype, quads, free = d.any_type(), d.pick(1, 2, 3, 4), d.number(1, 12)
    mask = [255 if d.coin(0.1) else d.number(0, 31) for _ in range(32)]
    case = Case("nc_stream_shuffle", d.generation, dtype)
    old, data = d.values((32 * quads, free), dtype), d.values((32 * quads, free), dtype)
    result = old.copy()
    for row in range(32 * quads):
        if mask[row % 32] != 255:
            result[row] = data[row // 32 * 32 + mask[row % 32]]
    dst = case.load("dst", old, dtype)
    case.call("nc_stream_shuffle", dst=dst, src=case.load("src", data, dtype), shuffle_mask=mask)
    case.result(dst, bits(result))
    return case


@draws("nc_transpose")
def nc_transpose(d):
    """nki.isa.nc_transpose: a transpose; Tensor reads SBUF and writes PSUM, up to 128x128; Vector up to 32x32; the
    formats agree. NeuronCore-v2 on the Tensor Engine is not bit-accurate with NaN or infinity, later ones are.
    FP8 on the Tensor Engine fills 16-bit elements of PSUM (trainium2_arch), so dst has a step of 2 there.
    Undocumented: integers on the Tensor Engine; float32 subnormals on NeuronCore-v2."""
    engine = d.pick("tensor", "vector")
    dtype = d.float_type() if engine == "tensor" else d.any_type()
    most = 32 if engine == "vector" else 128
    shape = (min(d.partitions(), most), min(d.pick(1, 4, 16, 31, 32, 64), most))
    case = Case("nc_transpose", d.generation, f"{dtype}, {engine}")
    data = d.values(shape, dtype, "finite" if engine == "tensor" and d.generation == 2 else "any")
    silent = (engine == "tensor" and d.generation == 2) and ((np.abs(widen(data.T)) < 2.0**-126) | (widen(data.T) == 0))
    wide = engine == "tensor" and dtype.startswith("float8")
    dst = case.new("dst", shape[::-1], dtype, "psum" if engine == "tensor" else place(d), step=2 if wide else 1)
    case.call("nc_transpose", dst=dst, data=case.load("data", data, dtype), engine=nisa("engine." + engine))
    case.result(dst, bits(data.T, silent))
    return case
