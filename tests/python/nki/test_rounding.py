"""Tests stochastic rounding (an option of a run, with a seed) against a NumPy model of
docs/values.md.
"""

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

BF16 = ml_dtypes.bfloat16


@nki.jit
def chained(a, b):
    """Four products accumulated in bfloat16 PSUM (trn3)."""
    left, right = [nl.ndarray(x.shape, x.dtype, nl.sbuf) for x in (a, b)]
    nisa.dma_copy(left, a)
    nisa.dma_copy(right, b)
    sums = nl.ndarray((a.shape[1], b.shape[1]), nl.bfloat16, nl.psum)
    for k in range(4):
        nisa.nc_matmul(sums, left, right, accumulate=k > 0)
    tile = nl.ndarray(sums.shape, nl.bfloat16, nl.sbuf)
    nisa.tensor_copy(tile, sums)
    out = nl.ndarray(sums.shape, nl.bfloat16, nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def data():
    random = np.random.default_rng(3)
    return [random.standard_normal((16, n)).astype(BF16) for n in (8, 32)]


def run(timing=True):
    return np.asarray(nkisim.run(chained, *data(), target="trn3", timing=timing).outputs)


def stochastic(monkeypatch, seed):
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_EN", "1")
    monkeypatch.setenv("NEURON_RT_STOCHASTIC_ROUNDING_SEED", str(seed))


def product(a, b):
    total = np.zeros((a.shape[1], b.shape[1]), np.float32)
    for x, y in zip(a.astype(np.float32), b.astype(np.float32)):
        total = total + x[:, None] * y[None, :]
    return total


def neighbours(x):
    """The bfloat16 values around FP32 `x`: toward zero and away from it."""
    bits = x.view(np.uint32) & np.uint32(0xFFFF0000)
    away = np.where(bits == x.view(np.uint32), bits, bits + np.uint32(0x10000))
    return bits.view(np.float32), away.astype(np.uint32).view(np.float32)


def test_nearest_even_is_the_default():
    a, b = data()
    exact = product(a, b)
    expected = exact.astype(BF16)
    for _ in range(3):
        expected = (expected.astype(np.float32) + exact).astype(BF16)
    assert np.array_equal(run(), expected)


def test_every_accumulation_picks_a_neighbour(monkeypatch):
    stochastic(monkeypatch, 5)
    exact = product(*data())
    reached = {}  # what four roundings can lead to, per element
    got = run().astype(np.float32)
    for at in np.ndindex(exact.shape):
        values = {np.float32(0)}
        for _ in range(4):
            sums = np.array(sorted(values), np.float32) + exact[at]
            values = {v for pair in neighbours(sums) for v in pair}
        reached[at] = values
        assert got[at] in values, at
    assert not np.array_equal(got, run_nearest(monkeypatch).astype(np.float32))


def run_nearest(monkeypatch):
    monkeypatch.delenv("NEURON_RT_STOCHASTIC_ROUNDING_EN")
    return run()


def test_a_seed_repeats_with_timing_and_in_program_order(monkeypatch):
    stochastic(monkeypatch, 5)
    first = run()
    assert np.array_equal(first, run())
    assert np.array_equal(first, run(timing=False))
    stochastic(monkeypatch, 6)
    assert not np.array_equal(first, run())


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_the_mean_is_kept_where_nearest_even_loses_it(monkeypatch, target):
    """1024 + 0.5, again and again: the documents' example, in float16."""

    @nki.jit
    def grow(x):
        tile = nl.ndarray(x.shape, nl.float16, nl.sbuf)
        nisa.dma_copy(tile, x)
        for _ in range(64):
            nisa.tensor_scalar(tile, tile, nl.add, 0.5)
        out = nl.ndarray(x.shape, nl.float16, nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    x = np.full((128, 16), 1024, np.float16)
    assert nkisim.run(grow, x, target=target).outputs.max() == 1024
    stochastic(monkeypatch, 1)
    grown = nkisim.run(grow, x, target=target).outputs.astype(np.float64) - 1024
    assert abs(grown.mean() - 32) < 5 * 4 / np.sqrt(x.size)  # 64 draws of 0 or 1: sigma 4
