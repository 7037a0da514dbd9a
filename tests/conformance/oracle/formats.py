"""Defines the number formats of AWS's documents, and the casts between them, for the NumPy
reference.

Sources: nki/api/nki.api.shared.rst (table of data types); about-neuron/arch/neuron-features/rounding-modes.rst (round
to nearest, ties to even, is the default); release-notes/components/nki.rst, 0.6.0 (float32 to integer: nearest, ties
to even, saturating); nki.isa.range_select (float32 values that fp16, bf16 and fp8 cannot hold become infinite).
Undocumented: a NaN cast to an integer; overflow of float8_e4m3fn; whether an engine flushes subnormals of float32.
"""

import ml_dtypes
import numpy as np

NUMPY = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "float8_e8m0fnu": np.uint8,
    "float8_e5m2_x4": np.uint32,
    "float8_e4m3fn_x4": np.uint32,
    "float4_e2m1fn_x4": np.uint16,
}
FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3", "float8_e5m2")
SMALL_INTEGERS = ("int8", "int16", "uint8", "uint16")
INTEGERS = (*SMALL_INTEGERS, "int32", "uint32")
TINY = 2.0**-126


def numpy_type(dtype):
    """The NumPy type that stores one element of `dtype`."""
    return np.dtype(NUMPY[dtype])


def is_integer(dtype):
    """True if `dtype` is one of the integer formats."""
    return dtype in INTEGERS


def widen(data):
    """The float32 values that an engine computes with: every format but the 32-bit integers fits exactly."""
    with np.errstate(all="ignore"):
        return np.asarray(data).astype(np.float32)


def is_tiny(value):
    """True where a value is a subnormal of float32: no page says what an engine does with it."""
    with np.errstate(all="ignore"):
        return (value != 0) & (np.abs(value) < TINY)


def narrow(value, dtype):
    """`value` cast to `dtype`, and where no page decides the result."""
    value = np.asarray(value)
    with np.errstate(all="ignore"):
        single = value.astype(np.float32)
        silent = is_tiny(value.astype(np.float64))
        if is_integer(dtype):
            bounds = np.iinfo(NUMPY[dtype])
            rounded = np.rint(np.where(np.isnan(single), 0, single).astype(np.float64))
            return np.clip(rounded, bounds.min, bounds.max).astype(NUMPY[dtype]), silent | np.isnan(single)
        result = single.astype(NUMPY[dtype])
        if dtype == "float8_e4m3fn":
            silent = silent | (np.abs(single.astype(np.float64)) > 448)
        return result, silent
