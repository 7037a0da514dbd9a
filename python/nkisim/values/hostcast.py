"""Casts the host's NumPy arrays to and from device dtypes; refuses values that the dtype cannot
hold.
"""

import numpy as np

from .dtypes import find, ml_dtypes
from .errors import KernelValueError, fail_on


def cast_checked(array, dtype, name):
    """A contiguous array of the values of a host array in `dtype`, as the device holds them: an Error
    about `name` where one does not fit. (The host's 64-bit types are narrowed; real numbers are rounded.)"""
    target = dtype.dtype
    if array.dtype == target or array.size == 0 or array.dtype.kind not in "iuf":
        return np.ascontiguousarray(array, target)
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.ascontiguousarray(array, target)
    if array.dtype.kind == "f":
        lost = np.isfinite(array) & ~np.isfinite(out.astype(np.float64)) if target.kind != "V" and (
            array.dtype.itemsize == 8) else None
    elif target.kind in "iu":
        limits = np.iinfo(target)
        low, high = array.min(), array.max()
        lost = (array < limits.min) | (array > limits.max) if low < limits.min or high > limits.max else None
    else:
        lost = None
    if lost is not None and lost.any():
        at = np.unravel_index(int(np.argmax(lost)), lost.shape)
        where = f"[{', '.join(str(int(i)) for i in at)}]" if at else ""
        fail_on("array_dtype", name, f"an array of {array.dtype} with {array[at]} at {where or 'its only element'}",
                f"values that {dtype} can hold (the device has no 64-bit types)", kind=KernelValueError, verb="are")
    return out


def static_cast(array, dtype):
    """The array as `dtype`. A packed type takes four neighbours of the last axis into one element,
    the first in the lowest bits; a cast from one gives them back."""
    array, found = np.asarray(array), find(dtype)
    source = find(array.dtype)
    if source is not None and source.is_packed:
        array = _unpacked(array, source)
    if found is not None and found.is_packed:
        return _packed(array, found)
    return array.astype(found.dtype if found is not None else dtype)


def _element(packed):
    """The NumPy type of one of the four values, and its bits."""
    return np.dtype(getattr(ml_dtypes, packed[:-len("_x4")])), 8 * packed.itemsize // 4


def _packed(array, dtype):
    element, bits = _element(dtype)
    codes = array.astype(element).view(np.uint8).reshape(*array.shape[:-1], -1, 4)
    word = dtype.dtype.type
    shifts = np.arange(0, 4 * bits, bits, dtype=word)
    words = np.bitwise_or.reduce(codes.astype(word) << shifts, axis=-1)
    return words.view([(str(dtype), word)])


def _unpacked(array, dtype):
    element, bits = _element(dtype)
    word = dtype.dtype.type
    shifts = np.arange(0, 4 * bits, bits, dtype=word)
    codes = array.view(word)[..., None] >> shifts & word((1 << bits) - 1)
    return codes.astype(np.uint8).view(element).reshape(*array.shape[:-1], -1)
