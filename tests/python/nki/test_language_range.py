"""Tests the functions of nki.language over the whole range of FP32: infinities, NaN, huge and tiny arguments, against
NumPy, in both generations. An instruction of nki.isa may have a smaller range; a function of the language is right
everywhere."""

import math

import numpy as np
import pytest

import nkisim
from kernels import computed

nkisim.install()

import neuronxcc.nki.language as old  # noqa: E402
import nki.language as nl  # noqa: E402

INF = np.inf
RNG = np.random.default_rng(3)
X = np.concatenate([
    [0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -3, 9, -9, 88, -88, 100, -104, 1e3, 700, 1e4, -1e5, 1e6,
     8388607.5, -8388607.5, 8388609, 16777217, 2147483520, 2147483648, -4294967296, 1e10, -1e10,
     1e20, -1e20, 1e30, 3e38, -3e38, 1e-10, -1e-10, 1e-30, -1e-38, INF, -INF, np.nan, np.pi, -np.pi,
     np.pi / 2, -np.pi / 2, 2 * np.pi, 355, -355 * 2.0 ** 90],
    RNG.uniform(-20, 20, 50), RNG.uniform(-1, 1, 30),
    np.exp(RNG.uniform(-60, 80, 72)) * RNG.choice([-1, 1], 72)]).astype(np.float32).reshape(8, -1)
Y = RNG.permutation(X.reshape(-1)).reshape(X.shape)
WHOLE = RNG.integers(-20, 20, X.shape).astype(np.float32)


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


def gated(factor):
    """x * factor(x), which tends to 0 at minus infinity."""
    return lambda x: np.where(x == -INF, -0.0, x * factor(x))


erf = np.vectorize(math.erf, otypes=[float])
UNARY = {
    **{n: getattr(np, n) for n in ("abs square exp log sqrt tanh reciprocal sin cos arctan ceil floor "
                                   "trunc negative sign logical_not").split()},
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": sigmoid, "erf": erf,
    "relu": lambda x: np.where(x <= 0, 0, x), "softplus": lambda x: np.logaddexp(0, x),
    "silu": gated(sigmoid), "mish": gated(lambda x: np.tanh(np.logaddexp(0, x))),
    "gelu_apprx_sigmoid": gated(lambda x: sigmoid(1.702 * x)),
    "erf_dx": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x), "tan": np.tan}
BINARY = ("add subtract multiply maximum minimum equal not_equal less less_equal greater "
          "greater_equal logical_and logical_or logical_xor fmod mod").split()
#: Absolute errors near zeros: sin, cos and tan of an angle rounded to FP32; 1 ulp of 1 elsewhere.
NEAR_ZERO = {"sin": 3e-7, "cos": 3e-7, "tan": 1e-6}


def agrees(found, expected, relative=4e-6, near_zero=1e-37):
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(found.astype(np.float64),
                                   np.asarray(expected).astype(np.float32).astype(np.float64),
                                   relative, near_zero)


@pytest.mark.parametrize("language", [nl, old], ids=["nki", "neuronxcc"])
@pytest.mark.parametrize("name", UNARY)
def test_one_argument(language, name):
    with np.errstate(all="ignore"):
        expected = UNARY[name](X.astype(np.float64))
    relative = 3e-5 if name == "tan" else 4e-6  # the sine's error, near the poles
    agrees(computed(getattr(language, name), X, language=language), expected, relative,
           NEAR_ZERO.get(name, 1e-37))


@pytest.mark.parametrize("language", [nl, old], ids=["nki", "neuronxcc"])
@pytest.mark.parametrize("name", BINARY)
def test_two_arguments(language, name):
    function, reference = getattr(language, name), getattr(np, name)
    with np.errstate(all="ignore"):
        for x, y in ((X, Y), (WHOLE, WHOLE[::-1].copy())):
            agrees(computed(function, x, y, language=language), reference(x, y))
        for number in (0.0, -1.0, 2.0, -2.5, 3.0, INF, -INF):
            agrees(computed(lambda t: function(t, number), X, language=language), reference(X, np.float32(number)))
            agrees(computed(lambda t: function(number, t), X, language=language), reference(np.float32(number), X))


def test_the_engines_sine_extrapolates():
    """nki.isa.activation(op=nl.sin) is the engine's: 27.65 at 9 (nki.api.shared, note)."""
    import nki.isa as nisa

    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        nisa.activation(tile, nl.sin, tile)
        nl.store(out, tile)
        return out

    nine = np.full((1, 1), 9.0, np.float32)
    np.testing.assert_allclose(nkisim.run(kernel, nine).outputs, 27.65, atol=5e-3)


def test_rotary_angles():
    """Angles of positions up to 2^17, as rotary embeddings take them."""
    angle = (np.arange(2 ** 17, dtype=np.float32)[::512, None] *
             np.float32(10000) ** (-np.arange(0, 64, 2, dtype=np.float32) / 64)[None])
    for name in ("sin", "cos"):
        for half in np.split(angle, 2):
            expected = getattr(np, name)(half.astype(np.float64))
            np.testing.assert_allclose(computed(getattr(nl, name), half, language=nl), expected, 0, 3e-7)
