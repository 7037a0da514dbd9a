"""Holds what random tests of neuronxcc.nki share: drawn numbers and masks, a case, and stores under a mask."""

import ml_dtypes
import numpy as np

import nkisim

nkisim.install()

import neuronxcc.nki.language as nl  # noqa: E402

FLOATS = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}
BEFORE = 7  # what a result's tensor holds before the store
ARITHMETIC = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
              "minimum": np.minimum}
TRUTH = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
         "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
         "logical_or": np.logical_or, "logical_xor": np.logical_xor}
UNARY = {"negative": np.negative, "abs": np.abs, "square": np.square, "relu": lambda x: np.maximum(x, 0),
         "sign": np.sign, "copy": lambda x: x}
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}


class Draw:
    """Random parts of a case."""

    def __init__(self, rng):
        self.rng = rng

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def coin(self, chance=0.5):
        return bool(self.rng.random() < chance)

    def shape(self):
        return int(self.pick(1, 3, 32, 96, 128)), int(self.rng.integers(1, 24))

    def whole(self, shape, dtype=np.float32, most=9):
        """Small integers."""
        return self.rng.integers(0 if np.dtype(dtype).kind == "u" else -most, most + 1, shape).astype(dtype)

    def mask(self, shape):
        """(mask of two index tensors, the same in NumPy): a bound of one axis, or of each; None and all at times."""
        rows, columns = np.indices(shape)
        if self.coin(0.4):
            return (lambda p, f: None), np.ones(shape, bool)
        a, b = int(self.rng.integers(1, shape[0] + 1)), int(self.rng.integers(1, shape[1] + 1))
        kind = self.pick("rows", "columns", "both")
        if kind == "rows":
            return (lambda p, f: p < a), rows < a
        if kind == "columns":
            return (lambda p, f: f < b), columns < b
        return (lambda p, f: (p < a) & (f < b)), (rows < a) & (columns < b)


class Case:
    """A kernel's part: its inputs, its body, and what the pages promise of its result."""

    def __init__(self, option, arrays, body, expected, bound=0):
        self.option, self.arrays, self.body = option, arrays, body
        self.expected, self.bound = np.asarray(expected), bound

    def differs(self, got):
        """True if an element is farther than `bound` from what is documented; the type and shape count, too."""
        got = np.asarray(got)
        if got.dtype != self.expected.dtype or got.shape != self.expected.shape:
            return True
        return not bool(np.all(np.abs(got.astype(np.float64) - self.expected.astype(np.float64)) <= self.bound))


def indices(shape):
    return nl.arange(shape[0])[:, None], nl.arange(shape[1])[None, :]


def store(tile, shape, mask=None):
    """A new tensor of BEFORE, and a tile stored over it where the mask is true."""
    out = nl.ndarray(shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.full(shape, BEFORE, dtype=tile.dtype))
    p, f = indices(shape)
    nl.store(out[p, f], tile[p, f], mask=mask(p, f) if mask else None)
    return out


def masked(result, where, dtype):
    """The result where the mask was true, and BEFORE elsewhere: `store` leaves that."""
    return np.where(where, result, BEFORE).astype(dtype)


def higher(*types):
    """nki-type-promotion: the wider of two floats; float32 of the two kinds of 16 bits."""
    return types[0] if types[0] == types[1] else "float32"


DRAWERS = []


def draws(function):
    DRAWERS.append(function)
    return function


def as_tile(result):
    """A result of one dimension as AWS's example test_nki_isa_reduce.py has it: of shape (128, 1), not (128,)."""
    return result[:, None] if result.ndim == 1 else result
