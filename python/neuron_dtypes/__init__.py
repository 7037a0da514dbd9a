"""neuron_dtypes: NumPy dtypes of the device's element types, and casts to them.

NumPy has no packed types: an array of float8_e4m3fn_x4 here is one of words in a field of that
name, so that str(dtype) says it, view(np.uint32) gives the bits, and kernels take it as that type.
"""

import numpy as np

from nkisim.values import dtypes as _d
from nkisim.values.hostcast import static_cast  # noqa: F401

for _t in _d.ALL:
    if str(_t) != "bool":
        globals()[str(_t)] = _t


def sizeinbytes(dtype):
    """Bytes of one element."""
    return _d.resolve(dtype).itemsize


def finfo(dtype):
    """Limits of a floating-point dtype, as numpy.finfo gives them."""
    found = _d.find(dtype)
    target = found.dtype if found is not None else np.dtype(dtype)
    return _d.ml_dtypes.finfo(target) if _d.ml_dtypes is not None else np.finfo(target)


def is_float_type(dtype):
    """True if `dtype` is a floating-point type, of NumPy or of the device."""
    found = _d.find(dtype)
    return found.is_float if found is not None else np.issubdtype(dtype, np.floating)
