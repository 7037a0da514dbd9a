"""Makes random tests of rarer options of nki.isa: engines, accumulators over calls, indirection,
array tiles, registers.
"""

import numpy as np

from .alu import ARITHMETIC, BITVEC, LOGICAL, apply, bitvec
from .case import Case, bits, draws, exact, within, nisa, nl, as_stored
from .elementwise import draw_for, fold, native, unsure
from .engines import activated
from .formats import FLOATS, INTEGERS, SMALL_INTEGERS, numpy_type, widen


@draws("tensor_tensor")
def gpsimd_tensor_tensor(d):
    """nki.isa.tensor_tensor with engine=gpsimd: float32 math, or exact integers where all tiles are int32 or uint32."""
    op, shape = d.pick(*ARITHMETIC), d.shape()
    if d.coin():
        dtype = d.pick("int32", "uint32")
        case = Case("tensor_tensor", d.generation, f"{op}, {dtype}, gpsimd")
        x, y = draw_for(d, op, shape, dtype), draw_for(d, op, shape, dtype)
        near_by = (x.astype(np.int64) + d.rng.integers(-2, 3, shape)).clip(np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        y = y if op in LOGICAL else np.where(d.rng.random(shape) < 0.4, near_by.astype(x.dtype), y)
        types, result = (dtype, dtype, dtype), native(op, x, y, dtype)
    else:
        types = (d.float_type(), d.float_type(), d.float_type())
        case = Case("tensor_tensor", d.generation, f"{op}, {types}, gpsimd")
        x, y = (draw_for(d, op, shape, t) for t in types[:2])
        value, silent = apply(op, widen(x), widen(y))
        result = exact(value, types[2], silent)
    dst = case.new("dst", shape, types[2])
    case.call(
        "tensor_tensor",
        dst=dst,
        data1=case.load("x", x, types[0]),
        data2=case.load("y", y, types[1]),
        op=nl(op),
        engine=nisa("engine." + ("gpsimd" if d.coin() or types[0] not in ("int32", "uint32") else "unknown")),
    )
    case.result(dst, result)
    return case


@draws("tensor_tensor")
def power_tensor_tensor(d):
    """nki.isa.tensor_tensor with nl.power (GpSimd, tiles in SBUF): within 2^-10, positive bases."""
    shape = d.shape()
    case = Case("tensor_tensor", d.generation, "power")
    x, y = d.rng.uniform(0.2, 4, shape).astype(np.float32), d.rng.uniform(-3, 3, shape).astype(np.float32)
    dst = case.new("dst", shape, "float32")
    case.call(
        "tensor_tensor", dst=dst, data1=case.load("x", x, "float32"), data2=case.load("y", y, "float32"), op=nl("power")
    )
    value = x.astype(np.float64) ** y
    case.result(dst, within(value, value * 2.0**-10, "float32"))
    return case


@draws("tensor_scalar", 3)
def scalar_tensor_scalar(d):
    """nki.isa.tensor_scalar on the Scalar Engine: multiply and add, multiply, or add. Undocumented: whether multiply
    and add round between them, so values are drawn whose products are exact."""
    ops = d.pick(("multiply", "add"), ("multiply", None), ("add", None))
    shape, types = d.shape(), (d.pick("bfloat16", "float16", "float8_e4m3"), d.float_type())
    case = Case("tensor_scalar", d.generation, f"{ops}, {types}, scalar")
    data = d.values(shape, types[0], "tame")
    x, factor, more = widen(data), float(d.number(-8, 8)), float(d.number(-8, 8))
    arguments = dict(op0=nl(ops[0]), operand0=factor) | (dict(op1=nl("add"), operand1=more) if ops[1] else {})
    dst = case.new("dst", shape, types[1])
    case.call(
        "tensor_scalar", dst=dst, data=case.load("data", data, types[0]), engine=nisa("engine.scalar"), **arguments
    )
    value, silent = apply(ops[0], x, factor)
    if ops[1]:
        value, two = apply("add", value, more)
        silent = silent | two
    case.result(dst, exact(value, types[1], silent | (value == 0)))
    return case


CHAIN = {
    "tensor_scalar_reduce": 2,
    "activation": 2,
    "range_select": 3,
    "select_reduce": 2,
    "exponential": 4,
    "tensor_scalar_cumulative": 2,
}


def register_chain(function):
    """Two calls of `function` over the same accumulators: reset_reduce, then reduce ("continue accumulating")."""

    def drawer(d):
        shape, case = d.shape(), Case(function, d.generation, "two calls over the accumulators")
        parts = [d.rng.integers(-30, 30, shape).astype(np.float32) / 4 for _ in range(2)]
        res, tiles = (
            case.new("res", (shape[0], 1), "float32"),
            [case.new(f"dst{i}", shape, "float32") for i in range(2)],
        )
        joined = np.concatenate(parts, 1)
        value, bound = fold("maximum", joined)
        for i, command in enumerate(("reset_reduce", "reduce")):
            data = case.load(f"data{i}", parts[i], "float32")
            last = {"reduce_res": res} if i else {}
            chain_call(case, function, tiles[i], data, shape, last | {"reduce_cmd": nisa("reduce_cmd." + command)})
        if function in ("tensor_scalar_reduce", "activation"):
            value, bound = fold("add", joined)
        if function == "exponential":
            value, bound = activated("exp", joined.astype(np.float64), 0)
            value, bound = value.sum(1), bound.sum(1) + 1e-5 * value.sum(1)
        if function == "tensor_scalar_cumulative":
            case.result(tiles[1], within(joined.cumsum(1)[:, shape[1] :], 1e-4, "float32"))
            del case.tiles["res"]
        else:
            case.result(res, within(value[:, None], bound[:, None], "float32"))
        return case

    drawer.__doc__ = f'nki.isa.{function}, "Accumulator behavior".'
    draws(function, CHAIN[function])(drawer)


def chain_call(case, function, dst, data, shape, last):
    """One call of a chain."""
    if function == "tensor_scalar_reduce":
        case.call(function, dst=dst, data=data, op0=nl("add"), operand0=0.0, reduce_op=nl("add"), **last)
    elif function == "activation":
        case.call(function, dst=dst, data=data, op=nl("copy"), reduce_op=nl("add"), **last)
    elif function == "exponential":
        case.call(function, dst=dst, src=data, **last)
    elif function == "tensor_scalar_cumulative":
        last.pop("reduce_res", None)
        case.call(function, dst=dst, src=data, op0=nl("add"), op1=nl("add"), imm0=0.0, **last)
    elif function == "select_reduce":
        mask = case.load(f"mask{len(case.calls)}", np.ones(shape, np.uint8), "uint8")
        case.call(function, dst=dst, predicate=mask, on_true=data, on_false=0.0, reduce_op=nl("maximum"), **last)
    else:
        bounds = [
            case.load(f"b{len(case.calls)}{i}", np.full((shape[0], 1), v, np.float32), "float32")
            for i, v in enumerate((0, 1e6))
        ]
        case.call(
            function,
            dst=dst,
            on_true_tile=data,
            comp_op0=nl("greater_equal"),
            comp_op1=nl("less"),
            bound0=bounds[0],
            bound1=bounds[1],
            on_false_value=float(np.finfo(np.float32).min),
            reduce_op=nl("maximum"),
            **last,
        )


for name in CHAIN:
    register_chain(name)


@draws("indirect", 4)
def indirect(d):
    """nki.language.NkiTensor.indirect: offset i is index[i % 16, i // 16] on Vector; a gather of a source or a scatter
    into dst along the free dimension. Undocumented: the type of the index, and whether each group of 16 partitions has
    its own indices; here all groups have the same. Elements of dst that no offset names stay."""
    rows, free, columns = d.pick(16, 32, 64, 128), d.number(8, 40), d.number(1, 2)
    count, dtype = d.number(1, min(free, 16 * columns)), d.pick(*FLOATS, *SMALL_INTEGERS)
    scatter, op = d.coin(), d.pick("tensor_copy", "tensor_scalar", "activation")
    case = Case("indirect", d.generation, f"{op}, {dtype}, scatter={scatter}")
    offsets = d.rng.permutation(free)[:count]
    group = np.zeros((16, columns), np.uint32)
    group[np.arange(count) % 16, np.arange(count) // 16] = offsets
    index = case.load("index", np.tile(group, (rows // 16, 1)), "uint32")
    data = d.values((rows, count if scatter else free), dtype, "tame")
    old = d.values((rows, free if scatter else count), dtype, "tame")
    src, dst = case.load("src", data, dtype), case.load("dst", old, dtype)
    view = (dst if scatter else src).do("indirect", index, count)
    target, source = (view, src) if scatter else (dst, view)
    if op == "tensor_copy":
        case.call(op, dst=target, src=source, engine=nisa("engine.vector"))
    elif op == "tensor_scalar":
        case.call(op, dst=target, data=source, op0=nl("add"), operand0=0.0, engine=nisa("engine.vector"))
    else:
        case.call(op, dst=target, data=source, op=nl("copy"))
    result = old.copy()
    if scatter:
        result[:, offsets] = data
    else:
        result[:, :] = data[:, offsets]
    case.result(dst, as_stored(result, (result == 0) & (op == "tensor_scalar")))
    return case


@draws("nc_matmul", 3)
def transpose_matmul(d):
    """nki.isa.nc_matmul with is_transpose: from NeuronCore-v3 bit-accurate, also of NaN and infinity."""
    k, m, dtype = d.pick(4, 16, 32, 64, 128), d.pick(1, 2, 16, 32, 64), d.pick("float32", "bfloat16", "float16")
    case = Case("nc_matmul", d.generation, f"is_transpose, {dtype}")
    data, eye = d.values((k, m), dtype), np.eye(k).astype(numpy_type(dtype))
    dst = case.new("dst", (m, k), dtype, "psum")
    case.call(
        "nc_matmul",
        dst=dst,
        stationary=case.load("a", data, dtype),
        moving=case.load("i", eye, dtype),
        is_transpose=True,
    )
    case.result(dst, bits(np.ascontiguousarray(data.T)))
    return case


@draws("nc_matmul")
def tiled_matmul(d):
    """nki.isa.nc_matmul with tile_position and tile_size: the same product on a part of the rows of the array."""
    size = d.pick(64, 128, *((32,) if d.generation > 2 else ()))
    row = size * d.number(0, 128 // size - 1)
    m, n, k = d.number(1, 32), d.number(1, 32), d.pick(size, size, 5)
    case = Case("nc_matmul", d.generation, f"tile {size} at {row}")
    a, b = (d.rng.integers(-4, 5, (128, w)).astype(numpy_type("bfloat16")) for w in (m, n))
    rows = slice(row, row + k)
    dst = case.new("dst", (m, n), "float32", "psum")
    case.call(
        "nc_matmul",
        dst=dst,
        stationary=case.load("a", a, "bfloat16")[rows, :],
        moving=case.load("b", b, "bfloat16")[rows, :],
        tile_position=(row, 0),
        tile_size=(size, 128),
    )
    value = a[rows].astype(np.float64).T @ b[rows].astype(np.float64)
    case.result(dst, within(value, 0, "float32"))
    return case


@draws("dma_copy")
def dma_scatter(d):
    """nki.isa.dma_copy with vector_offset on an HBM destination: row i goes to row index[i]; other rows stay."""
    dtype, count, free = d.any_type(), d.partitions(), d.number(1, 12)
    rows = count + d.number(0, 9)
    case = Case("dma_copy", d.generation, f"scatter, {dtype}")
    data, old = d.values((count, free), dtype), d.values((rows, free), dtype)
    index = d.rng.permutation(rows)[:count, None].astype(np.uint32)
    dst = case.load("dst", old, dtype, "own_hbm")
    view = dst.do(
        "ap", pattern=[[free, count], [1, free]], vector_offset=case.load("index", index, "uint32"), indirect_dim=0
    )
    case.call("dma_copy", dst=view, src=case.load("src", data, dtype))
    result = old.copy()
    result[index[:, 0]] = data
    case.result(dst, bits(result))
    return case


@draws("dma_copy")
def dma_scalar_offset(d):
    """nki.isa.dma_copy with scalar_offset: one offset for all partitions, in elements of the dimension indirect_dim."""
    dtype, rows, free = d.any_type(), d.number(4, 60), d.number(1, 12)
    count = d.number(1, rows)
    start = d.number(0, rows - count)
    case = Case("dma_copy", d.generation, f"scalar_offset, {dtype}")
    data = d.values((rows, free), dtype)
    offset = case.load("offset", np.array([[start]], np.int32), "int32")
    view = case.load("src", data, dtype, "hbm").do(
        "ap", pattern=[[free, count], [1, free]], scalar_offset=offset, indirect_dim=0
    )
    dst = case.new("dst", (count, free), dtype)
    case.call("dma_copy", dst=dst, src=view)
    case.result(dst, bits(data[start : start + count]))
    return case


@draws("dma_compute", 3)
def dma_gather_add(d):
    """nki.isa.dma_compute, gather and scatter read-modify-write: dst + src[indices], or dst[indices] + src, unique. It
    needs software DGE, whose indirect form starts with NeuronCore-v3 (nki/deep-dives/nki-dge.rst)."""
    scatter, free, count, dtype = d.coin(), d.number(1, 12), d.partitions(), d.pick("float32", "bfloat16")
    rows = count + d.number(0, 9)
    case = Case("dma_compute", d.generation, f"scatter={scatter}, {dtype}")
    index = d.rng.permutation(rows)[:count, None].astype(np.uint32)
    far, close = (d.rng.integers(-9, 10, (n, free)).astype(numpy_type(dtype)) for n in (rows, count))
    table = case.load("table", far, dtype, "own_hbm" if scatter else "hbm")
    tile = case.load("tile", close, dtype)
    view = table.do(
        "ap", pattern=[[free, count], [1, free]], vector_offset=case.load("index", index, "uint32"), indirect_dim=0
    )
    dst = view if scatter else tile
    case.call("dma_compute", dst=dst, srcs=[view, tile], reduce_op=nl("add"))
    total = (widen(far)[index[:, 0]] + widen(close)).astype(numpy_type(dtype))
    result = far.copy()
    result[index[:, 0]] = total
    value = result if scatter else total
    case.result(table if scatter else tile, as_stored(value, value == 0))
    return case


@draws("dma_transpose", 3)
def gather_transpose(d):
    """nki.isa.dma_transpose of an indirect source: flat = indices.T.flatten(); dst = src[flat].T; two-byte formats."""
    dtype, free, columns = d.pick("bfloat16", "float16"), d.pick(32, 64, 128), d.pick(1, 2)
    height = 128 if columns == 2 else d.pick(16, 32, 128)
    rows = height * columns
    case = Case("dma_transpose", d.generation, f"indirect, {dtype}, {height}x{columns}")
    data, index = d.values((rows, free), dtype), d.rng.integers(0, rows, (height, columns)).astype(np.uint32)
    view = case.load("src", data, dtype, "hbm").do(
        "ap", pattern=[[free, rows], [1, free]], vector_offset=case.load("index", index, "uint32"), indirect_dim=0
    )
    dst = case.new("dst", (free, rows), dtype)
    case.call("dma_transpose", dst=dst, src=view, axes=(1, 0))
    case.result(dst, bits(np.ascontiguousarray(data[index.T.flatten()].T)))
    return case


@draws("register_load")
def registers(d):
    """nki.isa.register_alloc, register_move, register_load and register_store: a value of 32 bits goes through."""
    value, move = int(d.values((1,), "int32")[0]), d.coin()
    case = Case("register_load", d.generation, f"move={move}")
    src, dst = case.load("src", np.array([[value]], np.int32), "int32"), case.new("dst", (1, 1), "int32")

    def through(isa, _, tiles):
        register = isa.register_alloc()
        isa.register_load(register, tiles[src.name])
        if move:
            other = isa.register_alloc()
            isa.register_move(other, register)
            register = other
        isa.register_store(tiles[dst.name], register)

    case.body(through)
    case.result(dst, as_stored(np.array([[value]], np.int32)))
    return case


@draws("set_rng_seed")
def seeds(d):
    """nki.isa.set_rng_seed: the same seed gives the same sequence of nki.isa.rng on the Vector Engine."""
    case = Case("set_rng_seed", d.generation)
    seed = case.load("seed", np.array([[d.number(1, 2**31)]], np.uint32), "uint32")
    tiles = [case.new(n, (32, 8), "uint32") for n in ("one", "two", "dst")]
    for tile in tiles[:2]:
        case.call("set_rng_seed", src_seeds=seed)
        case.call("rng", dst=tile)
    case.call("tensor_tensor", dst=tiles[2], data1=tiles[0], data2=tiles[1], op=nl("bitwise_xor"))
    case.result(tiles[2], as_stored(np.zeros((32, 8), np.uint32)))
    return case


@draws("rand_set_state", 3)
def states(d):
    """nki.isa.rand_set_state and rand_get_state: 6 words a partition on GpSimd come back as they were set."""
    case = Case("rand_set_state", d.generation)
    words = d.rng.integers(1, 2**32, (d.pick(16, 32, 128), 6)).astype(np.uint32)
    dst = case.new("dst", words.shape, "uint32")
    case.call("rand_set_state", src_seeds=case.load("seeds", words, "uint32"), engine=nisa("engine.gpsimd"))
    case.call("rand_get_state", dst=dst, engine=nisa("engine.gpsimd"))
    case.result(dst, as_stored(words))
    return case


@draws("views")
def views(d):
    """nki.language.NkiTensor views as operands: permute, broadcast, slice with a step, reshape_dim: the elements they
    name, as NumPy has them; copied on the Vector Engine."""
    rows, a, b, dtype = d.partitions(), d.number(1, 6), d.number(1, 6), d.any_type()
    data = d.values((rows, a, b), dtype)
    kind = d.pick("permute", "broadcast", "slice", "flatten", "partitions")
    case = Case("views", d.generation, f"{kind}, {dtype}")
    src = case.load("src", data, dtype)
    if kind == "permute":
        view, result = src.do("permute", (0, 2, 1)), data.transpose(0, 2, 1)
    elif kind == "broadcast":
        view, result = src[:, :, 0:1].do("broadcast", 2, 4), np.repeat(data[:, :, :1], 4, 2)
    elif kind == "slice":
        view, result = src.do("slice", 1, 0, a, 2), data[:, ::2]
    elif kind == "flatten":
        view, result = src.do("flatten_dims", 1, 2), data.reshape(rows, -1)
    else:
        start = 32 if rows > 32 else 0
        stop = min(rows, start + 32)
        view, result = src[start:stop], data[start:stop]
    result = np.ascontiguousarray(result)
    dst = case.new("dst", result.shape, dtype)
    case.call("tensor_copy", dst=dst, src=view, engine=nisa("engine.vector"))
    case.result(dst, bits(result))
    return case


@draws("tensor_reduce")
def unsigned_bits(d):
    """nki.isa.tensor_tensor and tensor_reduce agree on bit operators of whole rows: a fold by hand of the first."""
    op, dtype, shape = d.pick(*BITVEC[:3]), d.pick(*INTEGERS), (d.partitions(), d.number(1, 30))
    case = Case("tensor_reduce", d.generation, f"{op}, {dtype}, whole rows")
    data = d.values(shape, dtype)
    result = data[:, :1]
    for i in range(1, shape[1]):
        result = bitvec(op, result, data[:, i : i + 1])[0]
    dst = case.new("dst", (shape[0], 1), dtype)
    case.call("tensor_reduce", dst=dst, op=nl(op), data=case.load("data", data, dtype), axis=1, keepdims=True)
    case.result(dst, as_stored(result))
    return case


@draws("tensor_partition_reduce")
def average(d):
    """nki.isa.tensor_partition_reduce with nl.average: the mean across partitions, float32, any order of additions."""
    shape = d.shape()
    case = Case("tensor_partition_reduce", d.generation, "average")
    data = d.values(shape, "float32", "tame")
    dst = case.new("dst", (1, shape[1]), "float32")
    case.call("tensor_partition_reduce", dst=dst, op=nl("average"), data=case.load("data", data, "float32"))
    value, bound = fold("add", data, 0)
    case.result(
        dst, within(value[None] / shape[0], bound[None] / shape[0] + 1e-7, "float32", unsure("add", data, 0)[None])
    )
    return case
