"""Calls of nki.isa in the positions and keywords of NKI 0.2 and 0.3."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.random.default_rng(3).random((128, 128), np.float32)


def _one_tile(body, dtype=nl.float32, shape=(128, 128)):
    def kernel(x):
        out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x)
        result = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
        body(result, tile)
        nisa.dma_copy(out, result)
        return out

    return nkisim.run(kernel, X).outputs


def test_affine_select_with_the_offset_before_the_multiplier():
    found = _one_tile(lambda out, x: nisa.affine_select(out, [[-1, 128]], 5, 1, x, -1.0,
                                                        nl.greater_equal))
    rows, columns = np.indices((128, 128))
    np.testing.assert_array_equal(found, np.where(5 + rows - columns >= 0, X, -1.0))


def test_affine_select_default_comparison():
    found = _one_tile(lambda out, x: nisa.affine_select(out, [[-1, 128]], 0, 1, x, 0.0))
    np.testing.assert_array_equal(found, np.where(np.eye(128, dtype=bool), X, 0))


def test_nc_matmul_with_tile_position_in_seventh_place():
    def body(out, x):
        product = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, x, x, False, False, False, (0, 0), (128, 128))
        nisa.tensor_copy(out, product)

    np.testing.assert_allclose(_one_tile(body), X.T @ X, rtol=1e-5)


@pytest.mark.parametrize("third", [nisa.oob_mode.error, None])
def test_dma_copy_without_priority(third):
    found = _one_tile(lambda out, x: nisa.dma_copy(out, x, third, nisa.dge_mode.unknown))
    np.testing.assert_array_equal(found, X)


def test_dma_copy_that_adds():
    def body(out, x):
        nisa.memset(out, 2.0)
        nisa.dma_copy(out, x, nl.add)

    np.testing.assert_allclose(_one_tile(body), X + 2, rtol=1e-6)


def test_register_move_of_an_immediate():
    def kernel(x):
        out = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.sbuf)
        at = nisa.register_alloc(0)
        nisa.register_move(at, imm=3)
        nisa.dma_copy(tile, x.ap([[128, 4], [1, 8]], scalar_offset=at, indirect_dim=0))
        nisa.dma_copy(out, tile)
        return out

    np.testing.assert_array_equal(nkisim.run(kernel, X).outputs, X[3:7, :8])


def test_facts_of_a_tensor():
    def body(out, x):
        assert x.is_identity() and not x[:, 1:3].is_identity()
        assert x.reshape(new_shape=(128, 2, 64)).shape == (128, 2, 64)
        assert x.reshape((128, 2, 64)).assert_shape((128, 2, 64)).expand_dims(1).shape[1] == 1
        np.testing.assert_array_equal(x.sim_value(), X)
        assert x.device_value() is None
        assert x.buffer is nl.MemoryRegion.sbuf and isinstance(x.buffer, nl.MemoryRegion)
        nisa.tensor_copy(out, x)

    np.testing.assert_array_equal(_one_tile(body), X)
