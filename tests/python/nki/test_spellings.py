"""Tests calls of nki.isa in the positions and keywords of NKI 0.2 and 0.3."""

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


@pytest.mark.parametrize(("flag", "times"), [(3, 1), (1, 1), (0, 2), (2, 2)])
def test_nc_matmul_with_the_keywords_of_the_older_api(flag, times):
    """Bit 0 of psum_accumulate_flag: the product takes the place of what is there."""
    def body(out, x):
        product = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(product, x, x, accumulate=False)
        nisa.nc_matmul(product, x, x, is_moving_zero=False, psum_accumulate_flag=flag)
        nisa.tensor_copy(out, product)

    np.testing.assert_allclose(_one_tile(body), times * (X.T @ X), rtol=1e-5)


def test_nc_matmul_refuses_a_keyword_it_never_had():
    with pytest.raises(TypeError, match="unexpected keyword argument 'moving_zero'"):
        _one_tile(lambda out, x: nisa.nc_matmul(out, x, x, moving_zero=True))


def test_dma_transpose_without_priority():
    def body(out, x):
        nisa.dma_transpose(out, x, (1, 0), nisa.dge_mode.unknown, nisa.oob_mode.error)

    np.testing.assert_array_equal(_one_tile(body), X.T)


def test_dma_compute_with_scales_in_third_place():
    def body(out, x):
        nisa.dma_compute(out, [x, x], [1.0, 1.0], nl.add)

    np.testing.assert_array_equal(_one_tile(body), X + X)


def test_dma_copy_with_modes_of_nki_0_3_in_their_places():
    def body(out, x):
        nisa.dma_copy(out, x, nisa.oob_mode.skip, nisa.dge_mode.hwdge, nisa.engine.sync)

    np.testing.assert_array_equal(_one_tile(body), X)


@pytest.mark.parametrize("last", [("label",), (nisa.dma_engine.gpsimd_dma, "label")])
def test_sendrecv_with_its_name_in_sixth_place(last):
    def kernel(x):
        core = nl.program_id(0)
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        mine = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        other = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(mine, x)
        nisa.tensor_scalar(mine, mine, nl.add, float(core))
        nisa.sendrecv(mine, other, 1 - core, 1 - core, 0, *last)
        nisa.dma_copy(out[core], other)
        return out

    found = nkisim.run(kernel, X, lnc=2, target="trn2").outputs
    np.testing.assert_array_equal(found, [X + 1, X])


def test_operands_of_other_ranks_that_do_not_broadcast():
    def kernel(x, y):
        row = nl.load(x)
        tile = nl.load(y)
        out = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(row, tile))
        return out

    row, tile = np.ones((1, 8), np.float32), np.ones((128, 4, 8), np.float32)
    with pytest.raises(nkisim.KernelValueError, match=r"does not broadcast to \(128, 4, 8\)"):
        nkisim.run(kernel, row, tile)
