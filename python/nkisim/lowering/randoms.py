"""Translates random numbers and dropout to instructions."""

from ..isa import instructions as isa
from ..record.recorder import current
from ..values.dtypes import resolve, uint32
from ..values.optokens import OPERATORS
from ..values.storage import sbuf
from .moves import copy, on_chip
from .tiles import result_tile


def dropout(x, rate, dtype=None, mask=None):
    """The tile with elements set to zero with probability `rate`; the others are not scaled."""
    x = on_chip(x)
    out = x.dtype if dtype is None else resolve(dtype)
    if out is not x.dtype:
        x = copy(x, dtype=out)
        current().flush()
    return result_tile(x.shape, out, lambda dst, data: isa.dropout(dst, data, rate), mask, (x,))


def random_fill(dst):
    """Uniform in [0, 1): random words scaled; the topmost words would round up to 1."""
    recorder = current()
    words = recorder.ndarray(dst.shape, uint32, sbuf)
    isa.rng(words)
    tile = dst if dst.st.on_chip else recorder.ndarray(dst.shape, dst.dtype, sbuf)
    top = 1.0 - 2.0 ** -24 if dst.dtype.itemsize == 4 else 1.0 - 2.0 ** -8
    isa.tensor_scalar(tile, words, OPERATORS["multiply"], 2.0 ** -32, False, OPERATORS["minimum"], top)
    if tile is not dst:
        isa.dma_copy(dst, tile)
