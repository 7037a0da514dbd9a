"""Converts element types to and from FP32 with NumPy and ml_dtypes, independently of the simulator.

What the public documents leave open is decided in docs/values.md and followed here: NaN to an
integer is 0, to bool 1; float8_e4m3fn overflows to NaN; float4 saturates; tfloat32 is rounded to 10
mantissa bits when written and read as it is stored.
"""

import ml_dtypes
import numpy as np

np.seterr(all="ignore")
F32 = np.float32
CANONICAL_NAN = np.uint32(0x7FC00000).view(F32)


class Dtype:
    """One storage type: `raw` is the unsigned NumPy type of its bits."""

    def __init__(self, name, raw, kind, storage=None, pack=1):
        self.name = name
        self.raw = np.dtype(raw)
        self.size = self.raw.itemsize
        self.kind = kind  # "float", "int", "bool", "packed", "scale"
        self.storage = storage  # NumPy or ml_dtypes type that stores a value
        self.pack = pack  # values per element

    def __repr__(self):
        return self.name


_ALL = [
    Dtype("float32", np.uint32, "float", np.float32),
    Dtype("tfloat32", np.uint32, "float", np.float32),
    Dtype("bfloat16", np.uint16, "float", ml_dtypes.bfloat16),
    Dtype("float16", np.uint16, "float", np.float16),
    Dtype("float8_e3m4", np.uint8, "float", ml_dtypes.float8_e3m4),
    Dtype("float8_e4m3", np.uint8, "float", ml_dtypes.float8_e4m3),
    Dtype("float8_e4m3fn", np.uint8, "float", ml_dtypes.float8_e4m3fn),
    Dtype("float8_e5m2", np.uint8, "float", ml_dtypes.float8_e5m2),
    Dtype("float8_e8m0fnu", np.uint8, "scale", ml_dtypes.float8_e8m0fnu),
    Dtype("float8_e5m2_x4", np.uint32, "packed", ml_dtypes.float8_e5m2, 4),
    Dtype("float8_e4m3fn_x4", np.uint32, "packed", ml_dtypes.float8_e4m3fn, 4),
    Dtype("float4_e2m1fn_x4", np.uint16, "packed", ml_dtypes.float4_e2m1fn, 4),
    Dtype("int8", np.uint8, "int", np.int8),
    Dtype("uint8", np.uint8, "int", np.uint8),
    Dtype("int16", np.uint16, "int", np.int16),
    Dtype("uint16", np.uint16, "int", np.uint16),
    Dtype("int32", np.uint32, "int", np.int32),
    Dtype("uint32", np.uint32, "int", np.uint32),
    Dtype("bool_", np.uint8, "bool", np.uint8),
]
DTYPES = {d.name: d for d in _ALL}
FLOATS = [d for d in _ALL if d.kind == "float"]
INTS = [d for d in _ALL if d.kind == "int"]
COMPUTE = [d for d in _ALL if d.kind in ("float", "int", "bool")]
PACKED = [d for d in _ALL if d.kind == "packed"]

_TABLES = {}  # decoded values of every code of the 8-bit float types (and the 4-bit ones)


def _table(dtype):
    if dtype.name not in _TABLES:
        codes = np.arange(16 if dtype.name.startswith("float4") else 256, dtype=np.uint8)
        values = codes.view(dtype.storage).astype(F32)
        if dtype.kind != "scale":
            _keep_payloads(dtype, codes, values)
        _TABLES[dtype.name] = values
    return _TABLES[dtype.name]


def _keep_payloads(dtype, codes, values):
    """Widening a NaN keeps its sign and its mantissa bits, without quieting (assumed)."""
    mantissa = ml_dtypes.finfo(dtype.storage).nmant
    low = (codes & ((1 << mantissa) - 1)).astype(np.uint32)
    if dtype.name.startswith("float8_e4m3fn"):  # its only NaN
        low[:] = 1 << (mantissa - 1)
    sign = (codes >> 7).astype(np.uint32) << 31
    nans = np.isnan(values)
    values.view(np.uint32)[nans] = (sign | 0x7F800000 | low << (23 - mantissa))[nans]


def _unpack(dtype, raw):
    """Codes of a packed array, first value in the lowest bits; one more axis folded into the last."""
    bits = dtype.size * 8 // 4
    shifts = np.arange(4, dtype=np.uint32) * bits
    codes = (raw[..., None].astype(np.uint32) >> shifts) & ((1 << bits) - 1)
    return codes.reshape(*raw.shape[:-1], raw.shape[-1] * 4).astype(np.uint8)


def _pack(dtype, codes):
    bits = dtype.size * 8 // 4
    shifts = np.arange(4, dtype=np.uint32) * bits
    grouped = codes.reshape(*codes.shape[:-1], codes.shape[-1] // 4, 4).astype(np.uint32)
    return np.bitwise_or.reduce(grouped << shifts, axis=-1).astype(dtype.raw)


def decode(dtype, raw):
    """FP32 values of raw bits (packed types: four per element along the last axis)."""
    if dtype.name in ("float32", "tfloat32"):
        return raw.view(F32)
    if dtype.name == "bfloat16":
        return (raw.astype(np.uint32) << 16).view(F32)
    if dtype.name == "float16":
        return _half_bits(raw)
    if dtype.kind == "packed":
        return _table(dtype)[_unpack(dtype, raw)]
    if dtype.kind in ("float", "scale"):
        return _table(dtype)[raw]
    return raw.view(dtype.storage).astype(F32)


def _half_bits(raw):
    values = raw.view(np.float16).astype(F32)
    nan = np.isnan(values)
    if nan.any():
        wide = raw.astype(np.uint32)
        bits = (wide & 0x8000) << 16 | 0x7F800000 | (wide & 0x3FF) << 13
        values = np.where(nan, bits.view(F32), values)
    return values


def _to_integer(dtype, values):
    info = np.iinfo(dtype.storage)
    wide = np.rint(values.astype(np.float64))
    wide = np.where(np.isnan(wide), 0.0, np.clip(wide, info.min, info.max))
    return wide.astype(np.int64).astype(dtype.storage).view(dtype.raw)


def _to_tf32(values):
    bits = np.ascontiguousarray(values, F32).view(np.uint32)
    rounded = bits + np.uint32(0xFFF) + ((bits >> 13) & 1)
    rounded &= np.uint32(0xFFFFE000)
    nan = bits & np.uint32(0x80000000) | np.uint32(0x7FC00000)
    return np.where(np.isnan(values), nan, rounded)


def encode(dtype, values):
    """Raw bits of FP32 values: round to nearest even; integers saturate."""
    values = np.asarray(values, F32)
    if dtype.name == "float32":
        return np.ascontiguousarray(values).view(np.uint32)
    if dtype.name == "tfloat32":
        return _to_tf32(values)
    if dtype.kind == "int":
        return _to_integer(dtype, values)
    if dtype.kind == "bool":
        return (values != 0).astype(np.uint8)
    if dtype.name == "float4_e2m1fn_x4":
        safe = np.where(np.isnan(values), F32(0), values)
        return _pack(dtype, safe.astype(dtype.storage).view(np.uint8))
    if dtype.kind == "packed":
        return _pack(dtype, values.astype(dtype.storage).view(np.uint8))
    if dtype.name == "float16":
        raw = values.astype(np.float16).view(np.uint16)  # narrowing drops a NaN's payload
        return np.where(np.isnan(values), raw & np.uint16(0x8000) | np.uint16(0x7E00), raw)
    return values.astype(dtype.storage).view(dtype.raw)


def decode_bits(dtype, raw):
    """Integers zero- or sign-extended to 32 bits."""
    if dtype.kind == "bool" or dtype.name.startswith("u"):
        return raw.astype(np.uint32)
    return raw.view(dtype.storage).astype(np.int32).view(np.uint32)


def encode_bits(dtype, bits):
    return bits.astype(dtype.raw)


def is_int32(dtype):
    return dtype.name in ("int32", "uint32")
