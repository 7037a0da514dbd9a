"""Computes the element-wise, reduction and scan instructions in NumPy, as the reference. Semantics
come from the nki.isa documentation (SDK 2.32); what it leaves open is named in docs/values.md.

`REFERENCE[op](memory, args, inst)` changes the memory as the instruction would.
"""

import numpy as np

import alu
import control
from dtypes import F32, decode_bits, encode, encode_bits, is_int32
from machine import View

REFERENCE = {}


def op(fn):
    REFERENCE[fn.__name__] = fn
    return fn


def run(case, memory):
    """Executes the instructions in order, loops and branches included."""
    control.block(case.insts, memory, lambda inst: REFERENCE[inst.op](memory, inst.args, inst))


def exact(x):
    return (x, x)


def is_bitvec(name):
    return name in alu.BIT_IDENTITY or name in ("invert", "left_shift", "right_shift")


def put(x):
    """A pair stored as plain values where it is one."""
    return x[0] if x[0] is x[1] else x


def tensor_engine_for(inst, views, name):
    """The documented default engine of tensor_tensor: GpSimd for all-32-bit-integer tiles in SBUF and
    for power, otherwise Vector."""
    if inst.engine:
        return inst.engine
    in_sbuf = all(v.space == "sbuf" for v in views)
    if name == "power":
        return "gpsimd"
    if in_sbuf and all(is_int32(v.dtype) for v in views):
        return "gpsimd"
    return "vector"


INT_OPS = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
# "All 32-bit integer values" of nki.isa.tensor_tensor: whatever its operator, each operand by its own sign.
WORD_OPS = {
    **INT_OPS, "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal,
    "greater_equal": np.greater_equal, "greater": np.greater, "less_equal": np.less_equal, "less": np.less,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip


def words(m, view):
    """The values of 32-bit integers, in 64 bits."""
    bits = m.bits(view).astype(np.uint32)
    return bits.view(np.int32).astype(np.int64) if view.dtype.name == "int32" else bits.astype(np.int64)


@op
def tensor_tensor(m, a, inst):
    dst, x, y, name = a["dst"], a["data1"], a["data2"], a["op"]
    if is_bitvec(name):
        width = x.dtype.size * 8
        return m.store_bits(dst, alu.bits(name, m.bits(x), m.bits(y), width))
    views = (dst, x, y)
    engine = tensor_engine_for(inst, views, name)
    if engine == "gpsimd" and name in WORD_OPS and all(is_int32(v.dtype) for v in views):
        with np.errstate(over="ignore"):  # of a product, the low 32 bits are the same
            result = WORD_OPS[name](words(m, x), words(m, y)).astype(np.int64)
        return m.store_bits(dst, (result & 0xFFFFFFFF).astype(np.uint32))
    m.store(dst, put(alu.binary(name, m.load(x), m.load(y))))


def apply(m, name, x, operand, reverse, rows):
    """One tensor_scalar stage on a (low, high) pair."""
    if name in alu.UNARY or name == "rsqrt":
        return alu.pair(name, x, x) if x[0] is not x[1] else alu.binary(name, x[0], None)
    s = np.broadcast_to(m.column(operand, rows)[:, None], x[0].shape)
    s = (s, s)
    return alu.pair(name, s, x) if reverse else alu.pair(name, x, s)


@op
def tensor_scalar(m, a, inst):
    dst, data = a["dst"], a["data"]
    stages = [(a["op0"], a.get("operand0"), a.get("reverse0", False))]
    if "op1" in a:
        stages.append((a["op1"], a.get("operand1"), a.get("reverse1", False)))
    if is_bitvec(a["op0"]):
        return _tensor_scalar_bits(m, dst, data, stages)
    if _exact_integers(dst, data, stages):
        x = m.bits(data)
        for name, operand, reverse in stages:
            s = m.column_bits(operand, data.rows)[:, None]
            x = INT_OPS[name](s, x) if reverse else INT_OPS[name](x, s)
        return m.store_bits(dst, x)
    x = exact(m.load(data))
    for name, operand, reverse in stages:
        x = apply(m, name, x, operand, reverse, data.rows)
    m.store(dst, put(x))


def _exact_integers(dst, data, stages):
    """The 32-bit address arithmetic form (assumed): everything int32/uint32, operands included."""
    return (
        is_int32(dst.dtype)
        and is_int32(data.dtype)
        and all(isinstance(o, View) and is_int32(o.dtype) and n in INT_OPS for n, o, _ in stages)
    )


def _tensor_scalar_bits(m, dst, data, stages):
    x, width = m.bits(data), data.dtype.size * 8
    for name, operand, reverse in stages:
        s = m.column_bits(None if name == "invert" else operand, data.rows)
        s = np.broadcast_to(s[:, None], x.shape)
        x = alu.bits(name, s, x, width) if reverse else alu.bits(name, x, s, width)
        x = decode_bits(data.dtype, encode_bits(data.dtype, x))  # the element's width (assumed)
    m.store_bits(dst, x)


@op
def scalar_tensor_tensor(m, a, inst):
    data, rows = a["data"], a["data"].rows
    x = apply(m, a["op0"], exact(m.load(data)), a.get("operand0"), a.get("reverse0", False), rows)
    y = exact(m.load(a["operand1"]))
    x = alu.pair(a["op1"], y, x) if a.get("reverse1") else alu.pair(a["op1"], x, y)
    m.store(a["dst"], put(x))


@op
def tensor_reduce(m, a, inst):
    dst, data, name = a["dst"], a["data"], a["op"]
    axes = a["axis"]
    inner = int(np.prod([data.dims[k - 1][1] for k in axes]))
    if is_bitvec(name):
        x = m.bits(data).reshape(-1, inner)
        ufunc = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
                 "bitwise_xor": np.bitwise_xor}[name]  # fmt: skip
        return m.store_bits(dst, ufunc.reduce(x, axis=1))
    x = m.load(data).reshape(-1, inner)
    seed = np.full(x.shape[0], alu.IDENTITY[name], F32)
    r = alu.reduce(name, seed, x)
    if a.get("negate"):
        r = alu.BINARY["multiply"](r, F32(-1)).astype(F32)
    m.store(dst, r)


@op
def tensor_partition_reduce(m, a, inst):
    dst, data, name = a["dst"], a["data"], a["op"]
    if is_bitvec(name):
        return m.store_bits(dst, getattr(np, name).reduce(m.bits(data), axis=0))
    if name == "add" and is_int32(dst.dtype) and is_int32(data.dtype):
        return m.store_bits(dst, np.add.reduce(m.bits(data), axis=0, dtype=np.uint32))
    x = np.ascontiguousarray(m.load(data).T)
    m.store(dst, alu.reduce(name, np.full(x.shape[0], alu.IDENTITY[name], F32), x))


@op
def tensor_copy(m, a, inst):
    copy_tile(m, a["dst"], a["src"])


REFERENCE["tensor_copy_dynamic_src"] = tensor_copy
REFERENCE["tensor_copy_dynamic_dst"] = tensor_copy


def copy_tile(m, dst, src):
    if dst.dtype is src.dtype:
        m.store_raw(dst, m.raw(src).reshape(dst.rows, -1))
    else:
        m.store(dst, m.load(src))


@op
def tensor_copy_predicated(m, a, inst):
    dst, src = a["dst"], a["src"]
    mask = (m.bits(a["predicate"]) != 0) ^ bool(a.get("reverse_pred", False))
    if isinstance(src, View):
        raw = m.raw(src)
    else:
        raw = constant_raw(dst.dtype, src)
    m.store_raw_where(dst, np.broadcast_to(raw, mask.shape), mask)


def constant_raw(dtype, value):
    """The bits of a constant: whole numbers for integers, otherwise through FP32."""
    if dtype.kind == "int" and float(value).is_integer():
        return encode_bits(dtype, np.array([[int(value) & 0xFFFFFFFF]], np.uint32))
    return encode(dtype, np.array([[value]], F32))


@op
def memset(m, a, inst):
    dst, value = a["dst"], a["value"]
    if dst.dtype.kind == "packed":
        return m.store_raw(dst, np.zeros((dst.rows, dst.columns), dst.dtype.raw))
    raw = constant_raw(dst.dtype, value)
    m.store_raw(dst, np.broadcast_to(raw, (dst.rows, dst.columns)))


@op
def tensor_tensor_scan(m, a, inst):
    x, y = m.load(a["data0"]), m.load(a["data1"])
    running = m.column(a["initial"], x.shape[0])
    out = np.empty_like(x)
    f0, f1 = (_scan_operator(a[k]) for k in ("op0", "op1"))
    for i in range(x.shape[1]):
        t = f0(running, x[:, i]) if a.get("reverse0") else f0(x[:, i], running)
        running = f1(y[:, i], t) if a.get("reverse1") else f1(t, y[:, i])
        out[:, i] = running
    m.store(a["dst"], out)


def _scan_operator(name):
    return lambda p, q: alu.BINARY[name](p, q).astype(F32)


@op
def reciprocal(m, a, inst):
    m.store(a["dst"], alu.UNARY["reciprocal"](m.load(a["data"])).astype(F32))


def seeded(m, registers, lanes, a, name, init_key):
    """The initial value of an accumulator under reduce_cmd."""
    command = a.get("reduce_cmd")
    if command in ("reset_reduce", "reset"):
        return np.full(lanes.stop - lanes.start, alu.IDENTITY[name], F32)
    if command == "load_reduce":
        return m.column(a[init_key], lanes.stop - lanes.start)
    return registers[lanes].copy()


def lanes_of(view):
    return slice(view.start, view.start + view.parts)


@op
def tensor_scalar_reduce(m, a, inst):
    data, dst = a["data"], a["dst"]
    t = apply(m, a["op0"], exact(m.load(data)), a.get("operand0"), False, data.rows)
    lanes = lanes_of(data)
    args = {"reduce_cmd": "reset_reduce", **a}
    acc = seeded(m, m.vector, lanes, args, a["reduce_op"], "reduce_init")
    acc = alu.reduce(a["reduce_op"], acc, t[0])
    m.vector[lanes] = acc
    m.store(dst, put(t))
    if "reduce_res" in a:
        m.store(a["reduce_res"], alu.canonical(-acc) if a.get("reduce_res_negate") else acc)


@op
def tensor_scalar_cumulative(m, a, inst):
    src = a["src"]
    t = apply(m, a["op0"], exact(m.load(src)), a.get("imm0"), False, src.rows)[0]
    lanes = lanes_of(src)
    args = {"reduce_cmd": "reset_reduce", **a}
    running = seeded(m, m.vector, lanes, args, a["op1"], "imm1")
    out = np.empty_like(t)
    f = _scan_operator(a["op1"])
    for i in range(t.shape[1]):
        running = f(t[:, i], running)
        out[:, i] = running
    m.vector[lanes] = running
    m.store(a["dst"], out)


@op
def range_select(m, a, inst):
    x = m.load(a["on_true_tile"])
    idx = (a.get("range_start", 0) + np.arange(x.shape[1])).astype(F32)[None, :]
    keep = np.ones(x.shape, bool)
    for name, bound in ((a["comp_op0"], a["bound0"]), (a["comp_op1"], a["bound1"])):
        b = np.broadcast_to(m.load(bound), x.shape)
        keep &= alu.BINARY[name](np.broadcast_to(idx, x.shape), b) != 0
    out = np.where(keep, x, np.finfo(F32).min).astype(F32)
    _select(m, a, out, lanes_of(a["on_true_tile"]), "reset_reduce")


@op
def select_reduce(m, a, inst):
    x = m.load(a["on_true"])
    mask = (m.bits(a["predicate"]) != 0) ^ bool(a.get("reverse_pred", False))
    other = m.column(a["on_false"], x.shape[0])[:, None]
    _select(m, a, np.where(mask, x, other).astype(F32), lanes_of(a["on_true"]), "idle")


def _select(m, a, out, lanes, default):
    args = {"reduce_cmd": default, **a}
    acc = seeded(m, m.vector, lanes, args, "maximum", None)
    if args["reduce_cmd"] != "idle":
        acc = alu.reduce("maximum", acc, out)
        m.vector[lanes] = acc
    m.store(a["dst"], out)
    if "reduce_res" in a:
        m.store(a["reduce_res"], acc)


def _activate(m, a, x, slope, name, default):
    """Function, store and reduction of the ScalarE instructions; x is FP32."""
    low, high = alu.activation(a["op"], x, slope)
    if a["op"] == "exp" and m.generation == 2:  # measured on trn1: no result below the normal numbers
        low, high = (np.where(v < np.finfo(F32).tiny, F32(0), v) for v in (low, high))
    args = {"reduce_cmd": default, **a}
    lanes = lanes_of(a["data"])
    command = args["reduce_cmd"]
    if command in ("reset", "reset_reduce"):
        m.scalar[:, lanes] = alu.IDENTITY[name]
    results = tuple(m.scalar[:, lanes].copy())
    if command in ("reduce", "reset_reduce"):
        # Rounding is monotone, so the sum over what is allowed brackets every allowed sum.
        results = tuple(alu.reduce(name, acc, np.ascontiguousarray(v))
                        for acc, v in zip(results, (low, high)))  # fmt: skip
        m.scalar[:, lanes] = results
    m.store(a["dst"], (low, high))
    if "reduce_res" in a:
        m.store(a["reduce_res"], results)


def _scaled(m, a):
    data = a["data"]
    scale = m.column(a.get("scale"), data.rows, 1.0)[:, None]
    bias = m.column(a.get("bias"), data.rows, 0.0)[:, None]
    x = m.load(data)
    if "scale" in a:
        x = alu.BINARY["multiply"](x, np.broadcast_to(scale, x.shape)).astype(F32)
    if "bias" in a:
        x = alu.BINARY["add"](x, np.broadcast_to(bias, x.shape)).astype(F32)
    return x


@op
def activation(m, a, inst):
    _activate(m, a, _scaled(m, a), 0.0, "add", "idle")


@op
def activation_reduce(m, a, inst):
    _activate(m, a, _scaled(m, a), 0.0, a["reduce_op"], "reset_reduce")


@op
def activate2(m, a, inst):
    data = a["data"]
    x = exact(m.load(data))
    for k in ("0", "1"):
        if a["op" + k] != "bypass":
            x = apply(m, a["op" + k], x, a["imm" + k], a.get("reverse" + k, False), data.rows)
    slope = m.column(a.get("relu_param"), data.rows)[:, None]
    _activate(m, a, x[0], slope, a.get("reduce_op", "add"), "idle")


@op
def exponential(m, a, inst):
    src = a["src"]
    shift = m.column(a.get("max_value"), src.rows)[:, None]
    x = alu.BINARY["subtract"](m.load(src), np.broadcast_to(shift, (src.rows, src.columns)))
    low, high = alu.activation("exp", x.astype(F32))
    command = a.get("reduce_cmd", "idle")
    lanes = lanes_of(src)
    if command != "idle":
        seed = seeded(m, m.vector, lanes, a, "add", "reduce_init")
        sums = tuple(alu.reduce("add", seed, np.ascontiguousarray(v)) for v in (low, high))
        m.vector[lanes] = sums[0]
        if "reduce_res" in a:
            m.store(a["reduce_res"], sums)
    m.store(a["dst"], (low, high))
