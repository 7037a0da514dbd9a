"""Compares an output array with the expected one, by the same rule for kernels, tests and `nkisim
evaluate`.

Elements match if they are equal, both NaN, or within atol + rtol * |expected| (src/run/compare.hpp).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core

#: Types that the core reads directly; anything else is compared as float64.
_OWN = {"float64", "float32", "float16", "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3fn",
        "float8_e5m2", "int8", "uint8", "int16", "uint16", "int32", "uint32"}


class Difference:
    """The distance of `found` from the expected array. equal: within the tolerance; elements, mismatches; first: index
    of the first mismatch, None without one; max_abs, max_rel: of finite differences; rel_l2."""

    def __init__(self, shape: tuple[int, ...], equal: bool, elements: int, mismatches: int, first: int,
                 max_abs: float, max_rel: float, rel_l2: float, worst: int, found: float,
                 expected: float) -> None:
        self.equal, self.elements, self.mismatches = equal, elements, mismatches
        self.max_abs, self.max_rel, self.rel_l2 = max_abs, max_rel, rel_l2
        self.first = None if first < 0 else [int(i) for i in np.unravel_index(first, shape)]
        self.worst = [int(i) for i in np.unravel_index(worst, shape)] if elements else []
        self.found, self.expected = found, expected  # of the worst


def compare(found: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-8,
            rel_l2: float | None = None) -> Difference:
    """The Difference of two arrays of one shape. rel_l2: judges by the relative L2 error instead."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise ValueError(f"shapes {found.shape} and {expected.shape}; one shape is required")
    said = _core.compare(*_numbers(found), *_numbers(expected), rtol, atol, rel_l2)
    return Difference(found.shape, **said)


def _numbers(array):
    """Bytes of an array and the name of their dtype."""
    if array.dtype.name not in _OWN or not array.dtype.isnative:
        array = array.astype(np.float64)
    array = np.ascontiguousarray(array)
    return array.reshape(-1).view(np.uint8), array.dtype.name
