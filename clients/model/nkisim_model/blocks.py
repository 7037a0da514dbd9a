"""Implements steps that nkisim's own decode kernels share: norms, and products with weights
streamed from HBM.

Rows are sequences: x is [batch, 1, hidden] in HBM. A product wants the rows turned: [128, k, batch], of which partition
p has the elements p * k ... p * k + k - 1 of a row, so that a partition's rows of the weights are one run in HBM.
"""

from typing import NamedTuple

import nki.isa as nisa
import nki.language as nl

from . import formats_on_chip, kernels

LANES = kernels.LANES
BANK = kernels.COLUMNS       # columns of a bank of PSUM
BANK_BYTES = 2048            # of a partition, in a bank of PSUM
BANKS = 4                    # of PSUM that one product takes
RING = 3                     # tiles of weights in SBUF: two are on their way while one is used
TILE_BYTES = 16 * 1024       # of such a tile, in a partition
FEW = 16                     # rows that are read turned, a run a partition; more are turned by the Tensor engine


def sbuf(shape, dtype):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def hbm(shape, dtype):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def spans(total, most):
    """(start, length) of pieces of at most `most`."""
    return [(at, min(most, total - at)) for at in range(0, total, most)]


def transposed_tile(rows):
    """[some, n] as [n, some]."""
    some, n = rows.shape
    bank, out = nl.ndarray((n, some), dtype=rows.dtype, buffer=nl.psum), sbuf((n, some), rows.dtype)
    nisa.nc_transpose(dst=bank, data=rows)
    nisa.tensor_copy(dst=out, src=bank)
    return out


def lanes_for(size):
    """Partitions that elements of a head lie on, the same number in each part of it."""
    return next(lanes for lanes in range(min(LANES, size), 0, -1) if size % lanes == 0)


def halves(total, core, count, grain=1):
    """(first, length) of what one of `count` cores does of `total`, in whole grains."""
    grains = -(-total // grain)
    begin, end = (min(total, grains * (core + n) // count * grain) for n in (0, 1))
    return begin, end - begin


def ones(rows, columns, dtype=nl.float32):
    out = sbuf((rows, columns), dtype)
    nisa.memset(dst=out, value=1.0)
    return out


def identity(size):
    """[size, size] in float32."""
    return by_order(size, nl.equal)


def triangle(size):
    """[size, size] in float32: 1 where the column is not before the row."""
    return by_order(size, nl.greater_equal)


def by_order(size, op):
    """[size, size] in float32: 1 where the column's number less the row's is so compared with 0."""
    number, out = sbuf((size, size), nl.int32), sbuf((size, size), nl.float32)
    nisa.iota(dst=number, pattern=[[1, size]], offset=0, channel_multiplier=-1)
    nisa.tensor_scalar(dst=out, data=number, op0=op, operand0=0.0)
    return out


def transposed_rows(rows, size, weights=None):
    """The rows [batch, size] in HBM turned, for a product with weights: [(tile [lanes, k, batch], number of its first
    element)], a tile of whole lanes and one of what is left."""
    lanes, each, left = formats_on_chip.lanes_of(size, formats_on_chip.grouped(weights))
    first = 0
    out = [(_turned(rows, first, lanes, each), 0)]
    return out + [(_turned(rows, first + lanes * each, left, 1), lanes * each)] if left else out


def _turned(rows, first, lanes, each):
    batch, whole = rows.shape
    out = sbuf((lanes, each, batch), rows.dtype)
    if batch <= FEW:  # runs of `each` elements: single ones, into their places, would each be a descriptor
        runs = out if batch == 1 else sbuf((lanes, batch, each), rows.dtype)
        nisa.dma_copy(dst=runs.reshape((lanes, batch, each)),
                      src=rows.ap([[each, lanes], [whole, batch], [1, each]], offset=first))
        if batch > 1:
            nisa.tensor_copy(dst=out, src=runs.ap([[batch * each, lanes], [1, each], [each, batch]]))
        return out
    for at, some in spans(batch, LANES):
        own = sbuf((some, lanes * each), rows.dtype)
        nisa.dma_copy(dst=own, src=rows[nl.ds(at, some), nl.ds(first, lanes * each)])
        _transpose(out, own, at, some, lanes, each)
    return out


def turned_rows(rows, size):
    """The same of rows [up to 128, size] each in SBUF, of which all but the last have 128."""
    lanes, each, left = formats_on_chip.lanes_of(size)
    out, batch = [], sum(some.shape[0] for some in rows)
    for first, wide, deep in ((0, lanes, each), *(((lanes * each, left, 1),) if left else ())):
        tile = sbuf((wide, deep, batch), rows[0].dtype)
        for n, some in enumerate(rows):
            _transpose(tile, some, n * LANES, some.shape[0], wide, deep, first=first)
        out.append((tile, first))
    return out


def _transpose(out, own, at, some, lanes, each, factors=None, first=0):
    """Transposes columns first ... first + lanes * each - 1 of rows own [some, n] into out[:, :, at : at + some];
    factors [lanes, each] multiply."""
    for k, many in spans(each, max(1, BANK_BYTES // (some * own.itemsize))):
        bank = nl.ndarray((lanes, many, some), dtype=own.dtype, buffer=nl.psum)
        for j in range(many):
            nisa.nc_transpose(dst=bank[:, j, :],
                              data=own.ap([[own.shape[1], some], [each, lanes]], offset=first + k + j))
        to = out[:, nl.ds(k, many), nl.ds(at, some)]
        if factors is None:
            nisa.tensor_copy(dst=to, src=bank)
        else:
            nisa.tensor_tensor(dst=to, data1=bank, op=nl.multiply,
                               data2=factors.ap([[each, lanes], [1, many], [0, some]], offset=k))


def normed(x, gamma, share, weights=None):
    """RMSNorm of x [batch, 1, hidden], turned: [(tile, 0)] as turned() has it. Its mean is over the model's own
    elements, as those that pad them are 0."""
    batch, hidden = x.shape[0], x.shape[2]
    return normed_rows(x.reshape((batch, hidden)), gamma, share.model.hidden, share.model.eps, weights)


def normed_rows(rows, gamma, count, eps, weights=None):
    """The same of rows [batch, hidden], of which count elements are no padding."""
    batch, hidden = rows.shape
    lanes, each, left = formats_on_chip.lanes_of(hidden, formats_on_chip.grouped(weights))
    if left:
        lanes = lanes_for(hidden)
        each = hidden // lanes
    factors, exact = sbuf((lanes, each), gamma.dtype), sbuf((lanes, each), nl.float32)
    nisa.dma_copy(dst=factors, src=gamma.reshape((lanes, each)))
    nisa.tensor_copy(dst=exact, src=factors)
    out = sbuf((lanes, each, batch), rows.dtype)
    if batch <= FEW:
        _norm_of_few(out, rows, exact, count, eps)
    else:
        for at, some in spans(batch, LANES):
            own = sbuf((some, hidden), rows.dtype)
            nisa.dma_copy(dst=own, src=rows[nl.ds(at, some), :])
            _transpose(out, scaled(own, count, eps), at, some, lanes, each, exact)
    return [(out, 0)]


def scaled(own, count, eps):
    """Rows [some, width] over the root of their mean square, of which count elements count."""
    some = own.shape[0]
    squares, total = sbuf(own.shape, nl.float32), sbuf((some, 1), nl.float32)
    nisa.activation_reduce(dst=squares, op=nl.square, data=own, reduce_op=nl.add, reduce_res=total)
    scale = factor(total, count, eps)
    out = sbuf(own.shape, own.dtype)
    nisa.tensor_scalar(dst=out, data=own, op0=nl.multiply, operand0=scale)
    return out


def factor(total, count, eps):
    """1 over the root of total / count + eps."""
    mean, out = sbuf(total.shape, nl.float32), sbuf(total.shape, nl.float32)
    nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1.0 / count, op1=nl.add, operand1=eps)
    nisa.activation(dst=out, op=nl.rsqrt, data=mean)
    return out


def _norm_of_few(out, rows, factors, count, eps):
    """The same of few rows, whose elements lie over all partitions."""
    lanes, each, batch = out.shape
    own, squares = sbuf((lanes, batch, each), rows.dtype), sbuf((lanes, batch, each), nl.float32)
    nisa.dma_copy(dst=own, src=rows.ap([[each, lanes], [rows.shape[1], batch], [1, each]]))
    nisa.activation(dst=squares, op=nl.square, data=own)
    parts = sbuf((lanes, batch), nl.float32)
    nisa.tensor_reduce(dst=parts, op=nl.add, data=squares, axis=(2,))
    total = nl.ndarray((lanes, batch), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=ones(lanes, lanes), moving=parts)
    scale = factor(total, count, eps)
    some = sbuf((lanes, each, batch), nl.float32)
    nisa.tensor_tensor(dst=some, data1=own.ap([[batch * each, lanes], [1, each], [each, batch]]),
                       data2=scale.ap([[batch, lanes], [0, each], [1, batch]]), op=nl.multiply)
    nisa.tensor_tensor(dst=out, data1=some, data2=factors.ap([[each, lanes], [1, each], [0, batch]]), op=nl.multiply)


class Piece(NamedTuple):
    """Some elements of all rows: functions of (first row, rows) give [lanes, rows] each. Lane p of the k-th has element
    first + p * lane_step + k * step, the number of a row of the weights."""

    lanes: int
    functions: list
    first: int
    lane_step: int
    step: int


def product(tiles, weights, first, columns, take):
    """rows @ weights[:, first : first + columns]: take(bank [some rows, width], number of the first row, of the first
    column) gets each piece in PSUM. tiles: the rows turned, as turned() has them."""
    pieces = [Piece(tile.shape[0], [_of_batch(tile, k) for k in range(tile.shape[1])], number, tile.shape[1], 1)
              for tile, number in tiles]
    multiply(pieces, tiles[0][0].shape[2], weights, first, columns, take)


def _of_batch(tile, k):
    def rows(at, some):
        return tile[:, k, nl.ds(at, some)]

    return rows


def multiply(pieces, batch, weights, first, columns, take):
    """The product itself, of a row in Pieces, which have weights of their own where these are a list."""
    sources = [formats_on_chip.of(each) for each in (weights if isinstance(weights, list) else [weights] * len(pieces))]
    blocks = spans(batch, LANES)
    wide = max(BANK, BANK * (BANKS // len(blocks)))
    for at, width in spans(columns, wide):
        for low in range(0, len(blocks), BANKS):
            some = blocks[low:low + BANKS]
            banks = [[(c, nl.ndarray((rows, w), dtype=nl.float32, buffer=nl.psum)) for c, w in spans(width, BANK)]
                     for _, rows in some]
            for piece, source in zip(pieces, sources):
                _stream(piece, source, first + at, width, some, banks)
            for (row, _), found in zip(some, banks):
                for c, bank in found:
                    take(sources[0].scaled(bank, first + at + c), row, at + c)


def _stream(piece, weights, first, width, blocks, banks):
    """Adds one piece to the banks, tile by tile of its weights."""
    each = len(piece.functions)
    most = max(1, min(each, TILE_BYTES // (width * weights.itemsize)))
    ring = weights.ring(piece.lanes, min(RING, -(-each // most)), most, width)
    for n, (k, count) in enumerate(spans(each, most)):
        tile = weights.tile(ring, n, piece, k, count, first, width)
        for j in range(count):
            for (row, rows), found in zip(blocks, banks):
                for c, bank in found:
                    nisa.nc_matmul(dst=bank, stationary=piece.functions[k + j](row, rows),
                                   moving=tile[:, j, nl.ds(c, bank.shape[1])])
