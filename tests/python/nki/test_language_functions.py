"""Tests the functions of nki.language over dtypes, shapes, operands and axes, against NumPy."""

import math

import ml_dtypes
import numpy as np
import pytest

import nkisim
from kernels import computed

nkisim.install()

import nki.language as nl  # noqa: E402

BF, E4, E5 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2
DTYPES = [np.float32, BF, np.float16, E4, E5, np.int8, np.uint8, np.int16, np.uint16, np.int32,
          np.uint32]
#: Relative error of one rounding to the dtype, twice over.
ROUNDING = {"float32": 4e-6, "float16": 2e-3, "bfloat16": 1.6e-2, "float8_e4m3": 0.13,
            "float8_e5m2": 0.25}
erf = np.vectorize(math.erf)
UNARY = {
    "abs": np.abs, "square": np.square, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)), "reciprocal": lambda x: 1 / x, "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "arctan": np.arctan, "ceil": np.ceil, "floor": np.floor,
    "trunc": np.trunc, "negative": np.negative, "sign": np.sign, "copy": np.copy, "erf": erf,
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2)))}
BINARY = {name: getattr(np, name) for name in (
    "add subtract multiply maximum minimum power equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_xor fmod mod divide").split()}
BITS = {name: getattr(np, name) for name in (
    "bitwise_and bitwise_or bitwise_xor left_shift right_shift").split()}
SHAPES = [((8, 6), (8, 6)), ((8, 6), (8, 1)), ((8, 6), (1, 6)), ((8, 1), (8, 6)),
          ((4, 3, 5), (4, 1, 5)), ((4, 3, 5), (4, 3, 1)), ((5, 1), (5, 1)), ((1, 6), (8, 1))]


def name_of(dtype):
    return np.dtype(dtype).name


def agrees(found, expected, dtype):
    """True if found is expected, computed in FP64, as `dtype`."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        expected = np.clip(np.rint(expected), limits.min, limits.max)
    else:
        expected = expected.astype(np.float32).astype(dtype).astype(np.float64)
    assert found.dtype == dtype and found.shape == expected.shape
    error = ROUNDING.get(dtype.name, 0)
    np.testing.assert_allclose(found.astype(np.float64), expected, error, error / 4)


def draw(dtype, shape, low=1, high=7):
    return np.random.default_rng(len(shape)).integers(low, high, shape).astype(dtype)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for dtype in DTYPES:
        for shape in ((16, 12), (3, 5), (1, 1), (7, 2, 3)):
            high = 4 if name in ("sin", "tan") else 6  # sin is defined to pi
            x = draw(dtype, shape, 1, high)
            if name == "tan" and np.dtype(dtype).kind in "iu":
                continue  # near its poles the rounding of cos decides
            if np.dtype(dtype).kind not in "iu":
                x = (x.astype(np.float32) / 4 + 0.125).astype(dtype)
            agrees(computed(getattr(nl, name), x), UNARY[name](x.astype(np.float64)), dtype)


@pytest.mark.parametrize("name", [*BINARY, *BITS])
def test_binary(name):
    reference = {**BINARY, **BITS}[name]
    for dtype in DTYPES:
        whole = np.dtype(dtype).kind in "iu"
        if name in BITS and not whole or name == "subtract" and np.dtype(dtype).kind == "u":
            continue
        many = dtype in (np.float32, np.int32)
        for shapes in SHAPES if many else SHAPES[:1]:
            x, y = draw(dtype, shapes[0]), draw(dtype, shapes[1], 2, 5)
            given = (x, y) if name in BITS else (x.astype(np.float64), y.astype(np.float64))
            out = np.float32 if name == "divide" and whole else dtype
            agrees(computed(getattr(nl, name), x, y), reference(*given).astype(np.float64), out)


@pytest.mark.parametrize("name, dtype", [
    *((name, dtype) for name in BINARY for dtype in (np.float32, BF, np.int32)),
    *((name, np.int32) for name in BITS)], ids=lambda v: v if isinstance(v, str) else name_of(v))
def test_binary_with_a_number_on_either_side(name, dtype):
    whole = np.dtype(dtype).kind in "iu"
    function, reference = getattr(nl, name), {**BINARY, **BITS}[name]
    x = draw(dtype, (9, 7), 1, 4)
    exact = x if name in BITS else x.astype(np.float64)
    out = np.float32 if name == "divide" and whole else dtype
    agrees(computed(lambda t: function(t, 3), x), reference(exact, 3).astype(np.float64), out)
    agrees(computed(lambda t: function(3, t), x), reference(3, exact).astype(np.float64), out)


@pytest.mark.parametrize("name", ["sum", "max", "min", "prod", "mean", "all"])
@pytest.mark.parametrize("shape, axes", [
    ((8, 6), [1, -1, [1], (1,)]), ((4, 3, 5), [1, 2, -1, [1, 2], (2, 1), (-1, -2)]),
    ((4, 2, 3, 5), [3, (2, 3), [1, 2, 3], 2, (1, 3)]), ((5, 1), [1])], ids=str)
def test_reductions(name, shape, axes):
    for dtype in (np.float32, BF, np.int32, np.uint8):
        x = draw(dtype, shape, 0, 3)
        for axis in axes:
            along = tuple(axis) if isinstance(axis, list) else axis
            for keep in (False, True) if name != "all" else (False,):
                options = {"keepdims": True} if keep else {}
                found = computed(lambda t: getattr(nl, name)(t, axis, **options), x)
                expected = getattr(np, name)(x.astype(np.float64), axis=along, **options)
                expected = np.asarray(expected, np.float64)
                agrees(found, expected.reshape(found.shape) if expected.ndim < 2 else expected,
                       dtype)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, (0, 1), (1, 3), (-1, 1), [-1, -2]], ids=str)
def test_expanded_dimensions_are_counted_from_either_end(axis):
    """Dimensions of HBM, of which any may be first, are counted in the result, as NumPy's."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    axes = tuple(axis) if isinstance(axis, list) else axis

    def kernel(x):
        assert nl.expand_dims(x, axis).shape == np.expand_dims(np.zeros((3, 4)), axes).shape
        out = nl.ndarray(nl.expand_dims(x, axis).shape, dtype=x.dtype, buffer=nl.shared_hbm)
        out[...] = nl.expand_dims(x, axis)
        return out

    found = np.asarray(nkisim.run(kernel, x).outputs)
    np.testing.assert_array_equal(found, np.expand_dims(x, axes))


@pytest.mark.parametrize("dtype, step", [(nl.float32, 2.0 ** -24), (nl.bfloat16, 2.0 ** -8)], ids=["f32", "bf16"])
def test_random_numbers_reach_as_near_to_1_as_their_type_can_and_no_further(dtype, step):
    """65,536 of them: a top of less for float32, or 1 itself for bfloat16, would be among them."""
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.rand((128, 512), dtype=dtype))
        return out

    found = np.asarray(nkisim.run(kernel, np.zeros(1, np.float32)).outputs).astype(np.float64)
    assert found.min() >= 0 and found.max() < 1 and 1 - found.max() <= max(step, 2.0 ** -10)
    assert 0.49 < found.mean() < 0.51
