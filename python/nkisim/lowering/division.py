"""Translates division and remainder to several instructions, as no engine divides (NKI release
notes).
"""

import numpy as np

from ..isa import instructions as isa
from ..record.recorder import current
from ..values.dtypes import float32
from ..values.errors import check_spelling
from ..values.storage import sbuf
from ..values.tensor import NkiTensor
from .elementwise import FUNCTIONS, all_numbers, binary
from .moves import on_chip
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


def _remainder(name):
    """nl.fmod or nl.mod, which run in simulation only (documented) and have NumPy's values there:
    one pass of an operator that no hardware has."""
    function = binary(f"language_{name}")

    def remainder(x, y, dtype=None, mask=None, **_ignored):
        if _ignored:
            check_spelling(_ignored)
        if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
            return getattr(np, name)(x, y)
        return function(x, y, dtype=_result_dtype(x, y, dtype), mask=mask)

    remainder.__name__ = name
    return remainder


FUNCTIONS.update(divide=divide, fmod=_remainder("fmod"), mod=_remainder("mod"))
