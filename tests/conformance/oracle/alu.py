"""Computes the vector instructions' operators for the NumPy reference, in float32 and on bit
patterns.

Sources: nki/api/nki.api.shared.rst, "Supported Math Operators for NKI ISA" (arithmetic operators convert their inputs
to float32; bitvec operators treat them as bit patterns; the right shift is logical), and the pages of nki.language.
Undocumented: NaN in maximum, minimum and comparisons; logical operators on values other than 0 and 1; shifts by the
width or more; float32 subnormals; the sign of a zero that maximum or minimum gives for zeros of both signs.
"""

import numpy as np

F = np.float32
ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
MAGNITUDE = {
    "abs_max": lambda x, y: np.where(np.abs(x) > np.abs(y), x, y),
    "abs_min": lambda x, y: np.where(np.abs(x) < np.abs(y), x, y),
}
BITVEC = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
COMPARE = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
UNARY = {"abs": np.abs, "square": np.square, "relu": lambda x: np.maximum(x, F(0)), "reciprocal": lambda x: F(1) / x}


def tiny(value):
    """True where a float32 value is subnormal."""
    return (value != 0) & (np.abs(value) < F(2.0**-126))


def apply(op, x, y):
    """`x op y` in float32, and where no page decides the result."""
    x, y = np.broadcast_arrays(np.asarray(x, F), np.asarray(y, F))
    with np.errstate(all="ignore"):
        result = (ARITHMETIC | MAGNITUDE)[op](x, y).astype(F)
        silent = tiny(x) | tiny(y) | tiny(result)
        if op in COMPARE or op in ("maximum", "minimum", "abs_max", "abs_min"):
            silent = silent | np.isnan(x) | np.isnan(y)
        if op in ("maximum", "minimum"):
            silent = silent | ((x == 0) & (y == 0))
        if op in LOGICAL:
            silent = silent | ~np.isin(x, (0, 1)) | ~np.isin(y, (0, 1))
    return result, silent


def bitvec(op, x, y):
    """`x op y` on the bits of one integer type, and where no page decides the result."""
    x, y = np.broadcast_arrays(x, y)
    width = x.dtype.itemsize * 8
    wide = np.dtype(f"u{x.dtype.itemsize}")
    a, b = (np.ascontiguousarray(v).view(wide) for v in (x, y))
    silent = np.zeros(x.shape, bool)
    if op in ("left_shift", "right_shift"):
        silent = b >= width
        b = np.where(silent, 0, b).astype(wide)
        result = (a << b if op == "left_shift" else a >> b).astype(wide)
    else:
        result = getattr(np, op)(a, b)
    return result.view(x.dtype), silent
