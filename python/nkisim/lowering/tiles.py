"""Computes shapes and dtypes of result tiles for nki.language functions, and makes operands fit
them.
"""

import builtins

import numpy as np

from ..isa import instructions as isa
from ..record.borrowed import view_of_holder
from ..record.recorder import current
from ..values import index, subscripts
from ..values.dtypes import bfloat16, find, float16, float32, int8, int16, int32, resolve
from ..values.enums import engine
from ..values.errors import KernelValueError, fail
from ..values.optokens import OPERATORS
from ..values.storage import PSUM, SBUF, product, psum, sbuf
from ..values.tensor import NkiTensor
from .kept import TileCache, copied_rows


def promote(a, b):
    """The dtype of a result of two tiles, by NKI's documented type promotion (numerics.md)."""
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_float:
        if a.itemsize != b.itemsize:
            return a if a.itemsize > b.itemsize else b
        return bfloat16 if a.itemsize == 1 else float32
    return _promote_integers(a, b)


_SIGNED = {1: int8, 2: int16, 4: int32}


def _promote_integers(a, b):
    signed = [d for d in (a, b) if d.startswith("int")]
    if len(signed) != 1:
        return a if a.itemsize >= b.itemsize else b
    unsigned = b if a is signed[0] else a
    return _SIGNED.get(builtins.max(signed[0].itemsize, 2 * unsigned.itemsize), float32)


def scalar_promote(tile, scalar):
    """The dtype of a tile and a number: in some dialects numbers count as int32 or float32."""
    if isinstance(scalar, np.generic):
        return promote(tile, resolve(scalar.dtype)) if find(scalar.dtype) else tile
    whole = isinstance(scalar, (int, np.ndarray))
    if current().dialect.wide_numbers:
        return promote(tile, int32 if whole else float32)
    return tile if tile.is_float or whole else float32


def broadcast_shapes(a, b, name=""):
    """The common shape of two tiles as NumPy broadcasts; an Error of function `name` if none."""
    given = tuple(a), tuple(b)
    if given[0] == given[1]:
        return given[0]
    n = builtins.max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    out = []
    for x, y in zip(a, b):
        if x != y and 1 not in (x, y):
            rows = [s for s, o in (given, given[::-1]) if len(s) == 2 and s[1] == 1 and o[-1] == s[0]]
            said = (f"; a tensor of one dimension is loaded along the partitions: x.reshape((1, {rows[0][0]})) in HBM "
                    "is a row" if rows else "")
            fail("broadcast",
                 f"shapes {given[0]} and {given[1]} do not broadcast{said}", name, KernelValueError)
        out.append(builtins.max(x, y))
    return tuple(out)


def same_partitions(a, b):
    """The shape of two tiles whose partitions agree and whose other dimensions are as many elements,
    in any shape, or one; None if they are not so. (tensor_tensor asks for no more than that.)"""
    if a[0] != b[0] or len(a) == len(b):
        return None
    mine, other = product(a[1:]), product(b[1:])
    if mine == other:
        return a
    return {mine: b, other: a}.get(1)


def broadcast_view(view, shape):
    """`view` with its size-1 free dimensions repeated to `shape` (no instruction)."""
    if view.shape == shape:
        return view
    if view.ndim != len(shape):
        return view
    if any(n not in (1, m) for n, m in zip(view.shape[1:], shape[1:])):
        fail("broadcast", f"{view!r} does not broadcast to {tuple(shape)}; {tuple(shape)} is required, such as a slice "
             "of it", kind=KernelValueError)
    strides = tuple(0 if n == 1 and m != 1 else s
                    for n, m, s in zip(view.shape, shape, view.strides))
    out = NkiTensor(view.st, view.part, view.off, (view.shape[0],) + tuple(shape[1:]), strides,
                    view.dtype, view.dyn)
    return out


def broadcast_hbm(x, shape):
    """A view of HBM repeated to `shape` where it has one element: DMA takes any stride."""
    sizes = (1,) * (len(shape) - x.ndim) + x.shape
    strides = (0,) * (len(shape) - x.ndim) + x.strides
    if len(sizes) != len(shape) or any(n not in (1, m) for n, m in zip(sizes, shape)):
        fail("broadcast", f"{x!r} does not broadcast to {tuple(shape)}", kind=KernelValueError)
    strides = tuple(0 if n == 1 else s for n, s in zip(sizes, strides))
    return NkiTensor(x.st, x.part, x.off, tuple(shape), strides, x.dtype, x.dyn)


def operand(x, shape):
    """`x` over `shape`: partitions repeated by an instruction, free dimensions by strides."""
    if x.shape == shape:
        return x
    if len(x.shape) != len(shape) and product(x.shape) == product(shape):
        return x.reshape(shape)
    if x.ndim != len(shape) and x.shape[0] == shape[0] and product(x.shape[1:]) == 1:
        x = x.reshape((x.shape[0],) + (1,) * (len(shape) - 1))
    if x.shape[0] != shape[0]:
        x = repeat_partitions(x, shape[0])
    return broadcast_view(x, shape)


def masked_views(views, mask, shape):
    """The part of each view that `mask` leaves; None if nothing is left."""
    box = index.box_of(mask, shape)
    if box is None:
        return None
    return [subscripts.apply_mask(v, box, shape) if isinstance(v, NkiTensor) else v for v in views]


def _span(view):
    """(storage, first partition, last, first byte of a partition, last) of what a view can show."""
    view = view_of_holder(view)
    if view.dyn is not None:
        return view.st, 0, view.st.shape[0], 0, view.st.pitch_bytes
    free = zip(view.shape[1:], view.strides[1:]) if view.st.on_chip else zip(view.shape, view.strides)
    last = builtins.sum((n - 1) * s for n, s in free)
    return (view.st, view.part, view.part + view.shape[0] - 1, view.off,
            view.off + (last + 1) * view.dtype.itemsize - 1)


def work_tile(dst, views, dtype=None):
    """A tile to work in where a function of several instructions writes `dst` before it has read all of
    `views`, or works in `dtype` alone: dst itself if it may be. The caller copies another one to dst."""
    if dtype not in (None, dst.dtype):
        return current().ndarray(dst.shape, dtype, sbuf)
    st, low, high, first, last = _span(dst)
    for view in views:
        if isinstance(view, NkiTensor):
            other = _span(view)
            if other[0] is st and other[1] <= high and low <= other[2] and other[3] <= last and (
                    first <= other[4]):
                return current().ndarray(dst.shape, dst.dtype, sbuf)
    return dst


def result_tile(shape, dtype, build, mask=None, views=(), space=SBUF, spaces=(SBUF, PSUM), kind=""):
    """A result tile of an instruction. build(dst, *views) emits it, on the masked part only."""
    recorder, shape = current(), tuple(shape)
    mask = None if mask is None else index.as_mask(mask)
    if mask is None:
        def emit_all(dst):
            if dst.shape != shape:
                dst = dst.reshape(shape)
            dst.st.masked = None
            build(dst, *views)

        return recorder.held.result(recorder, shape, dtype, emit_all, space, spaces, kind)

    def emit(dst):
        if dst.shape != shape:
            dst = dst.reshape(shape)
        parts = masked_views([dst, *views], mask, shape)
        if parts is not None:
            part = parts[0]
            part.st.masked = part.part, part.part + part.shape[0]
            build(*parts)

    return recorder.held.result(recorder, shape, dtype, emit, space, spaces, kind)


def repeat_partitions(x, rows):
    """Copies partition 0 of `x` to `rows` partitions."""
    if x.shape[0] != 1:
        fail("partition_count",
             f"{x!r} cannot be repeated over {rows} partitions; one partition is required",
             "broadcast_to", KernelValueError)
    if x.st.space == SBUF and x.dtype in _PRODUCTS and current().options.compiler.broadcasts == (
            "tensor"):
        return _repeat_by_product(x, rows)
    return _repeat_by_shuffles(x, rows)


def _repeat_by_shuffles(x, rows):
    """VectorE: one shuffle per quadrant."""
    tile = current().ndarray((rows,) + x.shape[1:], x.dtype, sbuf)
    for start in range(0, rows, 32):
        count = rows - start if rows - start < 32 else 32
        mask = [0] * count + [255] * (32 - count)
        isa.nc_stream_shuffle(tile[start:start + count], x, mask)
    return tile


def _ones(recorder, rows, dtype):
    """A column of ones per use in a loop (which may not run), else one for the whole kernel."""
    key = (recorder.core, recorder.instance, rows, dtype.name)
    kept = recorder.of(TileCache).ones
    tile = kept.get(key)
    if tile is None:
        tile = recorder.ndarray((1, rows), dtype, sbuf)
        isa.memset(tile, 1.0)
        if not recorder.loops.open:
            kept[key] = tile
    return tile


_PRODUCTS = (float32, bfloat16, float16)
_BANK = 512  # float32 columns


def _repeat_by_product(x, rows):
    """TensorE: a column of ones times the row, copied from PSUM by ScalarE.

    Exact: every product has one term. The compiler's part lets readers use a copy of one bank where
    it is in PSUM.
    """
    recorder = current()
    tile = recorder.ndarray((rows,) + x.shape[1:], x.dtype, sbuf)
    ones = _ones(recorder, rows, x.dtype)
    columns = product(x.shape[1:])
    row, flat = x.reshape((1, columns)), tile.reshape((rows, columns))
    for begin in range(0, columns, _BANK):
        end = builtins.min(begin + _BANK, columns)
        bank = recorder.ndarray((rows, end - begin), float32, psum)
        isa.nc_matmul(bank, ones, row[:, begin:end], is_stationary_onezero=True)
        if recorder.generation < 3:  # ScalarE's TENSOR_COPY comes with trn2
            isa.activation(flat[:, begin:end], OPERATORS["copy"], bank)
        else:
            isa.tensor_copy(flat[:, begin:end], bank, engine=engine.scalar)
        if columns <= _BANK and x.dtype is float32:
            copied_rows(recorder).append(len(recorder.program) - 1)
    return tile
