"""Tests mask= of every computing function of neuronxcc.nki: the result is that of the sliced
operands, and nothing else is written (NKI API masking, SDK 2.20 to 2.26).
"""

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki as nki  # noqa: E402
import neuronxcc.nki.isa as nisa  # noqa: E402
import neuronxcc.nki.language as nl  # noqa: E402

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((2, 128, 64)).astype(np.float32)
P = np.abs(X) + np.float32(0.1)
V = P[:, :1].copy()
ROWS, COLUMNS = 100, 50

CASES = {name: (getattr(nl, name), P) for name in (
    "abs exp log sqrt rsqrt reciprocal square tanh sigmoid relu silu softplus gelu erf sin cos sign "
    "floor ceil trunc negative copy mish").split()}
for _n in "add subtract multiply divide maximum minimum power fmod mod".split():
    _f = getattr(nl, _n)
    CASES[_n] = _f, P, P if _n == "power" else Y
    CASES[_n + " of a number"] = lambda a, f=_f, **k: f(a, 2.0, **k), P
    CASES[_n + " of a column"] = _f, P, V
for _n in "equal less greater_equal logical_and logical_xor".split():
    CASES[_n] = lambda a, b, f=getattr(nl, _n), **k: f(a, b, dtype=nl.float32, **k), X, Y
for _n in "sum max min mean prod".split():
    CASES[_n] = lambda a, f=getattr(nl, _n), **k: f(a, axis=1, keepdims=True, **k), P
CASES.update({
    "where": (nl.where, (X > 0).astype(np.uint8), X, Y),
    "var": (lambda a, **k: nl.var(a, axis=1, **k), P),
    "softmax": (lambda a, **k: nl.softmax(a, axis=1, **k), P),
    "dropout": (lambda a, **k: nl.dropout(a, 0.0, **k), P),
    "nisa.tensor_reduce": (lambda a, **k: nisa.tensor_reduce(np.add, a, axis=(1,), keepdims=True, **k), P),
    "nisa.activation": (lambda a, b, **k: nisa.activation(np.exp, a, bias=b, scale=0.5, **k), X, V),
    "nisa.tensor_scalar": (lambda a, b, **k: nisa.tensor_scalar(
        a, np.multiply, b, op1=np.add, operand1=1.0, **k), X, V),
    "nisa.tensor_tensor": (lambda a, b, **k: nisa.tensor_tensor(a, b, op=np.add, **k), X, Y),
    "nisa.scalar_tensor_tensor": (lambda a, b, **k: nisa.scalar_tensor_tensor(
        data=a, op0=np.multiply, operand0=2.0, op1=np.add, operand1=b, **k), X, Y),
    "nisa.tensor_tensor_scan": (lambda a, b, **k: nisa.tensor_tensor_scan(
        a, b, initial=0.0, op0=np.multiply, op1=np.add, **k), X, Y),
    "nisa.reciprocal": (nisa.reciprocal, P),
    "nisa.tensor_copy": (nisa.tensor_copy, P),
    "nisa.bn_stats": (lambda a, **k: nisa.bn_stats(a, dtype=nl.float32, **k), P),
})


@pytest.mark.parametrize("name", CASES)
def test_a_mask_is_a_slice(name):
    function, *arrays = CASES[name]

    @nki.jit
    def sliced(*tensors):
        tiles = [nl.load(t) for t in tensors]
        tile = function(*[t[:ROWS, :COLUMNS] if t.shape[1] > 1 else t[:ROWS, :] for t in tiles])
        out = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    expected = np.asarray(nki.simulate_kernel(sliced, *arrays))
    width = expected.shape[1] if expected.shape[1] != COLUMNS else 64

    @nki.jit
    def masked(*tensors):
        out = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.shared_hbm)
        i, j, free = nl.arange(128)[:, None], nl.arange(64)[None, :], nl.arange(width)[None, :]
        tile = nl.full((128, width), 9, dtype=nl.float32)
        tiles = [nl.load(t) for t in tensors]
        tiles = [t[i, j] if t.shape[1] > 1 else t for t in tiles]
        tile[i, free] = function(*tiles, mask=(i < ROWS) & (j < COLUMNS))
        nl.store(out, tile)
        return out

    whole = np.full((128, width), 9, np.float32)
    whole[:ROWS, :expected.shape[1]] = expected
    np.testing.assert_array_equal(nki.simulate_kernel(masked, *arrays), whole)


@pytest.mark.parametrize("k, m, n", [(72, 100, 300), (72, 128, 300), (128, 100, 512), (1, 1, 1),
                                     (72, 128, 512), (128, 22, 88)])
def test_a_product_masked_in_all_its_dimensions(k, m, n):
    """Tiles of 128 x 128 and 128 x 512 of which masks leave k, m and n. Never-written rows count for
    nothing: with 128 of each along the first axis, k is what the operands were loaded with."""
    a, b = RNG.random((m, k), np.float32), RNG.random((k, n), np.float32)
    i_k, i_m, i_n = nl.arange(128)[:, None], nl.arange(128)[None, :], nl.arange(512)[None, :]
    i_mp = nl.arange(128)[:, None]

    @nki.jit
    def kernel(a, b, mask_of_m):
        out = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.shared_hbm)
        at = nl.load_transpose2d(a[i_mp, i_m], mask=(i_mp < m) & (i_m < k))
        bt = nl.load(b[i_k, i_n], mask=(i_k < k) & (i_n < n))
        total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
        mask = (i_k < k) & (i_n < n)
        total += nisa.nc_matmul(at[i_k, i_m], bt[i_k, i_n],
                                mask=mask & (i_m < m) if mask_of_m else mask)
        nl.store(out[i_mp, i_n], total[i_mp, i_n], mask=(i_mp < m) & (i_n < n))
        return out

    for mask_of_m in (True, False)[:1 if m < 128 else 2]:
        found = nki.simulate_kernel(kernel, a, b, mask_of_m)
        np.testing.assert_allclose(found, a @ b, rtol=1e-5)


@pytest.mark.parametrize("isa", [True, False])
def test_a_mask_of_a_products_result(isa):
    """(i < 30) & (j < 20) of a 64 x 64 result of 128 rows summed: the rows and columns of the result."""
    i, j = nl.arange(64)[:, None], nl.arange(64)[None, :]

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((30, 20), dtype=nl.float32, buffer=nl.shared_hbm)
        x, y, mask = nl.load(x), nl.load(y), (i < 30) & (j < 20)
        tile = (nisa.nc_matmul(x, y, mask=mask) if isa else
                nl.matmul(x, y, transpose_x=True, mask=mask))
        nl.store(out[i, j], tile[i, j], mask=mask)
        return out

    found = nki.simulate_kernel(kernel, X, Y)
    np.testing.assert_allclose(found, (X.T @ Y)[:30, :20], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("low, high", [(0, 96), (32, 64), (64, 128)])
def test_a_mask_of_rows_means_the_results_where_operands_are_whole(low, high):
    """128 rows of operands and of the result: a tile that was loaded under such a mask, and then written
    whole, says no longer that the mask is of the rows summed."""
    i, m = nl.arange(128)[:, None], nl.arange(128)[None, :]

    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
        tile[i, m] = nl.load(x[i, m], mask=i < high)
        tile[...] = nl.load(x)
        total = nl.zeros((128, 128), dtype=nl.float32, buffer=nl.psum)
        total[...] = nisa.nc_matmul(tile, tile, mask=(i >= low) & (i < high) & (m < 50))
        nl.store(out, total)
        return out

    x = RNG.random((128, 128), np.float32)
    expected = np.zeros((128, 128))
    expected[low:high, :50] = (x.T @ x)[low:high, :50]
    np.testing.assert_allclose(nki.simulate_kernel(kernel, x), expected, rtol=1e-5)


def test_a_mask_that_bounds_m_leaves_the_first_axis_to_the_rows_summed():
    """Operands of 128 rows that were loaded whole: what is along the first axis can only be k."""
    i_k, i_m, i_n = nl.arange(128)[:, None], nl.arange(128)[None, :], nl.arange(512)[None, :]

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
        total += nisa.nc_matmul(nl.load(x), nl.load(y), mask=(i_k < 72) & (i_m < 100) & (i_n < 300))
        nl.store(out, total)
        return out

    x, y = RNG.random((128, 128), np.float32), RNG.random((128, 512), np.float32)
    expected = np.zeros((128, 512))
    expected[:100, :300] = x[:72, :100].T @ y[:72, :300]
    np.testing.assert_allclose(nki.simulate_kernel(kernel, x, y), expected, rtol=1e-5)


def test_a_mask_of_a_product_whose_moving_tile_has_three_dimensions():
    """The index reaches beyond the 100 rows and 40 columns that there are; every row between them is summed."""
    k, m, a, n = 100, 60, 3, 40
    i_k, i_m, i_n = nl.arange(128)[:, None], nl.arange(m)[None, :], nl.arange(64)[None, :]
    j_k, j_a, j_n = nl.arange(128)[:, None, None], nl.arange(a)[None, :, None], nl.arange(64)[None, None, :]

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((m, a, n), dtype=nl.float32, buffer=nl.shared_hbm)
        x, y = nl.load(x), nl.load(y)
        total = nl.zeros((m, a, 64), dtype=nl.float32, buffer=nl.psum)
        total += nisa.nc_matmul(x[i_k, i_m], y[j_k, j_a, j_n], mask=(i_k < k) & (i_n < n))
        nl.store(out, total[:, :, 0:n])
        return out

    x, y = RNG.random((k, m), np.float32), RNG.random((k, a, n), np.float32)
    np.testing.assert_allclose(nki.simulate_kernel(kernel, x, y), np.einsum("km,kan->man", x, y), rtol=1e-5)
