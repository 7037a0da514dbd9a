"""Defines Shape, which stands for an array of which only shape and dtype are known."""

from __future__ import annotations

from typing import Any

from . import dtypes


class Shape:
    """An array without values: what a kernel can be recorded on, and what such a recording gives.

    shape: a tuple of ints. dtype: a dtype of nki.language, NumPy, ml_dtypes, torch or JAX, or
    its name; kept as the NumPy (ml_dtypes) dtype of host arrays, 64-bit types narrowed to 32 bits.
    """

    __slots__ = ("shape", "dtype")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtypes.dtype_of_array(dtype).dtype

    def __eq__(self, other):
        return isinstance(other, Shape) and (self.shape, self.dtype) == (other.shape, other.dtype)

    def __hash__(self):
        return hash((self.shape, self.dtype))

    def __repr__(self):
        return f"Shape({self.shape}, {self.dtype.name})"
