"""Sorts tokens by the experts that they chose, in kernels whose shapes are fixed.

A pair is a token and one expert that it chose. It gets a slot: a row of the experts' inputs and outputs. The Tensor
engine counts them (a product with a triangle of ones). Many tokens are scattered to slots and gathered from them by
descriptors that hold their numbers; few by products with matrices of ones and zeros. Pairs beyond the last slot of an
expert are left out, as where a server has a capacity factor. Share.pairs and Share.rows_of_expert() say how many slots
there are.
"""

from typing import NamedTuple

import nki.isa as nisa
import nki.language as nl

from . import blocks, kernels
from .blocks import BANK, LANES, sbuf


class Chosen(NamedTuple):
    """Up to 128 tokens: the numbers of their experts and their weights, [tokens, top_k] in float32 each; both: next to
    each other in one tile."""

    numbers: object
    weights: object
    both: object


class Slots:
    """The slots of all pairs whose expert this rank has.

    each: slots of an expert. list: the token of each slot, [slots, 1] int32 in HBM.
    """

    def __init__(self, share, group, tokens, each):
        self.k, self.each, self.experts, self.group = share.model.top_k, each, share.experts, group
        self.total = self.experts * each
        size = -(-(self.total + tokens * self.k) // LANES) * LANES
        self.list = nl.ndarray((size, 1), dtype=nl.int32, buffer=nl.private_hbm)
        none = sbuf((LANES, size // LANES), nl.int32)
        nisa.memset(dst=none, value=0)
        nisa.dma_copy(dst=self.list.reshape((LANES, size // LANES)), src=none)
        self.seen = sbuf((1, self.experts), nl.float32)  # pairs of each expert so far
        nisa.memset(dst=self.seen, value=0.0)
        self.tokens = []  # (slots [tokens, top_k], weights) of each 128 tokens

    def add(self, chosen):
        """Gives the next up to 128 tokens their slots, and scatters them."""
        rows, first = chosen.numbers.shape[0], len(self.tokens) * LANES
        slot = self._slot(local_numbers(chosen.numbers, self.group, self.experts), first)
        token = sbuf((rows, 1), nl.int32)
        nisa.iota(dst=token, pattern=[[1, 1]], offset=first, channel_multiplier=1)
        for j in range(self.k):
            nisa.dma_copy(dst=self.list.ap([[1, rows], [1, 1]], vector_offset=slot[:, nl.ds(j, 1)], indirect_dim=0),
                          src=token)
        found = sbuf((rows, self.k), nl.uint32)
        nisa.tensor_scalar(dst=found, data=slot, op0=nl.minimum, operand0=float(self.total))
        self.tokens.append((found, chosen.weights))

    def _places(self, local):
        """The place of each pair among those of its expert, from 1; 0 of another rank's."""
        rows, k = local.shape
        number, some = counted(rows, self.experts), sbuf((rows, self.experts), nl.float32)
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

    def _before(self, some):
        """The pairs of each expert up to each token, with its own: [tokens, experts]."""
        rows, experts = some.shape
        out = sbuf((rows, experts), nl.float32)
        for at, wide in blocks.spans(experts, BANK):
            these, bank = nl.ds(at, wide), nl.ndarray((rows, wide), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=bank, stationary=blocks.triangle(rows), moving=some[:, these])
            nisa.nc_matmul(dst=bank, stationary=blocks.ones(1, rows), moving=self.seen[:, these])
            nisa.tensor_copy(dst=out[:, these], src=bank)
            last = nl.ndarray((1, wide), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=last, stationary=blocks.ones(rows, 1), moving=some[:, these])
            nisa.tensor_tensor(dst=self.seen[:, these], data1=self.seen[:, these], data2=last, op=nl.add)
        return out

    def _slot(self, local, first):
        """The number of each pair's slot, one of its own behind all where it has none."""
        (rows, k), place = local.shape, self._places(local)
        out, spare, ok, at = sbuf((rows, k), nl.uint32), sbuf((rows, k), nl.float32), *(sbuf((rows, k), nl.float32)
                                                                                       for _ in range(2))
        number = sbuf((rows, k), nl.int32)
        nisa.iota(dst=number, pattern=[[1, k]], offset=self.total + first * k, channel_multiplier=k)
        nisa.tensor_copy(dst=spare, src=number)
        nisa.tensor_scalar(dst=ok, data=place, op0=nl.less_equal, operand0=float(self.each))
        nisa.scalar_tensor_tensor(dst=ok, data=place, op0=nl.greater_equal, operand0=1.0, op1=nl.multiply, operand1=ok)
        nisa.tensor_scalar(dst=at, data=local, op0=nl.multiply, operand0=float(self.each), op1=nl.subtract,
                           operand1=1.0)
        nisa.tensor_tensor(dst=at, data1=at, data2=place, op=nl.add)
        nisa.tensor_tensor(dst=at, data1=at, data2=spare, op=nl.subtract)
        nisa.tensor_tensor(dst=at, data1=at, data2=ok, op=nl.multiply)
        nisa.tensor_tensor(dst=out, data1=at, data2=spare, op=nl.add)
        return out

    def gathered(self, rows, first, count):
        """The rows [tokens, size] of the tokens of these slots, up to 128."""
        size, token = rows.shape[1], sbuf((count, 1), nl.int32)
        out = sbuf((count, size), rows.dtype)
        nisa.dma_copy(dst=token, src=self.list[nl.ds(first, count), :])
        nisa.dma_copy(dst=out, src=rows.ap([[size, count], [1, size]], vector_offset=token, indirect_dim=0))
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


class FewSlots:
    """The slots of the pairs of up to 128 tokens, for all experts of the rank together: matrices of ones and zeros.

    numbers, weights: of each slot's expert, in every partition [128, slots]. tokens: [tokens, slots], 1 where a slot is
    of a token.
    """

    def __init__(self, chosen, group, experts, count):
        local = local_numbers(chosen.numbers, group, experts)
        (rows, k), place = local.shape, _places_of_few(local)
        number, self.tokens = counted(rows, count, 1), sbuf((rows, count), nl.float32)
        banks = [nl.ndarray((LANES, count), dtype=nl.float32, buffer=nl.psum) for _ in range(2)]
        for j in range(k):
            here = self.tokens if k == 1 else sbuf((rows, count), nl.float32)
            nisa.tensor_scalar(dst=here, data=number, op0=nl.equal, operand0=place[:, nl.ds(j, 1)])
            for bank, of_pair in zip(banks, (local, chosen.weights)):
                same = sbuf((rows, LANES), nl.float32)
                nisa.tensor_copy(dst=same, src=of_pair[:, nl.ds(j, 1)].broadcast_to((rows, LANES)))
                nisa.nc_matmul(dst=bank, stationary=same, moving=here)
            if j:
                nisa.tensor_tensor(dst=here, data1=here, data2=self.tokens, op=nl.add)
            self.tokens = here
        self.numbers, self.weights = (sbuf((LANES, count), nl.float32) for _ in range(2))
        for to, bank in zip((self.numbers, self.weights), banks):
            nisa.tensor_copy(dst=to, src=bank)


def _places_of_few(local):
    """The place of each pair among those of this rank, from 1; 0 of another rank's."""
    rows, k = local.shape
    mine, within, out = (sbuf((rows, k), nl.float32) for _ in range(3))
    nisa.tensor_scalar(dst=mine, data=local, op0=nl.greater_equal, operand0=0.0)
    total, before = sbuf((rows, 1), nl.float32), sbuf((rows, 1), nl.float32)
    nisa.tensor_reduce(dst=total, op=nl.add, data=mine, axis=(1,))
    nisa.tensor_tensor_scan(dst=within, data0=blocks.ones(rows, k), data1=mine, initial=0.0, op0=nl.multiply,
                            op1=nl.add)
    bank = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=blocks.triangle(rows), moving=total)
    nisa.tensor_tensor(dst=before, data1=bank, data2=total, op=nl.subtract)
    nisa.scalar_tensor_tensor(dst=out, data=within, op0=nl.add, operand0=before, op1=nl.multiply, operand1=mine)
    return out


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
    # Numbers above the rank's last one become negative as well.
    nisa.tensor_scalar(dst=high, data=out, op0=nl.greater_equal, operand0=float(experts), op1=nl.multiply,
                       operand1=float(-2**20))
    nisa.tensor_tensor(dst=out, data1=out, data2=high, op=nl.add)
    return out


def weights_by_expert(chosen, group, experts):
    """The weight of each of the rank's experts for each token, 0 where it chose others: [tokens, experts]."""
    local = local_numbers(chosen.numbers, group, experts)
    rows, k = local.shape
    number, out = counted(rows, experts), None
    for j in range(k):
        some = sbuf((rows, experts), nl.float32)
        nisa.tensor_scalar(dst=some, data=number, op0=nl.equal, operand0=local[:, nl.ds(j, 1)], op1=nl.multiply,
                           operand1=chosen.weights[:, nl.ds(j, 1)])
        if out is not None:
            nisa.tensor_tensor(dst=some, data1=some, data2=out, op=nl.add)
        out = some
    return out


def counted(rows, columns, first=0):
    """first, first + 1 ... in each row, in float32."""
    number, out = sbuf((rows, columns), nl.int32), sbuf((rows, columns), nl.float32)
    nisa.iota(dst=number, pattern=[[1, columns]], offset=first, channel_multiplier=0)
    nisa.tensor_copy(dst=out, src=number)
    return out
