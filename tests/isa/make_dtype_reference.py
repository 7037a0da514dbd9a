"""Writes tests/isa/data/dtype_reference.bin, casts of every dtype as NumPy and ml_dtypes compute them.

    pip install numpy ml_dtypes && python3 tests/isa/make_dtype_reference.py

Little-endian layout, read by dtype_test.cpp:
    for each 8-bit float of DECODE: 256 float32, the value of every code
    uint64 per 16-bit float of HASH: FNV-1a of the float32 bits of all 65,536 codes
    uint32 n, then n float32: the inputs to encode
    for each of ENCODE: n codes in the storage type of the dtype
NaNs are stored as the canonical quiet NaN, their sign removed when decoding.
"""

import pathlib

import ml_dtypes
import numpy as np

DECODE = ["float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]
HASH = ["bfloat16", "float16"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]
ENCODE = ["tfloat32"] + HASH + DECODE + ["float4_e2m1fn"] + INTEGERS + ["bool"]


def numpy_type(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def decode_all(name):
    dtype = numpy_type(name)
    codes = np.arange(256**dtype.itemsize, dtype=f"u{dtype.itemsize}")
    values = codes.view(dtype).astype(np.float32)
    values[np.isnan(values)] = np.nan
    return values


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) % 2**64
    return value


def inputs():
    """Every value, midpoint and neighbour of a midpoint of the small types; limits; random bits."""
    parts = []
    for name in DECODE + ["float16", "bfloat16"]:
        values = np.unique(decode_all(name)[np.isfinite(decode_all(name))].astype(np.float64))
        if len(values) > 256:  # the 16-bit types: a sample, dtype_test.cpp does them all
            values = np.concatenate([v[:20] for v in np.array_split(values, 8)] + [values[-20:]])
        step = values[-1] - values[-2]
        middle = np.append((values[1:] + values[:-1]) / 2, [values[-1] + step / 2, values[-1] + step])
        parts += [values, middle]
    small = np.concatenate([[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, 7.0], np.arange(-140.0, 270) / 2])
    limits = [127.5, 255.5, 32767.5, 65535.5, 2.0**31, 2.0**32, 2.0**23, 2.0**24, 2.0**22 + 0.5]
    parts += [small, -small, limits, -np.array(limits), 2.0 ** np.arange(-149, 128)]
    with np.errstate(over="ignore"):
        exact = np.concatenate(parts).astype(np.float32)
    near = [np.nextafter(exact, np.float32(s * np.inf)) for s in (-1, 1)]
    random = np.random.default_rng(20240611).integers(0, 2**32, 1500, dtype=np.uint32).view(np.float32)
    tricky = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], dtype=np.float32)
    values = np.concatenate([exact, *near, random, tricky]).astype(np.float32)
    sign = values.view(np.uint32) & np.uint32(0x80000000)
    bits = np.where(np.isnan(values), sign | np.uint32(0x7FC00000), values.view(np.uint32))
    return np.unique(bits).view(np.float32)


def encode(name, values):
    bits = values.view(np.uint32).astype(np.uint64)
    if name == "tfloat32":
        rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & ~np.uint64(0x1FFF)
        return np.where(np.isnan(values), bits, rounded).astype(np.uint32)
    if name == "bool":
        return (values != 0).astype(np.uint8)
    if name in INTEGERS:
        limits = np.iinfo(name)
        wide = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30)
        return np.clip(np.rint(wide), limits.min, limits.max).astype(np.int64).astype(name)
    return values.astype(numpy_type(name)).view(f"u{numpy_type(name).itemsize}")


def main():
    np.seterr(all="ignore")
    values = inputs()
    blobs = [decode_all(name).tobytes() for name in DECODE]
    blobs += [np.uint64(fnv1a(decode_all(name).tobytes())).tobytes() for name in HASH]
    blobs += [np.uint32(len(values)).tobytes(), values.tobytes()]
    blobs += [encode(name, values).tobytes() for name in ENCODE]
    path = pathlib.Path(__file__).parent / "data" / "dtype_reference.bin"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(blobs))
    print(f"{path}: {len(values)} inputs, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
