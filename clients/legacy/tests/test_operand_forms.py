"""Tests operands of neuronxcc.nki: masked, indexed by a loaded number, selected by comparisons of
index tiles.
"""

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
import nki.language as new_nl  # noqa: E402

RNG = np.random.default_rng(5)


def run(kernel, *arrays):
    return nki.simulate_kernel(nki.jit(kernel), *arrays)


def test_masked_operands_of_a_product():
    """As the documents of nl.matmul have it: lhs[i < 64]."""
    def kernel(w, x):
        out = nl.ndarray((64, 256), dtype=nl.float32, buffer=nl.shared_hbm)
        i, j = nl.arange(128)[None, :], nl.arange(512)[None, :]
        nl.store(out, nl.matmul(nl.load(w)[i < 64], nl.load(x)[j < 256], transpose_x=True))
        return out

    w, x = RNG.random((128, 128), np.float32), RNG.random((128, 512), np.float32)
    np.testing.assert_allclose(run(kernel, w, x), (w.T @ x)[:64, :256], rtol=1e-4)


def test_masked_operands_of_an_instruction():
    def kernel(w, x):
        out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        a, b = nl.load(w), nl.load(x)
        i, j, p = nl.arange(64)[None, :], nl.arange(512)[None, :], nl.arange(128)[:, None]
        total = nl.zeros((64, 512), dtype=nl.float32, buffer=nl.psum)
        total[...] += nisa.nc_matmul(a[p, i][(p < 100) & (i < 64)], b[p, j][p < 100])
        nl.store(out, total)
        return out

    w, x = RNG.random((128, 64), np.float32), RNG.random((128, 512), np.float32)
    np.testing.assert_allclose(run(kernel, w, x), w[:100].T @ x[:100], rtol=1e-4)


def test_a_mask_of_rows_and_columns_as_a_place():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        p, f = nl.mgrid[0:128, 0:16]
        tile[(p < 32) & (f >= 4)] = 0.0
        nl.store(out, tile)
        return out

    x = RNG.random((128, 16), np.float32)
    expected = x.copy()
    expected[:32, 4:] = 0
    np.testing.assert_array_equal(run(kernel, x), expected)


@pytest.mark.parametrize(("key", "says"), [
    (lambda i: (i < 4, slice(None)), "stands next to other indices"),
    (lambda i: i < 0, "the mask leaves nothing")])
def test_a_mask_that_is_no_operand(key, says):
    def kernel(x):
        out = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.copy(nl.load(x)[key(nl.arange(16)[None, :])]))
        return out

    with pytest.raises(nkisim.Error, match=says):
        run(kernel, np.zeros((128, 16), np.float32))


def test_a_mask_of_the_new_api_is_a_slice():
    def kernel(x):
        out = new_nl.ndarray((128, 4), dtype=x.dtype, buffer=new_nl.shared_hbm)
        new_nl.store(out, new_nl.load(x)[new_nl.arange(16)[None, :] < 4])
        return out

    with pytest.raises(nkisim.KernelTypeError, match=r"a slice, tile\[0:n\], is required"):
        nkisim.run(kernel, np.zeros((128, 16), np.float32))


def test_axes_are_added_to_a_mask_as_to_its_tile():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.zeros(x.shape, dtype=x.dtype)
        p, f = nl.mgrid[0:128, 0:16]
        tile[p, f] = nl.load(x[p, f], mask=(nl.arange(128) < 40)[:, None])
        nl.store(out, tile)
        return out

    x = RNG.random((128, 16), np.float32)
    np.testing.assert_array_equal(run(kernel, x), np.where(np.arange(128)[:, None] < 40, x, 0))


BLOCKS = {"slices": lambda w, i: w[i[0, 0], :, :], "first": lambda w, i: w[i[0, 0]],
          "index tiles": lambda w, i: w[i[0, 0], nl.arange(64)[:, None], nl.arange(128)[None, :]],
          "part": lambda w, i: w[i[0, 0], 0:64, nl.ds(0, 128)]}


@pytest.mark.parametrize("form", BLOCKS)
@pytest.mark.parametrize("chosen", [0, 3, 7])
def test_a_block_chosen_by_a_loaded_number(form, chosen):
    """As kernels of experts load one expert's weights: the block dimension is gone."""
    def kernel(w, i):
        out = nl.ndarray((64, 128), dtype=w.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray((64, 128), dtype=w.dtype, buffer=nl.sbuf)
        tile[...] = nl.load(BLOCKS[form](w, nl.load(i)))
        nl.store(out, tile)
        return out

    w = RNG.random((8, 64, 128), np.float32)
    np.testing.assert_array_equal(run(kernel, w, np.array([[chosen]], np.int32)), w[chosen])


def test_a_block_that_is_not_there():
    def kernel(w, i):
        out = nl.ndarray((64, 128), dtype=w.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(w[nl.load(i)[0, 0], :, :]))
        return out

    with pytest.raises(nkisim.Error, match=r"offset of tensor w is 8; an index in 0\.\.7 is required"):
        run(kernel, np.zeros((8, 64, 128), np.float32), np.array([[8]], np.int32))


CONDITIONS = {
    "triangle": (lambda a: a(128)[:, None] >= a(128)[None, :]),
    "band": (lambda a: (a(128)[:, None] >= a(128)[None, :]) & (a(128)[:, None] < a(128)[None, :] + 16)),
    "columns": (lambda a: a(128)[None, :] < 40), "rows": (lambda a: a(128)[:, None] * 2 > 77)}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("other", ["tile", "number"])
def test_where_of_a_comparison_of_index_tiles(condition, other):
    def kernel(x):
        out = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        no = -1.0 if other == "number" else nl.full((128, 128), -1.0, dtype=nl.float32)
        nl.store(out, nl.where(CONDITIONS[condition](nl.arange), tile, no))
        return out

    x = RNG.random((128, 128), np.float32)
    np.testing.assert_array_equal(run(kernel, x), np.where(CONDITIONS[condition](np.arange), x, np.float32(-1)))


@pytest.mark.parametrize("grid", [(nl.spmd_dim(0, nl.nc(2)), 1), (2, nl.spmd_dim(nl.nc(2), 0))])
def test_an_empty_grid(grid):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    with pytest.raises(nkisim.Error, match="the launch grid .* has no program instance") as caught:
        kernel[grid](np.zeros((8, 8), np.float32))
    assert caught.value.rule == "launch_grid"


@pytest.mark.parametrize("shape", [(128, 64, 1), (2, 1, 1)])
def test_a_transposing_load_of_rows_of_one_element_more(shape):
    def kernel(x):
        out = new_nl.ndarray(shape[1::-1], dtype=x.dtype, buffer=new_nl.shared_hbm)
        new_nl.store(out, new_nl.load_transpose2d(x[0]))
        return out

    x = RNG.random((2, *shape), np.float32)
    np.testing.assert_array_equal(nkisim.run(kernel, x).outputs, x[0].reshape(shape[:2]).T)
