"""Loads weights from HBM for a product in a decode kernel: plain ones, and quantised ones.

Quantised weights are a dictionary: data [k, n] and scale. Where the Tensor engine takes the data's dtype, a scale of
one row belongs to columns, and multiplies what the engine made of the weights as they are. Otherwise a row of the scale
belongs to a group of rows: each tile is dequantised before the product. Of four bits a byte holds columns 2 j (low) and
2 j + 1, each with 8 added.
"""

import math

import nki.isa as nisa
import nki.language as nl

LANES = 128
ZERO = 8.0  # what is added to four bits
BANK = 512
INTEGERS = ("int8", "uint8")  # that the Tensor engine does not take
MOST_IDLE = 112  # partitions that dequantise at least, for scales that are whole


def of(weights):
    """The weights as product() takes them, from a tensor [k, n] in HBM, or a dictionary."""
    if not isinstance(weights, dict):
        return weights if isinstance(weights, Plain) else Plain(weights)
    return (Grouped if grouped(weights) else Scaled)(weights["data"], weights["scale"])


def columns(weights):
    """The columns of a product with weights."""
    return weights["scale"].shape[1] if isinstance(weights, dict) else weights.shape[1]


def group_of(rows, group):
    """The rows that share a scale in HBM: those of the format, or fewer where the rows of a partition have no whole
    groups (their scales are then there several times)."""
    group = math.gcd(group, rows)
    each = lanes_of(rows, group)[1]
    return group if group % each == 0 or each % group == 0 else math.gcd(group, each)


def lanes_of(size, group=0):
    """(partitions, elements of each, elements that are left): how a row's elements lie on partitions. group: rows of
    the weights that share a scale, of which each partition has whole ones or a part of one where few are idle then."""
    if size < LANES:
        return size, 1, 0
    each = 1
    while group and each < group and each * LANES < size:
        each *= 2
    if group and size % each == 0 and group % each == 0 and MOST_IDLE <= size // each <= LANES:
        return size // each, each, 0
    return LANES, size // LANES, size % LANES


def grouped(weights):
    """Rows that share a scale of weights that are dequantised; 0 of others."""
    if not isinstance(weights, dict) or weights["scale"].shape[0] == 1 and str(weights["data"].dtype) not in INTEGERS:
        return 0
    return weights["data"].shape[0] // weights["scale"].shape[0]


class Plain:
    """Weights [k, n] whose elements the Tensor engine takes as they are."""

    def __init__(self, data):
        self.data = data
        self.itemsize = data.itemsize

    def ring(self, lanes, tiles, most, width):
        """Space in SBUF for so many tiles: one tensor, so that none gets storage of its own."""
        return nl.ndarray((lanes, tiles, most, width), dtype=self.data.dtype, buffer=nl.sbuf)

    def tile(self, ring, n, piece, k, count, first, width):
        """The n-th tile: of a Piece's rows the `count` from the k-th on, of columns those from first on."""
        to = ring[:, n % ring.shape[1], nl.ds(0, count), nl.ds(0, width)]
        _fetch(to, self.data, piece, k, first)
        return to

    def scaled(self, bank, first):
        """A finished piece of the product, whose first column is `first`."""
        return bank


def _fetch(to, data, piece, k, first):
    lanes, count, width = to.shape
    whole = data.shape[1]
    nisa.dma_copy(dst=to, src=data.ap([[piece.lane_step * whole, lanes], [piece.step * whole, count], [1, width]],
                                      offset=(piece.first + k * piece.step) * whole + first))


class Scaled(Plain):
    """Weights of eight bits with a scale for each column [1, n]."""

    def __init__(self, data, scale):
        super().__init__(data)
        self.scale = scale

    def scaled(self, bank, first):
        rows, width = bank.shape
        own, out = (nl.ndarray((rows, width), dtype=dtype, buffer=nl.sbuf) for dtype in (self.scale.dtype, nl.float32))
        nisa.dma_copy(dst=own, src=self.scale.ap([[0, rows], [1, width]], offset=first))
        nisa.tensor_tensor(dst=out, data1=bank, data2=own, op=nl.multiply)
        return out


class Grouped(Plain):
    """Weights of eight or four bits with a scale for each column of some rows [groups, n], in the dtype that the
    product is computed in."""

    def __init__(self, data, scale):
        super().__init__(data)
        self.scale, self.four = scale, data.shape[1] != scale.shape[1]
        self.group = data.shape[0] // scale.shape[0]
        self.itemsize = scale.itemsize
        self.kept = (None, None)  # the scales of the last run of rows, which several tiles may have

    def ring(self, lanes, tiles, most, width):
        return nl.ndarray((lanes, tiles, most, width), dtype=self.scale.dtype, buffer=nl.sbuf)

    def tile(self, ring, n, piece, k, count, first, width):
        to, packed = ring[:, n % ring.shape[1], nl.ds(0, count), nl.ds(0, width)], 2 if self.four else 1
        raw = nl.ndarray((piece.lanes, count, width // packed), dtype=self.data.dtype, buffer=nl.sbuf)
        _fetch(raw, self.data, piece, k, first // packed)
        for at, some, scales in self._scales(piece, k, count, first, width):
            for c in range(0, width, BANK):
                wide = min(BANK, width - c)
                factor = scales(c, wide)
                self._dequantise(to[:, nl.ds(at, some), nl.ds(c, wide)],
                                 raw[:, nl.ds(at, some), nl.ds(c // packed, wide // packed)], factor)
        return to

    def _dequantise(self, to, raw, factor):
        """raw times factor [lanes, columns], into to [lanes, rows, columns]."""
        lanes, rows, wide = to.shape
        if not self.four:
            nisa.tensor_tensor(dst=to, data1=raw, data2=factor.expand_dims(1).broadcast_to((lanes, rows, wide)),
                               op=nl.multiply)
            return
        for odd, op, by in ((0, nl.bitwise_and, 0x0F), (1, nl.right_shift, 4)):
            half = nl.ndarray(raw.shape, dtype=raw.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=half, data=raw, op0=op, operand0=by)
            nisa.scalar_tensor_tensor(dst=to[:, :, odd::2], data=half, op0=nl.subtract, operand0=ZERO, op1=nl.multiply,
                                      operand1=factor[:, odd::2].expand_dims(1).broadcast_to((lanes, rows, wide // 2)))

    def _scales(self, piece, k, count, first, width):
        """(first row, rows, a function of (column, columns) that gives their factors [lanes, columns]) of runs of rows
        that share a scale in every lane."""
        if piece.lane_step == 1 and piece.step > 1:
            return [(n, 1, self._spread(piece, piece.first + (k + n) * piece.step, first)) for n in range(count)]
        each = piece.lane_step
        run = min(self.group, each)
        rows, begin = [], k
        while begin < k + count:
            end = min(k + count, (begin // run + 1) * run)
            rows.append((begin - k, end - begin, self._own(piece, begin // run, run, first, width)))
            begin = end
        return rows

    def _own(self, piece, n, run, first, width):
        """The scales of the n-th run of rows of each lane, which are as many rows or fewer than a group."""
        whole, each, lanes = self.scale.shape[1], piece.lane_step, piece.lanes
        if self.kept[0] == (piece.first, n, first, width):
            return self.kept[1]
        own = nl.ndarray((lanes, width), dtype=self.scale.dtype, buffer=nl.sbuf)
        begin = piece.first // self.group
        if each >= self.group:
            nisa.dma_copy(dst=own, src=self.scale.ap([[each // self.group * whole, lanes], [1, width]],
                                                     offset=(begin + n) * whole + first))
        else:
            shared = self.group // each  # lanes of a group
            full = lanes // shared
            for lane, groups, some in ((0, full, shared), (full * shared, 1, lanes % shared)):
                if groups and some:
                    nisa.dma_copy(dst=own[nl.ds(lane, groups * some), :], src=self.scale.ap(
                        [[whole, groups], [0, some], [1, width]], offset=(begin + lane // shared) * whole + first))
        self.kept = (piece.first, n, first, width), lambda c, wide: own[:, nl.ds(c, wide)]
        return self.kept[1]

    def _spread(self, piece, row, first):
        """The scales of lanes that are rows from `row` on: the Tensor engine gives each lane that of its group."""
        whole, lanes = self.scale.shape[1], piece.lanes
        groups, shared = max(1, lanes // self.group), min(self.group, lanes)

        def scales(c, wide):
            own = nl.ndarray((groups, wide), dtype=self.scale.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=own, src=self.scale.ap([[whole, groups], [1, wide]],
                                                     offset=row // self.group * whole + first + c))
            bank = nl.ndarray((lanes, wide), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=bank, stationary=_members(groups, shared, lanes, self.scale.dtype), moving=own)
            return bank

        return scales


def _members(groups, shared, lanes, dtype):
    """[groups, lanes]: 1 where a lane is of a group of `shared`."""
    number, low, high = (nl.ndarray((groups, lanes), dtype=kind, buffer=nl.sbuf)
                         for kind in (nl.int32, nl.float32, nl.float32))
    nisa.iota(dst=number, pattern=[[1, lanes]], offset=0, channel_multiplier=-shared)
    nisa.tensor_scalar(dst=low, data=number, op0=nl.greater_equal, operand0=0.0)
    nisa.tensor_scalar(dst=high, data=number, op0=nl.less, operand0=float(shared))
    out = nl.ndarray((groups, lanes), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=out, data1=low, data2=high, op=nl.multiply)
    return out


class Gathered(Plain):
    """Weights whose rows of each partition begin at a number [lanes, 1] of rows, which the chip found."""

    def __init__(self, data, columns, rows):
        super().__init__(data)
        self.columns, self.rows = columns, rows

    def tile(self, ring, n, piece, k, count, first, width):
        to = ring[:, n % ring.shape[1], nl.ds(0, count), nl.ds(0, width)]
        nisa.dma_copy(dst=to, src=self.data.ap(
            [[self.columns, piece.lanes], [piece.step * self.columns, count], [1, width]],
            offset=k * piece.step * self.columns + first, vector_offset=self.rows, indirect_dim=0))
        return to
