"""Tests random programs of several ranks: with and without timing, and with equal ranks simulated
once.
"""

import functools

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

ROWS, COLUMNS = 8, 16


def _called(kind, src, group, size, order, first):
    """The result of a collective operation on `src`."""
    fresh = nl.ndarray((ROWS, COLUMNS), dtype=src.dtype, buffer=nl.shared_hbm)
    wide = nl.ndarray((size * ROWS, COLUMNS), dtype=src.dtype, buffer=nl.shared_hbm)
    if kind == "reduce":
        ncc.all_reduce([src], [fresh], group, nl.add)
    elif kind == "gather":
        ncc.all_gather([src], [wide], group, 0)
    elif kind == "scatter":
        ncc.reduce_scatter([src], [fresh[0:ROWS // size]], group, 0, nl.maximum)
    elif kind == "exchange":
        ncc.all_to_all([src], [fresh], group, 0)
    elif kind == "permute":
        ncc.collective_permute([src], [fresh], list(zip(order, order[1:] + order[:1])))
    elif kind == "ring":
        ncc.collective_permute_implicit([[src]], [[fresh]], group)
    elif kind == "tiles":
        tile, total = (nl.ndarray((ROWS, COLUMNS), dtype=src.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.dma_copy(dst=tile, src=src)
        ncc.all_reduce([tile], [total], group, nl.minimum)
        if first:
            nisa.dma_copy(dst=fresh, src=total)
    return {"gather": wide[ROWS:2 * ROWS], "scatter": fresh[0:ROWS // size]}.get(kind, fresh)


class RandomCase:
    """A kernel of random steps on a few tensors, and what NumPy makes of them."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.ranks = int(rng.choice([2, 4, 8]))
        self.lnc = int(rng.choice([1, 2]))
        self.rank_dependent = bool(rng.integers(2))
        self.steps = [self._step(rng) for _ in range(int(rng.integers(4, 12)))]
        self.inputs = [rng.integers(-8, 8, (ROWS, COLUMNS)).astype(np.float32)
                       for _ in range(self.ranks)]
        self.same = bool(rng.integers(3) == 0)
        if self.same:
            self.inputs = [self.inputs[0]] * self.ranks

    def _groups(self, rng):
        order = [int(r) for r in rng.permutation(self.ranks)]
        size = int(rng.choice([s for s in (2, 4, 8) if s <= self.ranks]))
        return [order[i:i + size] for i in range(0, self.ranks, size)]

    def _step(self, rng):
        kind = rng.choice(["add", "scale", "reduce", "gather", "scatter", "exchange", "permute", "ring",
                           "tiles"])
        a, b = (int(v) for v in rng.permutation(3)[:2])
        return str(kind), a, b, self._groups(rng), [int(r) for r in rng.permutation(self.ranks)]

    def kernel(self, x, table):
        """Three tensors in HBM; core 0 alone computes, both cores call."""
        data = [nl.ndarray((ROWS, COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(3)]
        first = self.lnc == 1 or nl.program_id(0) == 0

        def meet(tensor):
            if self.lnc == 2:
                nisa.core_barrier(tensor, (0, 1))

        def move(dst, src, factor=None, add=None):
            if not first:
                return
            tile = nl.load(src)
            if add is not None:
                nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(add), op=nl.add)
            if factor is not None:
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
            nisa.dma_copy(dst=dst, src=tile)

        for i, tensor in enumerate(data):
            move(tensor, x, factor=float(i + 1))
        if self.rank_dependent and first:
            nisa.dma_copy(dst=data[1], src=table.ap([[COLUMNS, ROWS], [1, COLUMNS]],
                                                    scalar_offset=ncc.rank_id(), indirect_dim=0))
        for kind, a, b, groups, order in self.steps:
            src, dst = data[a], data[b]
            group, size = ncc.ReplicaGroup(groups), len(groups[0])
            if kind == "add":
                move(dst, src, add=dst)
            elif kind == "scale":
                move(dst, src, factor=-0.5)
            else:
                meet(src)
                result = _called(kind, src, group, size, order, first)
                meet(src)
                move(dst[0:result.shape[0]], result)
            meet(dst)
        out = nl.ndarray((3, ROWS, COLUMNS), dtype=x.dtype, buffer=nl.shared_hbm)
        for i, tensor in enumerate(data):
            move(out[i], tensor)
        return out

    def expected(self, table):
        data = [[x * (i + 1) for i in range(3)] for x in self.inputs]
        if self.rank_dependent:
            for rank, own in enumerate(data):
                own[1] = table[rank].copy()
        for kind, a, b, groups, order in self.steps:
            src = [own[a].copy() for own in data]
            for group in groups:
                for i, rank in enumerate(group):
                    part = ROWS // len(group)
                    own = data[rank]
                    if kind == "add":
                        own[b] = src[rank] + own[b]
                    elif kind == "scale":
                        own[b] = src[rank] * np.float32(-0.5)
                    elif kind == "reduce":
                        own[b] = functools.reduce(np.add, [src[r] for r in group])
                    elif kind == "gather":
                        own[b] = src[group[1]].copy()
                    elif kind == "scatter":
                        most = np.max([src[r] for r in group], axis=0)
                        own[b][:part] = most[i * part:(i + 1) * part]
                    elif kind == "exchange":
                        own[b] = np.concatenate([src[r][i * part:(i + 1) * part] for r in group])
                    elif kind == "permute":
                        own[b] = src[order[order.index(rank) - 1]].copy()
                    elif kind == "ring":
                        own[b] = src[group[i - 1]].copy()
                    elif kind == "tiles":
                        own[b] = np.min([src[r] for r in group], axis=0)
        return [np.stack(own) for own in data]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    drawn = RandomCase(seed)
    table = np.arange(drawn.ranks * ROWS * COLUMNS, dtype=np.float32).reshape(-1, ROWS, COLUMNS)
    given = drawn.inputs[0] if drawn.same else nkisim.per_rank(drawn.inputs)
    runs = [nkisim.run(drawn.kernel, given, table, ranks=drawn.ranks, lnc=drawn.lnc, any_world=True,
                       timing=timing, fold=fold)
            for timing in (False, True) for fold in (False, True)]
    for rank, expected in enumerate(drawn.expected(table)):
        for found in runs:
            assert found[rank].outputs.tobytes() == expected.tobytes()
    assert [r.latency_ns for r in runs[2]] == [r.latency_ns for r in runs[3]]
