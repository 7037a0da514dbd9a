#!/usr/bin/env python3
"""Tests casts and functions on all their inputs, through instructions, against ml_dtypes and double
precision.

casts        every ordered pair of the 16 unpacked dtypes, through tensor_copy and dma_copy: all codes of
             8- and 16-bit sources; for 32-bit sources every rounding boundary of the destination (with
             both neighbours), edges and random bits
microscaled  all codes of the three packed types as nc_matmul_mx decodes them, all scales, and every
             bfloat16 of magnitude up to 1 as quantize_mx encodes it
functions    every activation function on all bfloat16 and float16 inputs of its valid range

    tests/differential/exhaustive.py --driver build/tests/differential_driver
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import alu  # noqa: E402
from dtypes import COMPUTE, DTYPES, F32, decode, encode  # noqa: E402
from harness import Driver, check  # noqa: E402
from machine import Case, Inst, Tensor, View  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = COMPUTE
BLOCK = 128 * 512  # elements per case


def tile(name, dtype, raw, space="sbuf"):
    tensor = Tensor(name, space, dtype, list(raw.shape), np.ascontiguousarray(raw).view(np.uint8))
    return tensor, View(tensor, [[1, raw.shape[1]]], dtype, 0, raw.shape[0])


def run(driver, target, tensors, inst):
    failure = check(driver, Case(target, tensors, [inst], virtual=True))
    if failure:
        print(f"FAIL {inst.json()}: {failure[0]}: {failure[1]}")
    return 1 if failure else 0


def blocks(raw):
    """[128, 512] pieces of a flat array, padded with its last element."""
    raw = np.concatenate([raw, np.full(-len(raw) % BLOCK, raw[-1], raw.dtype)])
    return raw.reshape(-1, 128, 512)


def boundaries(dtype):
    """FP32 bits at and next to every value of `dtype` and every midpoint between two of them."""
    if dtype.size > 2:
        base = np.exp2(np.arange(-149, 128, dtype=np.float64))
        base = np.concatenate([base, base * 1.5, [2.0**31, 2.0**32, 2.0**31 - 64, 2.0**24 + 1]])
    elif dtype.kind in ("int", "bool"):
        info = np.iinfo(dtype.storage)
        base = np.arange(info.min - 2, info.max + 3, dtype=np.float64)
        base = np.concatenate([base, base + 0.5])
    else:
        codes = np.arange(1 << (8 * dtype.size), dtype=np.uint32).astype(dtype.raw)
        values = np.unique(decode(dtype, codes).astype(np.float64))
        values = values[np.isfinite(values)]
        step = values[-1] - values[-2]
        values = np.concatenate([[values[0] - step], values, [values[-1] + step]])
        base = np.concatenate([values, (values[1:] + values[:-1]) / 2])
    middle = base.astype(F32)
    around = [np.nextafter(middle, F32(s * np.inf), dtype=F32) for s in (1, -1)]
    return np.concatenate([middle, -middle, *around, *[-a for a in around]]).view(np.uint32)


def sources(src, dst, rng):
    """Raw bits of `src` worth casting to `dst`."""
    if src.kind == "bool":
        return np.array([0, 1], np.uint8)
    if src.size < 4:
        return np.arange(1 << (8 * src.size), dtype=np.uint32).astype(src.raw)
    bits = rng.integers(0, 2**32, BLOCK, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0, 1, 2, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x80000000,
                      0x00800000, 0x007FFFFF, 0x7F7FFFFF, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32)  # fmt: skip
    if src.name == "float32":
        return np.concatenate([edges, boundaries(dst), bits])
    if src.name == "tfloat32":
        return np.concatenate([edges, encode(src, boundaries(dst).view(F32)), bits & 0xFFFFE000])
    near = (1 << np.arange(32, dtype=np.uint64)).astype(np.uint32)
    return np.concatenate([edges, near, near - 1, near + 1, bits, bits >> 8, bits >> 16])


def casts(driver):
    """Returns (casts compared, failures)."""
    rng = np.random.Generator(np.random.PCG64(1))
    count = failures = 0
    for src in UNPACKED:
        for dst in UNPACKED:
            for raw in blocks(sources(src, dst, rng)):
                for inst in ("tensor_copy", "dma_copy"):
                    t0, x = tile("t0", src, raw)
                    t1, y = tile("t1", dst, np.zeros(raw.shape, dst.raw))
                    failures += run(driver, "trn2", [t0, t1], Inst(inst, None, dst=y, src=x))
                    count += raw.size
    return count, failures


def selector(k):
    """Moving operand [32, 4 k columns] of which column 4 p + q picks value q of partition p."""
    values = np.zeros((32, 4 * k, 4), F32)
    for n in range(4 * k):
        values[n // 4, n, n % 4] = 1
    return encode(DTYPES["float8_e4m3fn_x4"], values.reshape(32, -1))


def decoded(driver, dtype, codes, scale):
    """nc_matmul_mx whose stationary operand holds `codes` [32, M, 4]; the product shows each value."""
    bits = 8 * dtype.size // 4
    packed = (codes.astype(np.uint32) << (np.arange(4, dtype=np.uint32) * bits)).sum(axis=2)
    m = codes.shape[1]
    t0, st = tile("t0", dtype, packed.astype(dtype.raw))
    t1, mv = tile("t1", DTYPES["float8_e4m3fn_x4"], selector(32))
    e8m0 = DTYPES["float8_e8m0fnu"]
    t2, ss = tile("t2", e8m0, np.full((4, m), scale, np.uint8))
    t3, ms = tile("t3", e8m0, np.full((4, 128), 127, np.uint8))
    t4, dst = tile("t4", DTYPES["float32"], np.zeros((m, 128), np.uint32), "psum")
    inst = Inst("nc_matmul_mx", None, dst=dst, stationary=st, moving=mv, stationary_scale=ss, moving_scale=ms)
    return run(driver, "trn3", [t0, t1, t2, t3, t4], inst)


def microscaled(driver):
    count = failures = 0
    for name in ("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"):
        dtype = DTYPES[name]
        size = 16 if name.startswith("float4") else 256
        values = np.arange(size, dtype=np.uint8).view(dtype.storage).astype(F32)
        finite = np.flatnonzero(np.isfinite(values)).astype(np.uint8)
        codes = np.resize(finite, (32, 2, 4))
        for scale in range(256):
            failures += decoded(driver, dtype, np.resize(codes, (32, 2, 4)), scale)
            count += 256
        special = np.flatnonzero(~np.isfinite(values)).astype(np.uint8)
        for code in special:  # one at a time: a NaN spoils the sums it takes part in
            codes = np.full((32, 2, 4), 0, np.uint8)
            codes[5, 1, 2] = code
            failures += decoded(driver, dtype, codes, 127)
            count += 256
    return tuple(map(sum, zip((count, failures), encoded(driver))))


def encoded(driver):
    """quantize_mx on every bfloat16 and float16 of magnitude up to 1, in groups whose largest is 1."""
    count = failures = 0
    for src in ("bfloat16", "float16"):
        dtype = DTYPES[src]
        codes = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
        values = decode(dtype, codes)
        codes = codes[np.abs(values) <= 1]
        one = encode(dtype, np.ones(1, F32))[0]
        rows = np.resize(codes, -(-len(codes) // (31 * 16)) * 31 * 16).reshape(-1, 31)
        groups = np.concatenate([np.full((len(rows), 1), one), rows], axis=1)  # 32 values each
        tiles = groups.reshape(-1, 16, 8, 4)  # 16 groups along the partitions
        raw = tiles.transpose(1, 2, 0, 3).reshape(128, -1)
        for dst in ("float8_e5m2_x4", "float8_e4m3fn_x4"):
            t0, x = tile("t0", dtype, raw)
            t1, y = tile("t1", DTYPES[dst], np.zeros((128, raw.shape[1] // 4), np.uint32))
            t2, z = tile("t2", DTYPES["uint8"], np.zeros((128, raw.shape[1] // 4), np.uint8))
            failures += run(driver, "trn3", [t0, t1, t2], Inst("quantize_mx", None, dst=y, src=x, dst_scale=z))
            count += raw.size
    return count, failures


# Magnitudes of the documented valid inputs of the functions that have a range.
VALID = {"log": (2.0**-64, 2.0**64), "sqrt": (2.0**-116, 2.0**118), "rsqrt": (2.0**-87, 2.0**97),
         "reciprocal": (2.0**-42, 2.0**42)}  # fmt: skip


def functions(driver):
    count = failures = 0
    for fn in alu.ACTIVATIONS:
        for src in ("bfloat16", "float16"):
            dtype = DTYPES[src]
            codes = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
            values = decode(dtype, codes)
            if fn in VALID:
                low, high = VALID[fn]
                size = np.abs(values) if fn == "reciprocal" else values
                codes = codes[(size >= low) & (size <= high)]
            for raw in blocks(codes):
                t0, x = tile("t0", dtype, raw)
                t1, y = tile("t1", DTYPES["float32"], np.zeros(raw.shape, np.uint32))
                failures += run(driver, "trn2", [t0, t1], Inst("activation", None, dst=y, op=fn, data=x))
                count += raw.size
    return count, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--driver", default=str(ROOT / "build/tests/differential_driver"))
    driver = Driver(parser.parse_args().driver)
    total = 0
    for part in (casts, microscaled, functions):
        start = time.time()
        count, failures = part(driver)
        total += failures
        print(f"{part.__name__}: {count} values compared in {time.time() - start:.0f} s, {failures} failures")
    driver.close()
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
