"""Defines the kernels of `nkisim probe`, which a user measures on a real chip. Each repeats one
thing `count` times; the slope between two counts is the time of one. This file is copied into
the folder that `nkisim probe` writes: it needs nothing but nki.
"""
import nki
import nki.isa as nisa
import nki.language as nl

P = 128


def tile(shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def loads(rows, pieces, width, apart, mode, queues, known, count):
    """Loads of [rows, pieces, width] 16-bit elements, whose pieces lie `apart` widths apart in HBM."""
    @nki.jit
    def kernel(x, index):
        out = tile((1, 4), nl.int32, nl.shared_hbm)
        numbers = tile((1, 4), nl.int32)
        nisa.dma_copy(dst=numbers, src=index)
        tiles = [tile((rows, pieces, width), nl.bfloat16) for _ in range(4 if pieces * width > 2048 else 16)]
        engines = (nisa.engine.sync, nisa.engine.scalar)
        for i in range(count):
            where = {} if known else {"scalar_offset": numbers[0:1, i % 4:i % 4 + 1], "indirect_dim": 0}
            how = {"default": {}, "software": {"dge_mode": nisa.dge_mode.swdge}, "hardware": {
                "dge_mode": nisa.dge_mode.hwdge, "engine": engines[i % queues]}}[mode]
            nisa.dma_copy(dst=tiles[i % len(tiles)], src=x.ap(
                pattern=[[pieces * apart * width, rows], [apart * width, pieces], [1, width]], offset=0, **where),
                **how)
        nisa.dma_copy(dst=out, src=numbers)
        return out

    return kernel, {"x": ((4, rows * pieces * apart * width), "bfloat16"), "index": ((1, 4), "int32")}


def uneven(count):
    """Loads at a run-time address of 16 pieces of 384 bytes, which lie 512 bytes apart in SBUF."""
    @nki.jit
    def kernel(x, index):
        out, numbers = tile((1, 4), nl.int32, nl.shared_hbm), tile((1, 4), nl.int32)
        nisa.dma_copy(dst=numbers, src=index)
        tiles = [tile((P, 16, 256), nl.bfloat16) for _ in range(4)]
        for i in range(count):
            nisa.dma_copy(dst=tiles[i % 4][0:P, 0:16, 0:192], src=x.ap(
                pattern=[[16 * 192, P], [192, 16], [1, 192]], offset=0, scalar_offset=numbers[0:1, i % 4:i % 4 + 1],
                indirect_dim=0))
        nisa.dma_copy(dst=out, src=numbers)
        return out

    return kernel, {"x": ((4, P * 16 * 192), "bfloat16"), "index": ((1, 4), "int32")}


def repeated(count):
    """One statement that loads the same into a tile of its own again and again: a compiler may do it once."""
    @nki.jit
    def kernel(x):
        out, total = tile((P, 64), nl.float32, nl.shared_hbm), tile((P, 64))
        nisa.memset(dst=total, value=0.0)
        for _ in range(count):
            loaded = tile((P, 64))
            nisa.dma_copy(dst=loaded, src=x)
            nisa.tensor_tensor(dst=total, data1=total, data2=loaded, op=nl.add)
        nisa.dma_copy(dst=out, src=total)
        return out

    return kernel, {"x": ((P, 64), "float32")}


def skipped(count):
    """Loads of 128 rows of 2 KiB by an index out of range: `index` holds 99."""
    @nki.jit
    def kernel(x, index):
        out = tile((1, 4), nl.int32, nl.shared_hbm)
        numbers = tile((1, 4), nl.int32)
        nisa.dma_copy(dst=numbers, src=index)
        tiles = [tile((P, 1024), nl.bfloat16) for _ in range(16)]
        for i in range(count):
            nisa.dma_copy(dst=tiles[i % 16], src=x.select(0, numbers[0:1, i % 4:i % 4 + 1]),
                          oob_mode=nisa.oob_mode.skip)
        nisa.dma_copy(dst=out, src=numbers)
        return out

    return kernel, {"x": ((4, P, 1024), "bfloat16"), "index": ((1, 4), "int32")}


def copies(count):
    """Copies of 4 MiB within HBM."""
    @nki.jit
    def kernel(x):
        outs = [tile((P, 8192), nl.float32, nl.shared_hbm) for _ in range(count)]
        for out in outs:
            nisa.dma_copy(dst=out, src=x)
        return outs[0]

    return kernel, {"x": ((P, 8192), "float32")}


def short(kind, width, count):
    """One instruction after the other on an engine, on tiles that do not depend on each other."""
    @nki.jit
    def kernel(x):
        out = tile((P, width), nl.float32, nl.shared_hbm)
        given, results = tile((P, width)), [tile((P, width)) for _ in range(4)]
        nisa.dma_copy(dst=given, src=x)
        for i in range(count):
            to = results[i % 4]
            if kind == "vector":
                nisa.tensor_scalar(dst=to, data=given, op0=nl.multiply, operand0=2.0, engine=nisa.engine.vector)
            elif kind == "scalar":
                nisa.activation(dst=to, op=nl.exp, data=given)
            elif kind == "two operands":
                nisa.tensor_tensor(dst=to, data1=given, data2=given, op=nl.multiply, engine=nisa.engine.vector)
            elif kind == "reciprocal":
                nisa.reciprocal(dst=to, data=given)
            else:
                nisa.tensor_tensor(dst=to, data1=given, data2=given, op=nl.add, engine=nisa.engine.gpsimd)
        nisa.dma_copy(dst=out, src=results[0])
        return out

    return kernel, {"x": ((P, width), "float32")}


def chain(count):
    """VectorE and ScalarE alternately, each of which waits for the other's result."""
    @nki.jit
    def kernel(x):
        out, a, b = tile((P, 64), nl.float32, nl.shared_hbm), tile((P, 64)), tile((P, 64))
        nisa.dma_copy(dst=a, src=x)
        for _ in range(count):
            nisa.activation(dst=b, op=nl.exp, data=a)
            nisa.tensor_scalar(dst=a, data=b, op0=nl.multiply, operand0=0.5, engine=nisa.engine.vector)
        nisa.dma_copy(dst=out, src=a)
        return out

    return kernel, {"x": ((P, 64), "float32")}


def products(columns, count, rows=P):
    """Products of BF16 on `rows` rows (K) with `columns` columns into one sum."""
    @nki.jit
    def kernel(w, x):
        out = tile((P, columns), nl.float32, nl.shared_hbm)
        weights, moving = tile((rows, P), nl.bfloat16), tile((rows, columns), nl.bfloat16)
        sums, result = tile((P, columns), nl.float32, nl.psum), tile((P, columns))
        nisa.dma_copy(dst=weights, src=w)
        nisa.dma_copy(dst=moving, src=x)
        for i in range(count):
            nisa.nc_matmul(dst=sums, stationary=weights, moving=moving, accumulate=i > 0)
        nisa.tensor_copy(dst=result, src=sums)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel, {"w": ((rows, P), "bfloat16"), "x": ((rows, columns), "bfloat16")}


def loops(count):
    """A loop of the device's with one instruction."""
    @nki.jit
    def kernel(x):
        out, a = tile((P, 64), nl.float32, nl.shared_hbm), tile((P, 64))
        nisa.dma_copy(dst=a, src=x)
        for _ in nl.dynamic_range(count):
            nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0, engine=nisa.engine.vector)
        nisa.dma_copy(dst=out, src=a)
        return out

    return kernel, {"x": ((P, 64), "float32")}


#: name: (the kernel of a count, the two counts, the targets)
ALL, NEW = ("trn1", "trn2", "trn3"), ("trn2", "trn3")
PROBES = {
    "load_rate": (lambda n: loads(P, 1, 16384, 1, "software", 1, True, n), (8, 40), NEW),
    "software_trigger": (lambda n: loads(P, 1, 64, 1, "software", 1, True, n), (32, 160), NEW),
    "hardware_trigger": (lambda n: loads(P, 1, 64, 1, "hardware", 1, True, n), (32, 160), NEW),
    "two_hardware_queues": (lambda n: loads(P, 1, 8192, 1, "hardware", 2, True, n), (8, 40), NEW),
    "run_time_address": (lambda n: loads(P, 1, 64, 1, "software", 1, False, n), (32, 160), NEW),
    "default_mode": (lambda n: loads(P, 1, 64, 1, "default", 1, True, n), (32, 160), ALL),
    "pieces_far_apart": (lambda n: loads(P, 16, 192, 64, "software", 1, False, n), (8, 40), NEW),
    "pieces_near": (lambda n: loads(P, 16, 192, 2, "software", 1, False, n), (8, 40), NEW),
    "uneven_rows": (uneven, (4, 16), NEW),
    "repeated_loads": (repeated, (32, 160), NEW),
    "skipped_rows": (skipped, (64, 320), ALL),
    "copies_within_hbm": (copies, (2, 8), ALL),
    "vector_shortest": (lambda n: short("two operands", 3, n), (64, 320), ALL),
    "vector_short": (lambda n: short("vector", 128, n), (64, 320), ALL),
    "vector_long": (lambda n: short("vector", 2048, n), (16, 80), ALL),
    "scalar_short": (lambda n: short("scalar", 16, n), (64, 320), ALL),
    "scalar_long": (lambda n: short("scalar", 2048, n), (16, 80), ALL),
    "vector_two_operands": (lambda n: short("two operands", 2048, n), (16, 80), ALL),
    "reciprocal": (lambda n: short("reciprocal", 512, n), (16, 80), ALL),
    "gpsimd_two_operands": (lambda n: short("gpsimd", 512, n), (16, 80), ALL),
    "semaphores": (chain, (32, 160), ALL),
    "products_16": (lambda n: products(16, n), (64, 320), ALL),
    "products_512": (lambda n: products(512, n), (64, 320), ALL),
    # The array's limit may depend on the rows that a product uses, between 64 and 128.
    "products_of_64_rows": (lambda n: products(512, n, 64), (64, 320), ALL),
    "products_of_80_rows": (lambda n: products(512, n, 80), (64, 320), ALL),
    "products_of_96_rows": (lambda n: products(512, n, 96), (64, 320), ALL),
    "products_of_112_rows": (lambda n: products(512, n, 112), (64, 320), ALL),
    # The array may be slow at first: the first 2 to 4 us of products, and those until 13 us.
    "products_at_first": (lambda n: products(512, n), (8, 20), ALL),
    "products_soon_after": (lambda n: products(512, n), (20, 64), ALL),
    "loop": (loops, (32, 160), ALL)}
