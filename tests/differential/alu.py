"""Computes ALU operators and activation functions in NumPy, from their definitions in
docs/values.md.

Arithmetic is FP32 with one rounding per operation. A computed NaN is the canonical quiet NaN; maximum,
minimum, abs_max, abs_min and bypass hand one operand through with its bits. Functions that no finite
formula rounds exactly return a pair (low, high) of FP32 values: the correctly rounded result of a
double evaluation moved by 0.01 ulp either way, which is the stated bound of 0.51 ulp.
"""

import math

import numpy as np

from dtypes import CANONICAL_NAN, F32

NUDGE = 0.011  # of an FP32 ulp; the double reference itself is off by less than 1e-6 of one


def canonical(x):
    return np.where(np.isnan(x), CANONICAL_NAN, x)


def _truth(x):
    return x != 0


def _maximum(a, b):
    return np.where((a >= b) | np.isnan(a), a, b)


def _minimum(a, b):
    return np.where((a <= b) | np.isnan(a), a, b)


def _abs_max(a, b):
    return np.where(np.abs(a) > np.abs(b), a, b)  # ties and NaN: the second operand


def _abs_min(a, b):
    return np.where(np.abs(a) < np.abs(b), a, b)


def _flag(x):
    return x.astype(F32)


BINARY = {
    "add": lambda a, b: canonical(a + b),
    "subtract": lambda a, b: canonical(a - b),
    "multiply": lambda a, b: canonical(a * b),
    "maximum": _maximum,
    "minimum": _minimum,
    "abs_max": _abs_max,
    "abs_min": _abs_min,
    "equal": lambda a, b: _flag(a == b),
    "not_equal": lambda a, b: _flag(a != b),
    "greater_equal": lambda a, b: _flag(a >= b),
    "greater": lambda a, b: _flag(a > b),
    "less_equal": lambda a, b: _flag(a <= b),
    "less": lambda a, b: _flag(a < b),
    "logical_and": lambda a, b: _flag(_truth(a) & _truth(b)),
    "logical_or": lambda a, b: _flag(_truth(a) | _truth(b)),
    "logical_xor": lambda a, b: _flag(_truth(a) ^ _truth(b)),
    "bypass": lambda a, b: a,
}
UNARY = {
    "abs": lambda a: canonical(np.abs(a)),
    "square": lambda a: canonical(a * a),
    "relu": lambda a: canonical(np.where(a <= 0, F32(0), a)),
    "reciprocal": lambda a: canonical(F32(1) / a),
    "logical_not": lambda a: _flag(~_truth(a)),
}
IDENTITY = {
    "add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf,
    "logical_and": 1.0, "logical_or": 0.0, "logical_xor": 0.0, "average": 0.0,
    "abs_max": 0.0, "abs_min": np.inf,
}  # fmt: skip
COMPARISONS = ["equal", "not_equal", "greater_equal", "greater", "less_equal", "less"]
BIT_IDENTITY = {"bitwise_and": 0xFFFFFFFF, "bitwise_or": 0, "bitwise_xor": 0}


def bits(op, a, b, width=32):
    """Bitvec operators on 32-bit patterns; a shift by the width or more leaves nothing."""
    b = np.broadcast_to(np.asarray(b, np.uint32), a.shape) if b is not None else None
    if op == "invert":
        return ~a
    if op == "bitwise_and":
        return a & b
    if op == "bitwise_or":
        return a | b
    if op == "bitwise_xor":
        return a ^ b
    small = np.minimum(b, 31)
    mask = np.uint32((1 << width) - 1)
    if op == "left_shift":
        return np.where(b < 32, a << small, np.uint32(0))
    if op == "right_shift":
        return np.where(b < 32, (a & mask) >> small, np.uint32(0))
    raise KeyError(op)


def nudge(exact):
    """The two FP32 results allowed for a real number known as a double."""
    exact = np.asarray(exact, np.float64)
    magnitude = np.abs(exact)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(magnitude)
        ulp = np.ldexp(1.0, np.maximum(exponent - 24, -149))
    finite = np.isfinite(exact)
    low = np.where(finite, exact - NUDGE * ulp, exact).astype(F32)
    high = np.where(finite, exact + NUDGE * ulp, exact).astype(F32)
    # Nothing crosses zero, and an exact zero keeps its sign.
    low = np.where(exact > 0, np.abs(low * (low > 0)), low)
    high = np.where(exact < 0, -np.abs(high * (high < 0)), high)
    zero = exact == 0
    low, high = np.where(zero, exact, low).astype(F32), np.where(zero, exact, high).astype(F32)
    return canonical(low).astype(F32), canonical(high).astype(F32)


def binary(op, a, b):
    """(low, high) of a two-operand or unary operator."""
    if op in UNARY:
        r = UNARY[op](a).astype(F32)
        return r, r
    if op == "rsqrt":
        return nudge(1.0 / np.sqrt(a.astype(np.float64)))
    if op == "power":
        return nudge(np.power(a.astype(np.float64), np.asarray(b).astype(np.float64)))
    r = BINARY[op](a, np.broadcast_to(np.asarray(b, F32), a.shape)).astype(F32)
    return r, r


def pair(op, x, y):
    """An operator on (low, high) ranges of which at most one is open; exact where they are equal."""
    if x[0] is x[1] and y[0] is y[1]:
        return binary(op, x[0], y[0])
    results = [binary(op, a, b) for a in x for b in y]
    parts = [r for ab in results for r in ab]
    low, high = parts[0], parts[0]
    for p in parts[1:]:
        low, high = np.fmin(low, p), np.fmax(high, p)
    return low, high


def accumulate(op, seed, x):
    """Running values r[i] = op(r[i-1], x[i]) in FP32, strictly in order; r[-1] = seed [P]."""
    if op in ("add", "multiply", "subtract"):
        ufunc = {"add": np.add, "multiply": np.multiply, "subtract": np.subtract}[op]
        joined = np.concatenate([seed[:, None].astype(F32), x], axis=1)
        return canonical(ufunc.accumulate(joined, axis=1)[:, 1:]).astype(F32)
    out = np.empty_like(x)
    running = seed.astype(F32)
    for i in range(x.shape[1]):
        running = BINARY[op](running, x[:, i]).astype(F32)
        out[:, i] = running
    return out


def reduce(op, seed, x):
    """The last running value; `average` divides the sum by the count."""
    if x.shape[1] == 0:
        return seed
    if op == "average":
        return canonical(accumulate("add", seed, x)[:, -1] / F32(x.shape[1])).astype(F32)
    return accumulate(op, seed, x)[:, -1]


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def _times(x, factor):
    """x * factor where factor vanishes faster than x grows."""
    return np.where(factor == 0, np.copysign(0.0, x), x * factor)


def _gelu(x):
    return _times(x, 0.5 * _erfc(-x / math.sqrt(2)))


def _gelu_tanh(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return _times(x, _sigmoid(2 * inner))


def _silu_like(x, k):
    return _times(x, _sigmoid(k * x))


def _silu_like_dx(x, k):
    s, t = _sigmoid(k * x), _sigmoid(-k * x)
    return s + np.where(s * t == 0, 0.0, k * x * s * t)


def _gelu_dx(x):
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return 0.5 * _erfc(-x / math.sqrt(2)) + np.where(density == 0, 0.0, x * density)


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x):
    # tanh(ln(1 + e)) = (e^2 + 2e) / (e^2 + 2e + 2)
    e = np.exp(np.minimum(x, 40))
    t = e * (e + 2) / (e * (e + 2) + 2)
    return np.where(x > 40, x, _times(x, t))


def _sin(x):
    """Outside [-pi, pi] the Taylor cubic at the nearer end: sin(9.0) is about 27.65 (documented)."""
    z = x - np.copysign(math.pi, x)
    return np.where(np.abs(x) <= math.pi, np.sin(x), z * (z * z / 6 - 1))


ACTIVATIONS = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "abs": np.abs,
    "sign": lambda x: np.where(x > 0, 1.0, np.where(x < 0, -1.0, x)),
    "relu": lambda x: np.where(x <= 0, 0.0, x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sin": _sin,
    "arctan": np.arctan,
    "erf": _erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "gelu": _gelu,
    "gelu_apprx_tanh": _gelu_tanh,
    "gelu_apprx_sigmoid": lambda x: _silu_like(x, 1.702),
    "gelu_dx": _gelu_dx,
    "gelu_apprx_sigmoid_dx": lambda x: _silu_like_dx(x, 1.702),
    "silu": lambda x: _silu_like(x, 1.0),
    "silu_dx": lambda x: _silu_like_dx(x, 1.0),
    "softplus": _softplus,
    "mish": _mish,
}
DERIVATIVES = ("gelu_dx", "gelu_apprx_sigmoid_dx", "silu_dx")  # 1e-12 absolute next to their zeros


def activation(fn, x, slope=None):
    """(low, high) FP32 results of an activation function on FP32 inputs."""
    if fn == "copy":
        return x, x
    wide = x.astype(np.float64)
    if fn == "prelu":
        y = np.where(wide >= 0, wide, np.asarray(slope, np.float64) * wide)
    else:
        y = ACTIVATIONS[fn](wide)
    y = np.where(np.isnan(wide), np.nan, y)
    low, high = nudge(y)
    if fn in DERIVATIVES:
        low = np.fmin(low, (y - 1e-12).astype(F32))
        high = np.fmax(high, (y + 1e-12).astype(F32))
        low, high = canonical(low).astype(F32), canonical(high).astype(F32)
    return low, high
