"""Makes random kernels for clients/validation/table/reach, with features and sizes that no measurement covers."""
import random

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from nkisim import Shape

DTYPES = ("float32", "bfloat16", "float8_e4m3")
NAMES = {"float32": nl.float32, "bfloat16": nl.bfloat16, "float8_e4m3": nl.float8_e4m3}


def _tile(shape, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray(shape, dtype=dtype, buffer=buffer)


def loads(draw):
    """Tiles in several pieces a partition, whose addresses are known or not, used by one instruction each."""
    pieces, width = draw.choice((1, 3, 16)), draw.choice((16, 48, 96, 200, 512, 1500))
    apart, count = draw.choice((1, 2, 24)), draw.choice((4, 12, 40))
    dynamic, rows = draw.random() < 0.5, draw.choice((32, 100, 128))
    dtype = draw.choice(DTYPES)

    @nki.jit
    def kernel(x, index):
        out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        numbers, total = _tile((1, count), nl.int32), _tile((rows, 1))
        nisa.dma_copy(dst=numbers, src=index)
        nisa.memset(dst=total, value=0.0)
        for i in range(count):
            tile = _tile((rows, pieces, width), NAMES[dtype])
            step = pieces * apart * width
            where = {"scalar_offset": numbers[0:1, i:i + 1], "indirect_dim": 0} if dynamic else {}
            nisa.dma_copy(dst=tile, src=x.ap(
                pattern=[[step, rows], [apart * width, pieces], [1, width]], offset=0, **where))
            nisa.tensor_scalar(dst=total, data=tile[:, 0, 0:1], op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=total)
        return out

    return kernel, [Shape((4, rows * pieces * apart * width), dtype), Shape((1, count), "int32")]


def vectors(draw):
    """Short instructions in a row on the engines that can do them, alone or alternately."""
    width, dtype, count = draw.choice((1, 8, 40, 90, 128, 300, 700)), draw.choice(DTYPES), draw.choice((32, 128))
    kinds = draw.sample(("scalar", "activation", "sum", "product", "reciprocal", "pointer"), draw.choice((1, 2, 3)))

    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.shared_hbm)
        given, column = _tile((128, width), NAMES[dtype]), _tile((128, 1))
        results = [_tile((128, width)) for _ in range(4)]
        nisa.dma_copy(dst=given, src=x)
        nisa.memset(dst=column, value=1.0)
        for i in range(count):
            to = results[i % 4]
            kind = kinds[i % len(kinds)]
            if kind == "scalar":
                nisa.tensor_scalar(dst=to, data=given, op0=nl.multiply, operand0=2.0)
            elif kind == "pointer":
                nisa.tensor_scalar(dst=to, data=given, op0=nl.multiply, operand0=column)
            elif kind == "activation":
                nisa.activation(dst=to, op=nl.exp, data=given)
            elif kind == "product":
                nisa.tensor_tensor(dst=to, data1=given, data2=given, op=nl.multiply)
            elif kind == "reciprocal":
                nisa.reciprocal(dst=to, data=given)
            else:
                nisa.tensor_reduce(dst=to[:, 0:1], op=nl.add, data=given, axis=1)
        nisa.dma_copy(dst=out, src=results[0])
        return out

    return kernel, [Shape((128, width), dtype)]


def loops(draw):
    """A loop of the device's with a body of one to thirty instructions."""
    iterations, body = draw.choice((4, 24, 64)), draw.choice((1, 5, 30))
    width = draw.choice((32, 512))

    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, width), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = _tile((128, width))
        nisa.dma_copy(dst=tile, src=x)
        for _ in nl.dynamic_range(iterations):
            for _ in range(body):
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel, [Shape((128, width), "float32")]


def products(draw):
    """Sums of products whose moving side has few or many columns, and transposes."""
    columns, dtype, count = draw.choice((8, 64, 130, 512)), draw.choice(DTYPES), draw.choice((8, 48))
    turned = draw.random() < 0.3 and dtype != "float8_e4m3"

    @nki.jit
    def kernel(w, x):
        out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
        weights, moving = _tile((128, 128), NAMES[dtype]), _tile((128, columns), NAMES[dtype])
        result = _tile((128, columns))
        nisa.dma_copy(dst=weights, src=w)
        nisa.dma_copy(dst=moving, src=x)
        for _ in range(count):
            sums = _tile((128, columns), nl.float32, nl.psum)
            nisa.nc_matmul(dst=sums, stationary=weights, moving=moving)
            if turned:
                other = _tile((128, 128), NAMES[dtype], nl.psum)
                nisa.nc_transpose(dst=other, data=weights)
                nisa.tensor_copy(dst=weights, src=other)
            nisa.activation(dst=result, op=nl.copy, data=sums)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel, [Shape((128, 128), dtype), Shape((128, columns), dtype)]


def moves(draw):
    """Copies within HBM, stores in short rows, and gathers."""
    rows, width, count = draw.choice((16, 128)), draw.choice((24, 256, 2048)), draw.choice((2, 16))
    kind = draw.choice(("within", "stores", "gather"))

    @nki.jit
    def kernel(x, index):
        out = nl.ndarray((count, rows, 2, width), dtype=nl.float32, buffer=nl.shared_hbm)
        tile, numbers = _tile((rows, width)), _tile((rows, 1), nl.int32)
        nisa.dma_copy(dst=tile, src=x[0])
        nisa.dma_copy(dst=numbers, src=index)
        for i in range(count):
            if kind == "within":
                nisa.dma_copy(dst=out[i, :, 0, :], src=x[i])
            elif kind == "gather":
                nisa.dma_copy(dst=tile, src=x.ap(pattern=[[width, rows], [1, width]], offset=0,
                                                 vector_offset=numbers, indirect_dim=0))
            nisa.dma_copy(dst=out[i, :, 1, :], src=tile)
        return out

    return kernel, [Shape((count, rows, width), "float32"), Shape((rows, 1), "int32")]


KINDS = (loads, vectors, loops, products, moves)


def kernels(seed, count):
    """(name, kernel, arguments): `count` of each kind."""
    for make in KINDS:
        for number in range(count):
            draw = random.Random(f"{make.__name__} {seed} {number}")
            yield f"drawn {make.__name__} {number}", *make(draw)


def arrays(shapes):
    """The shapes whose values decide what runs."""
    dtypes = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3": ml_dtypes.float8_e4m3}
    return [np.zeros(s.shape, dtypes.get(str(s.dtype), s.dtype)) for s in shapes]
