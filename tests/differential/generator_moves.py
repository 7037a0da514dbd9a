"""Makes random tests of matrix products, MX, transposes, DMA and tensor indirection."""

import numpy as np

from dtypes import COMPUTE, DTYPES
from generator import ANY, gen
from machine import Dynamic, Inst

F32, U32, BF16 = DTYPES["float32"], DTYPES["uint32"], DTYPES["bfloat16"]
FP8 = ["float8_e4m3", "float8_e5m2"]


def matmul_values(d):
    return d.r.choices(["ints", "normal", "unit", "wide", "bits", "special"], [4, 4, 3, 2, 1, 1])[0]


def psum_tile(d, dtype, m, n, profile=None):
    """dst of a product: inside one 2 KiB bank before v4."""
    align = 2048 if d.generation < 4 or n * dtype.size <= 2048 else 2048
    return d.view("psum", dtype, m, n, write=True, profile=profile, align=align, dense=True, start=0)


def _product_types(d, mode):
    """The dtypes of stationary and moving."""
    if mode == "double_row":
        fp8 = FP8 + (["float8_e5m2"] if d.generation < 4 else [])
        types = [d.dtype(fp8), d.dtype(fp8)]
        if d.generation >= 4 and d.chance(0.3):
            types = [DTYPES["float8_e4m3fn"], d.dtype(["float8_e4m3fn", "float8_e5m2"])]
    elif d.chance(0.3):
        types = [d.dtype(["float32", "tfloat32"]), d.dtype(["float32", "tfloat32"])]
    else:
        narrow = FP8 + ["bfloat16", "float16"]
        types = [d.dtype(narrow), d.dtype(narrow)]
        if d.generation >= 4 and d.chance(0.2) and types[1].name != "float8_e4m3":
            types[0] = DTYPES["float8_e4m3fn"]
    return types


@gen
def nc_matmul(d):
    mode = d.pick(["plain", "plain", "plain", "accumulate", "double_row", "transpose"])
    if mode == "double_row":
        d.require(3)
    if mode == "transpose":
        return _matmul_transpose(d)
    k, m = d.parts(), d.parts()
    n = d.columns(max(k, m), 512)
    wide = d.generation >= 4 and mode == "plain" and d.max_columns >= 512 and d.chance(0.05)
    if wide:  # beyond one PSUM bank
        k, m, n = min(k, 4), min(m, 4), d.r.randint(513, 4096)
    types = _product_types(d, mode)
    if "tfloat32" in [t.name for t in types]:
        profile = "ints"  # exact in ten mantissa bits
    else:
        profile = matmul_values(d)
    out = DTYPES["bfloat16"] if d.generation >= 4 and d.chance(0.4) else F32
    dst = psum_tile(d, out, m, n)
    start, extra = d.start(k), {}
    if mode == "plain" and d.chance(0.3):
        extra = _tile(d, k, m, start)
    if mode == "plain" and types[0] is F32 and d.chance(0.3):
        extra["is_moving_onezero"], zero_one = True, "onezero"
    else:
        zero_one = None
    result = []
    for step in range(2 if mode == "accumulate" else 1):
        pair = ([2, m], [2, n]) if mode == "double_row" else ([m], [n])
        st = d.view("sbuf", types[0], k, dims=pair[0], start=start, profile=profile)
        mv = d.view("sbuf", types[1], k, dims=pair[1], start=start, profile=zero_one or profile)
        result.append(Inst("nc_matmul", None, dst=dst, stationary=st, moving=mv,
                           accumulate=True if step else d.pick([None, False]),
                           perf_mode="double_row" if mode == "double_row" else None, **extra))  # fmt: skip
    return result


def _tile(d, k, m, start):
    """tile_position and tile_size that hold k rows from partition `start` and m columns."""
    sizes = [128, 64] + ([32] if d.generation >= 3 else [])
    rows = [s for s in sizes if s >= k and start % s == 0]
    columns = [s for s in sizes if s >= m]
    size = [d.pick(rows) if rows else 128, d.pick(columns)]
    if not rows or d.generation < 3 and size == [32, 32]:
        return {}
    return {"tile_position": [start if size[0] < 128 else 0, 0], "tile_size": size}


def _matmul_transpose(d):
    d.require(3)
    k, m = d.parts(), d.parts()
    dtype = d.dtype(["float32", "bfloat16", "float16"])
    start = d.start(k)
    eye = np.eye(k, dtype=np.float32)
    identity = (eye.view(np.uint32) if dtype is F32 else
                (eye.astype(dtype.storage).view(np.uint16)))  # fmt: skip
    st = d.view("sbuf", dtype, k, m, start=start)
    mv = d.view("sbuf", dtype, k, k, data=identity, start=start, dense=True, rank=1)
    return Inst("nc_matmul", None, dst=psum_tile(d, dtype, m, k), stationary=st, moving=mv,
                is_transpose=True)  # fmt: skip


@gen
def nc_matmul_mx(d):
    d.require(4)
    k = d.pick([x for x in (32, 64, 96, 128) if x <= max(32, d.max_parts)])
    m = 2 * d.r.randint(1, min(64 if d.chance(0.1) else 12, max(1, d.max_parts // 2)))
    n = d.columns(128, 64 if d.chance(0.1) else 20)
    start = 0 if k > 64 else d.start(k)
    packed = ["float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"]
    args = {}
    for key, width in (("stationary", m), ("moving", n)):
        args[key] = d.view("sbuf", d.dtype(packed), k, width, start=start, dense=True, rank=1,
                           profile=d.pick(["ints", "unit", "normal"]))  # fmt: skip
        codes = d.n.integers(120, 135, (k, width)).astype(np.uint8)
        rows = k // 8 if k == 32 and d.chance(0.5) else k
        args[key + "_scale"] = d.view("sbuf", d.dtype(["float8_e8m0fnu", "uint8"]), rows, width,
                                      start=start, dense=True, rank=1, data=codes[:rows])  # fmt: skip
    return Inst("nc_matmul_mx", None, dst=psum_tile(d, d.dtype(["float32", "bfloat16"]), m, n), **args)


@gen
def quantize_mx(d):
    d.require(4)
    p = d.pick([x for x in (32, 64, 96, 128) if x <= max(32, d.max_parts)])
    n = d.columns(p, 256)
    src = d.view("sbuf", d.dtype(["bfloat16", "float16"]), p, 4 * n, rank=1,
                 profile=d.pick(["normal", "ints", "unit", "positive"]))  # fmt: skip
    if d.chance(0.3):
        src.tensor.data[:, : src.tensor.data.shape[1] // 2] = 0  # all-zero groups
    rows = p // 8 if p == 32 and d.chance(0.5) else p
    return Inst("quantize_mx", None, src=src,
                dst=d.view("sbuf", d.dtype(["float8_e5m2_x4", "float8_e4m3fn_x4"]), p, n, write=True),
                dst_scale=d.view("sbuf", d.dtype(["float8_e8m0fnu", "uint8"]), rows, n, write=True,
                                 rank=1))  # fmt: skip


@gen
def nc_transpose(d):
    engine = d.pick(["tensor", "vector"])
    if engine == "vector":
        p, f = d.parts(32), d.r.randint(1, min(32, d.max_columns))
        dtype = d.dtype(COMPUTE)
        return Inst("nc_transpose", engine, dst=d.view(d.space(), dtype, f, p, write=True, rank=1),
                    data=d.view(d.space(), dtype, p, f))  # fmt: skip
    p, f = d.parts(), d.r.randint(1, min(128, d.max_columns))
    if d.generation >= 3 and d.chance(0.2):  # 8 bits come out as 16 with a zero upper byte
        return Inst("nc_transpose", engine, dst=psum_tile(d, d.dtype(["uint16", "bfloat16"]), f, p),
                    data=d.view("sbuf", d.dtype(FP8), p, f))  # fmt: skip
    dtype = d.dtype(["float32"] + (["bfloat16", "float16"] if d.generation >= 3 else []))
    profile = None if d.generation >= 3 else d.pick(["normal", "ints"])
    return Inst("nc_transpose", engine, dst=psum_tile(d, dtype, f, p),
                data=d.view("sbuf", dtype, p, f, profile=profile))  # fmt: skip


def dma_side(d, space, dtype, p, n, write=False, data=None):
    """[p, n] in HBM or SBUF. DMA engines know no start-partition rules."""
    if space == "hbm":
        return d.hbm(dtype, [p, n], write, data=data)
    start = d.r.randint(0, 128 - p)
    return d.view("sbuf", dtype, p, n, write=write, start=start, data=data)


@gen
def dma_copy(d):
    mode = d.r.choices(["plain", "gather", "scatter"], [6, 1, 1])[0]
    if d.chance(0.5):
        dtype = d.dtype(ANY)
        types = [dtype, dtype]
    else:
        types = [d.dtype(COMPUTE), d.dtype(COMPUTE)]
    p = d.parts()
    n = d.columns(p)
    if mode == "plain":
        spaces = [d.pick(["hbm", "sbuf"]), d.pick(["hbm", "sbuf"])]
        same = types[0] is types[1]
        dge = d.pick([None, "unknown", "swdge", "none"] + (["hwdge"] if d.generation >= 3 and same else []))
        engine = d.pick([None, "scalar", "sync"]) if dge == "hwdge" else None
        return Inst("dma_copy", engine, dst=dma_side(d, spaces[0], types[0], p, n, True),
                    src=dma_side(d, spaces[1], types[1], p, n), dge_mode=dge,
                    oob_mode=d.pick([None, "error"]),
                    priority=d.pick([None, 0, 3]) if d.generation >= 4 else None)  # fmt: skip
    d.require(3)
    table = d.r.randint(p, p + 10)
    rows = d.n.permutation(table)[:p] if mode == "scatter" else d.n.integers(0, table, p)
    wide = d.hbm(types[mode == "gather"], [table, n], write=True)
    wide.dims = [[n, table], [1, n]]
    wide.offset = 0
    cells = d.raw(wide.dtype, (1, -(-table * n // 4) * 4), None)
    wide.tensor.data, wide.tensor.shape = cells.view(np.uint8), [cells.shape[1]]
    index = d.view("sbuf", d.dtype(["uint32", "int32"]), p, 1, rank=1,
                   data=rows.astype(np.uint32)[:, None])  # fmt: skip
    wide.dims = [[n, p], [1, n]]
    wide.dynamic = [Dynamic("vector", index, n, table)]
    other = dma_side(d, "sbuf", types[mode == "scatter"], p, n, mode == "gather")
    pair = {"dst": other, "src": wide} if mode == "gather" else {"dst": wide, "src": other}
    return Inst("dma_copy", None, **pair, dge_mode=d.pick([None, "swdge"]))


def _gather_transpose(d):
    """The indirect form: rows of an HBM table in the order of an index tile, then transposed."""
    d.require(3)
    columns = d.pick([1, 1, 2])
    rows = 128 if columns > 1 else 16 * d.r.randint(1, 8)
    count = min(rows * columns, 16 * d.r.randint(1, 16))
    width = d.r.randint(1, min(128, 4 + d.max_columns))
    table = count + d.r.randint(0, 20)
    dtype = d.dtype([x for x in COMPUTE if x.size == 2])
    src = d.hbm(dtype, [table * width])
    cells = d.raw(dtype, (1, -(-table * width // 4) * 4), None)
    src.tensor.data, src.tensor.shape = cells.view(np.uint8), [cells.shape[1]]
    src.dims, src.offset = [[width, count], [1, width]], 0
    order = d.n.integers(0, table, (rows, columns)).astype(np.uint32)
    index = d.view("sbuf", U32, rows, columns, rank=1, start=0, data=order, dense=True)
    src.dynamic = [Dynamic("vector", index, width, table)]
    dst = d.view("sbuf", dtype, width, count, write=True, start=0, rank=1)
    return Inst("dma_transpose", None, dst=dst, src=src, axes=[1, 0], dge_mode=d.pick([None, "swdge"]))


@gen
def dma_transpose(d):
    if d.chance(0.2):
        return _gather_transpose(d)
    rank = d.pick([2, 2, 3, 4])
    shape = [d.r.randint(1, min(16, d.max_parts)) for _ in range(rank)]
    if rank == 2:
        shape = [d.parts(), d.r.randint(1, 32)]
    axes = {2: [1, 0], 3: [2, 1, 0], 4: [3, 1, 2, 0]}[rank]
    dtype = d.dtype([x for x in COMPUTE if x.size in (2, 4)])
    out = [shape[k] for k in axes]
    src = d.hbm(dtype, shape) if d.chance(0.6) else d.view(
        "sbuf", dtype, shape[0], dims=shape[1:], start=0)  # fmt: skip
    dst = d.view("sbuf", dtype, out[0], dims=out[1:], write=True, start=0)
    return Inst("dma_transpose", None, dst=dst, src=src, axes=d.pick([axes, None]))


def _read_modify_write(d):
    """dst[index] += src or dst += src[index]."""
    d.require(3)
    p = d.parts()
    n = d.columns(p, 64)
    table = p + d.r.randint(0, 10)
    scatter = d.chance(0.5)
    wide = d.hbm(d.dtype(COMPUTE), [table * n])
    cells = d.raw(wide.dtype, (1, -(-table * n // 4) * 4), None)
    wide.tensor.data, wide.tensor.shape = cells.view(np.uint8), [cells.shape[1]]
    wide.dims, wide.offset = [[n, p], [1, n]], 0
    order = d.n.permutation(table)[:p].astype(np.uint32)
    index = d.view("sbuf", U32, p, 1, rank=1, data=order[:, None])
    wide.dynamic = [Dynamic("vector", index, n, table)]
    tile = d.view("sbuf", d.dtype(COMPUTE), p, n, write=True, rank=1)
    dst, src = (wide, tile) if scatter else (tile, wide)
    return Inst("dma_compute", None, dst=dst, srcs=[dst, src], reduce_op="add", unique_indices=True)


@gen
def dma_compute(d):
    if d.generation >= 3 and d.chance(0.2):
        return _read_modify_write(d)
    p = d.parts()
    n = d.columns(p)
    count = d.r.randint(1, 6)
    spaces = [d.pick(["hbm", "sbuf"]) for _ in range(count + 1)]
    srcs = [dma_side(d, s, d.dtype(COMPUTE), p, n) for s in spaces[1:]]
    return Inst("dma_compute", None, dst=dma_side(d, spaces[0], d.dtype(COMPUTE), p, n, True), srcs=srcs,
                reduce_op="add")  # fmt: skip
