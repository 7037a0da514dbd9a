"""Tests collectives in two parts (start and wait, NKI 0.7): values as of the undivided ones and by
NumPy.

NKISIM_DRAWN_CASES=10000 for the large run; a case is one world, its seed its number.
"""

import json
import os

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim
from running import ROOT

CASES = int(os.environ.get("NKISIM_DRAWN_CASES", "25"))
BLOCK = 8


def hbm(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


class RandomCase:
    """Lengths and places of every rank's blocks, and what each gets by NumPy."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.gather = bool(rng.integers(2))
        self.ranks = n = int(rng.integers(2, 5))
        self.cores = int(rng.integers(1, 3))
        self.known, self.displs = bool(rng.integers(2)), bool(rng.integers(2)) and not self.gather
        size = n * BLOCK
        self.x = rng.integers(-99, 99, (n, size)).astype(np.float32)
        self.before = rng.integers(-99, 99, (n, n * BLOCK)).astype(np.float32)
        self.counts = rng.integers(0, BLOCK + 1, (n, n)).astype(np.uint32)  # [from][to]
        if self.gather:
            self.counts[:] = self.counts[:, :1]
        self.begins = rng.integers(0, size - BLOCK, (n, n)).astype(np.uint32)
        if self.gather:
            self.begins[:] = self.begins[:, :1]
        self.places = np.stack([BLOCK * rng.permutation(n) for _ in range(n)]).astype(np.uint32)

    def metadata(self, rank):
        rows = [self.counts[rank], self.begins[rank], np.full(self.ranks, 77, np.uint32)]
        return np.stack(rows + [self.places[rank]] * self.displs)

    def expected(self, to):
        out = self.before[to].copy()
        for source in range(self.ranks):
            at = self.places[to][source] if self.displs else source * BLOCK
            n, begin = self.counts[source][to], self.begins[source][to]
            out[at:at + n] = self.x[source][begin:begin + n]
        return out

    def kernel(self, split, work=0):
        group = ncc.ReplicaGroup([list(range(self.ranks))])
        name = "all_gather_v" if self.gather else "all_to_all_v"

        def run(x, meta, before):
            src, dst, mine = hbm(x.shape), hbm(before.shape), hbm(meta.shape, nl.uint32)
            nisa.dma_copy(mine, meta)
            nisa.dma_copy(dst, before)
            given = dict(recv_counts_known=self.known, has_rdispls=self.displs)
            if split:
                prepared = getattr(ncc, f"{name}_prepare")([src], [dst], group, mine, **given)
                assert isinstance(prepared, ncc.NkiInstruction)
            tile = nl.ndarray((1, x.shape[0]), x.dtype, nl.sbuf)
            nisa.dma_copy(tile, x.reshape((1, x.shape[0])))
            for _ in range(work):
                nisa.tensor_scalar(tile, tile, nl.add, 0.0)
            nisa.dma_copy(src.reshape((1, x.shape[0])), tile)
            if split:
                made = getattr(ncc, f"{name}_trigger")(prepared)
            else:
                made = getattr(ncc, name)([src], [dst], group, mine, **given)
            assert isinstance(made, ncc.NkiInstruction)
            out, seen = hbm(before.shape), hbm(meta.shape, nl.uint32)
            nisa.dma_copy(out, dst)
            nisa.dma_copy(seen, mine)
            return out, seen

        return run

    def run(self, split, work=0, **options):
        given = [nkisim.per_rank(list(a)) for a in (
            self.x, [self.metadata(r) for r in range(self.ranks)], self.before)]
        return nkisim.run(self.kernel(split, work), *given, ranks=self.ranks, lnc=self.cores,
                          any_world=True, **options)


@pytest.mark.parametrize("seed", range(CASES))
def test_a_random_collective_in_two_parts_is_numpys(seed):
    case = RandomCase(seed)
    runs = [case.run(True, timing=timing) for timing in (False, True)]
    for found in runs:
        for to, (out, seen) in enumerate(found.outputs):
            np.testing.assert_array_equal(out, case.expected(to))
            expected = np.full(case.ranks, 77) if case.known else case.counts[:, to]
            np.testing.assert_array_equal(seen[2], expected)


def handshake_ns():
    path = ROOT / "configs" / "trn2.json"
    return json.loads(path.read_text())["collectives"]["handshake"]["value"]


def test_the_set_up_takes_place_during_what_is_computed():
    """The handshake is saved where there is enough to do in between, and nothing where there is not."""
    case = RandomCase(0)
    saved = [round(case.run(False, work=n, timing=True).latency_ns - case.run(True, work=n, timing=True).latency_ns, 3)
             for n in (0, 10, 60, 200)]
    assert saved == sorted(saved) and saved[-2:] == pytest.approx([handshake_ns()] * 2, abs=0.01)
    assert 0 <= saved[0] < saved[-1]


@pytest.mark.process
def test_the_time_is_the_same_in_two_processes():
    case = RandomCase(3)
    one, two = case.run(True, work=50, timing=True), case.run(True, work=50, timing=True, processes=2)
    assert one.latency_ns == two.latency_ns
    for a, b in zip(one.outputs, two.outputs):
        np.testing.assert_array_equal(a[0], b[0])


# ---- refusals ----------------------------------------------------------------------------------
PAIR = ncc.ReplicaGroup([[0, 1]])
META = np.array([[1, 1], [0, 0], [0, 0]], np.uint32)


def assert_refused(match, body):
    def kernel(x, meta):
        src, dst, mine = hbm(x.shape), hbm(x.shape), hbm(meta.shape, nl.uint32)
        nisa.dma_copy(mine, meta)
        nisa.dma_copy(src, x)
        nisa.dma_copy(dst, x)
        body([src], [dst], mine, meta)
        out = hbm(x.shape)
        nisa.dma_copy(out, dst)
        return out

    with pytest.raises((nkisim.Error, TypeError, ValueError), match=match) as found:
        nkisim.run(kernel, np.ones(16, np.float32), META, ranks=2, lnc=2, any_world=True)
    assert "test_world_split.py" in str(found.value)
    return found.value


def _twice(s, d, m, _):
    ncc.all_to_all_v_prepare(s, d, PAIR, m)
    ncc.all_gather_v_prepare(s, d, PAIR, m)


def _never(s, d, m, _):
    ncc.all_to_all_v_prepare(s, d, PAIR, m)


def _again(s, d, m, _):
    prepared = ncc.all_to_all_v_prepare(s, d, PAIR, m)
    ncc.all_to_all_v_trigger(prepared)
    ncc.all_to_all_v_trigger(prepared)


def _other(s, d, m, _):
    ncc.all_gather_v_trigger(ncc.all_to_all_v_prepare(s, d, PAIR, m))


@pytest.mark.parametrize("body, match", [
    (_twice, "has no trigger yet"), (_never, "one is required after each prepare"),
    (_again, "triggered already"), (_other, "not what the last all_gather_v_prepare"),
    (lambda s, d, m, _: ncc.all_to_all_v_trigger(3), "what all_to_all_v_prepare returned")])
def test_one_trigger_follows_each_prepare(body, match):
    assert_refused(match, body)


def test_a_prepare_without_a_trigger_is_named_by_its_line():
    problem = assert_refused("one is required after each prepare", _never)
    assert problem.kernel_line == _never.__code__.co_firstlineno + 1
