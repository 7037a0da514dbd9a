"""Translates matrix products and transposes to instructions of the tensor engine."""

import sys

import numpy as np

from ..isa import instructions as isa
from ..record.recorder import current
from ..record.refusals import report_refused
from ..values import index
from ..values.dtypes import float32, resolve
from ..values.errors import KernelValueError, check_spelling, check_truth, fail, fail_on, is_ours
from ..values.index import as_mask, box_of
from ..values.storage import PSUM, SBUF, product, psum, sbuf
from ..values.subscripts import OutOfBounds, apply_mask
from ..values.tensor import require_tensor
from .kept import TileCache
from .moves import copy, in_sbuf, on_chip
from .tiles import masked_views, result_tile

FMAX_MATMUL = 512


def transpose(x, dtype=None, mask=None):
    """The transpose of a two-dimensional tile."""
    x = on_chip(x)
    if x.ndim > 2:
        report_refused("transpose_dimensions", operand=x)
    out = x.dtype if dtype is None else resolve(dtype)
    rows, columns = x.shape[0], product(x.shape[1:])
    mask = index.as_mask(mask)
    if x.dtype.itemsize == 1:
        if mask is not None:
            fail("mask",
                 "mask= with an 8-bit tile; slice the tile instead", "transpose", KernelValueError)
        return copy(_turned_bytes(x), dtype=out)

    def build(dst):
        parts = (dst, x) if mask is None else _turned_parts(mask, dst, x)
        if parts is not None:
            isa.nc_transpose(*parts)

    tile = result_tile((columns, rows), x.dtype, build, space=PSUM, spaces=(PSUM,))
    if out is x.dtype:
        return tile
    return copy(tile, dtype=out)


def _turned_bytes(x):
    """x transposed, in PSUM, where every second byte belongs to an 8-bit element."""
    recorder = current()
    recorder.flush()
    rows, columns = x.shape[0], product(x.shape[1:])
    tile = recorder.ndarray((columns, 2 * rows), x.dtype, psum)
    isa.nc_transpose(tile[:, ::2], x)
    return tile[:, ::2]


def _turned_parts(mask, dst, src):
    """The parts of `src` and of its transpose `dst` that a mask over `src` leaves; None if nothing."""
    box = index.box_of(mask, src.shape)
    if box is None:
        return None
    part = masked_views([src], mask, src.shape)[0]
    return dst[slice(*box[1]), slice(*box[0])], part


def load_transpose2d(src, dtype=None, mask=None):
    """A 2-D tensor in HBM, transposed on its way to SBUF; bytes by the tensor engine."""
    require_tensor(src, "src", "load_transpose2d")
    mask, out = index.as_mask(mask), src.dtype if dtype is None else resolve(dtype)
    while src.ndim > 2 and src.shape[-1] == 1:  # rows of one element more
        src = src.squeeze_dim(src.ndim - 1)
    if any(kind == "vector" for kind, *_ in src.dyn or ()):
        report_refused("indirect_transpose", call="load_transpose2d")
    if src.ndim != 2:
        fail_on("view_shape", "src", repr(src), "two dimensions", "load_transpose2d",
                KernelValueError, verb="are")

    def build(dst):
        parts = (dst, src) if mask is None else _turned_parts(mask, dst, src)
        if parts is None:
            return
        dst, part = parts
        if src.dtype.itemsize == 1:
            isa.tensor_copy(dst, _turned_bytes(on_chip(part)))
        else:
            isa.dma_transpose(dst, part)

    tile = result_tile((src.shape[1], src.shape[0]), src.dtype, build, spaces=(SBUF,), kind="load")
    return tile if out is src.dtype else copy(tile, out)


def transpose_into(dst, data, engine=isa.unknown_engine, name=None):
    """dst = data transposed; into another dtype as a product with an identity, in one instruction."""
    if dst.dtype is data.dtype or dst.st.space != PSUM:
        isa.nc_transpose(dst, data, engine=engine, name=name)
        return
    recorder = current()
    rows = data.shape[0]
    key = (recorder.core, rows, data.dtype)
    identities = recorder.of(TileCache).identities
    identity = identities.get(key)
    if identity is None:
        identity = identities[key] = recorder.ndarray((rows, rows), data.dtype, sbuf)
        eye = np.eye(rows, dtype=np.float32).astype(data.dtype.dtype)
        isa.dma_copy(identity, recorder.constant(eye, "identity"))
    isa.nc_matmul(dst, data, identity, accumulate=False, name=name)


def same_width(x, y):
    """The operands of a product, both of 32 bits or neither. Of neuronxcc.nki the narrower one is copied to float32:
    its pages list the dtypes of each operand and forbid no mixture (assumed)."""
    if not current().dialect.neuronxcc or (x.dtype.itemsize == 4) == (y.dtype.itemsize == 4):
        return x, y
    return tuple(v if v.dtype.itemsize == 4 else copy(v, dtype=float32) for v in (x, y))


def matmul(x, y, transpose_x=False, mask=None, **_ignored):
    """x @ y, or x.T @ y with transpose_x: products of at most 128x128 by 128x512 in PSUM."""
    if _ignored:
        check_spelling(_ignored)
    check_truth("transpose_x", transpose_x)
    recorder = current()
    recorder.flush()
    x, y = same_width(in_sbuf(x), in_sbuf(y))
    if not transpose_x:
        if not is_ours(sys._getframe(1).f_code):
            report_refused("untransposed_product")
        if x.dtype.itemsize == 1:
            turned = _turned_bytes(x)
        else:
            turned = recorder.ndarray((x.shape[1], x.shape[0]), x.dtype, psum)
            isa.nc_transpose(turned, x)
        x = recorder.ndarray(turned.shape, turned.dtype, sbuf)
        isa.tensor_copy(x, turned)

    mask = as_mask(mask)

    def build(dst):
        parts = (dst, x, y) if mask is None else masked_product(mask, dst, x, y)
        if parts is not None:
            columns_by_bank(*parts)

    def columns_by_bank(dst, a, b):
        for start in range(0, b.shape[1], FMAX_MATMUL):
            stop = start + FMAX_MATMUL if start + FMAX_MATMUL < b.shape[1] else b.shape[1]
            isa.nc_matmul(dst[:, start:stop], a, b[:, start:stop],
                          accumulate=None if recorder.held.adding else False)

    return result_tile((x.shape[1], y.shape[1]), float32, build, space=PSUM,
                   spaces=(PSUM,), kind="matmul")


def _summed_rows(cut, *operands):
    """True if a mask on 128 rows means those summed over: one of the operands was loaded under it."""
    return any(o.st.masked == (o.part, o.part + cut) for o in operands)


def _dimension(axis, extent, sizes, named_m):
    """The dimension of a product, of `sizes` (k, m, n), that a mask's index tile of an axis bounds.

    Index tiles do not say which they are. One along the last axis bounds n, or m if only that has its
    size; one along the first axis bounds m, or k if only that has its size or another tile bounds m.
    None: k or m."""
    k, m, n = sizes
    if axis == 1:
        return 1 if extent == m != n else 2
    if named_m or extent == k != m:
        return 0
    return None if extent == k == m else 1


def _bounds(mask, sizes, operands):
    """[low, high] of k, m and n where the mask holds; None if that is nowhere."""
    bounds = [[0, size] for size in sizes]
    named_m = any(list(t.coefs) == [1] and _dimension(1, t.extents[1], sizes, False) == 1
                  for t in mask.terms)
    for term in mask.terms:
        (axis, c), = term.coefs.items() or [(0, 0)]
        if not axis:
            if term.const < 0:
                return None
            continue
        low, high = (-(term.const // c), None) if c > 0 else (0, term.const // -c + 1)
        at = _dimension(axis, term.extents[axis], sizes, named_m)
        if at is None:
            at = 0 if high is not None and _summed_rows(high, *operands) else 1
        bounds[at][0] = max(bounds[at][0], low)
        if high is not None:
            bounds[at][1] = min(bounds[at][1], high)
    return bounds if all(low < high for low, high in bounds) else None


def masked_product(mask, out, stationary, moving):
    """(out, stationary, moving) of the part of a product that a mask leaves; None if nothing is.

    out: (m, ..., n) in PSUM, stationary (k, m), moving (k, ..., n)."""
    rows, columns = product(out.shape[:-1]), out.shape[-1]
    beyond = [v for v in (stationary, moving) if isinstance(v._ref, OutOfBounds)]
    simple = not mask.either and all(len(t.coefs) < 2 and max(t.coefs, default=1) < 3
                                     for t in mask.terms)
    if simple and not beyond and out.ndim == stationary.ndim == moving.ndim == 2:
        found = _bounds(mask, (stationary.shape[0], rows, columns), (stationary, moving))
        if found is None:
            return None
        k, m, n = [slice(*bounds) for bounds in found]
        return out[m, n], stationary[k, m], moving[k, n]
    box = box_of(mask, (stationary.shape[0] if beyond else rows, columns), exact=False)
    if box is None:
        return None
    (low, high), edge = box
    if beyond:
        stationary = apply_mask(stationary, [(low, high), *((0, n) for n in stationary.shape[1:])],
                                stationary.shape)
        between = [(0, n) for n in moving.shape[1:-1]]
        moving = apply_mask(moving, [(low, high), *between, edge], moving.shape)
        return out[..., slice(*edge)], stationary, moving
    if (low, high) != (0, rows):
        out, stationary = out[low:high], stationary[:, low:high]
    return out[..., slice(*edge)], stationary, moving[..., slice(*edge)]
