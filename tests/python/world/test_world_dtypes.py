"""Tests collectives on every dtype, of random groups, in HBM and in SBUF, during DMA traffic,
against NumPy. Runs with timing, without, and with equal ranks simulated once leave the same
bytes.
"""

import functools

import ml_dtypes
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

ROWS, COLUMNS = 8, 32
DTYPES = {
    "float32": (nl.float32, np.float32), "bfloat16": (nl.bfloat16, ml_dtypes.bfloat16),
    "float16": (nl.float16, np.float16), "float8_e5m2": (nl.float8_e5m2, ml_dtypes.float8_e5m2),
    "float8_e4m3": (nl.float8_e4m3, ml_dtypes.float8_e4m3), "int8": (nl.int8, np.int8),
    "uint8": (nl.uint8, np.uint8), "int16": (nl.int16, np.int16), "uint16": (nl.uint16, np.uint16),
    "int32": (nl.int32, np.int32), "uint32": (nl.uint32, np.uint32)}
OPERATORS = {"add": (nl.add, np.add), "maximum": (nl.maximum, np.maximum), "minimum": (nl.minimum, np.minimum)}
KINDS = ("all_reduce", "in_place", "all_gather", "reduce_scatter", "all_to_all", "permute", "ring", "tiles",
         "tiles_gather", "ring_reduce")


def reduced(values, dtype, operator):
    """From left to right, floating point in FP32 and rounded once, integers exactly and saturating."""
    _, function = OPERATORS[operator]
    integer = np.issubdtype(dtype, np.integer)
    with np.errstate(over="ignore"):
        total = functools.reduce(function, [v.astype(np.int64 if integer else np.float32) for v in values])
        if integer:
            total = np.clip(total, np.iinfo(dtype).min, np.iinfo(dtype).max)
        return total.astype(dtype)


def _call_in_hbm(kind, src, dst, groups, op):
    """Calls an operation on tensors in HBM; the tensor that has the result."""
    group, members = ncc.ReplicaGroup(groups), groups[0]
    if kind == "all_reduce":
        ncc.all_reduce([src], [dst], group, op)
    elif kind == "in_place":
        ncc.all_reduce([src], [src], group, op)
        return src
    elif kind == "all_gather":
        ncc.all_gather([src], [dst], group, 0)
    elif kind == "reduce_scatter":
        ncc.reduce_scatter([src], [dst], group, 0, op)
    elif kind == "all_to_all":
        ncc.all_to_all([src], [dst], group, 0)
    elif kind == "permute":
        ncc.collective_permute([src], [dst], list(zip(members, members[1:] + members[:1])))
    elif kind == "ring":
        ncc.collective_permute_implicit([[src]], [[dst]], group)
    else:
        assert kind == "ring_reduce"
        ncc.collective_permute_implicit_reduce([[src]], [[src]], [[dst]], group, op)
    return dst


def _call_in_sbuf(wide, x, src, out, group, size, op, core):
    """Calls an operation on tiles, and copies the result to `out`."""
    tile = nl.ndarray((ROWS, COLUMNS), dtype=src.dtype, buffer=nl.sbuf)
    total = nl.ndarray((ROWS, COLUMNS * (size if wide else 1)), dtype=src.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=src)
    for c in range(0, total.shape[1], COLUMNS):
        nisa.dma_copy(dst=total[:, c:c + COLUMNS], src=x)
    if wide:
        ncc.all_gather([tile], [total], group, 1)
    else:
        ncc.all_reduce([tile], [total], group, op)
    if core == 0:
        for c in range(0, total.shape[1], COLUMNS):
            nisa.dma_copy(dst=out[c // COLUMNS * ROWS:][0:ROWS], src=total[:, c:c + COLUMNS])


class RandomCase:
    def __init__(self, seed, name):
        rng = np.random.default_rng([seed, list(DTYPES).index(name)])
        self.dtype, self.numpy = DTYPES[name]
        self.ranks = int(rng.choice([2, 4, 8]))
        self.lnc = int(rng.choice([1, 2]))
        self.same = bool(rng.integers(2))  # inputs: values may be shared
        self.steps = [self._step(rng, str(kind)) for kind in rng.choice(KINDS, 5)]
        bits = rng.integers(0, 256, (self.ranks, ROWS, COLUMNS, np.dtype(self.numpy).itemsize))
        values = np.ascontiguousarray(bits.astype(np.uint8)).view(self.numpy)[..., 0]
        if not np.issubdtype(self.numpy, np.integer):  # all finite values: NaNs have many encodings
            values = np.where(np.isfinite(values.astype(np.float32)), values, 1).astype(self.numpy)
            if name == "float32":
                values = rng.standard_normal(values.shape).astype(np.float32)
        self.inputs = [values[0 if self.same else r] for r in range(self.ranks)]

    def _step(self, rng, kind):
        size = int(rng.choice([s for s in (2, 4, 8) if s <= self.ranks]))
        order = [int(r) for r in rng.permutation(self.ranks)]
        groups = [order[i:i + size] for i in range(0, self.ranks, size)]
        if rng.integers(4) == 0:
            groups = groups[:1]  # the others take no part
        return kind, groups, str(rng.choice(list(OPERATORS)))

    def kernel(self, x):
        """Each step takes x to one output; meanwhile the core copies what nothing needs."""
        core = nl.program_id(0) if self.lnc == 2 else 0

        def hbm(rows=ROWS):
            return nl.ndarray((rows, COLUMNS), dtype=self.dtype, buffer=nl.shared_hbm)

        def meet(tensor):
            if self.lnc == 2:
                nisa.core_barrier(tensor, (0, 1))

        outs = []
        idle = [nl.ndarray((128, 1024), dtype=self.dtype, buffer=nl.sbuf) for _ in range(2)]
        nisa.memset(dst=idle[0], value=0)
        for kind, groups, operator in self.steps:
            group, size, op = ncc.ReplicaGroup(groups), len(groups[0]), OPERATORS[operator][0]
            wide = kind in ("all_gather", "tiles_gather")
            rows = ROWS * size if wide else ROWS // size if kind == "reduce_scatter" else ROWS
            out, src, dst = hbm(rows), hbm(), hbm(rows)
            if core == 0:
                nisa.dma_copy(dst=src, src=x)
                for first in range(0, rows, ROWS // size):  # what ranks that take no part keep
                    nisa.dma_copy(dst=dst[first:first + ROWS // size], src=x[0:ROWS // size])
            meet(src)
            meet(dst)
            for _ in range(2):
                nisa.dma_copy(dst=idle[1], src=idle[0])
            if kind.startswith("tiles"):
                _call_in_sbuf(wide, x, src, out, group, size, op, core)
                dst = None
            else:
                dst = _call_in_hbm(kind, src, dst, groups, op)
            meet(src)
            if dst is not None:
                meet(dst)
                if core == 0:
                    nisa.dma_copy(dst=out, src=dst)
            outs.append(out)
        return tuple(outs)

    def expected(self, rank):
        for kind, groups, operator in self.steps:
            group = next((g for g in groups if rank in g), None)
            size, own = len(groups[0]), self.inputs[rank]
            part = ROWS // size
            if kind in ("all_gather", "tiles_gather"):
                kept = np.concatenate([own] * size)
                if kind == "all_gather":
                    kept = np.concatenate([own[0:part]] * size * size)
            elif kind in ("tiles", "in_place"):
                kept = own
            else:
                kept = np.concatenate([own[0:part]] * (1 if kind == "reduce_scatter" else size))
            if kind == "permute":
                group = groups[0] if rank in groups[0] else None
            if group is None:
                yield kept
                continue
            at, values = group.index(rank), [self.inputs[r] for r in group]
            if kind in ("all_reduce", "in_place", "tiles"):
                yield reduced(values, self.numpy, operator)
            elif kind in ("all_gather", "tiles_gather"):
                yield np.concatenate(values)
            elif kind == "reduce_scatter":
                yield reduced(values, self.numpy, operator)[at * part:(at + 1) * part]
            elif kind == "all_to_all":
                yield np.concatenate([v[at * part:(at + 1) * part] for v in values])
            elif kind == "ring_reduce":
                yield reduced([values[at - 1], values[at - 1]], self.numpy, operator)
            else:  # permute, ring
                yield values[at - 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("seed", range(6))
def test_every_dtype(seed, name):
    drawn = RandomCase(seed, name)
    given = drawn.inputs[0] if drawn.same else nkisim.per_rank(drawn.inputs)
    runs = [nkisim.run(drawn.kernel, given, ranks=drawn.ranks, lnc=drawn.lnc, any_world=True, timing=timing,
                       fold=fold)
            for timing in (False, True) for fold in (False, True)]
    for rank in range(drawn.ranks):
        expected = list(drawn.expected(rank))
        for found in runs:
            for step, (got, want) in enumerate(zip(found[rank].outputs, expected, strict=True)):
                assert np.asarray(got).tobytes() == want.tobytes(), (drawn.steps[step], rank)
    assert [r.latency_ns for r in runs[2]] == [r.latency_ns for r in runs[3]]
