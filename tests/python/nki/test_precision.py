"""Tests NKI_PRECISE_FP=0 (float32 arguments become bfloat16), and rounding functions over all of
float32.
"""

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


@nki.jit
def third(x):
    """x / 3 through a bfloat16 tile."""
    tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile, x)
    low = nl.ndarray(x.shape, nl.bfloat16, nl.sbuf)
    nisa.tensor_scalar(low, tile, nl.multiply, 1.0 / 3.0)
    out = nl.ndarray(x.shape, nl.float32, nl.shared_hbm)
    wide = nl.ndarray(x.shape, nl.float32, nl.sbuf)
    nisa.tensor_copy(wide, low)
    nisa.dma_copy(out, wide)
    return out


def data():
    return np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)


def test_precise_rounds_to_bfloat16():
    x = data()
    expected = (x * np.float32(1 / 3)).astype(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(third(x), expected)


def test_imprecise_keeps_float32(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x = data()
    assert np.array_equal(third(x), x * np.float32(1 / 3))


def test_imprecise_takes_bfloat16_arrays(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    x = data().astype(ml_dtypes.bfloat16)
    assert np.array_equal(third(x), x.astype(np.float32) * np.float32(1 / 3))


def test_imprecise_writes_arguments_in_their_own_type(monkeypatch):
    monkeypatch.setenv("NKI_PRECISE_FP", "0")

    @nki.jit
    def scale(x):
        tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.tensor_scalar(tile, tile, nl.multiply, 0.3)
        nisa.dma_copy(x, tile)

    x = data().astype(ml_dtypes.bfloat16)
    expected = (x.astype(np.float32) * np.float32(0.3)).astype(ml_dtypes.bfloat16)
    scale(x)
    assert x.dtype == ml_dtypes.bfloat16
    assert np.array_equal(x, expected)


_SPECIAL = [0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.99999994, -0.99999994, 8388607.5, -8388607.5,
            2.0 ** 24, -2.0 ** 24, 2.0 ** 24 + 2, 2.0 ** 25 + 4, 2.0 ** 31, -2.0 ** 31, 2.0 ** 33,
            2.0 ** 48, 2.0 ** 49, -2.0 ** 49, 1e20, -1e20, 3.4e38, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
def test_whole_numbers_over_the_whole_range(name):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
        nl.store(out, getattr(nl, name)(nl.load(x)))
        return out

    rng = np.random.default_rng(1)
    x = (rng.standard_normal(128 * 64) * 2.0 ** rng.integers(-30, 120, 128 * 64)).astype(np.float32)
    x[:len(_SPECIAL)] = _SPECIAL
    x = x.reshape(128, 64)
    np.testing.assert_array_equal(kernel(x), getattr(np, name)(x))
