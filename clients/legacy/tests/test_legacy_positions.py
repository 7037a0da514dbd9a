"""Tests mask, dtype and the like as positional arguments of neuronxcc.nki, which SDK 2.20 took."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

X = np.random.default_rng(7).standard_normal((100, 64), np.float32)
ROWS, COLUMNS = X.shape


def over_rows(body, x=X, dtype=nl.float32):
    """body(tile, mask) on a tile of 128 partitions, of which the mask leaves those of x."""
    def kernel(x):
        out = nl.ndarray(x.shape, dtype, nl.shared_hbm)
        p, f = nl.arange(128)[:, None], nl.arange(COLUMNS)[None, :]
        tile = nl.load(x[p, f], p < ROWS)
        nl.store(out[p, f], body(tile, p < ROWS), p < ROWS)
        return out

    return nki.simulate_kernel(nki.jit(kernel), x)


def test_masks_and_dtypes_by_position():
    found = over_rows(lambda tile, mask: nisa.tensor_scalar(
        nisa.activation(np.square, tile, None, 2.0, mask, nl.float32), np.add, 1.0, False, None,
        None, False, nl.float32, mask))
    np.testing.assert_allclose(found, 4 * X * X + 1, rtol=1e-5)


def test_reductions_take_the_mask_before_keepdims():
    found = over_rows(lambda tile, mask: nl.subtract(
        tile, nl.max(tile, 1, nl.float32, mask, True), nl.float32, mask))
    np.testing.assert_array_equal(found, X - X.max(1, keepdims=True))


def test_softmax_with_a_mask():
    raised = np.exp(X - X.max(1, keepdims=True))
    found = over_rows(lambda tile, mask: nl.softmax(tile, 1, None, None, mask))
    np.testing.assert_allclose(found, raised / raised.sum(1, keepdims=True), rtol=1e-4)


def test_rms_norm_with_a_mask():
    found = over_rows(lambda tile, mask: nl.rms_norm(tile, 2.0, 1, COLUMNS, mask=mask))
    expected = 2 * X / np.sqrt((X * X).mean(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_all_gives_bool():
    def kernel(x):
        out = nl.ndarray((ROWS, 1), nl.uint8, nl.shared_hbm)
        p, f = nl.arange(128)[:, None], nl.arange(COLUMNS)[None, :]
        truth = nl.all(nl.load(x[p, f], p < ROWS), 1, mask=p < ROWS)
        assert str(truth.dtype) == "bool"
        nl.store(out[p, nl.arange(1)[None, :]], nl.copy(truth, dtype=nl.uint8), p < ROWS)
        return out

    x = X.copy()
    x[3, 5] = 0
    found = nki.simulate_kernel(nki.jit(kernel), x)
    np.testing.assert_array_equal(found[:, 0], (x != 0).all(1))


def test_a_masked_transposing_load():
    def kernel(x):
        out = nl.ndarray((COLUMNS, 128), x.dtype, nl.shared_hbm)
        p, f = nl.arange(128)[:, None], nl.arange(COLUMNS)[None, :]
        nl.store(out[:, 0:ROWS], nl.load_transpose2d(x[p, f], p < ROWS)[:, 0:ROWS])
        return out

    np.testing.assert_array_equal(nki.simulate_kernel(nki.jit(kernel), X)[:, :ROWS], X.T)


def test_positions_of_the_copy_of_2_21():
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(x, out)
        return out

    np.testing.assert_array_equal(nki.simulate_kernel(nki.jit(kernel), X), X)


@pytest.mark.parametrize("way", ["func", "positional"])
def test_jit_and_benchmark_by_name(way):
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nisa.dma_copy(src=x, dst=out)
        return out

    jitted = nki.jit(func=kernel) if way == "func" else nki.jit(kernel, "simulation")
    np.testing.assert_array_equal(jitted(X), X)
    timed = nki.profile(func=kernel) if way == "func" else nki.benchmark(kernel)
    timed(X)
    assert timed.benchmark_result.nc_latency.get_latency_percentile(50) > 0


def test_what_has_no_documented_meaning_says_so():
    def kernel(x):
        return nl.load(x[nl.gemm_grid()])

    with pytest.raises(nkisim.Error, match="nl.mgrid is required"):
        nki.simulate_kernel(nki.jit(kernel), X)


def masked(x, condition):
    """x where condition(j) holds, else -1."""
    def kernel(x):
        out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
        p, f = nl.arange(x.shape[0])[:, None], nl.arange(x.shape[1])[None, :]
        nl.store(out[p, f], nl.full(x.shape, -1.0, nl.float32))
        nl.store(out[p, f], nl.load(x[p, f]), condition(f))
        return out

    return nki.simulate_kernel(nki.jit(kernel), x)


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("bound", [0, 1, 2, 5, 6, 11, 12, 40])
def test_masks_whose_coefficient_does_not_divide_the_bound(factor, bound):
    x = np.arange(1, 65, dtype=np.float32).reshape(4, 16)
    j = np.arange(16)
    for condition in (lambda k: factor * k >= bound, lambda k: factor * k > bound,
                      lambda k: factor * k < bound, lambda k: factor * k <= bound):
        np.testing.assert_array_equal(masked(x, condition), np.where(condition(j), x, -1))


def test_every_third_index_of_a_tile():
    """A step of a slice of an index tile is a step of its values."""
    def kernel(x):
        out = nl.ndarray((4, 6), nl.float32, nl.shared_hbm)
        p, every = nl.arange(4)[:, None], nl.arange(16)[None, 0:16:3]
        nl.store(out, nl.load(x[p, every]))
        return out

    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    np.testing.assert_array_equal(nki.simulate_kernel(nki.jit(kernel), x), x[:, ::3])


@pytest.mark.parametrize("start, fits", [(15, True), (3, False), (16, False)])
def test_a_falling_index_modulo_a_size(start, fits):
    """(start - j) % 16 is start - j only where that stays within 0..15."""
    def kernel(x):
        out = nl.ndarray((4, 16), nl.float32, nl.shared_hbm)
        p, f = nl.arange(4)[:, None], nl.arange(16)[None, :]
        nl.store(out[p, f], nl.load(x[p, (start - f) % 16]))
        return out

    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    if fits:
        np.testing.assert_array_equal(nki.simulate_kernel(nki.jit(kernel), x), x[:, ::-1])
        return
    with pytest.raises(nkisim.Error, match="modulo 16 is not affine"):
        nki.simulate_kernel(nki.jit(kernel), x)
