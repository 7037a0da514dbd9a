"""What the tensor engine computes: matrix products and transposes."""

from .. import isa
from ..dtypes import float32, resolve
from ..recorder import current
from ..storage import PSUM, product, psum, sbuf
from .moves import copy, in_sbuf, on_chip
from .tiles import produce

FMAX_MATMUL = 512


def transpose(x, dtype=None, mask=None):
    x = on_chip(x)
    out = x.dtype if dtype is None else resolve(dtype)
    rows, columns = x.shape[0], product(x.shape[1:])
    tile = produce((columns, rows), x.dtype, isa.nc_transpose, mask, (x,), space=PSUM,
                   spaces=(PSUM,))
    if out is x.dtype:
        return tile
    return copy(tile, dtype=out)


def matmul(x, y, transpose_x=False, mask=None, **_ignored):
    """x @ y, or x.T @ y with transpose_x: products of at most 128x128 by 128x512 in PSUM."""
    recorder = current()
    recorder.flush()
    x, y = in_sbuf(x), in_sbuf(y)
    if not transpose_x:
        turned = recorder.ndarray((x.shape[1], x.shape[0]), x.dtype, psum)
        isa.nc_transpose(turned, x)
        x = recorder.ndarray(turned.shape, turned.dtype, sbuf)
        isa.tensor_copy(x, turned)

    def build(dst, a, b):
        for start in range(0, b.shape[1], FMAX_MATMUL):
            stop = start + FMAX_MATMUL if start + FMAX_MATMUL < b.shape[1] else b.shape[1]
            isa.nc_matmul(dst[:, start:stop], a, b[:, start:stop])

    return produce((x.shape[1], y.shape[1]), float32, build, mask, (x, y), space=PSUM,
                   spaces=(PSUM,), kind="matmul")
