#!/usr/bin/env python3
"""Writes the case tables of the vector, copy and GpSimd instructions.

    python3 tests/isa/make_vector_cases.py [--check]

Expected values come from NumPy and ml_dtypes alone. The format is described in
tests/src/cases_test.cpp.
"""
import json
import pathlib
import sys

import ml_dtypes
import numpy as np

OPS = pathlib.Path(__file__).resolve().parents[2] / "isa" / "ops"
F32 = np.float32
DTYPES = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3, "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16,
    "int32": np.int32, "uint32": np.uint32,
}
TABLES = {}


def plain(values):
    """JSON numbers; null where None, names for what JSON cannot say."""
    out = []
    for v in np.asarray(values, dtype=object).reshape(-1):
        if v is None:
            out.append(None)
            continue
        x = float(v)
        if np.isnan(x):
            out.append("nan")
        elif np.isinf(x):
            out.append("inf" if x > 0 else "-inf")
        else:
            out.append(int(x) if x == int(x) and not (x == 0 and np.signbit(x)) else x)
    return out


class T:
    """A tensor of a case: values (an input) or a shape (an output)."""

    def __init__(self, dtype, values=None, shape=None, space="sbuf", partition=0):
        self.dtype, self.space, self.partition = dtype, space, partition
        self.values = None if values is None else np.asarray(values).astype(DTYPES[dtype])
        self.shape = list(self.values.shape if shape is None else shape)

    def declare(self, name):
        d = {"name": name, "space": self.space, "dtype": self.dtype, "shape": self.shape}
        if self.partition:
            d["partition"] = self.partition
        return d


def case(op, title, tensors, program, target="trn2", expect=None, **rest):
    """Appends a case; `program` is one instruction's arguments or a list of whole lines."""
    if isinstance(program, dict):
        program = [{"i": op, **program}]
    c = {"case": title, "target": target,
         "tensors": [t.declare(n) for n, t in tensors.items()],
         "set": {n: plain(t.values) for n, t in tensors.items() if t.values is not None},
         "program": program}
    if expect is not None:
        c["expect"] = {n: plain(v) for n, v in expect.items()}
    c.update(rest)
    TABLES.setdefault(op, []).append(c)


def out(dtype, *shape, **kw):
    return T(dtype, shape=shape, **kw)


def cast(x, dtype):
    """What the engines store: round to nearest even; saturating integers."""
    kind = np.dtype(DTYPES[dtype])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return np.clip(np.rint(np.asarray(x, np.float64)), info.min, info.max).astype(kind)
    return np.asarray(x, F32).astype(kind)


def as_f32(x):
    return np.asarray(x).astype(F32)


def rng(seed):
    return np.random.default_rng(seed)


def tile(seed, rows, cols, dtype="float32", low=-4, high=4):
    return rng(seed).uniform(low, high, (rows, cols)).astype(F32).astype(DTYPES[dtype])


def tensor_tensor():
    op = "tensor_tensor"
    a, b = tile(1, 4, 8), tile(2, 4, 8)
    std = {"a": T("float32", a), "b": T("float32", b), "c": out("float32", 4, 8)}
    args = {"dst": "c", "data1": "a", "data2": "b"}
    for name, fn in {"add": np.add, "subtract": np.subtract, "multiply": np.multiply,
                     "max": np.maximum, "min": np.minimum}.items():
        case(op, f"{name} in FP32", std, {**args, "op": name}, expect={"c": fn(a, b)})
    for name, fn in {"equal": np.equal, "greater": np.greater, "less_equal": np.less_equal}.items():
        x = np.array([[1, 2, 3, np.nan]], F32)
        y = np.array([[1, 3, 2, np.nan]], F32)
        case(op, f"{name} gives 1 or 0", {"a": T("float32", x), "b": T("float32", y),
                                          "c": out("uint8", 1, 4)},
             {**args, "op": name}, expect={"c": fn(x, y).astype(np.uint8)})
    ah, bh = tile(3, 4, 8, "bfloat16"), tile(4, 4, 8, "bfloat16")
    case(op, "bf16 inputs are added in FP32 and rounded once",
         {"a": T("bfloat16", ah), "b": T("bfloat16", bh), "c": out("bfloat16", 4, 8)},
         {**args, "op": "add"}, expect={"c": (as_f32(ah) + as_f32(bh)).astype(ml_dtypes.bfloat16)},
         parts=[{"opcode": "TENSOR_TENSOR", "unit": "Vector", "elements": 8, "partitions": 4,
                 "sbuf_read_bytes": 128, "sbuf_write_bytes": 64,
                 "has": ["two_sbuf_inputs", "all_16bit", "bf16", "contiguous", "add_mul_sub"],
                 "lacks": ["src_psum", "pointer"]}])
    case(op, "one input in PSUM", {**std, "b": T("float32", b, space="psum")},
         {**args, "op": "multiply"}, expect={"c": a * b},
         parts=[{"elements": 8, "sbuf_read_bytes": 128, "psum_read_bytes": 128,
                 "has": ["src_psum", "two_inputs"], "lacks": ["two_sbuf_inputs", "all_16bit"]}])
    i = rng(5).integers(-2**31, 2**31, (4, 8)).astype(np.int32)
    j = rng(6).integers(-2**31, 2**31, (4, 8)).astype(np.int32)
    words = {"a": T("int32", i), "b": T("int32", j), "c": out("int32", 4, 8)}
    with np.errstate(over="ignore"):
        case(op, "int32 add is exact and wraps, on GpSimd by default", words, {**args, "op": "add"},
             expect={"c": i + j}, parts=[{"unit": "GpSimd"}])
        case(op, "int32 multiply is exact and wraps", words, {**args, "op": "multiply"},
             expect={"c": i * j})
    case(op, "int32 add forced on VectorE goes through FP32", words,
         {**args, "op": "add", "engine": "vector"},
         expect={"c": cast(as_f32(i) + as_f32(j), "int32")}, parts=[{"unit": "Vector"}])
    u8 = rng(7).integers(0, 256, (4, 8)).astype(np.uint8)
    s8 = rng(8).integers(0, 8, (4, 8)).astype(np.uint8)
    for dt in ("int8", "uint8"):
        x = u8.view(DTYPES[dt])
        case(op, f"logical right shift of {dt} shifts zeros into its own 8 bits",
             {"a": T(dt, x), "b": T("uint8", s8), "c": out(dt, 4, 8)}, {**args, "op": "right_shift"},
             expect={"c": (u8 >> s8).view(DTYPES[dt])})
    u16 = rng(9).integers(0, 65536, (4, 8)).astype(np.uint16)
    s16 = rng(10).integers(0, 16, (4, 8)).astype(np.uint16)
    case(op, "left shift of uint16 drops bits at 16",
         {"a": T("uint16", u16), "b": T("uint16", s16), "c": out("uint16", 4, 8)},
         {**args, "op": "left_shift"}, expect={"c": u16 << s16})
    case(op, "arithmetic right shift of int16 keeps the sign",
         {"a": T("int16", u16.view(np.int16)), "b": T("uint16", s16), "c": out("int16", 4, 8)},
         {**args, "op": "arith_shift_right"}, expect={"c": u16.view(np.int16) >> s16.view(np.int16)})
    uw = i.view(np.uint32)
    case(op, "bitwise_xor of uint32", {"a": T("uint32", uw), "b": T("uint32", j.view(np.uint32)),
                                       "c": out("uint32", 4, 8)}, {**args, "op": "bitwise_xor"},
         expect={"c": uw ^ j.view(np.uint32)})
    case(op, "in place", std, {"dst": "a", "data1": "a", "data2": "a", "op": "add"},
         expect={"a": a + a})
    shifted = a.copy()
    shifted[:, 1:] = a[:, :-1] + b[:, 1:]
    case(op, "source and destination overlap", std,
         {"dst": "a[:,1:8]", "data1": "a[:,0:7]", "data2": "b[:,1:8]", "op": "add"},
         expect={"a": shifted})
    case(op, "power runs on GpSimd", std, {**args, "op": "power"}, parts=[{"unit": "GpSimd"}])
    both = {"a": T("float32", a, space="psum"), "b": T("float32", b, space="psum"),
            "c": out("float32", 4, 8)}
    case(op, "both inputs in PSUM", both, {**args, "op": "add"}, error="both in PSUM")
    case(op, "power with PSUM", {**std, "b": T("float32", b, space="psum")},
         {**args, "op": "power"}, error="GpSimd cannot reach")
    case(op, "power on VectorE", std, {**args, "op": "power", "engine": "vector"},
         error="gpsimd for power")
    case(op, "bitvec on floats", std, {**args, "op": "bitwise_and"}, error="an integer dtype")
    case(op, "shapes differ", {**std, "b": out("float32", 4, 7)}, {**args, "op": "add"},
         error="the shape of data1")
    case(op, "rows differ", {**std, "c": out("float32", 5, 8)}, {**args, "op": "add"},
         error="the shape of data1")
    case(op, "unary operator", std, {**args, "op": "square"}, error="a binary operator")
    case(op, "HBM operand", {**std, "b": T("float32", b, space="hbm")}, {**args, "op": "add"},
         error="data2 is in HBM")
    case(op, "abs_max before trn3", std, {**args, "op": "abs_max"}, error="trn3")
    case(op, "abs_max on trn3", std, {**args, "op": "abs_max"}, target="trn3",
         expect={"c": np.where(np.abs(a) > np.abs(b), a, b)})
    case(op, "never written", {**std, "b": out("float32", 4, 8)}, {**args, "op": "add"},
         error="never written")


def tensor_scalar():
    op = "tensor_scalar"
    a = tile(11, 4, 8)
    v = tile(12, 4, 1)
    std = {"a": T("float32", a), "v": T("float32", v), "c": out("float32", 4, 8)}
    args = {"dst": "c", "data": "a"}
    case(op, "one constant", std, {**args, "op0": "multiply", "operand0": 2.5},
         expect={"c": a * F32(2.5)}, parts=[{"opcode": "TENSOR_SCALAR", "unit": "Vector",
                                             "elements": 8, "lacks": ["pointer", "all_16bit"]}])
    case(op, "a value per partition, then a constant", std,
         {**args, "op0": "subtract", "operand0": "v", "op1": "multiply", "operand1": -0.5},
         expect={"c": (a - v) * F32(-0.5)}, parts=[{"has": ["pointer"], "sbuf_read_bytes": 144}])
    case(op, "both operators reversed", std,
         {**args, "op0": "subtract", "operand0": "v", "reverse0": True, "op1": "subtract",
          "operand1": 3.0, "reverse1": True}, expect={"c": F32(3) - (v - a)})
    for name, fn in {"abs": np.abs, "square": np.square, "relu": lambda x: np.maximum(x, 0)}.items():
        case(op, f"unary {name}", std, {**args, "op0": name, "operand0": 0}, expect={"c": fn(a)})
    case(op, "unary op0, then add", std, {**args, "op0": "abs", "op1": "add", "operand1": "v"},
         expect={"c": np.abs(a) + v})
    case(op, "rsqrt runs on GpSimd", {**std, "a": T("float32", np.abs(a))},
         {**args, "op0": "add", "operand0": 0.25, "op1": "rsqrt"},
         expect={"c": 1 / np.sqrt((np.abs(a) + F32(0.25)).astype(np.float64))}, rtol=1.2e-7,
         parts=[{"unit": "GpSimd"}])
    case(op, "rsqrt from PSUM runs on ScalarE", {**std, "a": T("float32", np.abs(a), space="psum")},
         {**args, "op0": "rsqrt"}, parts=[{"unit": "Scalar"}])
    case(op, "in place over its own bytes as another dtype", {"a": T("float32", a)},
         {"dst": {"tensor": "a", "partitions": 4, "ap": [[1, 8]], "dtype": "int32"}, "data": "a",
          "op0": "multiply", "operand0": 2.0},
         expect={"a": cast(a * F32(2), "int32").view(F32)})
    case(op, "saturating cast", {**std, "c": out("int8", 4, 8)},
         {**args, "op0": "multiply", "operand0": 100.0}, expect={"c": cast(a * F32(100), "int8")})
    u = rng(13).integers(0, 2**32, (4, 8), dtype=np.uint64).astype(np.uint32)
    m = rng(14).integers(0, 2**32, (4, 1), dtype=np.uint64).astype(np.uint32)
    bits = {"a": T("uint32", u), "m": T("uint32", m), "c": out("uint32", 4, 8)}
    case(op, "mask and shift bits", bits,
         {**args, "op0": "bitwise_and", "operand0": "m", "op1": "right_shift", "operand1": 3},
         expect={"c": (u & m) >> 3})
    case(op, "invert", bits, {**args, "op0": "invert"}, expect={"c": ~u})
    i8 = np.arange(-16, 16, dtype=np.int8).reshape(4, 8)
    case(op, "logical right shift of int8", {"a": T("int8", i8), "c": out("int8", 4, 8)},
         {**args, "op0": "right_shift", "operand0": 1},
         expect={"c": (i8.view(np.uint8) >> 1).view(np.int8)})
    case(op, "arithmetic right shift of int8", {"a": T("int8", i8), "c": out("int8", 4, 8)},
         {**args, "op0": "arith_shift_right", "operand0": 2}, expect={"c": i8 >> 2})
    i32 = rng(15).integers(-2**31, 2**31, (4, 8)).astype(np.int32)
    case(op, "int32 with a constant goes through FP32", {"a": T("int32", i32),
                                                         "c": out("int32", 4, 8)},
         {**args, "op0": "add", "operand0": 1}, expect={"c": cast(as_f32(i32) + F32(1), "int32")})
    step = rng(16).integers(0, 1000, (4, 1)).astype(np.int32)
    with np.errstate(over="ignore"):
        case(op, "int32 with an int32 tile is exact", {"a": T("int32", i32), "s": T("int32", step),
                                                       "c": out("int32", 4, 8)},
             {**args, "op0": "add", "operand0": "s"}, expect={"c": i32 + step})
    case(op, "multiply and add on ScalarE", std,
         {**args, "op0": "multiply", "operand0": 2.0, "op1": "add", "operand1": 1.0,
          "engine": "scalar"}, expect={"c": a * F32(2) + F32(1)}, parts=[{"unit": "Scalar"}])
    case(op, "maximum on ScalarE of trn3", std,
         {**args, "op0": "max", "operand0": 0.5, "engine": "scalar"}, target="trn3",
         expect={"c": np.maximum(a, F32(0.5))})
    case(op, "maximum on ScalarE of trn2", std,
         {**args, "op0": "max", "operand0": 0.5, "engine": "scalar"}, error="scalar for maximum")
    case(op, "multiply on ScalarE of trn1", std,
         {**args, "op0": "multiply", "operand0": 0.5, "engine": "scalar"}, target="trn1",
         error="scalar for multiply")
    case(op, "GpSimd without rsqrt", std, {**args, "op0": "add", "operand0": 1.0,
                                           "engine": "gpsimd"}, error="only with rsqrt")
    case(op, "bitvec on ScalarE", bits, {**args, "op0": "bitwise_or", "operand0": 1,
                                         "engine": "scalar"}, error="vector for bitwise_or")
    case(op, "bitvec and arithmetic mixed", bits,
         {**args, "op0": "bitwise_and", "operand0": 1, "op1": "add", "operand1": 1.0},
         error="mix bitvec and arithmetic")
    case(op, "bitvec on floats", std, {**args, "op0": "bitwise_and", "operand0": 1},
         error="an integer dtype")
    case(op, "bitvec with a real constant", bits, {**args, "op0": "bitwise_and", "operand0": 1.5},
         error="an integer for bitwise_and")
    case(op, "operand of a unary operator", std, {**args, "op0": "abs", "operand0": 2.0},
         error="none or 0")
    case(op, "missing operand", std, {**args, "op0": "add"}, error="operand0 is missing")
    case(op, "operand1 without op1", std, {**args, "op0": "add", "operand0": 1.0, "operand1": 2.0},
         error="given without op1")
    case(op, "operand tile of two columns", {**std, "v": out("float32", 4, 2)},
         {**args, "op0": "add", "operand0": "v"}, error="one column")
    case(op, "operand tile in bf16", {**std, "v": out("bfloat16", 4, 1)},
         {**args, "op0": "add", "operand0": "v"}, error="float32 (or a constant)")
    case(op, "power", std, {**args, "op0": "power", "operand0": 2.0, "engine": "gpsimd"},
         error="tensor_tensor")
    case(op, "shapes differ", {**std, "c": out("float32", 4, 7)},
         {**args, "op0": "add", "operand0": 1.0}, error="the shape of data")


def scalar_tensor_tensor():
    op = "scalar_tensor_tensor"
    a, b, v = tile(21, 4, 8), tile(22, 4, 8), tile(23, 4, 1)
    std = {"a": T("float32", a), "b": T("float32", b), "v": T("float32", v),
           "c": out("float32", 4, 8)}
    args = {"dst": "c", "data": "a", "operand1": "b"}
    case(op, "(a - v) * b", std, {**args, "op0": "subtract", "operand0": "v", "op1": "multiply"},
         expect={"c": (a - v) * b}, parts=[{"opcode": "SCALAR_TENSOR_TENSOR", "unit": "Vector",
                                            "elements": 8, "has": ["sub_mul", "pointer"]}])
    case(op, "dst is operand1", std,
         {**args, "dst": "b", "op0": "multiply", "operand0": 2.0, "op1": "subtract"},
         expect={"b": a * F32(2) - b})
    case(op, "both reversed", std,
         {**args, "op0": "subtract", "operand0": 1.5, "op1": "subtract", "reverse0": True,
          "reverse1": True}, expect={"c": b - (F32(1.5) - a)}, parts=[{"lacks": ["sub_mul"]}])
    h = tile(24, 4, 8, "bfloat16")
    case(op, "bf16 tiles are computed in FP32", {**std, "a": T("bfloat16", h), "b": T("bfloat16", h),
                                                 "c": out("bfloat16", 4, 8)},
         {**args, "op0": "multiply", "operand0": 3.0, "op1": "add"},
         expect={"c": (as_f32(h) * F32(3) + as_f32(h)).astype(ml_dtypes.bfloat16)})
    case(op, "both inputs in PSUM", {**std, "a": T("float32", a, space="psum"),
                                     "b": T("float32", b, space="psum")},
         {**args, "op0": "add", "operand0": 1.0, "op1": "add"}, error="both in PSUM")
    case(op, "bitvec op0", std, {**args, "op0": "bitwise_and", "operand0": 1, "op1": "add"},
         error="an arithmetic operator")
    case(op, "bitvec op1", std, {**args, "op0": "add", "operand0": 1.0, "op1": "bitwise_or"},
         error="an arithmetic operator")
    case(op, "shapes differ", {**std, "b": out("float32", 4, 9)},
         {**args, "op0": "add", "operand0": 1.0, "op1": "add"}, error="the shape of data")


def tensor_reduce():
    op = "tensor_reduce"
    a = np.rint(tile(31, 4, 24, low=-50, high=50))
    a3 = {"a": T("float32", a.reshape(4, 2, 3, 4)), "c": out("float32", 4, 2, 3)}
    args = {"dst": "c", "data": "a", "op": "add"}
    cube = a.reshape(4, 2, 3, 4)
    case(op, "add over the last dimension", a3, {**args, "axis": [3]}, expect={"c": cube.sum(3)},
         parts=[{"opcode": "TENSOR_REDUCE", "unit": "Vector", "elements": 24, "partitions": 4,
                 "sbuf_read_bytes": 384, "sbuf_write_bytes": 96, "has": ["reduce_add_max"]}])
    case(op, "maximum over two dimensions", {**a3, "c": out("float32", 4, 2)},
         {**args, "op": "max", "axis": [2, 3]}, expect={"c": cube.max((2, 3))})
    case(op, "minimum over all, negated, axes in any order", {**a3, "c": out("float32", 4, 1)},
         {**args, "op": "min", "axis": [3, 1, 2], "negate": True, "keepdims": True},
         expect={"c": -cube.min((1, 2, 3))}, parts=[{"lacks": ["reduce_add_max"]}])
    case(op, "a negative axis", a3, {**args, "axis": [-1]}, expect={"c": cube.sum(3)})
    small = np.rint(tile(32, 4, 6, low=-5, high=5))
    case(op, "multiply", {"a": T("float32", small), "c": out("float32", 4, 1)},
         {**args, "op": "multiply", "axis": [1]}, expect={"c": small.prod(1)})
    case(op, "maximum of infinities and NaN",
         {"a": T("float32", [[-np.inf, -np.inf], [1, np.nan], [np.inf, 0], [-1, -2]]),
          "c": out("float32", 4, 1)}, {**args, "op": "max", "axis": [1]},
         expect={"c": [-np.inf, np.nan, np.inf, -1]})
    h = tile(33, 4, 8, "bfloat16")
    ordered = np.zeros(4, F32)
    for i in range(8):
        ordered = ordered + as_f32(h)[:, i]
    case(op, "bf16 is summed in FP32", {"a": T("bfloat16", h), "c": out("bfloat16", 4, 1)},
         {**args, "axis": [1]}, expect={"c": ordered.astype(ml_dtypes.bfloat16)},
         parts=[{"has": ["bf16", "reduce_add_max"]}])
    u = rng(34).integers(0, 65536, (4, 8)).astype(np.uint16)
    for name, fn in {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
                     "bitwise_xor": np.bitwise_xor}.items():
        case(op, name, {"a": T("uint16", u), "c": out("uint16", 4, 1)},
             {**args, "op": name, "axis": [1]}, expect={"c": fn.reduce(u, axis=1)})
    case(op, "the partition axis", a3, {**args, "axis": [0, 1, 2, 3]}, error="axis is (0, 1, 2, 3)")
    case(op, "not the last axes", {**a3, "c": out("float32", 4, 8)}, {**args, "axis": [2]},
         error="the last free dimensions")
    case(op, "a gap", {**a3, "c": out("float32", 4, 3)}, {**args, "axis": [1, 3]},
         error="the last free dimensions")
    case(op, "wrong result size", {**a3, "c": out("float32", 4, 5)}, {**args, "axis": [3]},
         error="6 elements per partition")
    case(op, "operator without a reduction", a3, {**args, "op": "greater", "axis": [3]},
         error="can reduce")
    case(op, "bitvec on floats", a3, {**args, "op": "bitwise_or", "axis": [3]},
         error="an integer dtype")
    case(op, "negated bits", {"a": T("uint16", u), "c": out("uint16", 4, 1)},
         {**args, "op": "bitwise_or", "axis": [1], "negate": True}, error="negate is set")
    case(op, "rows differ", {**a3, "c": out("float32", 3, 6)}, {**args, "axis": [3]},
         error="4 partitions")


def tensor_copy():
    op = "tensor_copy"
    raw = np.array([[0x7F800001, 0xFFC12345, 0x00000001, 0x80000000, 0x3F800000, 0x7F7FFFFF]],
                   np.uint32)
    case(op, "same dtype keeps every bit", {"a": T("uint32", raw), "c": out("uint32", 1, 6)},
         {"dst": "c", "src": "a"}, expect={"c": raw},
         parts=[{"opcode": "COPY", "unit": "Vector", "elements": 6, "partitions": 1,
                 "sbuf_read_bytes": 24, "sbuf_write_bytes": 24}])
    case(op, "a float view of NaN payloads keeps every bit",
         {"a": T("uint32", raw), "c": out("uint32", 1, 6)},
         {"dst": {"tensor": "c", "dtype": "float32"}, "src": {"tensor": "a", "dtype": "float32"}},
         expect={"c": raw})
    x = np.array([[0.5, 1.5, 2.5, -0.5, 3e9, -3e9, 1e-3, 127.5]], F32)
    for dt in ("int8", "uint8", "int16", "int32", "uint32", "bfloat16", "float16", "float8_e4m3"):
        case(op, f"float32 to {dt}", {"a": T("float32", x), "c": out(dt, 1, 8)},
             {"dst": "c", "src": "a"}, expect={"c": cast(x, dt)}, parts=[{"opcode": "CAST"}])
    big = np.array([[2**24 + 1, -(2**31), 2**31 - 1, 7]], np.int32)
    case(op, "int32 stays exact on ScalarE", {"a": T("int32", big), "c": out("int32", 1, 4)},
         {"dst": "c", "src": "a", "engine": "scalar"}, expect={"c": big}, parts=[{"unit": "Scalar"}])
    case(op, "int32 to float32 rounds", {"a": T("int32", big), "c": out("float32", 1, 4)},
         {"dst": "c", "src": "a"}, expect={"c": as_f32(big)})
    wide = tile(41, 2, 16)
    case(op, "strided and reversed views", {"a": T("float32", wide), "c": T("float32", np.zeros_like(wide))},
         {"dst": "c[:,::2]", "src": "a[:,15:7:-1]"},
         expect={"c": np.stack([wide[:, 15:7:-1], np.zeros_like(wide[:, :8])], -1).reshape(2, 16)})
    moved = wide.copy()
    moved[:, 1:] = wide[:, :-1]
    case(op, "source and destination overlap", {"a": T("float32", wide)},
         {"dst": "a[:,1:16]", "src": "a[:,0:15]"}, expect={"a": moved})
    case(op, "from PSUM", {"a": T("float32", wide, space="psum"), "c": out("float32", 2, 16)},
         {"dst": "c", "src": "a"}, expect={"c": wide},
         parts=[{"psum_read_bytes": 128, "sbuf_write_bytes": 128, "has": ["src_psum"]}])
    case(op, "dynamic offset", {"a": T("float32", wide), "i": T("int32", [[3]]),
                                "c": out("float32", 2, 4)},
         {"dst": "c", "src": {"tensor": "a", "partitions": 2, "ap": [[1, 4]], "dynamic": [{"scalar": "i"}]}},
         expect={"c": wide[:, 3:7]}, parts=[{"has": ["dynamic"]}])
    index = np.zeros((16, 1), np.int32)
    index[:, 0] = [5, 0, 15, 2] * 4
    rows = tile(42, 16, 16)
    gathered = {"tensor": "a", "partitions": 16, "ap": [[1, 16]],
                "dynamic": [{"indirect": "i", "group": 16}]}
    case(op, "indirect gather on trn3", {"a": T("float32", rows), "i": T("int32", index),
                                         "c": out("float32", 16, 16)},
         {"dst": "c", "src": gathered}, target="trn3", expect={"c": rows[:, index[:, 0]]},
         parts=[{"has": ["indirect", "dynamic"]}])
    case(op, "indirect gather before trn3", {"a": T("float32", rows), "i": T("int32", index),
                                             "c": out("float32", 16, 16)},
         {"dst": "c", "src": gathered}, error="an indirect view on trn2")
    case(op, "indirect gather on GpSimd", {"a": T("float32", rows), "i": T("int32", index),
                                           "c": out("float32", 16, 16)},
         {"dst": "c", "src": gathered, "engine": "gpsimd"}, target="trn3", error="vector or scalar")
    case(op, "scatter to PSUM on ScalarE", {"a": T("float32", rows), "i": T("int32", index),
                                            "c": out("float32", 16, 16, space="psum")},
         {"dst": {**gathered, "tensor": "c"}, "src": "a", "engine": "scalar"}, target="trn3",
         error="scattered to PSUM")
    case(op, "index away from its source", {"a": T("float32", rows),
                                            "i": T("int32", index, partition=32),
                                            "c": out("float32", 16, 16)},
         {"dst": "c", "src": gathered}, target="trn3", error="where src starts")
    case(op, "ScalarE of trn1", {"a": T("float32", wide), "c": out("float32", 2, 16)},
         {"dst": "c", "src": "a", "engine": "scalar"}, target="trn1", error="scalar (trn2 and later)")
    case(op, "PSUM on GpSimd", {"a": T("float32", wide, space="psum"), "c": out("float32", 2, 16)},
         {"dst": "c", "src": "a", "engine": "gpsimd"}, error="GpSimd cannot reach")
    case(op, "element counts differ", {"a": T("float32", wide), "c": out("float32", 2, 15)},
         {"dst": "c", "src": "a"}, error="the shape of src")


def legacy_copies():
    wide = tile(43, 2, 16)
    tensors = {"a": T("float32", wide), "i": T("int32", [[3]]), "c": T("float32", np.zeros_like(wide))}
    dynamic = {"partitions": 2, "ap": [[1, 4]], "dynamic": [{"scalar": "i"}]}
    case("tensor_copy_dynamic_src", "an offset in SBUF", tensors,
         {"dst": "c[:,0:4]", "src": {"tensor": "a", **dynamic}},
         expect={"c": np.concatenate([wide[:, 3:7], np.zeros_like(wide[:, :12])], 1)},
         parts=[{"opcode": "COPY", "has": ["dynamic"]}])
    case("tensor_copy_dynamic_src", "an offset too far", {**tensors, "i": T("int32", [[13]])},
         {"dst": "c[:,0:4]", "src": {"tensor": "a", **dynamic}}, error="access to tensor a")
    case("tensor_copy_dynamic_src", "a fixed address", tensors, {"dst": "c", "src": "a"},
         error="a dynamic offset")
    case("tensor_copy_dynamic_src", "trn3", tensors,
         {"dst": "c[:,0:4]", "src": {"tensor": "a", **dynamic}}, target="trn3",
         error="trn2 is the last target")
    moved = np.zeros_like(wide)
    moved[:, 3:7] = wide[:, :4]
    case("tensor_copy_dynamic_dst", "an offset in SBUF", tensors,
         {"dst": {"tensor": "c", **dynamic}, "src": "a[:,0:4]"}, expect={"c": moved})
    case("tensor_copy_dynamic_dst", "offset zero", {**tensors, "i": T("int32", [[0]])},
         {"dst": {"tensor": "c", **dynamic}, "src": "a[:,0:4]"},
         expect={"c": np.concatenate([wide[:, :4], np.zeros_like(wide[:, :12])], 1)})
    case("tensor_copy_dynamic_dst", "a fixed address", tensors, {"dst": "c", "src": "a"},
         error="a dynamic offset")


def tensor_copy_predicated():
    op = "tensor_copy_predicated"
    a, d = tile(51, 4, 8), tile(52, 4, 8)
    p = rng(53).integers(0, 3, (4, 8)).astype(np.uint8)
    std = {"a": T("float32", a), "c": T("float32", d), "p": T("uint8", p)}
    args = {"dst": "c", "src": "a", "predicate": "p"}
    case(op, "selected elements", std, args, expect={"c": np.where(p != 0, a, d)},
         parts=[{"opcode": "COPY_PREDICATED", "elements": 8, "sbuf_read_bytes": 160,
                 "sbuf_write_bytes": 128}])
    case(op, "reversed", std, {**args, "reverse_pred": True}, expect={"c": np.where(p != 0, d, a)})
    case(op, "a constant", std, {**args, "src": -1.5}, expect={"c": np.where(p != 0, F32(-1.5), d)})
    some = np.where(p != 0, a.astype(object), None)
    case(op, "other elements stay unwritten", {**std, "c": out("float32", 4, 8)}, args,
         expect={"c": some})
    big = np.full((4, 8), 2**24 + 1, np.int32)
    case(op, "an integer constant is exact", {**std, "c": T("int32", big)},
         {**args, "src": 2**30 + 1}, expect={"c": np.where(p != 0, 2**30 + 1, big)})
    case(op, "int32 predicate", {**std, "p": T("int32", p)}, args, error="predicate is int32")
    case(op, "dtypes differ", {**std, "a": out("bfloat16", 4, 8)}, args, error="dst's dtype")
    case(op, "src and predicate in PSUM", {**std, "a": T("float32", a, space="psum"),
                                           "p": T("uint8", p, space="psum")}, args,
         error="both in PSUM")
    case(op, "shapes differ", {**std, "p": out("uint8", 4, 7)}, args, error="the shape of dst")


def tensor_tensor_scan():
    op = "tensor_tensor_scan"
    a, b, v = tile(61, 4, 8, low=-1, high=1), tile(62, 4, 8), tile(63, 4, 1)

    def scan(initial, f0, f1):
        r = np.zeros((4, 8), F32)
        prev = np.broadcast_to(np.asarray(initial, F32).reshape(-1), 4)
        for i in range(8):
            prev = f1(f0(a[:, i], prev), b[:, i])
            r[:, i] = prev
        return r

    std = {"a": T("float32", a), "b": T("float32", b), "v": T("float32", v),
           "c": out("float32", 4, 8)}
    args = {"dst": "c", "data0": "a", "data1": "b"}
    case(op, "multiply and add", std,
         {**args, "initial": 0.0, "op0": "multiply", "op1": "add"},
         expect={"c": scan(0, np.multiply, np.add)},
         parts=[{"opcode": "TENSOR_TENSOR_SCAN", "unit": "Vector", "elements": 8}])
    case(op, "an initial value per partition", std,
         {**args, "initial": "v", "op0": "add", "op1": "max"},
         expect={"c": scan(v, np.add, np.maximum)}, parts=[{"has": ["pointer"]}])
    case(op, "both reversed", std, {**args, "initial": 1.0, "op0": "subtract", "op1": "subtract",
                                    "reverse0": True, "reverse1": True},
         expect={"c": scan(1, lambda x, y: y - x, lambda x, y: y - x)})
    case(op, "both inputs in PSUM", {**std, "a": T("float32", a, space="psum"),
                                     "b": T("float32", b, space="psum")},
         {**args, "initial": 0.0, "op0": "multiply", "op1": "add"}, error="both in PSUM")
    case(op, "bitvec", std, {**args, "initial": 0.0, "op0": "bitwise_and", "op1": "add"},
         error="an arithmetic operator")
    case(op, "initial of two columns", {**std, "v": out("float32", 4, 2)},
         {**args, "initial": "v", "op0": "multiply", "op1": "add"}, error="one column")
    case(op, "shapes differ", {**std, "b": out("float32", 4, 9)},
         {**args, "initial": 0.0, "op0": "multiply", "op1": "add"}, error="the shape of data0")


def reciprocal():
    op = "reciprocal"
    a = tile(71, 4, 8, low=0.1, high=9)
    case(op, "FP32", {"a": T("float32", a), "c": out("float32", 4, 8)}, {"dst": "c", "data": "a"},
         expect={"c": F32(1) / a}, parts=[{"opcode": "RECIPROCAL", "elements": 8}])
    edge = np.array([[0.0, -0.0, np.inf, np.nan]], F32)
    case(op, "zeros and infinity", {"a": T("float32", edge), "c": out("float32", 1, 4)},
         {"dst": "c", "data": "a"}, expect={"c": [np.inf, -np.inf, 0.0, np.nan]})
    case(op, "shapes differ", {"a": T("float32", a), "c": out("float32", 4, 7)},
         {"dst": "c", "data": "a"}, error="the shape of data")


def bn():
    x = tile(81, 4, 9)

    def stats(y):
        y = y.astype(np.float64)
        n = y.shape[1]
        if n == 0:
            return np.zeros((len(y), 3))
        return np.stack([np.full(len(y), n), y.mean(1), n * y.var(1)], 1)

    s = np.concatenate([stats(x[:, 0::2]), stats(x[:, 1::2])], 1)
    case("bn_stats", "even and odd elements", {"a": T("float32", x), "c": out("float32", 4, 6)},
         {"dst": "c", "data": "a"}, expect={"c": s}, rtol=1e-6,
         parts=[{"opcode": "BN_STATS", "elements": 9}])
    one = x[:, :1]
    case("bn_stats", "a single element", {"a": T("float32", one), "c": out("float32", 4, 6)},
         {"dst": "c", "data": "a"},
         expect={"c": np.concatenate([np.ones_like(one), one, np.zeros((4, 4))], 1)})
    case("bn_stats", "513 elements", {"a": out("float32", 4, 513), "c": out("float32", 4, 6)},
         {"dst": "c", "data": "a"}, error="at most 512")
    case("bn_stats", "5 results", {"a": T("float32", x), "c": out("float32", 4, 5)},
         {"dst": "c", "data": "a"}, error="6 elements")
    f = s.astype(F32)
    y = x.astype(np.float64)
    case("bn_aggr", "two triples", {"a": T("float32", f), "c": out("float32", 4, 2)},
         {"dst": "c", "data": "a"}, expect={"c": np.stack([y.mean(1), y.var(1)], 1)}, rtol=2e-6,
         parts=[{"opcode": "BN_AGGR", "elements": 6}])
    case("bn_aggr", "one triple", {"a": T("float32", f[:, :3]), "c": out("float32", 4, 2)},
         {"dst": "c", "data": "a"},
         expect={"c": np.stack([f[:, 1], f[:, 2].astype(np.float64) / 5], 1)}, rtol=1e-6)
    case("bn_aggr", "not triples", {"a": out("float32", 4, 5), "c": out("float32", 4, 2)},
         {"dst": "c", "data": "a"}, error="a multiple of 3")
    case("bn_aggr", "3 results", {"a": T("float32", f), "c": out("float32", 4, 3)},
         {"dst": "c", "data": "a"}, error="2 elements")


def memset():
    op = "memset"
    for dt, v in (("float32", 1.5), ("bfloat16", 0), ("int32", -(2**31)), ("uint32", 2**32 - 1),
                  ("int8", -128), ("float16", "inf")):
        value = np.inf if v == "inf" else v
        case(op, f"{v} in {dt}", {"c": out(dt, 2, 3)}, {"dst": "c", "value": v},
             expect={"c": np.full((2, 3), value)},
             parts=[{"opcode": "MEMSET", "unit": "Vector", "elements": 3, "dtype": dt,
                     ("has" if v == 0 else "lacks"): ["zero"]}])
    case(op, "zero in a packed dtype", {"c": out("float8_e4m3fn_x4", 2, 1)},
         {"dst": "c", "value": 0}, target="trn3", expect={"c": np.zeros((2, 4))})
    case(op, "on GpSimd", {"c": out("float32", 2, 3)}, {"dst": "c", "value": 2, "engine": "gpsimd"},
         expect={"c": np.full((2, 3), 2)}, parts=[{"unit": "GpSimd"}])
    case(op, "nonzero in a packed dtype", {"c": out("float8_e4m3fn_x4", 2, 1)},
         {"dst": "c", "value": 1}, target="trn3", error="0 for float8_e4m3fn_x4")
    for dt, v in (("int32", 1.5), ("uint8", -1), ("int8", 128), ("uint16", 65536)):
        case(op, f"{v} does not fit {dt}", {"c": out(dt, 2, 3)}, {"dst": "c", "value": v},
             error=f"that {dt} can hold exactly")
    case(op, "PSUM on GpSimd", {"c": out("float32", 2, 3, space="psum")},
         {"dst": "c", "value": 0, "engine": "gpsimd"}, error="GpSimd cannot reach")


def affine(rows, pattern, offset, multiplier):
    value = np.array([[offset + r * multiplier] for r in range(rows)], np.int64)
    for step, num in pattern:
        value = (value[:, :, None] + step * np.arange(num)).reshape(rows, -1)
    return value.astype(np.int32) if value.max(initial=0) < 2**31 else value.astype(np.uint32).view(np.int32)


def iota():
    op = "iota"
    case(op, "two dimensions", {"c": out("int32", 4, 2, 3)},
         {"dst": "c", "pattern": [10, 2, -1, 3], "offset": 5, "channel_multiplier": 100},
         expect={"c": affine(4, [(10, 2), (-1, 3)], 5, 100)},
         parts=[{"opcode": "IOTA", "unit": "GpSimd", "elements": 6, "dtype": "int32"}])
    case(op, "defaults, in float32", {"c": out("float32", 2, 8)}, {"dst": "c", "pattern": [1, 8]},
         expect={"c": affine(2, [(1, 8)], 0, 0)})
    case(op, "wraps at 32 bits", {"c": out("int32", 1, 2)},
         {"dst": "c", "pattern": [1, 2], "offset": 2**31 - 1}, expect={"c": [2**31 - 1, -(2**31)]})
    case(op, "cast to bf16", {"c": out("bfloat16", 1, 4)},
         {"dst": "c", "pattern": [1, 4], "offset": 257},
         expect={"c": cast(np.arange(257, 261), "bfloat16")})
    case(op, "four dimensions", {"c": out("int16", 2, 2, 2, 2, 2)},
         {"dst": "c", "pattern": [1000, 2, 100, 2, 10, 2, 1, 2]},
         expect={"c": affine(2, [(1000, 2), (100, 2), (10, 2), (1, 2)], 0, 0)})
    case(op, "too many elements", {"c": out("int32", 1, 8)}, {"dst": "c", "pattern": [1, 9]},
         error="8, dst's elements")
    case(op, "too few elements", {"c": out("int32", 1, 8)}, {"dst": "c", "pattern": [1, 2, 1, 3]},
         error="pattern is 6 elements")
    case(op, "five dimensions", {"c": out("int32", 1, 1)},
         {"dst": "c", "pattern": [1, 1] * 5}, error="one to four")
    case(op, "in PSUM", {"c": out("int32", 1, 8, space="psum")}, {"dst": "c", "pattern": [1, 8]},
         error="dst is in PSUM")
    case(op, "offset beyond 32 bits", {"c": out("int32", 1, 8)},
         {"dst": "c", "pattern": [1, 8], "offset": 2**31}, error="a 32-bit integer")


def affine_select():
    op = "affine_select"
    a = tile(91, 8, 8)
    keep = affine(8, [(-1, 8)], 0, 1) >= 0  # causal
    std = {"a": T("float32", a), "c": out("float32", 8, 8)}
    args = {"dst": "c", "pattern": [-1, 8], "channel_multiplier": 1, "on_true_tile": "a",
            "on_false_value": -9999.5}
    case(op, "causal mask", std, {**args, "cmp_op": "greater_equal"},
         expect={"c": np.where(keep, a, F32(-9999.5))},
         parts=[{"opcode": "AFFINE_SELECT", "unit": "GpSimd", "elements": 8}])
    case(op, "the default comparison is equal", std, {**args, "offset": 1},
         expect={"c": np.where(affine(8, [(-1, 8)], 1, 1) == 0, a, F32(-9999.5))})
    case(op, "another dtype", {**std, "c": out("bfloat16", 8, 8)}, {**args, "cmp_op": "less"},
         expect={"c": np.where(keep, F32(-9999.5), a).astype(ml_dtypes.bfloat16)})
    case(op, "selected int32 keep their bits", {"a": T("int32", np.full((8, 8), 2**24 + 1)),
                                                "c": out("int32", 8, 8)},
         {**args, "cmp_op": "not_equal", "on_false_value": 7},
         expect={"c": np.where(np.eye(8) == 0, 2**24 + 1, 7)})
    case(op, "element counts differ", std, {**args, "pattern": [-1, 7]}, error="pattern")
    case(op, "not a comparison", std, {**args, "cmp_op": "add"}, error="a comparison")
    case(op, "input in PSUM", {**std, "a": T("float32", a, space="psum")}, args,
         error="on_true_tile is in PSUM")
    case(op, "shapes differ", {**std, "c": out("float32", 8, 7)}, args, error="on_true_tile")


def max8():
    op = "max8"
    a = np.rint(tile(101, 4, 20, low=-9, high=9))
    want = -np.sort(-a, axis=1)[:, :8]
    case(op, "duplicates repeat", {"a": T("float32", a), "c": out("float32", 4, 8)},
         {"dst": "c", "src": "a"}, expect={"c": want}, parts=[{"opcode": "MAX8", "elements": 20}])
    case(op, "exactly eight, cast to bf16", {"a": T("float32", a[:, :8] + F32(0.01)),
                                             "c": out("bfloat16", 4, 8)}, {"dst": "c", "src": "a"},
         expect={"c": (-np.sort(-(a[:, :8] + F32(0.01)), axis=1)).astype(ml_dtypes.bfloat16)})
    case(op, "seven elements", {"a": out("float32", 4, 7), "c": out("float32", 4, 8)},
         {"dst": "c", "src": "a"}, error="8 to 16384")
    case(op, "16385 elements", {"a": out("float32", 4, 16385), "c": out("float32", 4, 8)},
         {"dst": "c", "src": "a"}, error="8 to 16384")
    case(op, "nine results", {"a": T("float32", a), "c": out("float32", 4, 9)},
         {"dst": "c", "src": "a"}, error="8 elements")


def nc_stream_shuffle():
    op = "nc_stream_shuffle"
    a = np.arange(64 * 2, dtype=F32).reshape(64, 2)
    mask = list(range(31, -1, -1))
    want = np.concatenate([a[:32][mask], a[32:][mask]])
    case(op, "two quadrants", {"a": T("float32", a), "c": out("float32", 64, 2)},
         {"dst": "c", "src": "a", "shuffle_mask": mask}, expect={"c": want},
         parts=[{"opcode": "STREAM_SHUFFLE", "elements": 2, "sbuf_read_bytes": 512,
                 "sbuf_write_bytes": 512}])
    case(op, "in place", {"a": T("float32", a)}, {"dst": "a", "src": "a", "shuffle_mask": mask},
         expect={"a": want})
    keep = [255 if i % 2 else i for i in range(32)]
    some = a[:32].astype(object)
    some[1::2] = None
    case(op, "255 keeps the destination", {"a": T("float32", a[:32]), "c": out("float32", 32, 2)},
         {"dst": "c", "src": "a", "shuffle_mask": keep}, expect={"c": some})
    case(op, "one partition to a quadrant", {"a": T("float32", a[:1]),
                                             "c": out("float32", 32, 2, partition=64)},
         {"dst": "c", "src": "a", "shuffle_mask": [0] * 32}, expect={"c": np.repeat(a[:1], 32, 0)})
    std = {"a": T("float32", a[:32]), "c": out("float32", 32, 2)}
    case(op, "31 entries", std, {"dst": "c", "src": "a", "shuffle_mask": mask[:31]},
         error="32 entries")
    case(op, "an entry of 32", std, {"dst": "c", "src": "a", "shuffle_mask": [32] * 32},
         error="0 to 31, or 255")
    case(op, "beyond the source", {"a": T("float32", a[:16]), "c": out("float32", 32, 2)},
         {"dst": "c", "src": "a", "shuffle_mask": mask}, error="within its 16 partitions")
    case(op, "dtypes differ", {**std, "c": out("bfloat16", 32, 2)},
         {"dst": "c", "src": "a", "shuffle_mask": mask}, error="src's dtype")
    case(op, "columns differ", {**std, "c": out("float32", 32, 3)},
         {"dst": "c", "src": "a", "shuffle_mask": mask}, error="elements per partition of src")
    case(op, "start partition of 64 active ones", {"a": T("float32", a),
                                                   "c": out("float32", 32, 2, partition=32)},
         {"dst": "c", "src": "a", "shuffle_mask": mask}, error="64 active partitions")


def tensor_partition_reduce():
    op = "tensor_partition_reduce"
    a = np.rint(tile(111, 5, 6, low=-99, high=99))
    args = {"dst": "c", "data": "a"}
    std = {"a": T("float32", a), "c": out("float32", 1, 6)}
    case(op, "add", std, {**args, "op": "add"}, expect={"c": a.sum(0)},
         parts=[{"opcode": "TENSOR_PARTITION_REDUCE", "unit": "GpSimd", "elements": 6}])
    case(op, "maximum", std, {**args, "op": "max"}, expect={"c": a.max(0)})
    case(op, "average", std, {**args, "op": "average"}, expect={"c": a.sum(0) / F32(5)})
    u = rng(112).integers(0, 256, (5, 6)).astype(np.uint8)
    bits = {"a": T("uint8", u), "c": out("uint8", 1, 6)}
    case(op, "bitwise_or", bits, {**args, "op": "bitwise_or"},
         expect={"c": np.bitwise_or.reduce(u, 0)})
    case(op, "bitwise_and", bits, {**args, "op": "bitwise_and"},
         expect={"c": np.bitwise_and.reduce(u, 0)})
    i = rng(113).integers(2**24, 2**25, (5, 6)).astype(np.int32)
    case(op, "int32 sums are exact", {"a": T("int32", i), "c": out("int32", 1, 6)},
         {**args, "op": "add"}, expect={"c": i.sum(0)})
    case(op, "an operator outside the list", std, {**args, "op": "min"}, error="bitwise_and")
    case(op, "in PSUM", {**std, "a": T("float32", a, space="psum")}, {**args, "op": "add"},
         error="data is in PSUM")
    case(op, "two result rows", {**std, "c": out("float32", 2, 6)}, {**args, "op": "add"},
         error="1 partition")
    case(op, "bitvec on floats", std, {**args, "op": "bitwise_or"}, error="an integer dtype")


def tensor_scalar_cumulative():
    op = "tensor_scalar_cumulative"
    a, v = tile(121, 4, 6), tile(122, 4, 1)

    def cumulate(f0, f1, start):
        reg, r = np.broadcast_to(np.asarray(start, F32).reshape(-1), 4), []
        for i in range(6):
            reg = f1(f0(a[:, i]), reg)
            r.append(reg)
        return np.stack(r, 1).astype(F32)

    std = {"a": T("float32", a), "v": T("float32", v), "c": out("float32", 4, 6)}
    args = {"dst": "c", "src": "a"}
    case(op, "cumulative sum of a product", std,
         {**args, "op0": "multiply", "op1": "add", "imm0": 0.5},
         expect={"c": cumulate(lambda x: x * F32(0.5), np.add, 0)},
         parts=[{"opcode": "TENSOR_SCALAR_CUMULATIVE", "elements": 6}])
    case(op, "subtract takes the register away", std,
         {**args, "op0": "add", "op1": "subtract", "imm0": "v"},
         expect={"c": cumulate(lambda x: x + v[:, 0], np.subtract, 0)})
    case(op, "minimum from plus infinity", std, {**args, "op0": "add", "op1": "min", "imm0": 0.0},
         expect={"c": np.minimum.accumulate(a, 1)})
    case(op, "load_reduce starts at imm1", std,
         {**args, "op0": "multiply", "op1": "max", "imm0": 1.0, "imm1": "v",
          "reduce_cmd": "load_reduce"}, expect={"c": cumulate(lambda x: x, np.maximum, v)})
    line = {"i": op, **args, "op0": "add", "op1": "add", "imm0": 0.0}
    full = np.cumsum(np.concatenate([a, a], 1), 1, dtype=F32)
    case(op, "reduce goes on where the last one stopped", {**std, "d": out("float32", 4, 6)},
         [line, {**line, "dst": "d", "reduce_cmd": "reduce"}],
         expect={"c": full[:, :6], "d": full[:, 6:]})
    case(op, "int32", {**std, "a": out("int32", 4, 6)},
         {**args, "op0": "add", "op1": "add", "imm0": 0.0}, error="src is int32")
    case(op, "other op1", std, {**args, "op0": "add", "op1": "equal", "imm0": 0.0},
         error="add, subtract, multiply, maximum or minimum")
    case(op, "load_reduce without imm1", std, {**args, "op0": "add", "op1": "add", "imm0": 0.0,
                                               "reduce_cmd": "load_reduce"}, error="imm1 is missing")
    case(op, "idle", std, {**args, "op0": "add", "op1": "add", "imm0": 0.0, "reduce_cmd": "idle"},
         error="reduce_cmd is idle")
    case(op, "bitvec op0", std, {**args, "op0": "bitwise_or", "op1": "add", "imm0": 0},
         error="an arithmetic operator")


def tensor_scalar_reduce():
    op = "tensor_scalar_reduce"
    a = np.rint(tile(131, 4, 6, low=-20, high=20))
    v = np.rint(tile(132, 4, 1, low=-20, high=20))
    std = {"a": T("float32", a), "v": T("float32", v), "c": out("float32", 4, 6),
           "r": out("float32", 4, 1)}
    args = {"dst": "c", "data": "a", "op0": "add", "operand0": "v"}
    case(op, "sum of a + v", std, {**args, "reduce_op": "add", "reduce_res": "r"},
         expect={"c": a + v, "r": (a + v).sum(1)},
         parts=[{"opcode": "TENSOR_SCALAR_REDUCE", "elements": 6, "sbuf_write_bytes": 96,
                 "has": ["reduce_add_max", "pointer"]},
                {"opcode": "READ_ACCUMULATOR", "elements": 1, "partitions": 4,
                 "sbuf_read_bytes": 0, "sbuf_write_bytes": 16, "operands": 32}])
    case(op, "negated maximum", std, {**args, "reduce_op": "max", "reduce_res": "r",
                                      "reduce_res_negate": True},
         expect={"r": -(a + v).max(1)})
    line = {"i": op, **args, "reduce_op": "add"}
    case(op, "kept in the accumulator, then read", std,
         [line, {**line, "op0": "multiply", "operand0": 2.0, "reduce_cmd": "reduce",
                 "reduce_res": "r"}], expect={"r": (a + v).sum(1) + (2 * a).sum(1)})
    case(op, "no read-out without reduce_res", std, line, parts=[{"opcode": "TENSOR_SCALAR_REDUCE"}])
    case(op, "load_reduce", std, {**args, "reduce_op": "min", "reduce_cmd": "load_reduce",
                                  "reduce_init": -5.0, "reduce_res": "r"},
         expect={"r": np.minimum((a + v).min(1), -5)})
    ones = {"a": T("float32", [[1, 1]]), "c": out("float32", 1, 2), "r": out("float32", 1, 1)}
    case(op, "reset_reduce forgets the last result", ones,
         [{"i": op, "dst": "c", "data": "a", "op0": "multiply", "operand0": 3.0,
           "reduce_op": "multiply", "reduce_res": "r"}] * 2, expect={"r": [9]})
    case(op, "load_reduce without reduce_init", std,
         {**args, "reduce_op": "add", "reduce_cmd": "load_reduce"}, error="reduce_init is missing")
    case(op, "reduce_init without load_reduce", std,
         {**args, "reduce_op": "add", "reduce_init": 1.0}, error="without reduce_cmd load_reduce")
    case(op, "reverse0", std, {**args, "reduce_op": "add", "reverse0": True}, error="not supported")
    case(op, "bitvec", std, {**args, "op0": "bitwise_and", "reduce_op": "add"},
         error="an arithmetic operator")
    case(op, "other reduction", std, {**args, "reduce_op": "subtract"},
         error="add, multiply, maximum or minimum")
    case(op, "result of two columns", {**std, "r": out("float32", 4, 2)},
         {**args, "reduce_op": "add", "reduce_res": "r"}, error="one column")
    case(op, "idle", std, {**args, "reduce_op": "add", "reduce_cmd": "idle"},
         error="reduce_cmd is idle")


def range_select():
    op = "range_select"
    low_fp32 = np.finfo(F32).min
    a = tile(141, 4, 8)
    b0, b1 = np.array([[10], [11], [12], [30]], F32), np.array([[14], [12], [99], [31]], F32)
    idx = 10 + np.arange(8)
    keep = (idx >= b0) & (idx < b1)
    sel = np.where(keep, a, low_fp32)
    std = {"a": T("float32", a), "l": T("float32", b0), "h": T("float32", b1),
           "c": out("float32", 4, 8), "r": out("float32", 4, 1)}
    args = {"dst": "c", "on_true_tile": "a", "comp_op0": "greater_equal", "comp_op1": "less",
            "bound0": "l", "bound1": "h", "range_start": 10}
    case(op, "a range per partition and its maximum", std, {**args, "reduce_res": "r"},
         expect={"c": sel, "r": sel.max(1)},
         parts=[{"opcode": "RANGE_SELECT", "elements": 8}, {"opcode": "READ_ACCUMULATOR"}])
    case(op, "the fill becomes -inf in bf16", {**std, "c": out("bfloat16", 4, 8)}, args,
         expect={"c": sel.astype(ml_dtypes.bfloat16)})
    line = {"i": op, **args}
    neg = {**std, "a": T("float32", -np.abs(a)), "d": T("float32", np.abs(a))}
    case(op, "reduce keeps the larger maximum", neg,
         [{**line, "on_true_tile": "d"}, {**line, "reduce_cmd": "reduce", "reduce_res": "r"}],
         expect={"r": np.where(keep, np.abs(a), low_fp32).max(1)})
    case(op, "reset_reduce forgets it", neg,
         [{**line, "on_true_tile": "d"}, {**line, "reduce_res": "r"}],
         expect={"r": np.where(keep, -np.abs(a), low_fp32).max(1)})
    case(op, "trn1", std, args, target="trn1", error="trn2 is the first target")
    case(op, "another fill", std, {**args, "on_false_value": 0.0}, error="FP32_MIN")
    case(op, "the documented fill", std, {**args, "on_false_value": -3.4028235e38},
         expect={"c": sel})
    case(op, "another reduction", std, {**args, "reduce_op": "add"}, error="reduce_op is add")
    case(op, "not_equal", std, {**args, "comp_op0": "not_equal"}, error="comp_op0 is not_equal")
    case(op, "integer tile", {**std, "a": out("int32", 4, 8)}, args, error="on_true_tile is int32")
    case(op, "bf16 bound", {**std, "l": out("bfloat16", 4, 1)}, args, error="bound0 is bfloat16")
    case(op, "bound of two columns", {**std, "h": out("float32", 4, 2)}, args, error="one column")
    case(op, "indices FP32 cannot count", std, {**args, "range_start": 2**24}, error="2^24")


def select_reduce():
    op = "select_reduce"
    a, v = tile(151, 4, 8), tile(152, 4, 1)
    p = rng(153).integers(0, 2, (4, 8)).astype(np.uint8)
    std = {"a": T("float32", a), "v": T("float32", v), "p": T("uint8", p),
           "c": out("float32", 4, 8), "r": out("float32", 4, 1)}
    args = {"dst": "c", "predicate": "p", "on_true": "a", "on_false": "v"}
    want = np.where(p != 0, a, v)
    case(op, "a value per partition, with the maximum", std,
         {**args, "reduce_cmd": "reset_reduce", "reduce_res": "r"},
         expect={"c": want, "r": want.max(1)},
         parts=[{"opcode": "SELECT_REDUCE", "elements": 8, "dtype": "float32"},
                {"opcode": "READ_ACCUMULATOR", "elements": 1}])
    case(op, "reversed, with a constant", std, {**args, "on_false": -7.0, "reverse_pred": True},
         expect={"c": np.where(p == 0, a, F32(-7))})
    case(op, "bf16 tile, int16 predicate", {**std, "a": T("bfloat16", a), "p": T("int16", -p.astype(np.int16))},
         {**args, "on_false": 0.0},
         expect={"c": np.where(p != 0, as_f32(a.astype(ml_dtypes.bfloat16)), 0)})
    case(op, "int32 tile", {**std, "a": out("int32", 4, 8)}, args, error="on_true is int32")
    case(op, "uint32 predicate", {**std, "p": out("uint32", 4, 8)}, args, error="predicate is uint32")
    case(op, "both in PSUM", {**std, "a": T("float32", a, space="psum"),
                              "p": T("uint8", p, space="psum")}, args, error="both in PSUM")
    case(op, "shapes differ", {**std, "p": out("uint8", 4, 7)}, args, error="the shape of on_true")
    case(op, "another reduction", std, {**args, "reduce_op": "add"}, error="reduce_op is add")
    case(op, "integer result", {**std, "r": out("int32", 4, 1)}, {**args, "reduce_res": "r"},
         error="reduce_res is int32")


def match8():
    d = np.array([[1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]], F32)
    vals = np.array([[3, 8, 8, 8, 8, 8, 8, 8]], F32)
    find, rep = "nc_find_index8", "nc_match_replace8"
    std = {"d": T("float32", d), "v": T("float32", vals), "c": out("uint32", 1, 8)}
    case(find, "duplicates take ascending positions", std, {"dst": "c", "data": "d", "vals": "v"},
         expect={"c": [2, 4, 5, 6, 7, 8, 9, 10]},
         parts=[{"opcode": "MATCH_VALUE_LOAD", "elements": 8, "sbuf_read_bytes": 32},
                {"opcode": "FIND_INDEX8", "elements": 11, "sbuf_read_bytes": 44,
                 "sbuf_write_bytes": 32}])
    missing = np.array([[3, 99, 1, 1, 4, np.nan, 2, 8]], F32)
    case(find, "absent values give all ones", {**std, "v": T("float32", missing),
                                               "c": out("uint16", 1, 8)},
         {"dst": "c", "data": "d", "vals": "v"},
         expect={"c": [2, 65535, 0, 65535, 3, 65535, 1, 4]})
    case(find, "seven elements", {**std, "d": out("float32", 1, 7)},
         {"dst": "c", "data": "d", "vals": "v"}, error="8 to 16384")
    case(find, "seven values", {**std, "v": out("float32", 1, 7)},
         {"dst": "c", "data": "d", "vals": "v"}, error="8 elements")
    case(find, "int32 result", {**std, "c": out("int32", 1, 8)},
         {"dst": "c", "data": "d", "vals": "v"}, error="dst is int32")
    case(find, "nine results", {**std, "c": out("uint32", 1, 9)},
         {"dst": "c", "data": "d", "vals": "v"}, error="8 elements")
    args = {"dst": "o", "data": "d", "vals": "v", "imm": -1.0}
    full = {"d": T("float32", d), "v": T("float32", vals), "o": out("float32", 1, 11),
            "x": out("uint32", 1, 8)}
    case(rep, "the documented example", full, {**args, "dst_idx": "x"},
         expect={"o": [[1, 2, -1, 4] + [-1] * 7], "x": [2, 10, 9, 8, 7, 6, 5, 4]},
         parts=[{"opcode": "MATCH_VALUE_LOAD"}, {"opcode": "MATCH_REPLACE8", "elements": 11}])
    case(rep, "absent values change nothing", {**full, "v": T("float32", missing)}, args,
         expect={"o": [[-1, -1, -1, -1, -1, 8, 8, 8, 8, 8, 8]]})
    case(rep, "seven values", {**full, "v": out("float32", 1, 7)}, args, error="8 elements")
    case(rep, "dtypes differ", {**full, "o": out("bfloat16", 1, 11)}, args, error="data's dtype")
    case(rep, "int32 positions", {**full, "x": out("int32", 1, 8)}, {**args, "dst_idx": "x"},
         error="dst_idx is int32")
    case(rep, "shapes differ", {**full, "o": out("float32", 1, 10)}, args, error="the shape of data")


def nonzero_with_count():
    op = "nonzero_with_count"
    row = np.array([0, 1, 1, 0, 0, 1, 0, 0])
    x = np.zeros((32, 8), np.int32)
    x[0], x[5], x[16] = row, 1, 0
    want = np.full((32, 9), None, object)
    want[0] = [17, 18, 21, -1, -1, -1, -1, -1, 3]
    want[16] = [-1] * 8 + [0]
    std = {"a": T("int32", x), "c": out("int32", 32, 9)}
    case(op, "the documented example; other partitions untouched", std,
         {"dst": "c", "src": "a", "index_offset": 16}, expect={"c": want},
         parts=[{"opcode": "NONZERO_WITH_COUNT", "unit": "GpSimd", "elements": 8, "partitions": 2,
                 "sbuf_read_bytes": 64, "sbuf_write_bytes": 72}])
    case(op, "all nonzero, in float32", {"a": T("float32", [[0.5, -2, 1, 7]]),
                                         "c": out("int32", 1, 5)},
         {"dst": "c", "src": "a", "padding_val": -9}, expect={"c": [0, 1, 2, 3, 4]})
    case(op, "trn1", std, {"dst": "c", "src": "a"}, target="trn1", error="trn2 is the first target")
    case(op, "bf16", {**std, "a": out("bfloat16", 32, 8)}, {"dst": "c", "src": "a"},
         error="src is bfloat16")
    case(op, "no room for the count", {**std, "c": out("int32", 32, 8)}, {"dst": "c", "src": "a"},
         error="9 elements")


def local_gather():
    op = "local_gather"
    src = rng(161).integers(0, 1000, (32, 24)).astype(np.int16)
    index = (rng(162).integers(0, 12, (32, 2)) * 2).astype(np.uint16)
    valid, width = 20, 2
    want = np.zeros((32, valid * width), np.int16)
    for core in (0, 16):
        flat = index[core:core + 16].flatten(order="F")[:valid]
        for k, i in enumerate(flat):
            want[core:core + 16, k * width:(k + 1) * width] = src[core:core + 16, i:i + width]
    std = {"s": T("int16", src), "i": T("uint16", index), "c": out("int16", 32, 40)}
    args = {"dst": "c", "src_buffer": "s", "index": "i", "num_elem_per_idx": 2}
    case(op, "two elements per index, not all indices valid", std, {**args, "num_valid_indices": 20},
         expect={"c": want}, parts=[{"opcode": "LOCAL_GATHER", "unit": "GpSimd", "elements": 40,
                                     "rows": 20, "columns": 2}])
    every = np.zeros((32, 32), np.int16)
    for core in (0, 16):
        flat = index[core:core + 16].flatten(order="F")
        every[core:core + 16] = src[core:core + 16][:, flat]
    case(op, "defaults", {**std, "c": out("int16", 32, 32)},
         {"dst": "c", "src_buffer": "s", "index": "i"}, expect={"c": every})
    case(op, "an index out of range", {**std, "i": T("uint16", index + 23)},
         {**args, "num_valid_indices": 20}, error="index 0 of partitions from 0")
    case(op, "17 partitions", {"s": out("int16", 17, 24), "i": out("uint16", 17, 2),
                               "c": out("int16", 17, 32)},
         {"dst": "c", "src_buffer": "s", "index": "i"}, error="a multiple of 16")
    case(op, "three elements per index", std, {**args, "num_elem_per_idx": 3},
         error="1, 2, 4, 8, 16 or 32")
    case(op, "too many valid indices", std, {**args, "num_valid_indices": 33}, error="1 to 32")
    case(op, "wrong result size", std, {**args, "num_valid_indices": 19}, error="38 elements")
    case(op, "int16 index", {**std, "i": out("int16", 32, 2)}, args, error="index is int16")
    case(op, "dtypes differ", {**std, "c": out("int32", 32, 40)}, {**args, "num_valid_indices": 20},
         error="src_buffer's dtype")
    case(op, "4097 indices", {"s": out("int16", 16, 24), "i": out("uint16", 16, 257),
                              "c": out("int16", 16, 4112)},
         {"dst": "c", "src_buffer": "s", "index": "i"}, error="at most 4096")


def nc_n_gather():
    op = "nc_n_gather"
    src = tile(171, 4, 12)
    index = rng(172).integers(0, 12, (4, 7)).astype(np.uint32)
    std = {"s": T("float32", src), "i": T("uint32", index), "c": out("float32", 4, 7)}
    args = {"dst": "c", "data": "s", "indices": "i"}
    case(op, "within each partition", std, args,
         expect={"c": np.take_along_axis(src, index.astype(np.int64), 1)},
         parts=[{"opcode": "N_GATHER", "unit": "GpSimd", "elements": 7}])
    case(op, "data of two dimensions is flattened", {**std, "s": T("float32", src.reshape(4, 3, 4))},
         args, expect={"c": np.take_along_axis(src, index.astype(np.int64), 1)})
    case(op, "one instruction per 512 indices", {"s": out("float32", 4, 12),
                                                 "i": out("uint32", 4, 1030),
                                                 "c": out("float32", 4, 1030)}, args,
         parts=[{"elements": 512}, {"elements": 512}, {"elements": 6, "sbuf_write_bytes": 96}])
    case(op, "an index out of range", {**std, "i": T("uint32", index + 6)}, args, error="0 to 11")
    case(op, "int32 indices", {**std, "i": out("int32", 4, 7)}, args, error="indices is int32")
    case(op, "dtypes differ", {**std, "c": out("bfloat16", 4, 7)}, args, error="data's dtype")
    case(op, "in PSUM", {**std, "s": out("float32", 4, 12, space="psum")}, args,
         error="data is in PSUM")
    case(op, "shapes differ", {**std, "c": out("float32", 4, 8)}, args, error="the shape of indices")


def topk():
    op = "topk"
    x = rng(181).permutation(32 * 3).reshape(32, 3).astype(ml_dtypes.bfloat16)
    n, k = 42, 5
    values, indices = np.zeros((32, k)), np.zeros((32, k), np.int64)
    for g in (0, 16):
        snake = as_f32(x[g:g + 16]).flatten(order="F")[:n]
        best = np.argsort(snake, kind="stable")[-k:]
        values[g:g + 16], indices[g:g + 16] = snake[best], best
    std = {"s": T("bfloat16", x), "v": out("bfloat16", 32, k), "i": out("uint32", 32, k)}
    args = {"val_dst": "v", "idx_dst": "i", "src": "s", "n": n}
    case(op, "ascending, per group of 16 partitions", std, args,
         expect={"v": values, "i": indices},
         parts=[{"opcode": "TOPK", "unit": "GpSimd", "elements": 42, "columns": 5}])
    same = {"s": T("bfloat16", np.zeros((16, 1))), "v": out("bfloat16", 16, 2),
            "i": out("uint32", 16, 2)}
    case(op, "among equals the lower positions", same, {**args, "n": 8},
         expect={"v": np.zeros((16, 2)), "i": np.tile([1, 0], (16, 1))})
    case(op, "17 partitions", {"s": out("bfloat16", 17, 3), "v": out("bfloat16", 17, k),
                               "i": out("uint32", 17, k)}, args, error="a multiple of 16")
    case(op, "n of 7", std, {**args, "n": 7}, error="8 to 65535")
    case(op, "n of 65536", std, {**args, "n": 65536}, error="8 to 65535")
    case(op, "too few columns", std, {**args, "n": 49}, error="4 columns or more")
    case(op, "K over n", {**std, "v": out("bfloat16", 32, 43), "i": out("uint32", 32, 43)}, args,
         error="at most n")
    case(op, "float32 source", {**std, "s": out("float32", 32, 3)}, args, error="src is float32")


def sequence_bounds():
    op = "sequence_bounds"
    ids = np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]])
    want = [[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]
    for dt in ("int32", "float32"):
        case(op, f"the documented example in {dt}", {"a": T(dt, ids), "c": out(dt, 1, 2, 9)},
             {"dst": "c", "segment_ids": "a"}, expect={"c": want},
             parts=[{"opcode": "SEQUENCE_BOUNDS", "unit": "GpSimd"}])
    case(op, "one element", {"a": T("int32", [[4]]), "c": out("int32", 1, 2, 1)},
         {"dst": "c", "segment_ids": "a"}, expect={"c": [0, 1]})
    case(op, "two partitions", {"a": out("int32", 2, 9), "c": out("int32", 2, 2, 9)},
         {"dst": "c", "segment_ids": "a"}, error="1 partition")
    case(op, "int16", {"a": out("int16", 1, 9), "c": out("int32", 1, 2, 9)},
         {"dst": "c", "segment_ids": "a"}, error="segment_ids is int16")
    case(op, "dtypes differ", {"a": T("int32", ids), "c": out("float32", 1, 2, 9)},
         {"dst": "c", "segment_ids": "a"}, error="segment_ids' dtype")
    case(op, "wrong result size", {"a": T("int32", ids), "c": out("int32", 1, 9)},
         {"dst": "c", "segment_ids": "a"}, error="2 x 9")


def xorwow(words, count):
    """Marsaglia's generator on one state of six words."""
    s = [int(w) for w in words]
    m = 2**32 - 1
    numbers = []
    for _ in range(count):
        t = s[0] ^ (s[0] >> 2)
        v = (s[4] ^ (s[4] << 4) ^ (t ^ (t << 1))) & m
        s = [s[1], s[2], s[3], s[4], v, (s[5] + 362437) & m]
        numbers.append((s[5] + v) & m)
    return numbers, s


def random():
    state = rng(191).integers(1, 2**32, (4, 6), dtype=np.uint64).astype(np.uint32)
    runs = [xorwow(row, 5) for row in state]
    bits = np.array([r[0] for r in runs], np.uint64)
    tensors = {"s": T("uint32", state), "c": out("uint32", 4, 5), "e": out("uint32", 4, 6)}
    program = [{"i": "rand_set_state", "src_seeds": "s"},
               {"i": "rng", "dst": "c", "engine": "gpsimd"},
               {"i": "rand_get_state", "dst": "e"}]
    after = np.array([r[1] for r in runs], np.uint64)
    case("rng", "XORWOW on GpSimd", tensors, program[:2], expect={"c": bits},
         parts=[{"opcode": "RNG", "unit": "GpSimd", "elements": 5, "dtype": "uint32"}])
    case("rng", "the low bits of narrow dtypes", {**tensors, "c": out("int8", 4, 5)}, program[:2],
         expect={"c": bits.astype(np.uint8).view(np.int8).reshape(4, 5)})
    case("rng", "floats", {"c": out("float32", 4, 5)}, {"dst": "c"}, error="dst is float32")
    case("rng", "GpSimd of trn1", {"c": out("uint32", 4, 5)}, {"dst": "c", "engine": "gpsimd"},
         target="trn1", error="gpsimd (trn2 and later)")
    case("rng", "PSUM on GpSimd", {"c": out("uint32", 4, 5, space="psum")},
         {"dst": "c", "engine": "gpsimd"}, error="GpSimd cannot reach")
    case("rand_set_state", "and read back at once", tensors, [program[0], program[2]],
         expect={"e": state}, parts=[{"opcode": "RAND_GET_STATE"}])
    case("rand_set_state", "five words", {"s": out("uint32", 4, 5)}, {"src_seeds": "s"},
         error="6 elements per partition on gpsimd")
    case("rand_set_state", "VectorE before trn3", {"s": out("uint32", 4, 24)},
         {"src_seeds": "s", "engine": "vector"}, error="vector (trn3 and later)")
    case("rand_set_state", "int32", {"s": out("int32", 4, 6)}, {"src_seeds": "s"},
         error="src_seeds is int32")
    case("rand_set_state", "trn1", {"s": out("uint32", 4, 6)}, {"src_seeds": "s"}, target="trn1",
         error="trn2 is the first target")
    case("rand_get_state", "the state after five numbers", tensors, program, expect={"e": after})
    case("rand_get_state", "seven words", {"e": out("uint32", 4, 7)}, {"dst": "e"},
         error="6 elements")
    case("rand_get_state", "trn1", {"e": out("uint32", 4, 6)}, {"dst": "e"}, target="trn1",
         error="trn2 is the first target")
    wide = rng(192).integers(1, 2**32, (2, 24), dtype=np.uint64).astype(np.uint32)
    words = np.zeros((2, 8), np.uint64)
    for r in range(2):
        for g in range(4):
            words[r, g::4] = xorwow(wide[r, 6 * g:6 * g + 6], 2)[0]
    u = (words >> np.uint64(8)).astype(F32) * F32(2**-24)
    vector = {"s": T("uint32", wide), "c": out("float32", 2, 8),
              "lo": T("float32", [[-1], [2]]), "e": out("uint32", 2, 24)}
    seed = {"i": "rand_set_state", "src_seeds": "s", "engine": "vector"}
    lo = np.array([[-1], [2]], F32)
    case("rand2", "uniform from four states per lane", vector,
         [seed, {"i": "rand2", "dst": "c", "min": "lo", "max": 3.0}], target="trn3",
         expect={"c": lo + (F32(3) - lo) * u}, parts=[{"opcode": "RAND2", "unit": "Vector"}])
    case("rand_get_state", "VectorE of trn3", vector,
         [seed, {"i": "rand_get_state", "dst": "e", "engine": "vector"}], target="trn3",
         expect={"e": wide})
    case("rand2", "rounded to bf16", {**vector, "c": out("bfloat16", 2, 8)},
         [seed, {"i": "rand2", "dst": "c", "min": 0.0, "max": 1.0}], target="trn3",
         expect={"c": u.astype(ml_dtypes.bfloat16)})
    case("rand2", "trn2", vector, {"dst": "c", "min": 0.0, "max": 1.0}, error="trn3 is the first")
    case("rand2", "min above max", vector, {"dst": "c", "min": 2.0, "max": 1.0}, target="trn3",
         error="a value above min")
    case("rand2", "min above max in a tile", vector,
         {"dst": "c", "min": "lo", "max": 1.0}, target="trn3", error="max of partition 1")
    seeds = {"s": T("uint32", [[1234]]), "c": out("uint32", 4, 5), "d": out("uint32", 4, 5)}
    twice = [{"i": "set_rng_seed", "src_seeds": "s"}, {"i": "rng", "dst": "c"}]
    copy = {"i": "tensor_tensor", "dst": "c", "data1": "c", "data2": "d", "op": "bitwise_xor"}
    case("set_rng_seed", "the same seed gives the same numbers", seeds,
         [twice[0], {"i": "rng", "dst": "d"}, *twice, copy], expect={"c": np.zeros((4, 5))})
    case("set_rng_seed", "two elements", {"s": out("uint32", 1, 2)}, {"src_seeds": "s"},
         error="one element")
    case("set_rng_seed", "16 bits", {"s": out("uint16", 1, 1)}, {"src_seeds": "s"},
         error="src_seeds is uint16")
    case("set_rng_seed", "HBM", {"s": out("uint32", 1, 1, space="hbm")}, {"src_seeds": "s"},
         error="src_seeds is in HBM")


def dropout():
    op = "dropout"
    a = tile(201, 4, 8)
    std = {"a": T("float32", a), "v": T("float32", [[0], [1], [0], [1]]), "c": out("float32", 4, 8)}
    args = {"dst": "c", "data": "a"}
    case(op, "probability 0 keeps, 1 drops, per partition", std, {**args, "prob": "v"},
         expect={"c": np.where([[1], [0], [1], [0]], a, 0)},
         parts=[{"opcode": "DROPOUT", "unit": "Vector", "elements": 8, "has": ["pointer"]}])
    case(op, "probability 1 of int32", {"a": T("int32", np.ones((4, 8))), "c": out("int32", 4, 8)},
         {**args, "prob": 1.0}, expect={"c": np.zeros((4, 8))})
    wide = rng(202).integers(1, 2**32, (2, 24), dtype=np.uint64).astype(np.uint32)
    words = np.zeros((2, 8), np.uint64)
    for r in range(2):
        for g in range(4):
            words[r, g::4] = xorwow(wide[r, 6 * g:6 * g + 6], 2)[0]
    u = (words >> np.uint64(8)).astype(F32) * F32(2**-24)
    case(op, "half of the elements, from the engine's generator",
         {"s": T("uint32", wide), "a": T("float32", a[:2]), "c": out("float32", 2, 8)},
         [{"i": "rand_set_state", "src_seeds": "s", "engine": "vector"},
          {"i": op, **args, "prob": 0.5}], target="trn3", expect={"c": np.where(u < 0.5, 0, a[:2])})
    case(op, "dtypes differ", {**std, "c": out("bfloat16", 4, 8)}, {**args, "prob": 0.5},
         error="data's dtype")
    case(op, "bf16 probability of int32 data", {"a": out("int32", 4, 8), "c": out("int32", 4, 8),
                                                "v": out("bfloat16", 4, 1)},
         {**args, "prob": "v"}, error="float32 for integer data")
    case(op, "integer probability", {**std, "v": out("int32", 4, 1)}, {**args, "prob": "v"},
         error="a float dtype")


def device_print():
    op = "device_print"
    std = {"a": T("float32", tile(211, 2, 3))}
    case(op, "no effect on the data", std, {"print_prefix": "x", "tensor": "a"},
         expect={"a": tile(211, 2, 3)}, parts=[{"opcode": "DEVICE_PRINT", "unit": "Sync"}])
    case(op, "PSUM", {"a": out("float32", 2, 3, space="psum")},
         {"print_prefix": "x", "tensor": "a"}, error="tensor is in PSUM")
    case(op, "without a prefix", std, {"tensor": "a"}, error="print_prefix is missing")


BUILDERS = (tensor_tensor, tensor_scalar, scalar_tensor_tensor, tensor_reduce, tensor_copy,
            legacy_copies, tensor_copy_predicated, tensor_tensor_scan, reciprocal, bn, memset,
            iota, affine_select, max8, nc_stream_shuffle, tensor_partition_reduce,
            tensor_scalar_cumulative, tensor_scalar_reduce, range_select, select_reduce,
            match8, nonzero_with_count, local_gather, nc_n_gather, topk, sequence_bounds,
            random, dropout, device_print)


def main(builders=BUILDERS):
    for build in builders:
        with np.errstate(all="ignore"):
            build()
    stale = []
    for op, cases in TABLES.items():
        text = "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n"
        path = OPS / f"{op}.cases.json"
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            path.write_text(text)
    print(f"{sum(len(c) for c in TABLES.values())} cases of {len(TABLES)} instructions; "
          f"{'stale' if '--check' in sys.argv else 'written'}: {len(stale)}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
