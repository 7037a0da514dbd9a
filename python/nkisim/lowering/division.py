"""Division and remainders, which no engine has (NKI release notes): sequences of instructions."""

import numpy as np

from ..isa import instructions as isa
from ..record.recorder import current
from ..values.dtypes import float32
from ..values.storage import sbuf
from ..values.tensor import NkiTensor
from .elementwise import FUNCTIONS, all_numbers, binary
from .moves import copy, on_chip
from .tiles import promote

_division = binary("divide")  # of numbers and indices


def _result_dtype(x, y, dtype):
    if dtype is not None:
        return dtype
    tiles = [v.dtype for v in (x, y) if isinstance(v, NkiTensor)]
    return promote(*tiles) if len(tiles) == 2 else tiles[0]


def divide(x, y, dtype=None, mask=None):
    """x / y as x * (1 / y), the replacement that the release notes give."""
    if isinstance(y, NkiTensor):
        current().flush()
        y = on_chip(y)
        inverse = current().ndarray(y.shape, float32, sbuf)
        isa.reciprocal(inverse, y)
    elif isinstance(x, NkiTensor) and all_numbers(y):
        inverse = float(np.float32(1) / np.float32(y))
    else:
        return _division(x, y)
    if dtype is None:
        dtype = _result_dtype(x, y, None)
        dtype = dtype if dtype.is_float else float32
    return FUNCTIONS["multiply"](x, inverse, dtype=dtype, mask=mask)


def _step(name, *operands):
    result = FUNCTIONS[name](*operands, dtype=float32)
    current().flush()
    return result


def _remainder(x, y):
    """|x| - |y| floor(|x| / |y|) with the sign of x. The quotient may be one off (its reciprocal is
    rounded), which the two corrections put right."""
    current().flush()
    top, bottom = _step("abs", x), _step("abs", y)
    whole = _step("floor", _step("divide", top, bottom))
    rest = _step("subtract", top, _step("multiply", whole, bottom))
    rest = _step("add", rest, _step("multiply", _step("less", rest, 0.0), bottom))
    rest = _step("subtract", rest, _step("multiply", _step("greater_equal", rest, bottom), bottom))
    return _step("multiply", rest, _step("sign", x))


def fmod(x, y, dtype=None, mask=None):
    """Remainder with the sign of x, in FP32: exact while the whole multiple of y is exact (integers
    up to 2^24), else within the rounding of that product."""
    if all_numbers(x, y):
        return np.fmod(x, y)
    return copy(_remainder(x, y), dtype=_result_dtype(x, y, dtype), mask=mask)


def mod(x, y, dtype=None, mask=None):
    """As fmod, with the sign of y."""
    if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
        return np.mod(x, y)
    rest = _remainder(x, y)
    other_sign = _step("less", _step("multiply", _step("sign", rest), _step("sign", y)), 0.0)
    return FUNCTIONS["add"](rest, _step("multiply", other_sign, y),
                            dtype=_result_dtype(x, y, dtype), mask=mask)


FUNCTIONS.update(divide=divide, fmod=fmod, mod=mod)
