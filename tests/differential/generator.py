"""Makes random valid instruction tests: `GENERATORS[op](draw)` returns the instructions of one
test.
"""

import numpy as np

import alu
from dtypes import COMPUTE, DTYPES, FLOATS, INTS, PACKED
from draw import Draw, Full
from machine import Case, Inst

GENERATORS = {}
# Free dimensions that the pages of SDK 2.33 allow; of bn_aggr, those of dst.
MOST_RANK = {"bn_aggr": 2, "exponential": 3, "max8": 2, "tensor_copy_predicated": 3, "tensor_scalar_reduce": 3}
ARITHMETIC = ["add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal",
              "greater_equal", "greater", "less_equal", "less", "logical_and", "logical_or",
              "logical_xor"]  # fmt: skip
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
SHIFTS = ["left_shift", "right_shift"]
UNARY = ["abs", "reciprocal"]
EXACT_FUNCTIONS = ["copy", "square", "abs", "sign", "relu", "reciprocal"]
ANY = COMPUTE + PACKED + [DTYPES["float8_e8m0fnu"]]


def gen(fn):
    GENERATORS[fn.__name__] = fn
    return fn


def draw_case(op, seed, **limits):
    """The case of a seed. Operands that do not fit are drawn again from a derived seed."""
    for attempt in range(20):
        d = Draw(f"{seed}/{attempt}", **limits)
        try:
            d.most_rank = MOST_RANK.get(op, 4)
            insts = GENERATORS[op](d)
        except Full:
            continue
        if insts is None:
            continue
        insts = insts if isinstance(insts, list) else [insts]
        case = Case(d.target, d.tensors, insts, d.virtual)
        case.op, case.cores = op, d.cores
        return case
    raise RuntimeError(f"{op}: seed {seed} draws nothing that fits")


def arithmetic(d, extra=()):
    ops = ARITHMETIC + list(extra)
    return d.pick(ops + (["abs_max", "abs_min"] if d.generation >= 4 else []))


def vector_or(d, choices):
    """An engine by name, or none so that the instruction's own rule decides."""
    return d.pick(choices + [None])


@gen
def tensor_tensor(d):
    engine = d.pick(["vector", "gpsimd", None, None])
    p = d.parts()
    n = d.columns(p)
    kind = d.pick(["arithmetic", "arithmetic", "bits", "int32", "power"])
    if kind == "bits":
        engine = d.pick(["vector", None])
        dtype = d.dtype(INTS)
        types, name = [dtype] * 3, d.pick(BITWISE + SHIFTS)
    elif kind == "int32":
        types = [d.dtype(["int32", "uint32"]) for _ in range(3)]
        name = d.pick(["add", "subtract", "multiply", "maximum", "minimum", *alu.COMPARISONS,
                       "logical_and", "logical_or", "logical_xor"])
    elif kind == "power":
        engine = d.pick(["gpsimd", None])
        types, name = [d.dtype(FLOATS) for _ in range(3)], "power"
    else:
        types, name = [d.dtype() for _ in range(3)], arithmetic(d)
        if engine == "gpsimd":
            name = d.pick(["add", "multiply"])
    in_sbuf = engine == "gpsimd" or name == "power"
    spaces = d.spaces(3, "gpsimd" if in_sbuf else None, one_psum=(1, 2))
    profile = "positive" if name == "power" else None
    shift = "ints" if name in SHIFTS else profile
    dst = d.view(spaces[0], types[0], p, n, write=True)
    x = d.view(spaces[1], types[1], p, n, profile=profile)
    if d.chance(0.1) and types[0] is types[1]:
        dst = x = d.view(spaces[1], types[1], p, n, write=True, profile=profile)
    y = d.view(spaces[2], types[2], p, n, profile=shift)
    return Inst("tensor_tensor", engine, dst=dst, data1=x, data2=y, op=name)


def scalar_stage(d, p, name, integer=None):
    """operand and reverse of a tensor_scalar stage."""
    if name in alu.UNARY or name in ("rsqrt", "invert"):
        return d.pick([None, 0]), None
    if integer is not None:
        top = integer.size * 8
        if d.chance(0.5):
            value = d.r.randint(0, top + 2) if name in SHIFTS else d.r.randint(0, (1 << top) - 1)
            if not integer.name.startswith("u"):
                value = min(value, (1 << (top - 1)) - 1)
        else:
            value = d.column(p, integer.name, "ints" if name in SHIFTS else None)
    else:
        value = d.scalar(p)
    return value, d.pick([None, True, False])


@gen
def tensor_scalar(d):
    p = d.parts()
    n = d.columns(p)
    bits = d.chance(0.25)
    two = d.chance(0.6)
    engine, integer = None, None
    if bits:
        integer = d.dtype(INTS)
        types = [integer, integer]
        names = [d.pick(BITWISE + SHIFTS + ["invert"]) for _ in range(2)]
        engine = d.pick(["vector", None])
    else:
        types = [d.dtype(), d.dtype()]
        unary = UNARY + (["square", "relu"] if d.generation >= 4 else [])
        names = [arithmetic(d, unary), arithmetic(d)]
        engine = d.pick(["vector", "vector", None])
        if d.chance(0.08):
            return rsqrt(d, p, n, types)
        if d.generation >= 3 and d.chance(0.15):
            engine = "scalar"
            names = d.pick([["multiply", "add"], ["multiply", None], ["add", None]])
            two = names[1] is not None
    spaces = d.spaces(2)
    args = {"op0": names[0]}
    args["operand0"], args["reverse0"] = scalar_stage(d, p, names[0], integer)
    if two:
        args["op1"] = names[1]
        args["operand1"], args["reverse1"] = scalar_stage(d, p, names[1], integer)
    data = d.view(spaces[1], types[1], p, n)
    dst = d.view(spaces[0], types[0], p, n, write=True)
    return Inst("tensor_scalar", engine, dst=dst, data=data, **args)


def rsqrt(d, p, n, types):
    """rsqrt runs on GpSimd, in SBUF."""
    return Inst("tensor_scalar", "gpsimd", dst=d.view("sbuf", types[0], p, n, write=True),
                data=d.view("sbuf", types[1], p, n, profile=d.pick(["positive", None])), op0="rsqrt",
                operand0=d.pick([None, 0]))  # fmt: skip


@gen
def scalar_tensor_tensor(d):
    p = d.parts()
    n = d.columns(p)
    names = [arithmetic(d), arithmetic(d)]
    spaces = d.spaces(3, one_psum=(1, 2))
    operand, reverse = scalar_stage(d, p, names[0])
    return Inst("scalar_tensor_tensor", None,
                dst=d.view(spaces[0], d.dtype(), p, n, write=True),
                data=d.view(spaces[1], d.dtype(), p, n),
                op0=names[0], operand0=operand, reverse0=reverse, op1=names[1],
                operand1=d.view(spaces[2], d.dtype(), p, n), reverse1=d.pick([None, True, False]))  # fmt: skip


@gen
def tensor_reduce(d):
    p = d.parts()
    dims = d.factor(d.columns(p), d.pick([1, 2, 3, 4]))
    axes = list(range(1, len(dims) + 1))[-d.r.randint(1, len(dims)) :]
    outer = int(np.prod(dims[: len(dims) - len(axes)])) if len(axes) < len(dims) else 1
    spaces = d.spaces(2)
    negate = None
    if d.chance(0.3):
        dtype = d.dtype(INTS)
        name, types = d.pick(BITWISE), [dtype, dtype]
    else:
        name = d.pick(["add", "subtract", "multiply", "maximum", "minimum", "logical_and", "logical_or"])
        types, negate = [d.dtype(), d.dtype()], d.pick([None, True, False])
    return Inst("tensor_reduce", None, dst=d.view(spaces[0], types[0], p, outer, write=True),
                data=d.view(spaces[1], types[1], p, dims=dims), op=name, axis=axes, negate=negate,
                keepdims=d.pick([None, True]))  # fmt: skip


@gen
def tensor_partition_reduce(d):
    p = d.parts()
    n = d.columns(p)
    name = d.pick(["add", "average", "maximum", *BITWISE])
    if name.startswith("bitwise"):
        dtype = d.dtype(INTS)
        types = [dtype, dtype]
    else:
        types = [d.dtype(), d.dtype()]
    return Inst("tensor_partition_reduce", None, op=name,
                dst=d.view("sbuf", types[0], 1, n, write=True), data=d.view("sbuf", types[1], p, n))  # fmt: skip


def copy_operands(d, engines):
    engine = d.pick(engines)
    p = d.parts()
    n = d.columns(p)
    spaces = d.spaces(2, engine)
    if d.chance(0.3):
        dtype = d.dtype(ANY)
        types = [dtype, dtype]
    else:
        types = [d.dtype(COMPUTE), d.dtype(COMPUTE)]
    dst = d.view(spaces[0], types[0], p, n, write=True)
    return engine, dst, d.view(spaces[1], types[1], p, n)


@gen
def tensor_copy(d):
    engines = ["vector", "gpsimd", None] + (["scalar"] if d.generation >= 3 else [])
    engine, dst, src = copy_operands(d, engines)
    return Inst("tensor_copy", engine, dst=dst, src=src)


@gen
def tensor_copy_predicated(d):
    p = d.parts()
    n = d.columns(p)
    spaces = d.spaces(3, one_psum=(1, 2))
    dtype = d.dtype()
    if d.chance(0.7):
        src = d.view(spaces[1], dtype, p, n)
    else:
        src = d.r.randint(0, 100) if dtype.kind == "int" else d.pick([0.0, 1.0])
    predicate = d.view(spaces[2], d.dtype(["uint8", "uint16", "uint32"]), p, n,
                       profile=d.pick(["bits", "ints"]))  # fmt: skip
    predicate.tensor.data[:] *= d.n.integers(0, 2, predicate.tensor.data.shape, dtype=np.uint8)
    return Inst("tensor_copy_predicated", None, dst=d.view(spaces[0], dtype, p, n, write=True), src=src,
                predicate=predicate, reverse_pred=d.pick([None, True, False]))  # fmt: skip


@gen
def memset(d):
    p = d.parts()
    n = d.columns(p)
    engine = d.pick(["vector", "gpsimd", None])
    dtype = d.dtype(COMPUTE + PACKED)
    if dtype.kind == "packed":
        value = 0
    elif dtype.kind == "int":
        info = np.iinfo(dtype.storage)
        value = d.pick([0, 1, info.min, info.max, d.r.randint(info.min, info.max)])
    elif dtype.kind == "bool":
        value = d.pick([0, 1])
    else:
        value = d.pick([0.0, 1.0, -2.5, 0.1, 3.0, -0.0])
    return Inst("memset", engine, dst=d.view(d.spaces(1, engine)[0], dtype, p, n, write=True), value=value)


@gen
def tensor_tensor_scan(d):
    p = d.parts()
    n = d.columns(p)
    spaces = d.spaces(3, one_psum=(1, 2))
    initial = d.scalar(p)
    return Inst("tensor_tensor_scan", None, dst=d.view(spaces[0], d.dtype(), p, n, write=True),
                data0=d.view(spaces[1], d.dtype(), p, n), data1=d.view(spaces[2], d.dtype(), p, n),
                initial=initial, op0=arithmetic(d), op1=arithmetic(d),
                reverse0=d.pick([None, True]), reverse1=d.pick([None, True]))  # fmt: skip


@gen
def reciprocal(d):
    p = d.parts()
    n = d.columns(p)
    spaces = d.spaces(2)
    return Inst("reciprocal", None, dst=d.view(spaces[0], d.dtype(), p, n, write=True),
                data=d.view(spaces[1], d.dtype(), p, n))  # fmt: skip


@gen
def tensor_scalar_reduce(d):
    p = d.parts()
    n = d.columns(p)
    start = d.start(p)
    out = []
    command = "reset_reduce"
    name = d.pick(["add", "multiply", "maximum", "minimum"])
    for step in range(d.pick([1, 1, 2, 3])):
        if step:
            command = d.pick(["reduce", "load_reduce", "reset_reduce"])
        elif d.chance(0.3):
            command = "load_reduce"
        op0 = arithmetic(d, UNARY)
        operand, _ = scalar_stage(d, p, op0)
        init = d.scalar(p) if command == "load_reduce" else None
        spaces = d.spaces(3)
        res = d.view(spaces[2], d.dtype(), p, 1, write=True, rank=1) if d.chance(0.8) else None
        given = None if command == "reset_reduce" and d.chance(0.5) else command
        out.append(Inst("tensor_scalar_reduce", None,
                        dst=d.view(spaces[0], d.dtype(), p, n, write=True),
                        data=d.view(spaces[1], d.dtype(), p, n, start=start), op0=op0, operand0=operand,
                        reduce_op=name, reduce_res=res, reduce_cmd=given, reduce_init=init,
                        reduce_res_negate=d.pick([None, True]) if res else None))  # fmt: skip
    return out


NARROW = FLOATS[:1] + FLOATS[2:] + [DTYPES[n] for n in ("int8", "uint8", "int16", "uint16")]


@gen
def tensor_scalar_cumulative(d):
    p = d.parts()
    n = d.columns(p)
    start = d.start(p)
    out, command = [], "reset_reduce"
    for step in range(d.pick([1, 1, 2])):
        if step:
            command = d.pick(["reduce", "load_reduce", "reset_reduce"])
        elif d.chance(0.3):
            command = "load_reduce"
        op0 = arithmetic(d)
        spaces = d.spaces(2)
        given = None if command == "reset_reduce" and d.chance(0.5) else command
        out.append(Inst("tensor_scalar_cumulative", None,
                        dst=d.view(spaces[0], d.dtype(NARROW), p, n, write=True),
                        src=d.view(spaces[1], d.dtype(NARROW), p, n, start=start), op0=op0,
                        op1=d.pick(["add", "subtract", "multiply", "maximum", "minimum"]),
                        imm0=scalar_stage(d, p, op0)[0], reduce_cmd=given,
                        imm1=d.scalar(p) if command == "load_reduce" else None))  # fmt: skip
    return out


@gen
def range_select(d):
    d.require(3)
    p = d.parts()
    n = d.columns(p)
    start = d.start(p)
    out = []
    low = d.r.choice([0, 0, 5, 1000, -3])
    for step in range(d.pick([1, 1, 2])):
        bounds = [d.view(d.space(), DTYPES["float32"], p, 1, rank=1,
                         data=(d.n.integers(low, low + n + 1, (p, 1)).astype(np.float32)).view(np.uint32))
                  for _ in range(2)]  # fmt: skip
        compare = ["equal", "less", "less_equal", "greater", "greater_equal"]
        command = d.pick([None, "reset_reduce"] + (["reduce"] if step else []))
        spaces = d.spaces(3)
        res = d.view(spaces[2], d.dtype(), p, 1, write=True, rank=1) if d.chance(0.8) else None
        out.append(Inst("range_select", None, dst=d.view(spaces[0], d.dtype(), p, n, write=True),
                        on_true_tile=d.view(spaces[1], d.dtype(FLOATS), p, n, start=start),
                        comp_op0=d.pick(compare), comp_op1=d.pick(compare), bound0=bounds[0],
                        bound1=bounds[1], reduce_cmd=command, reduce_res=res, range_start=low or None,
                        reduce_op=d.pick([None, "maximum"])))  # fmt: skip
    return out


@gen
def select_reduce(d):
    p = d.parts()
    n = d.columns(p)
    start = d.start(p)
    out = []
    for step in range(d.pick([1, 1, 2])):
        spaces = d.spaces(4, one_psum=(1, 2))
        command = d.pick(["reset_reduce", None] if not step else ["reset_reduce", "reduce"])
        if out and out[-1].args.get("reduce_cmd") is None:
            command = "reset_reduce"
        res = d.view(spaces[3], d.dtype(FLOATS), p, 1, write=True, rank=1) if command else None
        predicate = d.view(spaces[2], d.dtype(["int8", "uint8", "int16", "uint16"]), p, n)
        predicate.tensor.data[:] *= d.n.integers(0, 2, predicate.tensor.data.shape, dtype=np.uint8)
        out.append(Inst("select_reduce", None, dst=d.view(spaces[0], d.dtype(), p, n, write=True),
                        on_true=d.view(spaces[1], d.dtype(NARROW), p, n, start=start), predicate=predicate,
                        on_false=d.scalar(p), reduce_cmd=command, reduce_res=res,
                        reduce_op=d.pick([None, "maximum"]), reverse_pred=d.pick([None, True])))  # fmt: skip
    return out
