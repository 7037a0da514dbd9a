"""Translates copies between memories, fills, and assignments to tiles to instructions."""

import builtins

import numpy as np

from ..isa import instructions as isa
from ..record.borrowed import view_of_holder
from ..record.recorder import current
from ..record.refusals import called_by_kernel, report_refused
from ..values import subscripts
from ..values.dtypes import resolve, uint32
from ..values.errors import KernelTypeError, KernelValueError, check_spelling, fail, fail_on, short
from ..values.storage import PSUM, SBUF, sbuf
from ..values.tensor import NkiTensor, require_tensor
from ..values.views import plain_int
from .tiles import masked_views, operand, result_tile, broadcast_hbm


def allocate(shape, dtype, buffer, name="", address=None):
    """A new tensor, as nl.ndarray makes it."""
    return current().ndarray(tuple(int(n) for n in shape), resolve(dtype), buffer, name, address)


def copy_into(dst, src):
    """dst = src with the instruction that can: DMA for HBM, tensor_copy on chip."""
    require_tensor(dst, "dst", "copy")
    if dst.st.on_chip and src.st.on_chip:
        isa.tensor_copy(dst, src)
        return
    if src.st.space == PSUM:  # DMA does not reach PSUM
        tile = current().ndarray(src.shape, src.dtype, sbuf)
        isa.tensor_copy(tile, src)
        src = tile
    if dst.st.space == PSUM:
        tile = current().ndarray(dst.shape, src.dtype, sbuf)
        isa.dma_copy(tile, src)
        isa.tensor_copy(dst, tile)
        return
    isa.dma_copy(dst, src)


def _startable(view):
    """True if engines can start at the view's partition; DMA can start anywhere."""
    start, n = view.st.partition + view.part, view.shape[0]
    return start == 0 or (start == 64 and n <= 64) or (start % 32 == 0 and n <= 32)


def fill(dst, value):
    if dst.st.on_chip:
        if _startable(dst):
            isa.memset(dst, value)
            return
        target = dst.dtype.dtype
        if target.kind in "iu" and not (value == int(value) and
                                        np.iinfo(target).min <= value <= np.iinfo(target).max):
            fail_on("memset_value", "value", value, f"a number that {dst.dtype} can hold exactly", "memset",
                    KernelValueError)
        constant = np.full(dst.shape, value).astype(target)
        isa.dma_copy(dst, current().constant(constant, "constant"))
        return
    n = dst.size
    rows = next(p for p in range(builtins.min(128, n), 0, -1) if n % p == 0)
    tile = current().ndarray((rows, n // rows), dst.dtype, sbuf)
    isa.memset(tile, value)
    isa.dma_copy(dst, tile.reshape((rows, n // rows)))


def _same_place(a, b):
    return (a.st is b.st and a.part == b.part and a.off == b.off and a.shape == b.shape and
            a.strides == b.strides and a.dtype is b.dtype)


def assign(dst, value):
    """dst[...] = value."""
    recorder = current()
    pending = recorder.held.pending
    if isinstance(value, NkiTensor):
        if pending is not None and value is pending.tensor and (
                dst.shape == value.shape or dst.size == value.size) and (
                dst.st.space in pending.spaces and  # pending.tensor is none once it has a place
                dst.st is not value.st):
            if recorder.loops.parallel is not None:
                recorder.loops.parallel.wrote(dst, value)
            recorder.held.retarget(recorder, shaped(dst, value.shape))
            return
        if pending is not None and pending.target is not None:
            recorder.flush()  # so that it is known where the value is
        if _same_place(dst, view_of_holder(value)):
            return
        if recorder.loops.parallel is not None:
            recorder.loops.parallel.wrote(dst, value)
        if not value.st.on_chip and value.size != dst.size:
            value = broadcast_hbm(value, dst.shape)
        elif value.size != dst.size or (value.shape != dst.shape and value.ndim == dst.ndim):
            value = operand(value, dst.shape)
        elif value.shape != dst.shape and value.st.on_chip and dst.st.on_chip:
            value = shaped(value, dst.shape)
        copy_into(dst, value)
    elif isinstance(value, (int, float, np.generic)):
        if recorder.loops.parallel is not None:
            recorder.loops.parallel.wrote(dst, None)
        fill(dst, value.item() if isinstance(value, np.generic) else value)
    elif isinstance(value, np.ndarray):
        copy_into(dst, recorder.constant(np.ascontiguousarray(value), "constant"))
    else:
        fail_on("tensor_required", "the assigned value", type(value).__name__, "a tile or a number",
                kind=KernelTypeError)


def shaped(view, shape):
    return view if view.shape == tuple(shape) else view.reshape(tuple(shape))


def load(src, dtype=None, mask=None):
    """A tile in SBUF with the values of `src`, a view of a tensor in HBM."""
    require_tensor(src, "src", "load")
    dtype = src.dtype if dtype is None else resolve(dtype)
    if src.st.on_chip:
        report_refused("load_of_tile", operand=src)
        return copy(src, dtype=dtype, mask=mask)
    if len(src.shape) > 1:
        return result_tile(src.shape, dtype, isa.dma_copy, mask, (src,), spaces=(SBUF,), kind="load")
    shape = src.shape + (1,)
    if shape[0] > 128:
        fail_on("tensor_partitions", repr(src), "of one dimension, which is loaded along the partitions",
                f"at most 128 elements, or x.reshape((1, {shape[0]})), a row,", "load", KernelValueError, "are")
    view = NkiTensor(src.st, src.part, src.off, shape, src.strides + (1,), src.dtype, src.dyn)
    view._ref = src._ref if isinstance(src._ref, subscripts.OutOfBounds) else view._ref
    tile = result_tile(shape, dtype, isa.dma_copy, mask, (view,), spaces=(SBUF,), kind="load")
    tile.st.vector = True
    return tile


def store(dst, value, mask=None, dtype=None):
    """Writes a tile, or a number, to a view of a tensor in HBM."""
    require_tensor(dst, "dst", "store")
    if isinstance(value, (int, float, np.generic)):
        tile = current().ndarray(dst.shape if dst.ndim > 1 else (1,) + dst.shape, dst.dtype, sbuf)
        fill(tile, value)
        value = tile
    if not isinstance(value, NkiTensor):
        require_tensor(value, "value", "store")
    if dst.st.on_chip and not value.st.on_chip:
        fail_on("operand_memory", "dst", "on chip and value in HBM", "a tile as value and a tensor in HBM as dst "
                "(the other way it is load(src))", "store", KernelValueError)
    if not value.st.on_chip:
        report_refused("hbm_operand", operand=value)
    recorder = current()
    recorder.flush()
    if value.st.space == PSUM:
        report_refused("store_of_psum", operand=value)
        tile = recorder.ndarray(value.shape, value.dtype, sbuf)
        isa.tensor_copy(tile, value)
        value = tile
    if mask is None:
        if recorder.loops.parallel is not None:
            recorder.loops.parallel.wrote(dst, value)
    elif recorder.dialect.masks:
        value = _narrowed(dst, value)
    if value.size != dst.size:
        if mask is None:
            report_refused("store_repeats", shape=tuple(value.shape), place=tuple(dst.shape))
        value = operand(value, dst.shape)
    if mask is not None:
        parts = masked_views([dst, value], mask, dst.shape)
        if parts is None:
            return
        dst, value = parts
    isa.dma_copy(dst, value)


def _narrowed(dst, value):
    """The part that a masked store takes of a value wider than its destination: its first elements, as a published
    kernel has it."""
    if value.ndim != dst.ndim or all(n <= m for n, m in zip(value.shape, dst.shape)):
        return value
    report_refused("store_of_wider", shape=value.shape, place=dst.shape)
    return value[tuple(slice(0, min(n, m)) for n, m in zip(value.shape, dst.shape))]


def copy(x, dtype=None, mask=None):
    """A copy of a tile, converted to `dtype`."""
    if not isinstance(x, NkiTensor):
        if not isinstance(x, (int, float, np.generic, np.ndarray)) or hasattr(x, "kind"):
            fail_on("tensor_required", "x", short(x), "a tile", "copy", KernelTypeError)
        return np.array(x)
    if not x.st.on_chip:
        report_refused("hbm_operand", operand=x)
        return load(x, dtype, mask)
    dtype = x.dtype if dtype is None else resolve(dtype)
    if x.st.space == PSUM and called_by_kernel():
        report_refused("copy_between_memories", operand=x)
    elif not x.dtype.is_float and x.dtype.itemsize == 4 and called_by_kernel():
        report_refused("copy_by_float32", operand=x)
    return result_tile(x.shape, dtype, isa.tensor_copy, mask, (x,))


def on_chip(x):
    """A tile: HBM operands are loaded first."""
    if not isinstance(x, NkiTensor):
        fail_on("tensor_required", "an operand", type(x).__name__, "a tile", kind=KernelTypeError)
    if x.st.on_chip:
        return x
    report_refused("hbm_operand", operand=x)
    return load(x)


def inferred(x):
    """Called of a reshape that leaves a size to be worked out: neuronxcc.nki refuses -1 as a changed number of
    elements, in its simulator, too."""
    if current().dialect.neuronxcc:
        fail_on("view_shape", f"a size that {x!r} is reshaped to", -1, "each size", "reshape", KernelValueError)


def in_sbuf(x):
    """The tensor engine reads SBUF only."""
    if type(x) is NkiTensor and x.st.space == SBUF:
        return x
    if not isinstance(x, NkiTensor):
        fail_on("tensor_required", "an operand", type(x).__name__, "a tile", kind=KernelTypeError)
    if x.st.space != PSUM:
        return on_chip(x)
    tile = current().ndarray(x.shape, x.dtype, sbuf)
    isa.tensor_copy(tile, x)
    return tile


def broadcast_to(x, shape, dtype=None):
    """The tile repeated along dimensions of size 1 up to `shape`."""
    shape = tuple(plain_int(s, "a size of shape") for s in shape)
    if not shape:
        fail_on("tensor_shape", "shape", "()", "a size for each dimension", "broadcast_to", KernelValueError)
    if not x.st.on_chip and dtype is None and len(x.shape) == len(shape):
        return broadcast_hbm(x, shape)  # DMA repeats elements
    x = x if x.st.on_chip else load(x)
    if x.shape == shape:
        return x if dtype is None or resolve(dtype) is x.dtype else copy(x, dtype)
    if x.ndim < len(shape):
        x = x.reshape((x.shape[0],) + (1,) * (len(shape) - x.ndim) + x.shape[1:])
    spread_view = operand(x, shape)
    if spread_view.shape != shape:
        fail("broadcast", f"{x!r} does not broadcast to {shape}", "broadcast_to", KernelValueError)
    if dtype is None and x.shape[1:] != shape[1:]:
        return spread_view
    return spread_view if dtype is None else copy(spread_view, dtype)


def gather_flattened(data, indices, axis=0, dtype=None, mask=None, **_ignored):
    """Elements of each partition of `data`, taken as a row, at `indices`."""
    if _ignored:
        check_spelling(_ignored)
    require_tensor(data, "data", "gather_flattened")
    require_tensor(indices, "indices", "gather_flattened")
    out = data.dtype if dtype is None else resolve(dtype)
    if indices.dtype is not uint32:
        indices = copy(indices, dtype=uint32)
        current().flush()
    found = result_tile(indices.shape, data.dtype, isa.nc_n_gather, mask, (data, indices))
    return found if out is data.dtype else copy(found, out, mask)
