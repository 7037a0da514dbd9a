"""Tests nki.collectives against AWS's documents alone: random groups of 2 to 8 ranks, with edge
values of each type.

    python tests/conformance/oracle/collectives.py [--cases 400] [--seed 1]

The pages (nki.collectives.all_reduce and its like) say which elements arrive where, and that a reduction is nl.add,
nl.minimum or nl.maximum. No page says in which order and precision sums are made, or what a NaN or zeros of two signs
give: sums are chosen that every order gives exactly, and orders of values without those.
"""

import functools
import sys
from pathlib import Path

import ml_dtypes
import numpy as np

import nkisim

nkisim.install()

import nki.collectives as ncc  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "oracle"

from .surveys import main, survey_ranks  # noqa: E402

TYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "int32": np.int32,
         "uint32": np.uint32, "int16": np.int16, "uint8": np.uint8, "int8": np.int8}
MOVES = ("all_gather", "all_to_all", "collective_permute", "collective_permute_implicit")
SUMS = ("all_reduce", "reduce_scatter")
FOLDS = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}


def any_bits(r, shape, dtype):
    """Bits of all kinds: NaNs with their payloads, infinities, subnormals, zeros of both signs."""
    size = np.dtype(TYPES[dtype]).itemsize
    return r.integers(0, 2 ** (8 * size), shape, dtype=np.uint64).astype(f"u{size}").view(TYPES[dtype])


def ordered(r, shape, dtype):
    """Values of which the larger and the smaller are decided: no NaN, no zero; limits and subnormals among them."""
    if dtype.startswith(("int", "uint")):
        limits = np.iinfo(TYPES[dtype])
        edges = [limits.min, limits.max, limits.max - 1, limits.min + 1, 1, 0]
    else:
        limits = ml_dtypes.finfo(TYPES[dtype])
        edges = [np.inf, -np.inf, float(limits.max), float(limits.min), 1.5, -2.0, float(limits.smallest_normal)]
    few = np.array(edges, TYPES[dtype])[r.integers(0, len(edges), shape)]
    if dtype in ("int32", "uint32"):  # beyond 2**24, neighbours that float32 does not distinguish
        few = np.where(r.random(shape) < 0.5, few, (2 ** 24 + r.integers(0, 4, shape)).astype(TYPES[dtype]))
    return few


def exact(r, shape, dtype):
    """Values whose sums over eight ranks each type holds, in every order."""
    low = 0 if dtype.startswith("uint") else -8
    return r.integers(low, 9, shape).astype(TYPES[dtype])


class Case:
    """A drawn call of one collective function, its data and what the pages say arrives."""

    def __init__(self, seed):
        r = np.random.default_rng(seed)
        self.function = str(r.choice(MOVES + SUMS))
        self.dtype, self.ranks = str(r.choice(list(TYPES))), int(r.choice([2, 4, 8]))
        order = [int(n) for n in r.permutation(self.ranks)]
        size = int(r.choice([s for s in (2, 4, 8) if s <= self.ranks]))
        self.groups = [order[i:i + size] for i in range(0, self.ranks, size)]
        self.pairs = list(zip(order, order[1:] + order[:1]))
        on_chip = self.function in ("all_gather", *SUMS) and r.random() < 0.4
        self.buffer = "sbuf" if on_chip else "private_hbm"
        self.axis = int(r.integers(2)) if self.function == "all_gather" and on_chip else 0
        self.tensors = 1 if on_chip or self.function.startswith("collective_permute") else int(r.integers(1, 4))
        self.op = str(r.choice(list(FOLDS)))
        draw = any_bits if self.function in MOVES else exact if self.op == "add" else ordered
        most = 3 if size < 8 else 2  # with axis 0 all ranks' rows are in the 128 partitions of one tile
        rows, columns = size * int(r.integers(1, most + 1)), int(r.integers(1, 40))
        self.data = [np.stack([draw(r, (rows, columns), self.dtype) for _ in range(self.tensors)])
                     for _ in range(self.ranks)]

    def kernel(self, x):
        size, shape = len(self.groups[0]), list(x.shape[1:])
        if self.function == "all_gather":
            shape[self.axis] *= size
        elif self.function == "reduce_scatter":
            shape[0] //= size
        where = getattr(nl, self.buffer)
        srcs = [nl.ndarray(x.shape[1:], x.dtype, buffer=where) for _ in range(self.tensors)]
        dsts = [nl.ndarray(tuple(shape), x.dtype, buffer=where) for _ in range(self.tensors)]
        for i, src in enumerate(srcs):
            nisa.dma_copy(src, x[i])
        self.call(srcs, dsts, ncc.ReplicaGroup(self.groups))
        out = nl.ndarray((self.tensors, *shape), x.dtype, buffer=nl.shared_hbm)
        for i, dst in enumerate(dsts):
            nisa.dma_copy(out[i], dst)
        return out

    def call(self, srcs, dsts, group):
        function = getattr(ncc, self.function)
        if self.function == "collective_permute":
            function(srcs, dsts, self.pairs)
        elif self.function == "collective_permute_implicit":
            function([srcs], [dsts], group)
        elif self.function == "all_reduce":
            function(srcs, dsts, group, getattr(nl, self.op))
        elif self.function == "reduce_scatter":
            function(srcs, dsts, group, 0, getattr(nl, self.op))
        else:
            function(srcs, dsts, group, self.axis)

    def expected(self, rank):
        group = next(g for g in self.groups if rank in g)
        at, given = group.index(rank), [self.data[r] for r in group]
        part = self.data[rank].shape[1] // len(group)
        own = slice(at * part, (at + 1) * part)
        if self.function == "all_gather":
            return np.concatenate(given, axis=self.axis + 1)
        if self.function == "all_to_all":
            return np.concatenate([tensor[:, own] for tensor in given], axis=1)
        if self.function == "collective_permute":
            return self.data[next(a for a, b in self.pairs if b == rank)]
        if self.function == "collective_permute_implicit":
            return given[at - 1]
        whole = functools.reduce(FOLDS[self.op], given)
        return whole if self.function == "all_reduce" else whole[:, own]

    def differences(self):
        """Ranks whose result is another one, bit for bit."""
        found = nkisim.run(self.kernel, nkisim.per_rank(self.data), ranks=self.ranks, any_world=True, timing=False)
        return [rank for rank in range(self.ranks)
                if found[rank].outputs.tobytes() != np.ascontiguousarray(self.expected(rank)).tobytes()]

    def __str__(self):
        fold = f" of {self.op}" if self.function in SUMS else ""
        return f"{self.function}{fold}, {self.dtype} in {self.buffer}, {self.ranks} ranks in {self.groups}"


def survey(seed, count):
    """A line for each case that differs or does not run."""
    return survey_ranks(Case, seed, count)


if __name__ == "__main__":
    sys.exit(main(__doc__, survey, 400))
