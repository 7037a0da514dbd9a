"""Tests that error messages of common mistakes name the correction in one line."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as legacy  # noqa: E402
import neuronxcc.nki.isa as old_isa  # noqa: E402
import neuronxcc.nki.language as old  # noqa: E402
import neuronxcc.nki.typing as nt  # noqa: E402
import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)


@pytest.mark.parametrize("language", [nl, old], ids=["nki", "neuronxcc"])
@pytest.mark.parametrize("name, cure", [
    ("dma_copy", "use nisa.dma_copy"), ("tensor_copy", "use nisa.tensor_copy"),
    ("nc_matmul", "use nisa.nc_matmul"), ("full_like", "use nl.full(x.shape, value, dtype=x.dtype)"),
    ("ones_like", "use nl.ones(x.shape, dtype=x.dtype)"),
])
def test_a_name_of_another_module(language, name, cure):
    with pytest.raises(AttributeError) as said:
        getattr(language, name)
    assert cure in str(said.value).splitlines()[0]
    assert not hasattr(language, name)


@pytest.mark.parametrize("api", [nki.simulate, lambda k: lambda *a: legacy.simulate_kernel(k, *a)],
                         ids=["nki", "neuronxcc"])
@pytest.mark.parametrize("name, cure", [
    ("T", "i[None, :] instead of i[:, None]"), ("transpose", "i[None, :] instead of i[:, None]"),
    ("reshape", "i[:, None] or i[None, :]"), ("dtype", "nisa.iota"), ("sum", "nisa.iota"),
])
def test_an_index_tile_is_no_tile(api, name, cure):
    def kernel(x):
        getattr(nl.arange(128)[:, None], name)
        return x

    with pytest.raises(nkisim.Error) as said:
        api(nki.jit(kernel))(X)
    assert f"an index tile has no {name}; {cure}" in str(said.value).splitlines()[0]


def by_float(address):
    def kernel(table, which):
        out = nl.ndarray((64, 128), dtype=table.dtype, buffer=nl.shared_hbm)
        i = nl.ndarray((1, 1), dtype=which.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=i, src=which)
        tile = nl.ndarray((64, 128), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=address(table, i))
        nisa.dma_copy(dst=out, src=tile)
        return out
    return kernel


@pytest.mark.parametrize("address", [
    lambda t, i: t[i[0, 0], :, :],
    lambda t, i: t[nl.ds(i, 1), :, :],
    lambda t, i: t.ap(pattern=[[128, 64], [1, 128]], offset=0, scalar_offset=i, indirect_dim=0),
], ids=["block", "ds", "ap"])
def test_a_float_tile_is_no_offset(address):
    table, kernel = np.arange(8 * 64 * 128, dtype=np.float32).reshape(8, 64, 128), by_float(address)
    with pytest.raises(nkisim.Error) as said:
        nkisim.run(kernel, table, np.full((1, 1), 4, np.float32))
    assert "float32" in str(said.value) and "a tile of int32 or uint32" in str(said.value).splitlines()[0]
    result = nkisim.run(kernel, table, np.full((1, 1), 4, np.int32))
    assert np.array_equal(np.asarray(result.output).reshape(64, 128), table[4])


@pytest.mark.parametrize("multiply", [lambda t: old_isa.nc_matmul(t, t),
                                      lambda t: old.matmul(t, t, transpose_x=True)], ids=["isa", "language"])
@pytest.mark.parametrize("columns", [64, 128])
def test_a_product_is_added_to_a_tile_of_its_shape(multiply, columns):
    @legacy.jit
    def kernel(x):
        out = old.ndarray((128, columns), dtype=x.dtype, buffer=old.shared_hbm)
        p = old.zeros((128, columns), dtype=old.float32, buffer=old.psum)
        p += multiply(old.load(x))
        old.store(out, old.copy(p))
        return out

    x = np.arange(128 * 128, dtype=np.float32).reshape(128, 128) % 7
    if columns == 128:
        assert np.array_equal(np.asarray(legacy.simulate_kernel(kernel, x)), x.T @ x)
        return
    with pytest.raises(nkisim.Error) as said:
        legacy.simulate_kernel(kernel, x)
    assert "+=: the tile is (128, 64) and the product added to it (128, 128)" in str(said.value).splitlines()[0]


def test_an_argument_that_is_written_is_annotated():
    @legacy.jit(experimental_flags="enable-mutable-parameter")
    def put(buffer: nt.tensor[nt.mutable], row: nt.tensor):
        old.store(buffer[2:3, :], old.load(row))
        return buffer

    got = np.asarray(put(np.zeros((4, 8), np.float32), np.ones((1, 8), np.float32)))
    assert got.sum(1).tolist() == [0, 0, 8, 0]


@pytest.mark.parametrize("grid", [lambda x: nl.tiles(x, tile_shape=(128, 128)),
                                  lambda x: nl.blocks(x, block_shape=(1, 1), tile_shape=(128, 128))])
def test_a_selection_of_a_grid_is_no_tensor(grid):
    def kernel(x):
        nl.load(grid(x)[0, 0])

    with pytest.raises(nkisim.Error, match=r"a tensor \(grid\[i, j\].data is that of a selection\) is required"):
        nkisim.run(kernel, X)
