"""Casts of host arrays, to and from packed types too."""

import numpy as np

from .dtypes import find, ml_dtypes


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
