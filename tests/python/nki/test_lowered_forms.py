"""Tests nki.language functions that take more than one instruction, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import nkisim
from kernels import computed

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

RNG = np.random.default_rng(11)
X, Y = RNG.integers(1, 7, (2, 8, 6)).astype(np.float32)
E4, BF = ml_dtypes.float8_e4m3, ml_dtypes.bfloat16


@pytest.mark.parametrize("function, expected", [
    (lambda x: nl.power(x, 2.5), X ** 2.5), (lambda x: nl.power(2.5, x), 2.5 ** X),
    (lambda x: x ** 2, X ** 2), (lambda x: 2 ** x, 2 ** X)])
def test_power_with_a_number(function, expected):
    np.testing.assert_allclose(computed(function, X), expected, rtol=1e-6)


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize("other", ["tile", "number"])
def test_larger_and_smaller_magnitudes(target, other):
    x, y = X - 3, (Y - 4 if other == "tile" else -2.5)
    for name, better in (("abs_max", np.greater), ("abs_min", np.less)):
        found = computed(lambda *t: getattr(nl, name)(t[0], t[1] if other == "tile" else y),
                    x, *([y] if other == "tile" else []), target=target)
        np.testing.assert_array_equal(found, np.where(better(abs(x), abs(y)), x, y))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, E4, ml_dtypes.float8_e5m2])
def test_bytes_are_transposed(dtype):
    x = X.astype(dtype)
    np.testing.assert_array_equal(computed(nl.transpose, x).astype(np.float32), X.T)

    def kernel(x):
        turned = nl.load_transpose2d(x)
        out = nl.ndarray(turned.shape, turned.dtype, buffer=nl.shared_hbm)
        nl.store(out, turned)
        return out

    np.testing.assert_array_equal(nkisim.run(kernel, x).outputs.astype(np.float32), X.T)


@pytest.mark.parametrize("dtype", [np.float32, BF, np.float16, E4, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_every_dtype(dtype, turned):
    x, y = (a.astype(dtype).astype(np.float32) for a in RNG.random((2, 16, 24), np.float32))
    left = x if turned else x.T
    found = computed(lambda a, b: nl.matmul(a, b, transpose_x=turned), left.astype(dtype),
                y.astype(dtype))
    np.testing.assert_allclose(found, x.T @ y, rtol=1e-5)


def test_gathered_elements_in_another_dtype():
    at = RNG.integers(0, 6, (8, 9)).astype(np.int32)
    found = computed(lambda x, i: nl.gather_flattened(x, i, dtype=nl.bfloat16), X, at)
    np.testing.assert_array_equal(found, np.take_along_axis(X, at, 1).astype(BF))


def test_a_quotient_is_of_the_dtype_asked_for():
    x = np.arange(48, dtype=np.int32).reshape(8, 6) * 2
    found = computed(lambda t: nl.divide(t, 2, dtype=nl.int32), x)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, x // 2)


@pytest.mark.parametrize("axis, shape", [([1, 2], (4, 1, 1)), (2, (4, 3, 1)), (-2, (4, 1, 5))])
def test_var_keeps_its_axes_as_documented(axis, shape):
    x = RNG.random((4, 3, 5), np.float32)
    axes = tuple(axis) if isinstance(axis, list) else axis
    found = computed(lambda t: nl.var(t, axis), x)
    assert found.shape == shape
    np.testing.assert_allclose(found, x.var(axes, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("number", [2, 2.0, np.float32(2), np.int32(2)])
def test_comparisons_with_numbers_of_every_kind(number):
    for function in (lambda a, b: a == b, lambda a, b: b == a, lambda a, b: a != b,
                     lambda a, b: b > a):
        np.testing.assert_array_equal(computed(lambda t: function(t, number), X), function(X, number))


@pytest.mark.parametrize("on_chip", [True, False])
@pytest.mark.parametrize("key", [(..., 1), (slice(None), ..., slice(2, 4)), (0, ..., 2),
                                 (slice(0, 4), 1, ...), (..., slice(1, 2), 0), (...,),
                                 (slice(None), None, ..., 3), (slice(None), 0, ..., 1, 2)])
def test_an_ellipsis_anywhere(key, on_chip):
    x = np.arange(8 * 2 * 3 * 4, dtype=np.float32).reshape(8, 2, 3, 4)

    def kernel(x):
        tensor = nl.load(x) if on_chip else x
        view = tensor[key]
        tile = nl.ndarray(view.shape, x.dtype, buffer=nl.sbuf)
        (nisa.tensor_copy if on_chip else nisa.dma_copy)(tile, view)
        out = nl.ndarray(view.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    expected = x[key]
    np.testing.assert_array_equal(nkisim.run(kernel, x).outputs.squeeze(), expected.squeeze())


def test_a_masked_transposed_load():
    import neuronxcc.nki as legacy
    import neuronxcc.nki.language as lnl

    @legacy.jit
    def kernel(x):
        out = lnl.ndarray((30, 20), dtype=x.dtype, buffer=lnl.shared_hbm)
        rows, columns = lnl.mgrid[0:64, 0:64]
        turned = lnl.load_transpose2d(x[rows, columns], mask=(rows < 20) & (columns < 30))
        lnl.store(out[rows, columns], turned, mask=(rows < 30) & (columns < 20))
        return out

    x = RNG.random((20, 30), np.float32)
    np.testing.assert_array_equal(kernel(x), x.T)


@pytest.mark.parametrize("function, expected", [("cos", np.cos), ("tan", np.tan),
                                                ("transpose", np.transpose)])
def test_a_mask_leaves_a_part(function, expected):
    import neuronxcc.nki as legacy
    import neuronxcc.nki.language as lnl

    @legacy.jit
    def kernel(x):
        out = lnl.ndarray(x.shape, dtype=x.dtype, buffer=lnl.shared_hbm)
        rows, columns = lnl.arange(32)[:, None], lnl.arange(32)[None, :]
        tile = lnl.load(x[rows, columns], mask=(rows < 20) & (columns < 12))
        found = getattr(lnl, function)(tile, mask=(rows < 20) & (columns < 12))
        lnl.store(out, lnl.zeros(x.shape, x.dtype))
        high, wide = (12, 20) if function == "transpose" else (20, 12)
        lnl.store(out[rows, columns], found, mask=(rows < high) & (columns < wide))
        return out

    x = RNG.random((32, 32), np.float32)
    part = expected(x[:20, :12])
    whole = np.zeros_like(x)
    whole[:part.shape[0], :part.shape[1]] = part
    np.testing.assert_allclose(kernel(x), whole, rtol=1e-5)


def outputs(body, *arrays, legacy=False):
    """Stores of the tiles that body(arguments...) gives."""
    def kernel(*arguments):
        stored = []
        for tile in body(*arguments):
            out = nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm)
            nl.store(out, tile)
            stored.append(out)
        return tuple(stored)

    result = nkisim.run(kernel, *arrays, legacy=legacy)
    return result.outputs, result.instructions


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_result_keeps_its_value_after_it_was_assigned(legacy, dtype):
    def body(x):
        tile = nl.load(x)
        target = nl.ndarray(x.shape, dtype, buffer=nl.sbuf)
        for _ in range(2):
            named = nl.add(tile, 1.0)
            target[...] = named
            first = named * 2.0
            target[:, 0:3] = 0.0
            second = named * 3.0
        return target, first, second

    (target, first, second), _ = outputs(body, X, legacy=legacy)
    expected = (X + 1).astype(BF if dtype == "bfloat16" else np.float32)
    expected[:, :3] = 0
    np.testing.assert_array_equal(target, expected)
    np.testing.assert_array_equal(first, (X + 1) * 2)
    np.testing.assert_array_equal(second, (X + 1) * 3)


def test_a_result_without_a_name_is_written_to_its_place():
    def named(x):
        tile = nl.load(x)
        result = nl.exp(tile)
        tile[...] = result
        return tile, result

    def nameless(x):
        tile = nl.load(x)
        tile[...] = nl.exp(tile)
        return (tile,)

    for body, legacy, instructions in ((nameless, False, 3), (named, False, 5), (named, True, 4)):
        found, count = outputs(body, X, legacy=legacy)
        np.testing.assert_allclose(found[0], np.exp(X), rtol=1e-6)
        assert count == instructions


@pytest.mark.parametrize("legacy", [False, True])
def test_an_assigned_product_overwrites_and_an_added_one_adds(legacy):
    import neuronxcc.nki.isa as old

    def body(x, y):
        a, b = nl.load(x), nl.load(y)
        total = nl.ndarray((6, 6), nl.float32, buffer=nl.psum)
        for times in range(3):
            total[...] = old.nc_matmul(a, b) if legacy else nl.matmul(a, b, transpose_x=True)
            for _ in range(times):
                total += old.nc_matmul(a, b) if legacy else nl.matmul(a, b, transpose_x=True)
        return (total,)

    found, _ = outputs(body, X, Y, legacy=legacy)
    np.testing.assert_allclose(found[0], 3 * X.T @ Y, rtol=1e-6)


def test_a_row_of_hbm_is_assigned_to_every_partition():
    def body(x):
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        tile[...] = x[2:3, :]
        tile[:, 0:2] = x[:, 1:2]
        return (tile,)

    expected = np.repeat(X[2:3], 8, 0)
    expected[:, :2] = X[:, 1:2]
    np.testing.assert_array_equal(outputs(body, X)[0][0], expected)


@pytest.mark.parametrize("name", ["mean", "var", "sum", "max"])
@pytest.mark.parametrize("rows, columns", [(20, 9), (32, 9), (20, 16)])
def test_a_masked_reduction_is_of_the_elements_the_mask_leaves(name, rows, columns):
    import neuronxcc.nki as legacy
    import neuronxcc.nki.language as lnl

    @legacy.jit
    def kernel(x):
        out = lnl.ndarray((32, 1), dtype=x.dtype, buffer=lnl.shared_hbm)
        i, j, first = lnl.arange(32)[:, None], lnl.arange(16)[None, :], lnl.arange(1)[None, :]
        tile = lnl.load(x[i, j], mask=(i < rows) & (j < columns))
        found = lnl.full((32, 1), -7.0, dtype=lnl.float32)
        found[i, first] = getattr(lnl, name)(tile, axis=[1], mask=(i < rows) & (j < columns))
        lnl.store(out, found)
        return out

    x = RNG.random((rows, columns), np.float32)
    expected = np.full((32, 1), -7.0, np.float32)
    expected[:rows] = getattr(np, name)(x, axis=1, keepdims=True)
    np.testing.assert_allclose(kernel(x), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "max", "mean"])
@pytest.mark.parametrize("axes", [[2], [1], [1, 2], [0], [0, 1, 2]])
def test_a_masked_reduction_of_three_dimensions(name, axes):
    import neuronxcc.nki as legacy
    import neuronxcc.nki.language as lnl

    @legacy.jit
    def kernel(x):
        i, j, k = (lnl.arange(32)[:, None, None], lnl.arange(4)[None, :, None],
                   lnl.arange(8)[None, None, :])
        inside = (i < 20) & (j < 3) & (k < 5)
        tile = lnl.load(x[i, j, k], mask=inside)
        found = getattr(lnl, name)(tile, axis=axes, keepdims=True, mask=inside)
        shape = [1 if d in axes else n for d, n in enumerate((20, 3, 5))]
        out = lnl.ndarray(shape, dtype=x.dtype, buffer=lnl.shared_hbm)
        rows, middle, columns = shape
        lnl.store(out, found[0:rows, 0:middle, 0:columns])
        return out

    x = RNG.random((20, 3, 5), np.float32)
    np.testing.assert_allclose(kernel(x), getattr(np, name)(x, axis=tuple(axes), keepdims=True),
                               rtol=1e-5)
