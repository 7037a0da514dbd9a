"""Defines the element types as objects that equal their name and that NumPy accepts as a dtype."""

from typing import TYPE_CHECKING

import numpy as np

from .errors import KernelTypeError, fail
from .spelling import similar_names

try:
    import ml_dtypes
except ImportError:  # float32, float16 and the integers still work
    ml_dtypes = None

# name, bytes per (packed) element, NumPy name ("" = ml_dtypes has it under the same name).
# The order is the core's (isa/base/dtype.hpp).
_TABLE = (
    ("float32", 4, "float32"),
    ("tfloat32", 4, "float32"),
    ("bfloat16", 2, ""),
    ("float16", 2, "float16"),
    ("float8_e3m4", 1, ""),
    ("float8_e4m3", 1, ""),
    ("float8_e4m3fn", 1, ""),
    ("float8_e5m2", 1, ""),
    ("float8_e8m0fnu", 1, ""),
    ("float8_e5m2_x4", 4, "uint32"),
    ("float8_e4m3fn_x4", 4, "uint32"),
    ("float4_e2m1fn_x4", 2, "uint16"),
    ("int8", 1, "int8"),
    ("uint8", 1, "uint8"),
    ("int16", 2, "int16"),
    ("uint16", 2, "uint16"),
    ("int32", 4, "int32"),
    ("uint32", 4, "uint32"),
    ("bool", 1, "bool"),
    ("int64", 8, "int64"),
)
_ALIASES = {
    "bool_": "bool", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "f32": "float32",
    "f16": "float16", "tf32": "tfloat32", "float8e4": "float8_e4m3", "float8e5": "float8_e5m2",
    "fp8e4": "float8_e4m3", "fp8e5": "float8_e5m2", "float8e3": "float8_e3m4",
    "float8_e8m0": "float8_e8m0fnu", "i8": "int8", "u8": "uint8", "i16": "int16",
    "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64", "i1": "bool",
}


class DType(str):
    """A dtype of nki.language. A str, so that it prints, compares and hashes as its name."""

    code: int
    itemsize: int
    is_float: bool
    is_packed: bool

    def __new__(cls, name, code, itemsize, numpy_name):
        self = super().__new__(cls, name)
        self.code = code
        self.itemsize = itemsize
        self.is_float = name.startswith(("float", "tfloat", "bfloat")) and "_x4" not in name
        self.is_packed = name.endswith("_x4")
        self._numpy_name = numpy_name
        return self

    @property
    def dtype(self):
        """The NumPy dtype of the same storage."""
        if self._numpy_name:
            return np.dtype(self._numpy_name)
        if ml_dtypes is None or not hasattr(ml_dtypes, str(self)):
            raise ImportError(f"{self} arrays in NumPy need the package ml_dtypes")
        return np.dtype(getattr(ml_dtypes, str(self)))

    @property
    def name(self):
        return str(self)

    def __eq__(self, other):
        if self is other:
            return True
        if isinstance(other, DType):
            return False
        if isinstance(other, str):
            return _ALIASES.get(other, other) == str.__str__(self)
        if other is None:
            return False
        found = find(other)
        return found is self

    def __ne__(self, other):
        return not self == other

    __hash__ = str.__hash__

    def __call__(self, value):
        """nl.float32(x): a Python scalar of this type, for host code; KernelTypeError for what is
        no number. (ml_dtypes' types end the process on some of it.)"""
        if isinstance(value, np.ndarray):
            return value.astype(self.dtype)
        try:
            return self.dtype.type(value if self._numpy_name else float(value))
        except (TypeError, ValueError, OverflowError):
            fail("number_required",
                 f"nl.{self.name}({value!r}): a number is required", kind=KernelTypeError)

    def __reduce__(self):
        return (resolve, (str(self),))


def _name_packed_types():
    """Lets NumPy take a packed type by its name: a word in a field of that name (neuron_dtypes)."""
    for dtype in ALL:
        if dtype.is_packed:
            np.sctypeDict.setdefault(str.__str__(dtype), np.dtype([(str(dtype), dtype.dtype)]))


ALL = tuple(DType(name, code, size, np_name) for code, (name, size, np_name) in enumerate(_TABLE))
BY_NAME = {str(d): d for d in ALL}
_name_packed_types()
_cache = {d: d for d in ALL}
globals().update({name: d for name, d in BY_NAME.items() if name != "bool"})
bool_ = BY_NAME["bool"]
if TYPE_CHECKING:  # the names of _TABLE
    def __getattr__(name: str) -> DType: ...


def _name_of(value):
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, np.dtype):  # packed types: one field of that name, see neuron_dtypes
        return value.names[0] if value.names and len(value.names) == 1 else value.name
    if isinstance(value, type) and issubclass(value, np.generic):
        return np.dtype(value).name
    if value is float:
        return "float32"
    if value is int:
        return "int32"
    if value is bool:
        return "bool"
    if hasattr(value, "dtype") and isinstance(value.dtype, np.dtype):
        return value.dtype.name
    text = str(value)  # torch.bfloat16, jax dtypes
    if text.startswith("torch."):
        return text[len("torch."):]
    try:
        return np.dtype(value).name
    except (TypeError, ValueError):
        return text


# 64-bit host types are narrowed as the frameworks do (of_array): no engine computes with them.
_NARROW = {"float64": "float32", "int64": "int32", "uint64": "uint32",
           "float8_e5m2fnuz": "", "float8_e4m3fnuz": ""}


_NAMES = ", ".join(BY_NAME)


def find(value):
    """The DType `value` names, or None."""
    try:
        hit = _cache.get(value)
    except TypeError:
        return None
    if hit is not None:
        return hit
    name = _name_of(value)
    name = _ALIASES.get(name, name)
    hit = BY_NAME.get(name)
    if hit is not None:
        _cache[value] = hit
    return hit


def resolve(value):
    """The DType `value` names; an Error says which names there are."""
    if type(value) is DType:
        return value
    hit = find(value)
    if hit is None:
        hint = ""
        narrowed = _NARROW.get(_name_of(value))
        if narrowed:
            hint = f"; the device has no 64-bit types, use {narrowed}"
        said = "" if hint else nearest_dtype(value)
        fail("unknown_dtype", f"dtype is {value!r}; {said or f'one of {_NAMES} is required{hint}'}")
    return hit


def nearest_dtype(name):
    """"did you mean float32?" of a misspelt dtype; "" where none is near."""
    return similar_names(name, [*BY_NAME, *_ALIASES]) if isinstance(name, str) else ""


_LOW = {d: BY_NAME["float32"] for d in ALL if d.is_float and d.itemsize < 4 and
        str(d) != "float8_e8m0fnu"}


def stored_dtype(dtype, precise):
    """The dtype that tensors of `dtype` are kept in: float32 where NKI_PRECISE_FP=0 asks for no rounding."""
    return dtype if precise else _LOW.get(dtype, dtype)


def dtype_of_array(dtype):
    """The DType for a host array's dtype, 64-bit types narrowed."""
    return resolve(_NARROW.get(_name_of(dtype)) or dtype)


def dtype_of_input(array):
    """The same for an argument; one integer of 64 bits by itself is a scalar of nl.int64 (NKI 0.7, assumed)."""
    return BY_NAME["int64"] if array.size == 1 and array.dtype == np.int64 else dtype_of_array(array.dtype)
