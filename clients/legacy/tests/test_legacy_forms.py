"""Tests forms of kernels that neuronxcc.nki's compiler accepted, against NumPy."""

import functools

import ml_dtypes
import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402
from neuronxcc.nki.language import par_dim  # noqa: E402

RNG = np.random.default_rng(5)
BF16 = ml_dtypes.bfloat16


def run(kernel, *args):
    return nki.simulate_kernel(nki.jit(kernel), *args)


def test_reshape_takes_its_shape_by_keyword():
    def kernel(x):
        out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x.reshape(shape=(128, 8))))
        return out

    x = RNG.random((128, 2, 4), np.float32)
    np.testing.assert_array_equal(run(kernel, x), x.reshape(128, 8))


def test_a_mask_cuts_a_slice_that_reaches_beyond_the_tensor():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        rows, columns = nl.mgrid[0:128, 0:16]
        tile = nl.zeros((par_dim(128), 16), dtype=x.dtype)
        for start in (0, 128):
            inside = start + rows < 160
            nisa.dma_copy(src=x[start:start + 128, 0:16], dst=tile[:, 0:16], mask=inside)
            nl.store(out[start + rows, columns], tile, mask=inside)
        return out

    x = RNG.random((160, 16), np.float32)
    np.testing.assert_array_equal(run(kernel, x), x)


def test_a_slice_beyond_the_tensor_without_a_mask_is_an_error():
    def kernel(x):
        out = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[100:228, 0:16]))
        return out

    with pytest.raises(nkisim.Error, match="out of bounds in dimension 0"):
        run(kernel, np.zeros((160, 16), np.float32))


def test_allocation_callbacks_take_their_arguments_by_name():
    def place(banks, idx, pdim_size, fdim_size):
        return banks[idx], 0, 0

    def kernel(x):
        out = nl.ndarray((2, 128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = nl.ndarray((2, par_dim(128), 128), dtype=nl.float32, buffer=nki.compiler.psum.alloc(
            functools.partial(place, banks={(0,): 3, (1,): 6})))
        data = nl.load(x)
        for i in range(2):
            tiles[i] = nisa.nc_matmul(data, data)
            nl.store(out[i], nl.copy(tiles[i]))
        return out

    x = RNG.random((128, 128), np.float32)
    result = nkisim.run(nki.jit(kernel), x)
    np.testing.assert_allclose(result.outputs[1], x.T @ x, rtol=1e-5)
    starts = {st.address for st in result.recorder.storages if st.address is not None}
    assert starts == {3 * 2048, 6 * 2048}


@pytest.mark.parametrize("taken", [True, False, np.True_])
def test_masks_that_python_decided(taken):
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        data = nl.load(x)
        product = nl.zeros((par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
        product[:, :] += nisa.nc_matmul(data[:, 0:128], data, mask=taken)
        nl.store(out, nl.copy(product))
        return out

    x = RNG.random((128, 512), np.float32)
    expected = x[:, :128].T @ x if taken else np.zeros((128, 512))
    np.testing.assert_allclose(run(kernel, x), expected, rtol=1e-5)


def test_affine_select_of_a_masked_tile_in_psum():
    def kernel(x):
        out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        data = nl.load(x)
        product = nl.matmul(data, data, transpose_x=True)
        rows, columns = nl.mgrid[0:64, 0:128]
        kept = nl.zeros((par_dim(64), 128), dtype=nl.float32)
        kept[rows, columns] = nisa.affine_select(
            pred=rows >= columns, on_true_tile=product[0:64, 0:128], on_false_value=-1.0,
            mask=columns >= 3)
        nl.store(out, kept)
        return out

    x = RNG.random((128, 128), np.float32)
    expected = np.where(np.arange(64)[:, None] >= np.arange(128), (x.T @ x)[:64], -1.0)
    expected[:, :3] = 0
    np.testing.assert_allclose(run(kernel, x), expected, rtol=1e-5)


def test_a_bfloat16_tile_is_transposed_into_float32_in_psum():
    def kernel(x):
        out = nl.ndarray((64, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        turned = nl.ndarray((par_dim(64), 128), dtype=nl.float32, buffer=nl.psum)
        turned[:, :] = nisa.nc_transpose(nl.load(x))
        nl.store(out, nl.copy(turned))
        return out

    x = RNG.random((128, 64), np.float32).astype(BF16)
    np.testing.assert_array_equal(run(kernel, x), x.T.astype(np.float32))


def test_an_fp8_tile_is_transposed_through_psum():
    def kernel(x):
        out = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
        turned = nl.ndarray((par_dim(64), 128), dtype=x.dtype, buffer=nl.sbuf)
        turned[:, :] = nisa.nc_transpose(nl.load(x))
        nl.store(out, turned)
        return out

    x = RNG.random((128, 64), np.float32).astype(ml_dtypes.float8_e4m3)
    np.testing.assert_array_equal(run(kernel, x).astype(np.float32), x.T.astype(np.float32))


def test_a_transposed_tile_is_an_operand_of_the_next_matmul():
    def kernel(x):
        out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        data = nl.load(x)
        nl.store(out, nl.copy(nisa.nc_matmul(nisa.nc_transpose(data), data)))
        return out

    x = RNG.random((128, 128), np.float32)
    np.testing.assert_allclose(run(kernel, x), x @ x, rtol=1e-5)


def test_integers_divide_to_float_so_that_floor_can_round():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.int32, buffer=nl.shared_hbm)
        nl.store(out, nl.floor(nl.load(x) / 38, dtype=nl.int32))
        return out

    x = np.arange(128 * 20, dtype=np.int32).reshape(128, 20)
    np.testing.assert_array_equal(run(kernel, x), x // 38)


@pytest.mark.parametrize("a, b, expected", [
    (np.float16, BF16, "float32"), (ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2, "bfloat16"),
    (ml_dtypes.float8_e4m3, np.float16, "float16"), (np.int8, np.uint8, "int16"),
    (np.int8, np.uint16, "int32"), (np.int32, np.uint32, "float32"), (np.int16, np.int32, "int32"),
    (np.uint16, np.int32, "int32"), (np.int32, np.float16, "float16"),
])
def test_types_are_promoted_as_documented(a, b, expected):
    def kernel(x, y):
        out = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.add(nl.load(x), nl.load(y))
        assert total.dtype == expected
        nl.store(out, nl.copy(total, dtype=nl.float32))
        return out

    run(kernel, np.ones((128, 4), a), np.ones((128, 4), b))


def test_numbers_count_as_int32_or_float32():
    def kernel(x):
        out = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        data = nl.load(x)
        assert (data * 0.5).dtype == nl.float32
        assert (data * np.float16(0.5)).dtype == nl.float16
        nl.store(out, data * 0.3)
        return out

    x = RNG.random((128, 4)).astype(np.float16)
    np.testing.assert_allclose(run(kernel, x), x.astype(np.float32) * np.float32(0.3), rtol=1e-6)


def test_loop_reduce_accumulates_into_the_tile_it_is_assigned_to():
    def kernel(x):
        out = nl.ndarray((2, 128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        sums = nl.zeros((2, par_dim(128), 8), dtype=nl.float32)
        for k in nl.affine_range(3):
            for i in nl.affine_range(2):  # the second tile takes no part in the first iteration
                data = nl.load(x[k])
                sums[i] = nl.loop_reduce(data, op=np.add, loop_indices=(k,), mask=k >= i)
        for i in range(2):
            nl.store(out[i], sums[i])
        return out

    x = RNG.random((3, 128, 8), np.float32)
    np.testing.assert_allclose(run(kernel, x), np.stack([x.sum(0), x[1:].sum(0)]), rtol=1e-6)


def test_loop_reduce_assigned_to_a_name():
    def kernel(x):
        out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        for k in nl.affine_range(3):
            top = nl.loop_reduce(nl.load(x[k]), op=np.maximum, loop_indices=[k])
        nl.store(out, top)
        return out

    x = RNG.standard_normal((3, 128, 8)).astype(np.float32)
    np.testing.assert_array_equal(run(kernel, x), x.max(0))


def test_a_mask_cuts_the_data_of_bn_stats():
    def kernel(x):
        out = nl.ndarray((128, 6), dtype=nl.float32, buffer=nl.shared_hbm)
        data = nl.load(x)
        rows, columns = nl.arange(128)[:, None], nl.arange(512)[None, :]
        stats = nl.ndarray((par_dim(128), 6), dtype=nl.float32)
        stats[rows, nl.arange(6)[None, :]] = nisa.bn_stats(data[rows, columns], mask=columns < 100)
        nl.store(out, stats)
        return out

    def whole(x):
        out = nl.ndarray((128, 6), dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, nisa.bn_stats(nl.load(x)))
        return out

    x = RNG.random((128, 100), np.float32)
    np.testing.assert_array_equal(run(kernel, x), run(whole, x))


def test_a_mask_cuts_both_sides_of_a_transpose_and_a_partition_reduction():
    def kernel(x):
        turned = nl.ndarray((32, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.ndarray((1, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        data = nl.load(x)
        rows, columns = nl.arange(128)[:, None], nl.arange(32)[None, :]
        tile = nl.zeros((par_dim(32), 128), dtype=nl.float32, buffer=nl.psum)
        tile[:, :] = nisa.nc_transpose(data[rows, columns], mask=columns < 20)
        nl.store(turned, nl.copy(tile))
        sums = nl.zeros((par_dim(1), 32), dtype=nl.float32)
        sums[:, :] = nisa.tensor_partition_reduce(np.add, data[rows, columns],
                                                  mask=(columns < 20) & (rows < 60))
        nl.store(total, sums)
        return turned, total

    x = RNG.random((128, 20), np.float32)
    turned, total = run(kernel, x)
    np.testing.assert_array_equal(turned[:20], x.T)
    assert not turned[20:].any() and not total[0, 20:].any()
    np.testing.assert_allclose(total[0, :20], x[:60].sum(0), rtol=1e-6)


@pytest.mark.parametrize("cut", ["rows", "contraction"])
def test_a_mask_of_a_matmul(cut):
    def kernel(x):
        out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
        data = nl.load(x)
        p, m, n = nl.arange(128)[:, None], nl.arange(128)[None, :], nl.arange(64)[None, :]
        tile = nl.zeros((par_dim(128), 64), dtype=nl.float32, buffer=nl.psum)
        tile[:, :] = nisa.nc_matmul(data[p, m], data[p, n], mask=p < 96)
        nl.store(out, nl.copy(tile))
        return out

    x = RNG.random((96 if cut == "contraction" else 128, 128), np.float32)
    expected = x.T @ x[:, :64]
    if cut == "rows":
        expected[96:] = 0
    np.testing.assert_allclose(run(kernel, x), expected, rtol=1e-5)


@pytest.mark.parametrize("other", ["tile", "number"])
def test_a_mask_cuts_where(other):
    def kernel(x, y):
        out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        a, b = nl.load(x), nl.load(y)
        kept = nl.full((par_dim(128), 16), 7.0, dtype=nl.float32)
        rows, columns = nl.arange(128)[:, None], nl.arange(16)[None, :]
        kept[rows, columns] = nl.where(a > b, a, b if other == "tile" else -1.0,
                                       mask=(columns < 9) & (rows < 96))
        nl.store(out, kept)
        return out

    x, y = RNG.random((2, 128, 16), np.float32)
    expected = np.full((128, 16), 7.0, np.float32)
    expected[:96, :9] = np.where(x > y, x, y if other == "tile" else -1.0)[:96, :9]
    np.testing.assert_array_equal(run(kernel, x, y), expected)


def test_index_tiles_that_differ_in_their_begin_select_their_own_tiles():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        rows, columns = nl.arange(128)[:, None], nl.arange(8)[None, :]
        for block in nl.affine_range(2):
            for part in nl.affine_range(3):
                tile = nl.load(x[128 * block + rows, 8 * part + columns])
                nl.store(out[128 * block + rows, 8 * part + columns], tile)
        return out

    x = RNG.random((256, 24), np.float32)
    np.testing.assert_array_equal(run(kernel, x), x)


def test_a_negative_block_counts_from_the_end_of_its_own_dimension():
    def kernel(x):
        out = nl.ndarray((16, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((2, 3, par_dim(16), 4), dtype=x.dtype, buffer=nl.sbuf)
        for i in range(2):
            for j in range(3):
                tiles[i, j] = nl.load(x[i, j])
        nl.store(out, tiles[0, -1])
        return out

    x = RNG.random((2, 3, 16, 4), np.float32)
    np.testing.assert_array_equal(run(kernel, x), x[0, 2])


def test_an_index_of_the_first_block_dimension_leaves_the_second():
    def kernel(x):
        out = nl.ndarray((16, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((2, 3, par_dim(16), 4), dtype=x.dtype, buffer=nl.sbuf)
        for i in range(2):
            for j in range(3):
                tiles[i, j] = nl.load(x[i, j])
        nl.store(out, tiles[1][2])
        return out

    x = RNG.random((2, 3, 16, 4), np.float32)
    np.testing.assert_array_equal(run(kernel, x), x[1, 2])


def test_an_ellipsis_stands_for_the_dimensions_between_a_block_and_the_last():
    def kernel(x):
        out = nl.ndarray((16, 2), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((2, par_dim(16), 4), dtype=x.dtype, buffer=nl.sbuf)
        for i in range(2):
            tiles[i, ...] = nl.load(x[i])
        nl.store(out, tiles[0:2, ..., 1:3][1])
        return out

    x = RNG.random((2, 16, 4), np.float32)
    np.testing.assert_array_equal(run(kernel, x), x[1, :, 1:3])


def test_a_mask_cuts_a_middle_axis_that_a_reduction_keeps():
    def kernel(x):
        out = nl.ndarray((16, 4, 1), dtype=x.dtype, buffer=nl.shared_hbm)
        p, m, f = nl.mgrid[0:16, 0:4, 0:8]
        nl.store(out, nl.zeros((16, 4, 1), x.dtype, buffer=nl.sbuf))
        total = nl.sum(nl.load(x), axis=[2], keepdims=True, mask=(m < 3))
        nl.store(out[:, 0:3, :], total[:, 0:3, :])
        return out

    x = RNG.random((16, 4, 8), np.float32)
    expected = x.sum(2, keepdims=True, dtype=np.float32)
    expected[:, 3] = 0
    np.testing.assert_allclose(run(kernel, x), expected, rtol=1e-6)


def test_operands_of_other_partitions_are_refused_whatever_their_ranks():
    def kernel(x):
        out = nl.ndarray((32, 32), dtype=x.dtype, buffer=nl.shared_hbm)
        a, b = nl.load(x[0:16]), nl.load(x.reshape((32, 32)))
        nl.store(out, nisa.tensor_tensor(a, b, np.add))
        return out

    with pytest.raises(nkisim.Error, match=r"shapes \(16, 8, 4\) and \(32, 32\) do not broadcast"):
        run(kernel, np.ones((32, 8, 4), np.float32))


@pytest.mark.parametrize("source", [slice(4, 8), slice(0, 16, 4)], ids=["elsewhere", "other steps"])
def test_a_tile_is_assigned_what_another_part_of_it_holds(source):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        tile[...] = nl.load(x)
        tile[:, 0:4] = tile[:, source]
        nl.store(out, tile)
        return out

    x = RNG.random((16, 16), np.float32)
    expected = x.copy()
    expected[:, 0:4] = x[:, source]
    np.testing.assert_array_equal(run(kernel, x), expected)


def test_a_reduction_over_programs_is_refused_once_and_says_what_to_do():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nl.store(out, nl.all_reduce(tile, op=np.add, program_axes=[0]))
        return out

    with pytest.raises(nkisim.Error, match="all_reduce: .*add the parts in another kernel") as found:
        nki.simulate_kernel(nki.jit(kernel)[4], np.ones((16, 16), np.float32))
    assert "test_legacy_forms.py" in str(found.value)


def test_a_result_stored_twice_into_one_slot():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        slots = nl.ndarray((128, 4), dtype=nl.float32)
        tile = nl.load(x)
        most = nl.max(tile, axis=[1])
        slots[:, 0:1] = most
        slots[:, 0:1] = nl.min(tile, axis=[1])
        nl.store(out, nl.subtract(tile, most))
        return out

    x = RNG.random((128, 16), np.float32)
    np.testing.assert_array_equal(run(kernel, x), x - x.max(1, keepdims=True))


def test_views_of_a_stored_result_stay_views_of_it():
    """Views of all and of parts, made before its place changes and used afterwards; a change of it stays its own."""
    def kernel(x):
        outs = [nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm) for shape in ((128, 8), (128, 4), (128, 8))]
        wide = nl.zeros((128, 2, 16), dtype=nl.float32)
        double = nl.add(nl.load(x), nl.load(x))
        wide[:, 1, 4:12] = double
        part, turned = double[:, 2:6], double.reshape((128, 2, 4))
        wide[:, 1, 0:8] = 0.0
        nl.store(outs[0], double)
        nl.store(outs[1], nl.copy(part) - turned[:, 1, :])
        double[:, 0:2] = 5.0
        nl.store(outs[2], wide[:, 1, 4:12])
        return tuple(outs)

    x = RNG.random((128, 8), np.float32)
    first, second, third = run(kernel, x)
    np.testing.assert_array_equal(first, 2 * x)
    np.testing.assert_array_equal(second, 2 * x[:, 2:6] - 2 * x[:, 4:8])
    np.testing.assert_array_equal(third, np.where(np.arange(8) < 4, 0, 2 * x))


def test_a_view_outlives_the_name_of_a_stored_result():
    def kernel(x):
        out = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        place = nl.zeros((128, 8), dtype=nl.float32)
        double = nl.add(nl.load(x), nl.load(x))
        place[...] = double
        part = double[:, 2:6]
        del double
        place[:, 0:8] = nl.load(x)
        nl.store(out, part)
        return out

    x = RNG.random((128, 8), np.float32)
    np.testing.assert_array_equal(run(kernel, x), 2 * x[:, 2:6])


@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_where_into_one_of_its_operands(dtype):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile, zero = nl.load(x), nl.zeros((128, 8), dtype=nl.float32)
        tile[...] = nl.where(nl.greater(tile, 0.5), tile, zero)
        tile[:, 0:4] = nl.where(nl.greater(zero[:, 0:4], 1.0), zero[:, 0:4], tile[:, 4:8])
        nl.store(out, tile)
        return out

    x = RNG.random((128, 8), np.float32).astype(dtype)
    expected = np.where(x > 0.5, x, dtype(0))
    expected[:, 0:4] = expected[:, 4:8]
    np.testing.assert_array_equal(run(kernel, x), expected)


def test_a_transpose_on_the_vector_engine_into_its_own_operand():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        tile[...] = nisa.nc_transpose(tile, engine=nisa.vector_engine)
        nl.store(out, tile)
        return out

    x = RNG.random((64, 64), np.float32)
    np.testing.assert_array_equal(run(kernel, x), x.T)


def test_a_result_assigned_to_itself():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        double = nl.add(tile, tile)
        double[:, :] = double
        tile[...] = double
        tile[:, :] = double
        nl.store(out, tile)
        return out

    x = RNG.random((64, 8), np.float32)
    np.testing.assert_array_equal(run(kernel, x), 2 * x)
    assert [len(nkisim.run(nki.jit(kernel), x).recorder.program)] == [3]  # no copy of a tile to itself
