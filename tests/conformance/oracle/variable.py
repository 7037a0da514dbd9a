"""Tests all_to_all_v and all_gather_v of nki.collectives against AWS's documents alone: random counts and places.

    python tests/conformance/oracle/variable.py [--cases 400] [--seed 1]

The pages say where each chunk of elements comes from and arrives, and which rows of the metadata are read and written.
They speak of "each other rank": what a rank sends to itself by all_to_all_v, and that column of its counts, is left
out. Elements of dsts that no chunk reaches stay as they were.
"""

import sys
from pathlib import Path

import numpy as np

import nkisim

nkisim.install()

import nki.collectives as ncc  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "oracle"

from .collectives import TYPES, any_bits  # noqa: E402
from .surveys import main, survey_ranks  # noqa: E402

SEND_COUNT, SEND_PLACE, RECEIVED, RECEIVE_PLACE = range(4)  # the rows of the metadata


class Case:
    """A drawn call of one function, and what each rank has before it."""

    def __init__(self, seed):
        r = np.random.default_rng(seed)
        self.function, self.dtype = str(r.choice(["all_to_all_v", "all_gather_v"])), str(r.choice(list(TYPES)))
        self.ranks = int(r.choice([2, 4, 8]))
        order = [int(n) for n in r.permutation(self.ranks)]
        size = int(r.choice([s for s in (2, 4, 8) if s <= self.ranks]))
        self.groups = [order[i:i + size] for i in range(0, self.ranks, size)]
        self.known = bool(r.random() < 0.5)
        self.placed = self.function == "all_to_all_v" and bool(r.random() < 0.5)
        self.on_chip = bool(r.random() < 0.5)
        self.slot, self.elements = int(r.integers(1, 20)), int(r.integers(1, 60))
        self.data = [any_bits(r, self.elements, self.dtype) for _ in range(self.ranks)]
        self.before = [any_bits(r, self.slot * size, self.dtype) for _ in range(self.ranks)]
        self.metadata = [self._row(r, size) for _ in range(self.ranks)]

    def _row(self, r, size):
        """The metadata of one rank; it may send nothing, and from the same place to several."""
        counts = r.integers(0, min(self.slot, self.elements) + 1, size)
        places = [int(r.integers(0, self.elements - n + 1)) for n in counts]
        rows = [counts, places, r.integers(0, 2 ** 32, size), self.slot * r.permutation(size)]
        return np.array(rows[:4 if self.placed else 3], np.uint32)

    def kernel(self, src, before, metadata):
        mine = nl.ndarray(src.shape, src.dtype, buffer=nl.private_hbm)
        dst = nl.ndarray(before.shape, before.dtype, buffer=nl.private_hbm)
        shape = metadata.shape
        where = nl.sbuf if self.on_chip else nl.private_hbm
        rows = nl.ndarray((1, *shape) if self.on_chip else shape, nl.uint32, buffer=where)
        nisa.dma_copy(mine, src)
        nisa.dma_copy(dst, before)
        nisa.dma_copy(rows, metadata.reshape(rows.shape))
        getattr(ncc, self.function)([mine], [dst], ncc.ReplicaGroup(self.groups), rows, recv_counts_known=self.known,
                                    has_rdispls=self.placed)
        out = nl.ndarray(dst.shape, dst.dtype, buffer=nl.shared_hbm)
        after = nl.ndarray(rows.shape, nl.uint32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, dst)
        nisa.dma_copy(after, rows)
        return out, after

    def expected(self, rank):
        """(dst, metadata, the rank's own chunk of dst, its own column) after the call."""
        group = next(g for g in self.groups if rank in g)
        own = group.index(rank)
        dst, rows = self.before[rank].copy(), self.metadata[rank].copy()
        for s, sender in enumerate(group):
            column = own if self.function == "all_to_all_v" else 0
            count, first = (int(self.metadata[sender][row][column]) for row in (SEND_COUNT, SEND_PLACE))
            to = int(rows[RECEIVE_PLACE][s]) if self.placed else self.slot * s
            dst[to:to + count] = self.data[sender][first:first + count]
            if not self.known:
                rows[RECEIVED][s] = count
        to = int(rows[RECEIVE_PLACE][own]) if self.placed else self.slot * own
        return dst, rows, slice(to, to + self.slot), own

    def differences(self):
        """Ranks whose result or metadata are others, bit for bit."""
        given = [nkisim.per_rank(each) for each in (self.data, self.before, self.metadata)]
        found = nkisim.run(self.kernel, *given, ranks=self.ranks, any_world=True, timing=False, target="trn3")
        wrong = []
        for rank in range(self.ranks):
            dst, rows, mine, own = self.expected(rank)
            got, after = (np.array(each) for each in found[rank].outputs)
            after = after.reshape(rows.shape)
            if self.function == "all_to_all_v":
                got[mine], after[RECEIVED, own] = dst[mine], rows[RECEIVED, own]
            if got.tobytes() != dst.tobytes() or after.tobytes() != rows.tobytes():
                wrong.append(rank)
        return wrong

    def __str__(self):
        return (f"{self.function}, {self.dtype}, {self.ranks} ranks in {self.groups}, counts "
                f"{'known' if self.known else 'written'}, places {'given' if self.placed else 'equal'}, metadata in "
                f"{'sbuf' if self.on_chip else 'hbm'}")


def survey(seed, count):
    """A line for each case that differs or does not run."""
    return survey_ranks(Case, seed, count)


if __name__ == "__main__":
    sys.exit(main(__doc__, survey, 400))
