"""Makes random tests of activations, searches, gathers, statistics, random numbers, products and
DMA.
"""

import numpy as np

import alu
from dtypes import COMPUTE, DTYPES, FLOATS
from generator import ANY, EXACT_FUNCTIONS, GENERATORS, copy_operands, gen
from machine import Dynamic, Inst

F32, U32, U16, I32, BF16 = (DTYPES[n] for n in ("float32", "uint32", "uint16", "int32", "bfloat16"))
# Inputs per function: the documented valid range (sin also beyond it) or everything.
RANGES = {"log": (2.0**-64, 2.0**64), "sqrt": (2.0**-116, 2.0**118), "rsqrt": (2.0**-87, 2.0**97),
          "reciprocal": (2.0**-42, 2.0**42), "arctan": (-1.57, 1.57)}  # fmt: skip
FUNCTIONS = list(alu.ACTIVATIONS) + ["prelu"]


def function_input(d, name, start, p, n):
    """data of an activation: FP32-exact values where `name` is defined."""
    dtype = d.dtype(FLOATS) if name in RANGES else d.dtype()
    view = d.view(d.space(), dtype, p, n, start=start, profile=None if name not in RANGES else "positive")
    if name in ("log", "sqrt", "rsqrt") and dtype.name == "float32":
        low, high = RANGES[name]
        cells = view.tensor.data.view(np.float32)
        cells[:] = np.exp2(d.n.uniform(np.log2(low), np.log2(high), cells.shape))
    return view


@gen
def activation(d):
    p = d.parts()
    n = d.columns(p)
    start, out = d.start(p), []
    steps = d.pick([1, 1, 1, 2])
    for step in range(steps):
        name = d.pick([f for f in FUNCTIONS if f != "prelu"])
        if steps > 1:
            name = d.pick([f for f in EXACT_FUNCTIONS if f != "reciprocal"])
        scale = bias = None
        if name not in RANGES and d.chance(0.6):
            scale = d.scalar(p)
            bias = d.scalar(p) if d.generation >= 3 else d.column(p)
            if d.chance(0.3):
                bias = d.column(p, d.pick(["bfloat16", "float16"]))
        reduce = d.pick(["reset_reduce", None]) if not step else d.pick(["reduce", "reset_reduce", "reduce"])
        if out and "reduce_cmd" not in out[0].args:
            reduce = "reset_reduce"
        res = d.view(d.space(), d.dtype(FLOATS), p, 1, write=True, rank=1) if reduce else None
        out.append(Inst("activation", None, dst=d.view(d.space(), d.dtype(), p, n, write=True), op=name,
                        data=function_input(d, name, start, p, n), scale=scale, bias=bias,
                        reduce_op="add" if reduce else None, reduce_res=res, reduce_cmd=reduce))  # fmt: skip
    return out


@gen
def activation_reduce(d):
    p = d.parts()
    n = d.columns(p)
    name = d.pick([f for f in FUNCTIONS if f != "prelu"])
    scale = bias = None
    if name not in RANGES and d.chance(0.6):
        scale, bias = d.scalar(p), d.scalar(p) if d.generation >= 3 else d.column(p)
    return Inst("activation_reduce", None, dst=d.view(d.space(), d.dtype(), p, n, write=True), op=name,
                data=function_input(d, name, d.start(p), p, n), scale=scale, bias=bias,
                reduce_op="add",
                reduce_res=d.view(d.space(), d.dtype(FLOATS), p, 1, write=True, rank=1))  # fmt: skip


@gen
def activate2(d):
    d.require(4)
    p = d.parts()
    n = d.columns(p)
    name = d.pick(FUNCTIONS)
    pairs = [("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass"),
             ("subtract", "bypass"), ("bypass", "bypass")]  # fmt: skip
    op0, op1 = d.pick(pairs) if name not in RANGES else ("bypass", "bypass")
    reduce = d.pick(["reset_reduce", None])
    reducer = d.pick(["add", "maximum", "minimum"])
    if reduce and name in ("copy", "square", "relu", "abs") and d.chance(0.4):
        reducer = d.pick(["abs_max", "abs_min"])
    reverses = {"reverse0": d.pick([None, True]) if op0 != "bypass" else None,
                "reverse1": d.pick([None, True]) if op1 != "bypass" else None}  # fmt: skip
    return Inst("activate2", None, dst=d.view(d.space(), d.dtype(), p, n, write=True), op=name,
                data=function_input(d, name, d.start(p), p, n), imm0=d.scalar(p), imm1=d.scalar(p),
                op0=op0, op1=op1, relu_param=d.scalar(p) if name == "prelu" else None,
                reduce_op=reducer if reduce else None, reduce_cmd=reduce,
                reduce_res=d.view(d.space(), d.dtype(FLOATS), p, 1, write=True, rank=1) if reduce else None,
                **reverses)  # fmt: skip


@gen
def exponential(d):
    d.require(4)
    p = d.parts()
    n = d.columns(p)
    dims = d.factor(n, d.pick([1, 2, 3]))  # up to four dimensions with the partitions
    sources = [x for x in COMPUTE if x.name not in ("tfloat32", "bool_", "float8_e3m4", "float8_e4m3fn")]
    targets = [x for x in COMPUTE if x.name not in ("uint32", "bool_", "float8_e3m4", "float8_e4m3fn")]
    command = d.pick([None, "reset_reduce", "load_reduce"])
    results = [x for x in FLOATS if x.name not in ("float8_e3m4", "float8_e4m3fn")]
    return Inst("exponential", None, dst=d.view(d.space(), d.dtype(targets), p, dims=dims, write=True),
                src=d.view(d.space(), d.dtype(sources), p, dims=dims), max_value=d.scalar(p), reduce_cmd=command,
                reduce_init=d.scalar(p) if command == "load_reduce" else None,
                reduce_res=d.view(d.space(), d.dtype(results), p, 1, write=True, rank=1)
                if command else None)  # fmt: skip


def affine_pattern(d, n):
    dims = d.factor(n, d.r.randint(1, 4))
    flat = []
    for num in dims:
        flat += [d.pick([0, 1, -1, 2, 7, -128, 512, d.r.randint(-(2**30), 2**30)]), num]
    return flat, d.pick([None, 0, 5, -77, 2**31 - 1]), d.pick([0, 1, -1, 64, 2**20])


@gen
def iota(d):
    p = d.parts()
    n = d.columns(p)
    pattern, offset, channel = affine_pattern(d, n)
    return Inst("iota", None, dst=d.view("sbuf", d.dtype(), p, n, write=True), pattern=pattern,
                offset=offset, channel_multiplier=channel or None)  # fmt: skip


@gen
def affine_select(d):
    p = d.parts()
    n = d.columns(p)
    pattern, offset, channel = affine_pattern(d, n)
    types = [d.dtype(), d.dtype()]
    if d.chance(0.4):
        types[1] = types[0]
    return Inst("affine_select", None, dst=d.view("sbuf", types[0], p, n, write=True), pattern=pattern,
                channel_multiplier=channel, on_true_tile=d.view("sbuf", types[1], p, n),
                on_false_value=d.constant(), offset=offset,
                cmp_op=d.pick([None] + alu.COMPARISONS))  # fmt: skip


@gen
def bn_stats(d):
    p = d.parts()
    n = d.columns(p, 512)
    profile = d.pick(["normal", "ints", "unit"])
    return Inst("bn_stats", None, dst=d.view(d.space(), F32, p, 6, write=True),
                data=d.view(d.space(), d.dtype(["float32", "bfloat16", "float16"]), p, n,
                            profile=profile))  # fmt: skip


@gen
def bn_aggr(d):
    p = d.parts()
    k = d.r.randint(1, 12)
    triples = np.abs(d.n.standard_normal((p, k, 3))).astype(np.float32)
    triples[:, :, 0] = d.n.integers(1, 300, (p, k))
    data = d.view(d.space(), F32, p, 3 * k, data=triples.reshape(p, -1).view(np.uint32))
    return Inst("bn_aggr", None, dst=d.view(d.space(), F32, p, 2, write=True), data=data)


@gen
def max8(d):
    p = d.parts()
    n = d.columns(p, low=8)
    src = d.view(d.space(), d.dtype(), p, n, rank=d.pick([1, 2, 3]) if not d.plain else 1)
    return Inst("max8", None, dst=d.view(d.space(), d.dtype(), p, 8, write=True, rank=1), src=src)


def values_of(d, view, p, n, profile):
    """A [P, 8] operand of values most of which are in `view`."""
    tensor = view.tensor
    rows = slice(view.part, view.part + p)
    cells = tensor.data[rows].view(view.dtype.raw)[:, view.index()]
    picks = cells[np.arange(p)[:, None], d.n.integers(0, n, (p, 8))]
    other = d.raw(view.dtype, (p, 8), profile)
    return d.view(d.space(), view.dtype, p, 8, rank=1, data=np.where(d.n.random((p, 8)) < 0.8, picks, other))


@gen
def nc_find_index8(d):
    p = d.parts(32)
    n = d.columns(p, low=8)
    profile = d.pick(["ints", "normal", "bits"])
    data = d.view(d.space(), d.dtype(), p, n, profile=profile, rank=d.pick([1, 2]))
    return Inst("nc_find_index8", None, data=data, vals=values_of(d, data, p, n, profile),
                dst=d.view(d.space(), d.dtype(["uint16", "uint32"]), p, 8, write=True, rank=1))  # fmt: skip


@gen
def nc_match_replace8(d):
    p = d.parts(32)
    n = d.columns(p, low=8)
    profile = d.pick(["ints", "normal", "bits"])
    dtype = d.dtype()
    data = d.view(d.space(), dtype, p, n, profile=profile, rank=d.pick([1, 2]))
    idx = d.view(d.space(), U32, p, 8, write=True, rank=1) if d.chance(0.7) else None
    return Inst("nc_match_replace8", None, dst=d.view(d.space(), dtype, p, n, write=True), data=data,
                vals=values_of(d, data, p, n, profile), imm=d.constant("ints"), dst_idx=idx)  # fmt: skip


@gen
def nc_stream_shuffle(d):
    p = d.pick([x for x in (32, 64, 96, 128) if x <= max(32, d.max_parts)])
    n = d.columns(p)
    dtype = d.dtype(ANY)
    mask = [d.pick([d.r.randint(0, 31), d.r.randint(0, 31), 255]) for _ in range(32)]
    dst = d.view(d.space(), dtype, p, n, write=True)
    src = dst if d.chance(0.1) else d.view(d.space(), dtype, p, n)
    return Inst("nc_stream_shuffle", None, src=src, dst=dst, shuffle_mask=mask)


@gen
def sequence_bounds(d):
    n = d.columns(1)
    dtype = d.dtype(["float32", "int32"])
    ids = np.sort(d.n.integers(0, 6, n))
    if d.chance(0.5):
        ids = np.concatenate([ids[ids > 0], ids[ids == 0]])
    raw = ids.astype(dtype.storage).view(np.uint32)[None, :]
    return Inst("sequence_bounds", None, dst=d.view("sbuf", dtype, 1, dims=[2, n], write=True),
                segment_ids=d.view("sbuf", dtype, 1, n, rank=1, data=raw))  # fmt: skip


@gen
def local_gather(d):
    p = d.pick([x for x in (16, 32, 48, 64, 80, 112, 128) if x <= max(16, d.max_parts)])
    e = d.pick([1, 2, 4, 8, 16, 32])
    n = d.columns(p, low=e)
    columns = d.r.randint(1, 4)
    count = d.pick([columns * 16, d.r.randint((columns - 1) * 16 + 1, columns * 16)])
    dtype = d.dtype(ANY)
    index = d.n.integers(0, n - e + 1, (p, columns)).astype(np.uint16)
    start = d.start(p)
    return Inst("local_gather", None, dst=d.view("sbuf", dtype, p, count * e, write=True, start=start),
                src_buffer=d.view("sbuf", dtype, p, n, start=start),
                index=d.view("sbuf", U16, p, columns, data=index, start=start, rank=1),
                num_elem_per_idx=e if e > 1 or d.chance(0.5) else None,
                num_valid_indices=count if count % 16 or d.chance(0.5) else None)  # fmt: skip


@gen
def nc_n_gather(d):
    p = d.parts()
    n, k = d.columns(p), d.columns(p)
    dtype = d.dtype(ANY)
    return Inst("nc_n_gather", None, dst=d.view("sbuf", dtype, p, k, write=True),
                data=d.view("sbuf", dtype, p, n),
                indices=d.view("sbuf", U32, p, k, data=d.n.integers(0, n, (p, k)).astype(np.uint32)))  # fmt: skip


@gen
def topk(d):
    p = d.pick([x for x in (16, 32, 48, 64, 96, 128) if x <= max(16, d.max_parts)])
    n = d.r.randint(8, 300)
    k = d.r.randint(1, min(n, 64))
    columns = -(-n // 16) + d.pick([0, 0, 2])
    profile = d.pick(["ints", "normal"])
    return Inst("topk", None, val_dst=d.view("sbuf", BF16, p, k, write=True, rank=1),
                idx_dst=d.view("sbuf", U32, p, k, write=True, rank=1),
                src=d.view("sbuf", BF16, p, columns, profile=profile, rank=1), n=n)  # fmt: skip


@gen
def nonzero_with_count(d):
    d.require(3)
    p = d.parts()
    n = d.columns(p)
    src = d.view("sbuf", d.dtype(["float32", "int32"]), p, n)
    src.tensor.data[:] = (src.tensor.data.view(np.uint32) * d.n.integers(
        0, 2, src.tensor.data.view(np.uint32).shape, dtype=np.uint32)).view(np.uint8)  # fmt: skip
    return Inst("nonzero_with_count", None, dst=d.view("sbuf", I32, p, n + 1, write=True), src=src,
                index_offset=d.pick([None, 16, -5]), padding_val=d.pick([None, 0, 2**31 - 1]))  # fmt: skip


INTEGER_DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32"]


def seeded_engine(d):
    d.require(3)
    engine = "gpsimd" if d.generation == 3 else d.pick(["gpsimd", "vector"])
    p = d.parts()
    words = 6 if engine == "gpsimd" else 24
    start = d.start(p)  # lanes are partitions: what uses the states starts where they were set
    seeds = d.view("sbuf", U32, p, words, rank=1, profile="bits", start=start)
    return engine, p, start, [Inst("rand_set_state", engine, src_seeds=seeds)]


def stored_state(d, engine, p, start):
    words = 6 if engine == "gpsimd" else 24
    dst = d.view("sbuf", U32, p, words, write=True, rank=1, start=start)
    return Inst("rand_get_state", engine, dst=dst)


@gen
def rng(d):
    engine, p, start, out = seeded_engine(d)
    for _ in range(d.pick([1, 2])):
        n = d.columns(p)
        space = "sbuf" if engine == "gpsimd" else d.space()
        dst = d.view(space, d.dtype(INTEGER_DTYPES), p, n, write=True, start=start)
        out.append(Inst("rng", engine, dst=dst))
    if d.chance(0.5):
        out.append(stored_state(d, engine, p, start))
    return out


@gen
def rand_set_state(d):
    engine, p, start, out = seeded_engine(d)
    return out + [stored_state(d, engine, p, start)]


GENERATORS["rand_get_state"] = rand_set_state


@gen
def rand2(d):
    d.require(4)
    p = d.parts()
    start = d.start(p)
    seeds = d.view("sbuf", U32, p, 24, rank=1, profile="bits", start=start)
    bounds = np.sort(d.n.standard_normal((p, 2)).astype(np.float32) * 50, axis=1) + np.float32([0, 1])
    low = d.view(d.space(), F32, p, 1, rank=1, data=bounds[:, :1].view(np.uint32)) if d.chance(0.5) else -3.0
    high = d.view(d.space(), F32, p, 1, rank=1, data=bounds[:, 1:].copy().view(np.uint32))
    if not isinstance(low, float):
        high = high if d.chance(0.5) else 1e4
    else:
        high = 7.5
    types = [x for x in COMPUTE if x.name not in ("bool_", "float8_e3m4", "float8_e4m3fn")]
    dst = d.view(d.space(), d.dtype(types), p, d.columns(p), write=True, start=start)
    return [Inst("rand_set_state", "vector", src_seeds=seeds), Inst("rand2", None, dst=dst, min=low, max=high)]


@gen
def dropout(d):
    p = d.parts()
    n = d.columns(p)
    dtype = d.dtype()
    prob = d.pick([0.0, 1.0, 0.5, 0.25])
    if d.chance(0.3):
        prob = d.column(p, profile="ints")
        prob.tensor.data[:] = d.n.choice(np.array([0, 1, 0.5], np.float32),
                                         prob.tensor.data.view(np.float32).shape).view(np.uint8)  # fmt: skip
    return Inst("dropout", None, dst=d.view(d.space(), dtype, p, n, write=True),
                data=d.view(d.space(), dtype, p, n), prob=prob)  # fmt: skip


def _dynamic(d, which):
    """A tensor_copy whose source or destination starts at an offset held in SBUF."""
    engines = ["vector", "gpsimd"] + (["scalar"] if d.generation >= 3 else [])
    plain, d.plain = d.plain, True
    engine, dst, src = copy_operands(d, engines)
    view = dst if which == "dst" else src
    whole = view.tensor
    lead = d.r.randint(0, 3)
    wide = np.zeros((whole.data.shape[0], whole.data.shape[1] + 8 * whole.dtype.size), np.uint8)
    wide[:] = d.n.integers(0, 2, wide.shape, dtype=np.uint8)
    whole.data, whole.shape = wide, [whole.shape[0], whole.shape[1] + 8]
    d.next_address[whole.space] += 8 * whole.dtype.size
    view.text = None
    index = d.view("sbuf", d.dtype(["int32", "uint32"]), 1, 1, rank=1, start=0,
                   data=np.array([[lead]], np.uint32))  # fmt: skip
    d.plain = plain
    view.dynamic = [Dynamic("scalar", index, d.pick([1, 2]))]
    d.virtual = True  # the tensor grew: let every tensor have storage of its own
    return engine, dst, src


@gen
def tensor_copy_dynamic_src(d):
    if d.generation > 3:
        return None
    engine, dst, src = _dynamic(d, "src")
    return Inst("tensor_copy_dynamic_src", engine, dst=dst, src=src)


@gen
def tensor_copy_dynamic_dst(d):
    if d.generation > 3:
        return None
    engine, dst, src = _dynamic(d, "dst")
    return Inst("tensor_copy_dynamic_dst", engine, dst=dst, src=src)
