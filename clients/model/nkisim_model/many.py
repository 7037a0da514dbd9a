"""Implements a model's head (logits and choice of a token) for more sequences than a tile has
partitions, or more logits than SBUF holds: the weights are read once for all of them.
"""

import nki.isa as nisa
import nki.language as nl

from . import blocks, kernels
from .blocks import hbm, sbuf

LOGITS = 24 * 1024  # of a core, which kernels.head() keeps in a partition
SEARCHED = 2048  # logits of a sequence that are searched at a time


def needed(share):
    """True if kernels.head() has no space for a share."""
    return share.batch > kernels.LANES or share.vocabulary // share.lnc > LOGITS


def head(x, gamma, weights, rank_offset, group, share):
    """The same as kernels.head(), for any number of rows: of a prompt one, whatever the batch of a step."""
    batch, columns = x.shape[0], weights.shape[1]
    core, count = kernels.cores()
    half = columns // count
    tiles = blocks.normed(x, gamma, share)
    rows = blocks.spans(batch, kernels.LANES)
    pieces = blocks.spans(half, SEARCHED)
    pairs = [sbuf((some, 2 * len(pieces)), nl.float32) for _, some in rows]
    offsets = [sbuf((some, 1), nl.float32) for _, some in rows]
    for offset in offsets:
        nisa.dma_copy(dst=offset, src=rank_offset.ap([[0, offset.shape[0]], [1, 1]]))
    logits = [sbuf((some, SEARCHED), nl.float32) for _, some in rows]
    for n, (first, width) in enumerate(pieces):
        def keep(bank, row, column):
            nisa.tensor_copy(dst=logits[row // kernels.LANES][:, nl.ds(column, bank.shape[1])], src=bank)

        blocks.product(tiles, weights, core * half + first, width, keep)
        for own, pair, offset in zip(logits, pairs, offsets):
            kernels.largest(own[:, nl.ds(0, width)], offset, core * half + first, pair, n)
    own = hbm((batch, 2 * len(pieces) * count), nl.float32)
    for (at, some), pair in zip(rows, pairs):
        nisa.dma_copy(dst=own[nl.ds(at, some), nl.ds(2 * len(pieces) * core, 2 * len(pieces))], src=pair)
    kernels.meet(own, count)
    return kernels.choice(own, group, batch)
