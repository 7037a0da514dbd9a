"""Tests neuron_dtypes, the NumPy dtypes with which nki-library's tests make their arrays."""


import ml_dtypes
import numpy as np
import pytest

import nkisim
from running import python

nkisim.install()

import neuron_dtypes as dt  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

PACKED = [(nl.float8_e4m3fn_x4, ml_dtypes.float8_e4m3fn, np.uint32),
          (nl.float8_e5m2_x4, ml_dtypes.float8_e5m2, np.uint32),
          (nl.float4_e2m1fn_x4, ml_dtypes.float4_e2m1fn, np.uint16)]


@pytest.mark.parametrize("packed, element, word", PACKED)
def test_packing_takes_four_neighbours_and_gives_them_back(packed, element, word):
    x = np.linspace(-6, 6, 2 * 3 * 16, dtype=np.float32).reshape(2, 3, 16)
    found = dt.static_cast(x, packed)
    assert found.shape == (2, 3, 4) and found.dtype.itemsize == np.dtype(word).itemsize
    assert "x4" in str(found.dtype) and packed == found.dtype and packed != np.dtype(word)
    np.testing.assert_array_equal(dt.static_cast(found, np.float32),
                                  x.astype(element).astype(np.float32))
    np.testing.assert_array_equal(dt.static_cast(found[:, 1:].copy(), element),
                                  x[:, 1:].astype(element))


@pytest.mark.parametrize("packed, bits", [(nl.float8_e4m3fn_x4, 0x40_38_B8_30),
                                          (nl.float4_e2m1fn_x4, 0x4_2_A_1)])
def test_the_first_value_has_the_lowest_bits(packed, bits):
    found = dt.static_cast(np.array([[0.5, -1.0, 1.0, 2.0]], np.float32), packed)
    word = np.uint32 if packed == nl.float8_e4m3fn_x4 else np.uint16
    assert found.view(word)[0, 0] == bits


def test_kernels_take_packed_arrays():
    def kernel(x):
        assert x.dtype == nl.float8_e4m3fn_x4 and x.shape == (32, 8)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, x)
        return out

    x = dt.static_cast(np.random.default_rng(1).random((32, 32), np.float32), nl.float8_e4m3fn_x4)
    found = nkisim.run(kernel, x, target="trn3").outputs
    np.testing.assert_array_equal(np.asarray(found, dtype=x.dtype), x)


def test_other_casts():
    from neuronxcc.starfish.support import dtype

    assert dtype.static_cast is dt.static_cast
    assert nl.static_cast(np.ones((2, 4), np.float32), nl.float8_e5m2_x4).shape == (2, 1)
    assert dt.static_cast([1.5, 2.5], "bfloat16").dtype == ml_dtypes.bfloat16
    assert dt.static_cast(np.ones(2, ml_dtypes.bfloat16), np.float32).dtype == np.float32
    assert dt.sizeinbytes(dt.float8_e5m2_x4) == 4


@pytest.mark.parametrize("packed, element, word", PACKED)
def test_packed_results_are_arguments_of_the_next_kernel(packed, element, word):
    """A product of MX tiles whose operands one kernel moves and the next multiplies."""
    def move(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(out, tile)
        return out

    def multiply(x, scale):
        tile, ones = (nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf) for t in (x, scale))
        nisa.dma_copy(tile, x)
        nisa.dma_copy(ones, scale)
        total = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(total, tile, tile, ones, ones)
        out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, total)
        return out

    values = np.random.default_rng(2).choice([0, 0.5, 1, 1.5, 2, -1, -3], (32, 256))
    moved = nkisim.run(move, dt.static_cast(values, packed), target="trn3").outputs
    assert packed == moved.dtype
    scale = np.full((32, 64), 127, np.uint8)  # 2 to the power 0
    found = nkisim.run(multiply, moved, scale, target="trn3").outputs
    x = values.reshape(32, 64, 4)
    np.testing.assert_array_equal(found, np.einsum("kmi,kni->mn", x, x))


def test_a_packed_argument_is_updated():
    def kernel(x):
        tile = nl.ndarray((32, 4), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[:, 4:8])
        nisa.dma_copy(x[:, 0:4], tile)

    x = dt.static_cast(np.random.default_rng(3).random((32, 32)), nl.float8_e5m2_x4)
    second = x[:, 4:].copy()
    nkisim.run(kernel, x, target="trn3")
    np.testing.assert_array_equal(x[:, :4], second)


@pytest.mark.process
@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3", "float16", "int32"])
def test_a_scalar_of_a_dtype_is_made_of_numbers_only(name):
    """ml_dtypes' own types end the process when they are given a type or a text."""
    code = ("import nkisim; nkisim.install()\nimport nki.language as nl\n"
            f"d = nl.{name}\nassert float(d(3)) == 3 and float(d(2.0)) == 2\n"
            "for wrong in (nl.int32, 'x', int, object()):\n"
            "    try:\n        d(wrong)\n    except (nkisim.Error, TypeError, ValueError):\n"
            "        continue\n    raise SystemExit(f'{wrong!r} was taken')\n")
    python("-c", code)
