"""Sorts tokens by the experts that they chose, in kernels whose shapes are fixed.

A pair is a token and one expert that it chose. It gets a slot: a row of the experts' inputs and outputs in HBM. Slots
are counted by the Tensor engine (a product with a triangle of ones), tokens are scattered to them and gathered from
them by descriptors that hold their numbers. Pairs beyond the last slot of an expert are left out, as where a server has
a capacity factor; Share.pairs and Share.rows_of_expert() say how many slots there are.
"""

from typing import NamedTuple

import nki.isa as nisa
import nki.language as nl

from . import blocks, kernels
from .blocks import BANK, LANES, sbuf


class Chosen(NamedTuple):
    """Up to 128 tokens: the numbers of their experts and their weights, [tokens, top_k] in float32 each."""

    numbers: object
    weights: object


class Slots:
    """The slots of all pairs whose expert this rank has.

    experts: of this rank; each: slots of an expert, or of all of them together where `together`. columns: numbers that
    are kept of a pair: its token, and its expert if there are two. list: [slots, columns] int32 in HBM.
    """

    def __init__(self, share, group, tokens, each, together=False):
        self.share, self.k, self.each, self.together = share, share.model.top_k, each, together
        self.experts, self.group, self.columns = share.experts, group, 2 if together else 1
        self.queues = 1 if together else self.experts
        self.total = self.queues * each
        size = -(-(self.total + tokens * self.k) // LANES) * LANES
        self.list = nl.ndarray((size, self.columns), dtype=nl.int32, buffer=nl.private_hbm)
        none = sbuf((LANES, size // LANES * self.columns), nl.int32)
        nisa.memset(dst=none, value=0)
        nisa.dma_copy(dst=self.list.reshape((LANES, size // LANES * self.columns)), src=none)
        self.seen = sbuf((1, self.queues), nl.float32)  # pairs of each queue so far
        nisa.memset(dst=self.seen, value=0.0)
        self.tokens = []  # (slots [tokens, top_k], weights) of each 128 tokens

    def add(self, chosen):
        """Gives the next up to 128 tokens their slots, and scatters them."""
        rows, first = chosen.numbers.shape[0], len(self.tokens) * LANES
        local = local_numbers(chosen.numbers, self.group, self.experts)
        place = self._places_together(local) if self.together else self._places(local)
        slot = self._slot(local, place, first)
        pair = sbuf((rows, self.k, self.columns), nl.int32)
        nisa.iota(dst=pair[:, :, 0], pattern=[[0, self.k]], offset=first, channel_multiplier=1)
        if self.together:
            nisa.tensor_copy(dst=pair[:, :, 1], src=local)
        for j in range(self.k):
            to = self.list.ap([[self.columns, rows], [1, self.columns]], vector_offset=slot[:, nl.ds(j, 1)],
                              indirect_dim=0)
            nisa.dma_copy(dst=to, src=pair[:, j, :])
        found = sbuf((rows, self.k), nl.uint32)
        nisa.tensor_scalar(dst=found, data=slot, op0=nl.minimum, operand0=float(self.total))
        self.tokens.append((found, chosen.weights))

    def _places(self, local):
        """The place of each pair among those of its expert, from 1; 0 of another rank's."""
        rows, k = local.shape
        number, some = _counted(rows, self.experts), sbuf((rows, self.experts), nl.float32)
        for j in range(k):
            has = sbuf((rows, self.experts), nl.float32)
            nisa.tensor_scalar(dst=has, data=number, op0=nl.equal, operand0=local[:, nl.ds(j, 1)])
            if j:
                nisa.tensor_tensor(dst=has, data1=has, data2=some, op=nl.add)
            some = has
        before = self._before(some)
        out, part = sbuf((rows, k), nl.float32), sbuf((rows, self.experts), nl.float32)
        for j in range(k):
            nisa.scalar_tensor_tensor(dst=part, data=number, op0=nl.equal, operand0=local[:, nl.ds(j, 1)],
                                      op1=nl.multiply, operand1=before)
            nisa.tensor_reduce(dst=out[:, nl.ds(j, 1)], op=nl.add, data=part, axis=(1,))
        return out

    def _places_together(self, local):
        """The place of each pair among all of this rank, from 1; 0 of another rank's."""
        rows, k = local.shape
        mine, within, out = (sbuf((rows, k), nl.float32) for _ in range(3))
        nisa.tensor_scalar(dst=mine, data=local, op0=nl.greater_equal, operand0=0.0)
        total, less = sbuf((rows, 1), nl.float32), sbuf((rows, 1), nl.float32)
        nisa.tensor_reduce(dst=total, op=nl.add, data=mine, axis=(1,))
        nisa.tensor_tensor_scan(dst=within, data0=blocks.ones(rows, k), data1=mine, initial=0.0, op0=nl.multiply,
                                op1=nl.add)
        nisa.tensor_tensor(dst=less, data1=self._before(total), data2=total, op=nl.subtract)
        nisa.scalar_tensor_tensor(dst=out, data=within, op0=nl.add, operand0=less, op1=nl.multiply, operand1=mine)
        return out

    def _before(self, some):
        """The pairs of each queue up to each token, with its own: [tokens, queues]."""
        rows, queues = some.shape
        out = sbuf((rows, queues), nl.float32)
        for at, wide in blocks.spans(queues, BANK):
            these, bank = nl.ds(at, wide), nl.ndarray((rows, wide), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=bank, stationary=_triangle(rows), moving=some[:, these])
            nisa.nc_matmul(dst=bank, stationary=blocks.ones(1, rows), moving=self.seen[:, these])
            nisa.tensor_copy(dst=out[:, these], src=bank)
            last = nl.ndarray((1, wide), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=last, stationary=blocks.ones(rows, 1), moving=some[:, these])
            nisa.tensor_tensor(dst=self.seen[:, these], data1=self.seen[:, these], data2=last, op=nl.add)
        return out

    def _slot(self, local, place, first):
        """The number of each pair's slot, one of its own behind all where it has none."""
        rows, k = local.shape
        out, spare, ok, at = sbuf((rows, k), nl.uint32), sbuf((rows, k), nl.float32), *(sbuf((rows, k), nl.float32)
                                                                                       for _ in range(2))
        number = sbuf((rows, k), nl.int32)
        nisa.iota(dst=number, pattern=[[1, k]], offset=self.total + first * k, channel_multiplier=k)
        nisa.tensor_copy(dst=spare, src=number)
        nisa.tensor_scalar(dst=ok, data=place, op0=nl.less_equal, operand0=float(self.each))
        nisa.scalar_tensor_tensor(dst=ok, data=place, op0=nl.greater_equal, operand0=1.0, op1=nl.multiply, operand1=ok)
        nisa.tensor_scalar(dst=at, data=local, op0=nl.multiply, operand0=0.0 if self.together else float(self.each),
                           op1=nl.subtract, operand1=1.0)
        nisa.tensor_tensor(dst=at, data1=at, data2=place, op=nl.add)
        nisa.tensor_tensor(dst=at, data1=at, data2=spare, op=nl.subtract)
        nisa.tensor_tensor(dst=at, data1=at, data2=ok, op=nl.multiply)
        nisa.tensor_tensor(dst=out, data1=at, data2=spare, op=nl.add)
        return out

    def numbers(self, first, count, column=0):
        """What is kept of `count` slots from `first` on: [count, 1] int32."""
        out = sbuf((count, 1), nl.int32)
        nisa.dma_copy(dst=out, src=self.list[nl.ds(first, count), nl.ds(column, 1)])
        return out

    def gathered(self, rows, first, count):
        """The rows [tokens, size] of the tokens of these slots, up to 128."""
        size = rows.shape[1]
        out = sbuf((count, size), rows.dtype)
        nisa.dma_copy(dst=out, src=rows.ap([[size, count], [1, size]], vector_offset=self.numbers(first, count),
                                           indirect_dim=0))
        return out

    def summed(self, found, out):
        """The sum over each token's pairs of what is in their slots, by its weights: found [slots and a row of zeros,
        size], out [tokens, size]. Each core does half of the columns."""
        core, count = kernels.cores()
        whole = found.shape[1]
        at, width = blocks.halves(whole, core, count, BANK)
        for n, (slots, weights) in enumerate(self.tokens if width else ()):
            rows, total = slots.shape[0], None
            for j in range(self.k):
                some, more = sbuf((rows, width), found.dtype), sbuf((rows, width), nl.float32)
                nisa.dma_copy(dst=some, src=found.ap([[whole, rows], [1, width]], offset=at, indirect_dim=0,
                                                     vector_offset=slots[:, nl.ds(j, 1)]))
                weight = weights[:, nl.ds(j, 1)]
                if total is None:
                    nisa.tensor_scalar(dst=more, data=some, op0=nl.multiply, operand0=weight)
                else:
                    nisa.scalar_tensor_tensor(dst=more, data=some, op0=nl.multiply, operand0=weight, op1=nl.add,
                                              operand1=total)
                total = more
            row = sbuf((rows, width), out.dtype)
            nisa.tensor_copy(dst=row, src=total)
            nisa.dma_copy(dst=out[nl.ds(n * LANES, rows), nl.ds(at, width)], src=row)


def local_numbers(numbers, group, experts):
    """Numbers of experts counted from the rank's first one: negative for another rank's. group: [1, 1], its number."""
    rows, k = numbers.shape
    if group is None:
        return numbers
    own, first, out, high = sbuf((rows, 1), group.dtype), sbuf((rows, 1), nl.float32), *(sbuf((rows, k), nl.float32)
                                                                                        for _ in range(2))
    nisa.dma_copy(dst=own, src=group.ap([[0, rows], [1, 1]]))
    nisa.tensor_scalar(dst=first, data=own, op0=nl.multiply, operand0=float(experts))
    nisa.tensor_scalar(dst=out, data=numbers, op0=nl.subtract, operand0=first)
    # Those above the rank's last one become negative as well.
    nisa.tensor_scalar(dst=high, data=out, op0=nl.greater_equal, operand0=float(experts), op1=nl.multiply,
                       operand1=float(-2**20))
    nisa.tensor_tensor(dst=out, data1=out, data2=high, op=nl.add)
    return out


def weights_by_expert(chosen, group, experts):
    """The weight of each of the rank's experts for each token, 0 where it chose others: [tokens, experts]."""
    local = local_numbers(chosen.numbers, group, experts)
    rows, k = local.shape
    number, out = _counted(rows, experts), None
    for j in range(k):
        some = sbuf((rows, experts), nl.float32)
        nisa.tensor_scalar(dst=some, data=number, op0=nl.equal, operand0=local[:, nl.ds(j, 1)], op1=nl.multiply,
                           operand1=chosen.weights[:, nl.ds(j, 1)])
        if out is not None:
            nisa.tensor_tensor(dst=some, data1=some, data2=out, op=nl.add)
        out = some
    return out


def _counted(rows, columns):
    """0 ... columns - 1 in each row, in float32."""
    number, out = sbuf((rows, columns), nl.int32), sbuf((rows, columns), nl.float32)
    nisa.iota(dst=number, pattern=[[1, columns]], offset=0, channel_multiplier=0)
    nisa.tensor_copy(dst=out, src=number)
    return out


def _triangle(size):
    """[size, size]: 1 where the column is not before the row."""
    number, out = sbuf((size, size), nl.int32), sbuf((size, size), nl.float32)
    nisa.iota(dst=number, pattern=[[1, size]], offset=0, channel_multiplier=-1)
    nisa.tensor_scalar(dst=out, data=number, op0=nl.greater_equal, operand0=0.0)
    return out
