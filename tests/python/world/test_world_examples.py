"""Tests the examples of several ranks against NumPy, and the host's time and memory that they cost."""

import importlib
import pathlib
import sys

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim
from running import ROOT

EXAMPLES = ROOT / "examples" / "ranks"
sys.path.insert(0, str(EXAMPLES))

import world  # noqa: E402

CASES = [importlib.import_module(name).CASE
         for name in ("tensor_parallel_mlp", "gather_matmul", "ring_attention")]


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [4, 8, 64])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_example(case, ranks):
    result, _ = world.run(case, ranks)
    assert result.latency_us > 0
    assert result.recordings == 1


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_folding_changes_nothing(case):
    single, _ = world.run(case, 8, fold=False)
    folded, _ = world.run(case, 8)
    assert single.timed_as == list(range(8))
    assert [r.latency_ns for r in single] == [r.latency_ns for r in folded]
    for a, b in zip(single.outputs, folded.outputs):
        assert a.tobytes() == b.tobytes()


def test_the_mlp_is_simulated_once_for_all_ranks():
    assert len(set(world.run(CASES[0], 64)[0].timed_as)) <= 2  # ranks of one HBM stack


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_another_ring_gives_the_same(case):
    found = [world.run(case, 4, ring_order=order)[0].outputs for order in ("group", "shuffle:3")]
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


def test_neighbours_on_one_stack_slow_each_other_down():
    """Cores 0 and 1 share an HBM stack, cores 1 and 2 do not."""
    def kernel(x, rounds):
        out = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
        for _ in range(rounds):
            for engine in (nisa.sync_engine, nisa.scalar_engine):
                tile = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=tile, src=x, engine=engine, dge_mode=nisa.dge_mode.hwdge)
        nisa.dma_copy(dst=out, src=tile)
        return out

    x = np.zeros((128, 8192), np.float32)

    def first(busy):
        rounds = nkisim.per_rank([6 if rank in busy else 1 for rank in range(4)])
        return nkisim.run(kernel, x, rounds, ranks=4)[0].latency_ns

    alone = first([0])
    assert first([0, 2]) == alone
    assert first([0, 1]) > 1.05 * alone


def test_pages_in_common_are_kept_once():
    """64 ranks with the same 16 MiB take far less than 64 times that."""
    def kernel(x):
        out = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x[0:128, 0:16])
        src, dst = (nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.sbuf) for _ in range(2))
        nisa.tensor_copy(dst=src, src=tile)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([list(range(64))]), nl.add)
        nl.store(out, dst)
        return out

    def resident():
        with open("/proc/self/status") as status:
            return int(next(line.split()[1] for line in status if line.startswith("VmRSS"))) >> 10

    if not pathlib.Path("/proc/self/status").exists():
        pytest.skip("needs Linux")
    x = np.ones((2048, 2048), np.float32)
    before = resident()
    result = nkisim.run(kernel, x, ranks=64, fold=False)
    assert resident() - before < 16 * 16
    np.testing.assert_array_equal(result[63].outputs, np.full((128, 16), 64))
