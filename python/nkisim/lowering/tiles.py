"""Shapes and dtypes of result tiles, and operands that meet them."""

import builtins

from .. import index, isa
from ..dtypes import float32
from ..errors import KernelValueError, fail
from ..recorder import current
from ..storage import PSUM, SBUF, product, sbuf
from ..tensor import NkiTensor


def promote(a, b):
    """The dtype of a result of two tiles: the wider one, floats over integers."""
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.itemsize != b.itemsize:
        return a if a.itemsize > b.itemsize else b
    return float32 if a.is_float else a


def broadcast_shapes(a, b):
    n = builtins.max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    out = []
    for x, y in zip(a, b):
        if x != y and 1 not in (x, y):
            fail(f"shapes {a} and {b} do not broadcast", kind=KernelValueError)
        out.append(builtins.max(x, y))
    return tuple(out)


def spread(view, shape):
    """`view` with its size-1 free dimensions repeated to `shape` (no instruction)."""
    if view.shape == shape:
        return view
    if view.ndim != len(shape):
        return view
    strides = tuple(0 if n == 1 and m != 1 else s
                    for n, m, s in zip(view.shape, shape, view.strides))
    out = NkiTensor(view.st, view.part, view.off, (view.shape[0],) + tuple(shape[1:]), strides,
                    view.dtype, view.dyn)
    return out


def operand(x, shape):
    """`x` over `shape`: partitions repeated by an instruction, free dimensions by strides."""
    if x.shape == shape:
        return x
    if len(x.shape) != len(shape) and product(x.shape) == product(shape):
        return x.reshape(shape)
    if x.shape[0] != shape[0]:
        x = repeat_partitions(x, shape[0])
    return spread(x, shape)


def cut(views, mask, shape):
    """The part of each view that `mask` leaves; None if nothing is left."""
    box = mask.box(shape)
    if box is None:
        return None
    return [index.apply_mask(v, box, shape) if isinstance(v, NkiTensor) else v for v in views]


def produce(shape, dtype, build, mask=None, views=(), space=SBUF, spaces=(SBUF, PSUM), kind=""):
    """A result tile of an instruction. build(dst, *views) emits it, on the masked part only."""
    recorder = current()

    def emit(dst):
        if dst.shape != tuple(shape):
            dst = dst.reshape(shape)
        if mask is None:
            build(dst, *views)
            return
        recorder.allow_unwritten = True
        parts = cut([dst, *views], mask, tuple(shape))
        if parts is not None:
            build(*parts)

    return recorder.result(shape, dtype, emit, space, spaces, kind)


def repeat_partitions(x, rows):
    """Copies partition 0 of `x` to `rows` partitions: one shuffle per quadrant."""
    if x.shape[0] != 1:
        fail(f"{x!r} cannot be repeated over {rows} partitions; one partition is required",
             "broadcast_to", KernelValueError)
    tile = current().ndarray((rows,) + x.shape[1:], x.dtype, sbuf)
    for start in range(0, rows, 32):
        count = rows - start if rows - start < 32 else 32
        mask = [0] * count + [255] * (32 - count)
        isa.nc_stream_shuffle(tile[start:start + count], x, mask)
    return tile
