"""Implements neuronxcc.nki.isa (the older API), whose calls return their result tile and take mask=
and dtype=.

In SDK 2.20 mask and dtype were positions, in the order kept here; later they are keywords only.
Each is an adaptor: it infers the result's shape and hands the call to the function of nkisim.isa.
The result tile stays pending, so that `dst[...] = nisa.f(...)` writes dst directly.
"""

from functools import partial

import numpy as np

from nkisim.compat import isa as older
from nkisim.isa import instructions as isa
from nkisim.isa.help import describe as _describe
from nkisim.isa.instructions import (get_nc_sub_version, get_nc_version, gpsimd_engine,
                                     scalar_engine, sync_engine, tensor_engine, unknown_engine,
                                     vector_engine)
from nkisim.lowering import (affine, broadcast_shapes, copy, in_sbuf, masked_product, masked_views, operand, promote,
                             reduce_build, reduced_shape, result_tile, same_partitions, same_width,
                             transpose_into, work_tile)
from nkisim.record.legacy_rules import check_activation
from nkisim.record.recorder import current, state
from nkisim.record.refusals import report_refused
from nkisim.values.dtypes import float32, resolve, uint32
from nkisim.values.enums import dge_mode, dma_engine, engine, nc_version, oob_mode, reduce_cmd
from nkisim.values.errors import KernelTypeError, KernelValueError, fail, fail_on, is_integer
from nkisim.values.index import Expr, Mask, as_mask, box_of
from nkisim.values.optokens import OPERATORS
from nkisim.values.storage import PSUM, SBUF, product
from nkisim.values.tensor import NkiTensor

FP32_MIN = float(np.finfo(np.float32).min)


class fp32:
    """Limits of float32."""

    min = FP32_MIN


def _call(function, dst, shape, dtype, mask, operands, space=SBUF, spaces=(SBUF, PSUM), kind="",
          **settings):
    """Emits function(dst, **operands, **settings); makes the result tile where dst is None."""
    mask = None if mask is None else as_mask(mask)
    names = () if mask is None else [k for k, v in operands.items() if isinstance(v, NkiTensor)]
    operands.update({key: value for key, value in settings.items() if value is not None})
    kind = "reduces" if operands.get("reduce_res") is not None else kind
    if mask is None:
        if dst is None:
            return result_tile(shape, dtype, partial(function, **operands), None, (), space, spaces, kind)
        function(dst, **operands)
        return dst
    views = [operands[k] for k in names]

    def build(out, *views):  # those that the mask cuts
        function(out, **{**operands, **dict(zip(names, views))})

    if dst is None:
        return result_tile(tuple(shape), dtype, build, mask, views, space, spaces, kind)
    parts = masked_views([dst, *views], mask, tuple(shape))
    if parts is not None:
        dst, views = parts[0], parts[1:]
        build(dst, *views)
    return dst


def _dtype(dtype, default):
    return default if dtype is None else resolve(dtype)


def activation(op, data, bias=None, scale=1.0, mask=None, dtype=None, *, reduce_op=None,
               reduce_res=None, reduce_cmd=reduce_cmd.idle, dst=None, name=None, **_ignored):
    if bias is not None or type(scale) is NkiTensor or state.recorder.allocated:
        check_activation(bias, scale)
    return _call(isa.activation, dst, data.shape, _dtype(dtype, data.dtype), mask,
                 dict(data=data, bias=bias, scale=scale, reduce_res=reduce_res), op=op,
                 reduce_op=reduce_op, reduce_cmd=reduce_cmd, name=name)


def activation_reduce(op, data, *, reduce_op, reduce_res, bias=None, scale=1.0, mask=None,
                      dtype=None, dst=None, name=None, **_ignored):
    if bias is not None or type(scale) is NkiTensor or state.recorder.allocated:
        check_activation(bias, scale)
    return _call(isa.activation_reduce, dst, data.shape, _dtype(dtype, data.dtype), mask,
                 dict(data=data, bias=bias, scale=scale, reduce_res=reduce_res), op=op,
                 reduce_op=reduce_op, name=name)


def _part(mask, shape):
    return None if mask is None else box_of(mask, shape)


def affine_select(pred, on_true_tile, on_false_value, mask=None, dtype=None, *, dst=None,
                  name=None, **_ignored):
    if not isinstance(pred, Mask):
        fail("mask", "pred must be a comparison of index tiles", "affine_select", KernelTypeError)
    shape = on_true_tile.shape
    pattern, offset, multiplier = affine(pred.single(), shape, _part(mask, shape))
    on_true_tile = in_sbuf(on_true_tile)  # GpSimd reads SBUF only; the compiler is assumed to copy
    return _call(isa.affine_select, dst, on_true_tile.shape, _dtype(dtype, on_true_tile.dtype),
                 mask, dict(on_true_tile=on_true_tile), spaces=(SBUF,), pattern=pattern, offset=offset,
                 channel_multiplier=multiplier, on_false_value=on_false_value,
                 cmp_op=OPERATORS["greater_equal"], name=name)


def iota(expr, dtype, mask=None, *, dst=None, name=None, **_ignored):
    if is_integer(expr):  # of a loop's index alone: nki.errors, 2.20 to 2.26
        expr = Expr(int(expr), {}, {}, 2)
    if not isinstance(expr, Expr):
        fail_on("index_tile", "expr", type(expr).__name__, "an index tile", "iota", KernelTypeError)
    shape = expr.shape if expr.ndim > 1 else expr.shape + (1,)
    if expr.ndim == 1:
        expr = expr[:, None]
    pattern, offset, multiplier = affine(expr, shape, _part(mask, shape))
    return _call(isa.iota, dst, shape, resolve(dtype), mask, {}, spaces=(SBUF,), pattern=pattern,
                 offset=offset, channel_multiplier=multiplier, name=name)


def memset(shape, value, dtype, mask=None, *, engine=engine.unknown, dst=None, name=None,
           **_ignored):
    return _call(isa.memset, dst, tuple(shape), resolve(dtype), mask, {}, value=value,
                 engine=engine, name=name)


def _matmul_free(tile, perf):
    free = tile.shape[1:]
    if perf and perf.startswith("double_row") and len(free) > 1:
        free = free[1:]
    return free


def nc_matmul(stationary, moving, is_stationary_onezero=False, is_moving_onezero=False,
              mask=None, *, is_transpose=False, tile_position=(), tile_size=(), perf_mode=None,
              dst=None, name=None, **_ignored):
    perf = None if perf_mode is None else isa._perf(perf_mode)
    # The array reads SBUF only; the legacy compiler copied what nc_transpose had left in PSUM.
    stationary, moving = in_sbuf(stationary), in_sbuf(moving)
    if not is_transpose:
        stationary, moving = same_width(stationary, moving)
    shape = (product(_matmul_free(stationary, perf)), *_matmul_free(moving, perf))
    dtype = stationary.dtype if is_transpose else float32
    mask = as_mask(mask)

    def build(out, accumulate=False):
        if is_transpose or current().held.adding:
            accumulate = None
        parts = (out, stationary, moving) if mask is None else masked_product(
            mask, out, stationary, moving)
        if parts is not None:
            isa.nc_matmul(*parts, bool(is_stationary_onezero), bool(is_moving_onezero), bool(is_transpose), accumulate,
                          tile_position or (), tile_size or (), perf_mode, name)

    if dst is not None:
        build(dst, None)
        return dst
    return result_tile(shape, dtype, build, space=PSUM, spaces=(PSUM,), kind="matmul")


def _transpose_blocks(dst, data, name):
    """On VectorE, which takes 32x32 (documented): block by block, as its compiler must have done."""
    rows, columns = data.shape[0], product(data.shape[1:])
    if rows <= 32 and columns <= 32:
        transpose_into(dst, data, engine=isa.vector_engine, name=name)
        return
    data, place = data.reshape((rows, columns)), dst.reshape((columns, rows))
    dst = work_tile(place, (data,))
    for r in range(0, rows, 32):
        for c in range(0, columns, 32):
            block = data[r:min(r + 32, rows), c:min(c + 32, columns)]
            isa.nc_transpose(dst[c:c + block.shape[1], r:r + block.shape[0]], block,
                             engine=isa.vector_engine, name=name)
    if dst is not place:
        isa.tensor_copy(place, dst)


def nc_transpose(data, mask=None, dtype=None, engine=engine.unknown, *, dst=None, name=None,
                 **_ignored):
    engine = isa.unknown_engine if engine is None else engine
    # The tensor engine takes no 8-bit integers; the documents take every dtype.
    whole_bytes = data.dtype.itemsize == 1 and data.dtype.dtype.kind in "iub"
    on_vector = engine == isa.vector_engine or (engine == isa.unknown_engine and whole_bytes)
    if engine != isa.vector_engine and state.recorder.allocated:
        report_refused("transpose_in_allocated", call="nc_transpose", other="engine=vector of 32 x 32")
    shape = (product(data.shape[1:]), data.shape[0])
    # 8-bit elements do not fit PSUM one for one: they stay float32 until they are copied from it.
    kept = float32 if data.dtype.itemsize == 1 and not on_vector else data.dtype
    mask = as_mask(mask)

    def build(out):
        part = data
        if mask is not None:
            (rows, *free) = box_of(mask, data.shape) or (None,)
            if rows is None:
                return
            part = masked_views([data], mask, data.shape)[0]
            out = out[slice(*free[0]) if len(free) == 1 else slice(None), slice(*rows)]
        if on_vector:
            _transpose_blocks(out, part, name)
        else:
            transpose_into(out, part, engine=engine, name=name)

    if dst is not None:
        build(dst)
        return dst
    tile = result_tile(shape, kept, build, space=SBUF if on_vector else PSUM,
                   spaces=(SBUF, PSUM) if on_vector else (PSUM,))
    if dtype is not None and resolve(dtype) is not data.dtype:
        return tensor_copy(tile, dtype=dtype)
    return tile


def dma_copy(src, dst, *, mask=None, dst_rmw_op=None, oob_mode=oob_mode.error,
             dge_mode=dge_mode.unknown, name=None, **_ignored):
    views, mask = [dst, src], as_mask(mask)
    if mask is not None:
        views = masked_views(views, mask, dst.shape)
        if views is None:
            return
    isa.dma_copy(*views, dst_rmw_op=dst_rmw_op, oob_mode=oob_mode, dge_mode=dge_mode, name=name)


_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def dma_transpose(src, *, axes=None, mask=None, dtype=None, dge_mode=dge_mode.unknown, dst=None,
                  oob_mode=oob_mode.error, name=None, **_ignored):
    order = _AXES.get(len(src.shape)) if axes is None else tuple(axes)
    if order is None or sorted(order) != list(range(len(src.shape))):
        fail_on("axes", "axes", f"{axes!r} for {src!r}", "(1, 0), (2, 1, 0) or (3, 1, 2, 0)",
                "dma_transpose", KernelValueError)
    if any(kind == "vector" for kind, *_ in src.dyn or ()):
        report_refused("indirect_transpose", call="dma_transpose")
    tile = _call(isa.dma_transpose, dst, tuple(src.shape[a] for a in order), src.dtype, mask,
                 dict(src=src), spaces=(SBUF,), axes=axes, dge_mode=dge_mode, oob_mode=oob_mode,
                 name=name)
    if dtype is not None and resolve(dtype) is not src.dtype:
        return tensor_copy(tile, dtype=dtype)
    return tile


def tensor_copy(src, *, mask=None, dtype=None, engine=engine.unknown, dst=None, name=None,
                **_ignored):
    return _call(isa.tensor_copy, dst, src.shape, _dtype(dtype, src.dtype), mask, dict(src=src),
                 engine=engine, name=name)


tensor_copy_dynamic_src = tensor_copy


def tensor_copy_dynamic_dst(*, dst, src, mask=None, engine=engine.unknown, name=None, **_ignored):
    return _call(isa.tensor_copy, dst, src.shape, dst.dtype, mask, dict(src=src), engine=engine,
                 name=name)


def tensor_copy_predicated(*, src, dst, predicate, reverse_pred=False, mask=None, dtype=None,
                           name=None, **_ignored):
    return _call(isa.tensor_copy_predicated, dst, dst.shape, dst.dtype, mask,
                 dict(src=src, predicate=_word(predicate)), reverse_pred=reverse_pred, name=name)


def _word(predicate):
    """bool predicates are bytes of 0 and 1."""
    if isinstance(predicate, NkiTensor) and str(predicate.dtype) == "bool":
        return predicate.view("uint8")
    return predicate


def tensor_tensor(data1, data2, op, dtype=None, mask=None, *, engine=engine.unknown, dst=None,
                  name=None, **_ignored):
    if data1.shape[0] != data2.shape[0] and 1 in (data1.shape[0], data2.shape[0]):
        partitions = max(data1.shape[0], data2.shape[0])
        fail_on("partitions_differ", "data2", f"{data2!r} and data1 {data1!r}",
                "the same number of partitions (documented; no engine reads one row for all of "
                f"them: broadcast_to(({partitions}, ...)))", "tensor_tensor", KernelValueError)
    shape = same_partitions(data1.shape, data2.shape) or broadcast_shapes(
        data1.shape, data2.shape, "tensor_tensor")
    return _call(isa.tensor_tensor, dst, shape, _dtype(dtype, promote(data1.dtype, data2.dtype)),
                 mask, dict(data1=operand(data1, shape), data2=operand(data2, shape)), op=op,
                 engine=engine, name=name)


def _scalars(operand, data):
    """A vector of scalars as float32, which the engine wants; the legacy compiler took any dtype
    (documented for arithmetic operators) and is assumed to have copied."""
    if not isinstance(operand, NkiTensor) or operand.dtype is float32 or not (
            operand.dtype.is_float or data.dtype.is_float):
        return operand
    current().flush()
    scalars = copy(operand, float32)
    current().flush()
    return scalars


def tensor_scalar(data, op0, operand0, reverse0=False, op1=None, operand1=None, reverse1=False,
                  dtype=None, mask=None, *, engine=engine.unknown, dst=None, name=None, **_ignored):
    return _call(isa.tensor_scalar, dst, data.shape, _dtype(dtype, data.dtype), mask,
                 dict(data=data, operand0=_scalars(operand0, data),
                            operand1=_scalars(operand1, data)), op0=op0,
                 reverse0=reverse0, op1=op1, reverse1=reverse1, engine=engine, name=name)


def scalar_tensor_tensor(*, data, op0, operand0, op1, operand1, reverse0=False, reverse1=False,
                         dtype=None, mask=None, dst=None, name=None, **_ignored):
    return _call(isa.scalar_tensor_tensor, dst, data.shape, _dtype(dtype, data.dtype), mask,
                 dict(data=data, operand0=_scalars(operand0, data), operand1=operand1), op0=op0, op1=op1,
                 reverse0=reverse0, reverse1=reverse1, name=name)


def tensor_scalar_reduce(*, data, op0, operand0, reduce_op, reduce_res, reverse0=False, dtype=None,
                         mask=None, dst=None, name=None, **_ignored):
    return _call(isa.tensor_scalar_reduce, dst, data.shape, _dtype(dtype, data.dtype), mask,
                 dict(data=data, operand0=_scalars(operand0, data), reduce_res=reduce_res), op0=op0,
                 reverse0=reverse0 or None, reduce_op=reduce_op, name=name)


def tensor_scalar_cumulative(*, src, op0, op1, imm0, imm1=None, dst=None,
                             reduce_cmd=reduce_cmd.reset_reduce, dtype=None, mask=None, name=None,
                             **_ignored):
    return _call(isa.tensor_scalar_cumulative, dst, src.shape, _dtype(dtype, src.dtype), mask,
                 dict(src=src, imm0=imm0, imm1=imm1), op0=op0, op1=op1, reduce_cmd=reduce_cmd,
                 name=name)


def tensor_tensor_scan(data0, data1, initial, op0, op1, reverse0=False, reverse1=False,
                       dtype=None, mask=None, *, dst=None, name=None, **_ignored):
    return _call(isa.tensor_tensor_scan, dst, data0.shape,
                 _dtype(dtype, promote(data0.dtype, data1.dtype)), mask,
                 dict(data0=data0, data1=data1, initial=initial), op0=op0, op1=op1,
                 reverse0=reverse0, reverse1=reverse1, name=name)


def tensor_reduce(op, data, axis, mask=None, dtype=None, negate=False, keepdims=False, *,
                  dst=None, name=None, **_ignored):
    axes = isa.normalise_axes(axis, data.ndim)
    shape = reduced_shape(data.shape, axes, keepdims)
    build = reduce_build(op, data, axes, negate, mask, name)
    if dst is None:
        return result_tile(shape, _dtype(dtype, data.dtype), build)
    build(dst)
    return dst


def tensor_partition_reduce(op, data, *, mask=None, dtype=None, dst=None, name=None, **_ignored):
    data, mask = in_sbuf(data), as_mask(mask)

    def build(out):
        part = data if mask is None else masked_views([data], mask, data.shape)
        if mask is not None and part is not None:
            box = box_of(mask, data.shape)
            part, out = part[0], out[(slice(None), *(slice(*edge) for edge in box[1:]))]
        if part is not None:
            isa.tensor_partition_reduce(out, op, part, name=name)

    if dst is not None:
        build(dst)
        return dst
    return result_tile((1, *data.shape[1:]), _dtype(dtype, data.dtype), build, spaces=(SBUF,))


def bn_stats(data, mask=None, dtype=None, *, dst=None, name=None, **_ignored):
    return _columns(isa.bn_stats, data, mask, _dtype(dtype, data.dtype), dst, dict(data=data), name,
                    6)


def bn_aggr(data, mask=None, dtype=None, *, dst=None, name=None, **_ignored):
    return _columns(isa.bn_aggr, data, mask, _dtype(dtype, data.dtype), dst, dict(data=data), name,
                    2)


def max8(*, src, mask=None, dtype=None, dst=None, name=None, **_ignored):
    return _columns(isa.max8, src, mask, _dtype(dtype, src.dtype), dst, dict(src=src), name)


def nc_find_index8(*, data, vals, mask=None, dtype=None, dst=None, name=None, **_ignored):
    return _columns(isa.nc_find_index8, data, mask, _dtype(dtype, uint32), dst,
                  dict(data=data, vals=vals), name)


def _columns(function, data, mask, dtype, dst, operands, name, columns=8):
    """A result of a fixed number of columns; the mask cuts `data`, and the rows with it."""
    mask = as_mask(mask)

    def build(out):
        given = operands
        if mask is not None:
            box = box_of(mask, data.shape)
            if box is None:
                return
            (low, high), part = box[0], masked_views([data], mask, data.shape)[0]
            given = {k: part if v is data else v[low:high] for k, v in operands.items()}
            out = out[low:high]
        function(out, **given, name=name)

    if dst is not None:
        build(dst)
        return dst
    return result_tile((data.shape[0], columns), dtype, build)


def nc_match_replace8(*, data, vals, imm, dst_idx=None, mask=None, dtype=None, dst=None, name=None,
                      **_ignored):
    operands = dict(data=data, vals=vals, dst_idx=dst_idx)
    if mask is not None:
        box = box_of(mask, data.shape)
        low, high = box[0]
        part = masked_views([data], mask, data.shape)[0]
        operands = dict(data=part, vals=vals[low:high],
                        dst_idx=None if dst_idx is None else dst_idx[low:high])

        def build(out):
            isa.nc_match_replace8(masked_views([out], mask, data.shape)[0], imm=float(imm), name=name,
                                  **operands)

        if dst is None:
            return result_tile(data.shape, _dtype(dtype, data.dtype), build)
        build(dst)
        return dst
    return _call(isa.nc_match_replace8, dst, data.shape, _dtype(dtype, data.dtype), None, operands,
                 imm=float(imm), name=name)


def range_select(*, on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd=reduce_cmd.idle,
                 reduce_res=None, reduce_op=np.max, range_start=0, on_false_value=FP32_MIN,
                 mask=None, dtype=None, dst=None, name=None, **_ignored):
    fill = None if on_false_value == FP32_MIN else on_false_value
    return _call(isa.range_select, dst, on_true_tile.shape, _dtype(dtype, on_true_tile.dtype),
                 mask, dict(on_true_tile=on_true_tile, bound0=bound0, bound1=bound1,
                            reduce_res=reduce_res), comp_op0=comp_op0, comp_op1=comp_op1,
                 reduce_cmd=reduce_cmd, reduce_op=reduce_op, range_start=range_start,
                 on_false_value=fill, name=name)


def select_reduce(*, dst, predicate, on_true, on_false, reduce_res=None,
                  reduce_cmd=reduce_cmd.idle, reduce_op=np.max, reverse_pred=False, mask=None,
                  dtype=None, name=None, **_ignored):
    return _call(isa.select_reduce, dst, dst.shape, dst.dtype, mask,
                 dict(predicate=_word(predicate), on_true=on_true, on_false=on_false,
                      reduce_res=reduce_res), reduce_cmd=reduce_cmd, reduce_op=reduce_op,
                 reverse_pred=reverse_pred, name=name)


def sequence_bounds(*, segment_ids, dtype=None, dst=None, name=None, **_ignored):
    shape = (segment_ids.shape[0], 2, product(segment_ids.shape[1:]))
    return _call(isa.sequence_bounds, dst, shape, _dtype(dtype, segment_ids.dtype), None,
                 dict(segment_ids=segment_ids), name=name)


def local_gather(src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, mask=None, *,
                 dst=None, name=None, **_ignored):
    columns = product(index.shape[1:])
    valid = columns * 16 if num_valid_indices is None else num_valid_indices
    shape = ((src_buffer.shape[0], columns, 16, num_elem_per_idx) if valid == columns * 16 else
             (src_buffer.shape[0], valid, num_elem_per_idx))
    return _call(isa.local_gather, dst, shape, src_buffer.dtype, mask,
                 dict(src_buffer=in_sbuf(src_buffer), index=in_sbuf(index)), spaces=(SBUF,),
                 num_elem_per_idx=num_elem_per_idx, num_valid_indices=num_valid_indices, name=name)


def nc_stream_shuffle(src, dst, shuffle_mask, *, dtype=None, mask=None, name=None, **_ignored):
    isa.nc_stream_shuffle(dst, src, shuffle_mask, name=name)


def dropout(data, prob, mask=None, dtype=None, *, dst=None, name=None, **_ignored):
    """Zeros elements with probability `prob`; see `nkisim isa show dropout`."""
    return _call(isa.dropout, dst, data.shape, _dtype(dtype, data.dtype), mask,
                 dict(data=data, prob=prob), name=name)


def reciprocal(data, dtype=None, mask=None, *, dst=None, name=None, **_ignored):
    """1 / x of every element; see `nkisim isa show reciprocal`."""
    return _call(isa.reciprocal, dst, data.shape, _dtype(dtype, data.dtype), mask, dict(data=data),
                 name=name)


def builtin_custom_op(function_name, *_args, **_kwargs):
    """Custom GpSimd programs; not simulated, an error."""
    fail("unsupported_call",
         f"custom GpSimd programs ({function_name}) are not simulated", "builtin_custom_op")


quantize_mx, nc_matmul_mx, core_barrier = isa.quantize_mx, isa.nc_matmul_mx, isa.core_barrier
sendrecv, dma_compute = older.sendrecv, older.dma_compute
register_alloc, register_move = isa.register_alloc, older.register_move
register_load, register_store = isa.register_load, isa.register_store
_describe(globals())

__all__ = [
    "NkiTensor", "activation", "activation_reduce", "affine_select", "bn_aggr", "bn_stats",
    "builtin_custom_op", "core_barrier", "dge_mode", "dma_compute", "dma_copy", "dma_engine",
    "dma_transpose", "dropout", "engine", "fp32", "get_nc_sub_version", "get_nc_version",
    "gpsimd_engine", "iota", "local_gather", "max8", "memset", "nc_find_index8", "nc_match_replace8",
    "nc_matmul", "nc_matmul_mx", "nc_stream_shuffle", "nc_transpose", "nc_version", "oob_mode",
    "quantize_mx", "range_select", "reciprocal", "reduce_cmd", "register_alloc", "register_load",
    "register_move", "register_store", "scalar_engine", "scalar_tensor_tensor", "select_reduce",
    "sendrecv", "sequence_bounds", "sync_engine", "tensor_copy", "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src", "tensor_copy_predicated", "tensor_engine", "tensor_partition_reduce",
    "tensor_reduce", "tensor_scalar", "tensor_scalar_cumulative", "tensor_scalar_reduce",
    "tensor_tensor", "tensor_tensor_scan", "unknown_engine", "vector_engine"]
