"""Tests division and remainders, which no engine has: sequences of instructions compute them."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


def run(function, *arrays):
    """function(tiles...) of FP32 arrays, stored as FP32: (result, opcodes of the program)."""

    @nki.jit
    def kernel(*arguments):
        out = nl.ndarray(arrays[0].shape, nl.float32, nl.shared_hbm)
        nl.store(out, function(*[nl.load(a) for a in arguments]))
        return out

    return nkisim.run(kernel, *arrays).outputs


def draw(low, high, seed):
    return np.random.default_rng(seed).uniform(low, high, (8, 64)).astype(np.float32)


def whole(seed):
    x = np.random.default_rng(seed).integers(-5000, 5000, (8, 64)).astype(np.float32)
    x[x == 0] = 7
    return x


def test_quotient_is_a_product_with_the_reciprocal():
    x, y = draw(-4, 4, 1), draw(0.5, 9, 2)
    assert np.array_equal(run(nl.divide, x, y), x * (np.float32(1) / y))
    assert np.array_equal(run(lambda a, b: a / b, x, y), x * (np.float32(1) / y))
    assert np.array_equal(run(lambda b: 3.0 / b, y), np.float32(3) * (np.float32(1) / y))
    assert np.array_equal(run(lambda a: a / 3.0, x), x * (np.float32(1) / np.float32(3)))


def test_quotient_by_a_column():
    x, y = draw(-4, 4, 1), draw(0.5, 9, 2)
    result = run(lambda a, b: nl.divide(a, b[:, 0:1]), x, y)
    assert np.array_equal(result, x * (np.float32(1) / y[:, :1]))


@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_remainders_of_whole_numbers_are_exact(name):
    x, y = whole(3), whole(4)
    x[0] = np.arange(64) * 49 - 98  # multiples, whose quotient rounds to just below a whole number
    y[0] = 49
    function = getattr(nl, name)
    assert np.array_equal(run(function, x, y), getattr(np, name)(x, y))
    assert np.array_equal(run(lambda a: function(a, 7.0), x), getattr(np, name)(x, np.float32(7)))
    assert np.array_equal(run(lambda b: function(1000.0, b), y),
                          getattr(np, name)(np.float32(1000), y))


def test_remainders_of_fractions():
    x, y = draw(-50, 50, 5), draw(0.5, 3, 6)
    for name in ("mod", "fmod"):
        result, exact = run(getattr(nl, name), x, y), getattr(np, name)(x.astype(float), y)
        distance = np.abs(result - exact)
        assert np.minimum(distance, np.abs(distance - y)).max() < 1e-5


@pytest.mark.parametrize("op", [nl.divide, nl.mod, nl.fmod])
def test_instructions_do_not_take_them(op):
    @nki.jit
    def kernel(x):
        tile = nl.load(x)
        nisa.tensor_scalar(tile, tile, op, 2.0)

    with pytest.raises(nkisim.Error, match="which no instruction has"):
        kernel(np.ones((4, 4), np.float32))


@pytest.mark.parametrize("name", ["mod", "fmod"])
def test_remainders_whose_quotient_rounds_up_to_the_next_whole_number(name):
    """k * y - 1 times the rounded 1 / y is k: the remainder is y - 1, not -1."""
    x = np.float32([14271104, 15045821, 15424317, 16548157, 15786959, 13887548, 13558831, 11664644])
    y = np.float32([3, 6, 7, 11, 12, 13, 14, 15])
    assert np.all(np.floor(x * (np.float32(1) / y)) > np.floor(x.astype(np.float64) / y))
    x, y = x.reshape(1, 8), y.reshape(1, 8)
    for sign in (1, -1):
        expected = getattr(np, name)(sign * x.astype(np.float64), y)
        assert np.array_equal(run(getattr(nl, name), np.float32(sign) * x, y), expected)
