#!/usr/bin/env python3
"""Writes the case tables of the tensor, scalar and DMA instructions.

    python3 tests/isa/make_tensor_dma_cases.py [--check]

Expected values come from NumPy and ml_dtypes alone. The format is described in
tests/src/cases_test.cpp, the helpers in make_vector_cases.py.
"""
import sys

import ml_dtypes
import numpy as np

import make_vector_cases as base
from make_vector_cases import DTYPES, F32, T, as_f32, cast, out, rng, tile

E4M3FN, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
DTYPES.update({"float8_e4m3fn": E4M3FN, "float8_e3m4": ml_dtypes.float8_e3m4,
               "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu, "tfloat32": np.float32})
PACKED = {"float8_e4m3fn_x4": E4M3FN, "float8_e5m2_x4": E5M2,
          "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn}


class X4(T):
    """A packed operand from its single values: four per element along the last axis."""

    def __init__(self, dtype, values):
        self.dtype, self.space, self.partition = dtype, "sbuf", 0
        self.values = np.asarray(values).astype(PACKED[dtype])
        self.shape = [*self.values.shape[:-1], self.values.shape[-1] // 4]


def case(op, title, tensors, program, keep=False, **rest):
    """As base.case; what is never run needs no values."""
    if "expect" not in rest and not keep:
        tensors = {n: T(t.dtype, shape=t.shape, space=t.space, partition=t.partition)
                   for n, t in tensors.items()}
    base.case(op, title, tensors, program, **rest)


def psum(dtype, *shape):
    return out(dtype, *shape, space="psum")


def hbm(dtype, values=None, shape=None):
    return T(dtype, values, shape, space="hbm")


def product(st, mv, start=None):
    """FP32, one k after the other, each product and each sum rounded once."""
    st, mv = as_f32(st), as_f32(mv)
    acc = np.zeros((st.shape[1], mv.shape[1]), F32)
    for k in range(st.shape[0]):
        acc = acc + st[k][:, None] * mv[k][None, :]
    return acc if start is None else start + acc


def tf32(x):
    u = np.asarray(x, F32).view(np.uint32).astype(np.uint64)
    return ((u + 0xfff + ((u >> 13) & 1)) & 0xffffe000).astype(np.uint32).view(F32)


def nc_matmul():
    op = "nc_matmul"
    args = {"dst": "d", "stationary": "s", "moving": "m"}

    def operands(dtype, k=40, m=6, n=12, to="float32", other=None):
        s, v = tile(301, k, m, dtype), tile(302, k, n, other or dtype)
        return s, v, {"s": T(dtype, s), "m": T(other or dtype, v), "d": psum(to, m, n)}

    for dtype, other in (("bfloat16", None), ("float16", None), ("float32", None),
                         ("float8_e4m3", "bfloat16"), ("float8_e5m2", "float8_e4m3")):
        s, v, std = operands(dtype, other=other)
        case(op, f"{dtype} by {other or dtype}", std, args, expect={"d": product(s, v)})
    s, v = tile(303, 40, 6), tile(304, 40, 12)
    case(op, "tfloat32 operands are rounded to 10 mantissa bits",
         {"s": T("tfloat32", s), "m": T("tfloat32", v), "d": psum("float32", 6, 12)}, args,
         expect={"d": product(tf32(s), tf32(v))})
    s, v, std = operands("bfloat16")
    twice = [{"i": op, **args}, {"i": op, **args, "accumulate": True}]
    case(op, "accumulates onto its own result", std, twice,
         expect={"d": product(s, v, product(s, v))})
    case(op, "full size", dict(zip("smd", (T("bfloat16", a := tile(305, 128, 128, "bfloat16")),
                                           T("bfloat16", b := tile(306, 128, 512, "bfloat16")),
                                           psum("float32", 128, 512)))), args,
         parts=[{"opcode": "LDWEIGHTS", "unit": "Tensor", "elements": 128, "rows": 128,
                 "columns": 128, "sbuf_read_bytes": 32768, "flops": 0},
                {"opcode": "MATMUL", "unit": "TensorMatrix", "elements": 512,
                 "flops": 2 * 128 * 128 * 512, "sbuf_read_bytes": 131072,
                 "psum_write_bytes": 262144, "psum_read_bytes": 0, "lacks": ["fp32", "transpose"]}])
    _, _, wide = operands("float32")
    case(op, "float32 takes two passes", wide, args,
         parts=[{"opcode": "LDWEIGHTS", "has": ["fp32", "fp32_low_pass"]},
                {"opcode": "MATMUL", "flops": 40 * 6 * 12},
                {"opcode": "LDWEIGHTS", "lacks": ["fp32_low_pass"]},
                {"opcode": "MATMUL", "flops": 40 * 6 * 12, "psum_read_bytes": 6 * 12 * 4}])
    case(op, "a 0/1 operand takes one float32 pass", wide, {**args, "is_moving_onezero": True},
         parts=[{"opcode": "LDWEIGHTS", "has": ["onezero"]}, {"opcode": "MATMUL"}])
    s8, v8 = tile(307, 16, 2 * 6, "float8_e4m3"), tile(308, 16, 2 * 10, "float8_e4m3")
    double = {"s": T("float8_e4m3", s8.reshape(16, 2, 6)), "m": T("float8_e4m3",
              v8.reshape(16, 2, 10)), "d": psum("float32", 6, 10)}
    case(op, "double_row contracts 2K rows", double, {**args, "perf_mode": "double_row"},
         expect={"d": product(s8.reshape(32, 6), v8.reshape(32, 10))},
         parts=[{"has": ["double_row", "fp8"]}, {"elements": 10, "flops": 2 * 32 * 6 * 10}])
    nan = np.array([[np.nan, 1, -np.inf], [2, -0.0, np.inf], [3, 4, 5]], F32)
    eye = np.eye(3, dtype=F32)
    trans = {"s": T("bfloat16", nan), "m": T("bfloat16", eye), "d": psum("bfloat16", 3, 3)}
    case(op, "transpose mode keeps NaN and infinity", trans, {**args, "is_transpose": True},
         expect={"d": nan.T}, parts=[{"has": ["transpose"]}, {"has": ["transpose"]}])
    case(op, "transpose mode on trn1 multiplies", {**trans, "d": psum("float32", 3, 3)},
         {**args, "is_transpose": True}, target="trn1", expect={"d": product(nan, eye)})
    perm = eye[[2, 0, 1]]
    case(op, "transpose mode selects rows", {**trans, "m": T("bfloat16", perm)},
         {**args, "is_transpose": True}, expect={"d": nan.T[:, np.argmax(perm, axis=0)]})
    x, y = tile(309, 8, 4, "bfloat16"), tile(310, 8, 6, "bfloat16")
    first = product(x, y).astype(ml_dtypes.bfloat16)
    case(op, "bfloat16 PSUM rounds every accumulation",
         {"s": T("bfloat16", x), "m": T("bfloat16", y), "d": psum("bfloat16", 4, 6)}, twice,
         target="trn3", expect={"d": (as_f32(first) + product(x, y)).astype(ml_dtypes.bfloat16)})
    index = rng(311).permutation(64)[:36].astype(np.uint32)
    grid = np.zeros((32, 2), np.uint32)
    for i, v in enumerate(index):
        grid[i % 32, i // 32] = v
    table = tile(312, 40, 64, "bfloat16")
    gathered = {"s": T("bfloat16", s), "m": T("bfloat16", table), "d": psum("float32", 6, 36),
                "ix": T("uint32", grid)}
    view = {"tensor": "m", "ap": [[1, 36]], "partitions": 40,
            "dynamic": [{"indirect": "ix", "group": 32}]}
    sb = tile(301, 40, 6, "bfloat16")
    case(op, "moving columns gathered through an index", {**gathered, "s": T("bfloat16", sb)},
         {**args, "moving": view}, target="trn3", expect={"d": product(sb, table[:, index])},
         parts=[{}, {"has": ["indirect", "dynamic"]}])
    case(op, "indirection before trn3", {**gathered, "s": T("bfloat16", sb)},
         {**args, "moving": view}, error="trn3")
    errors = [
        ("stationary in PSUM", {**std, "s": psum("bfloat16", 40, 6)}, {}, "stationary is in PSUM"),
        ("dst in SBUF", {**std, "d": out("float32", 6, 12)}, {}, "dst is in SBUF"),
        ("N over a bank", {**std, "m": out("bfloat16", 40, 513), "d": psum("float32", 6, 513)}, {},
         "at most 512 columns (N)"),
        ("M over the array", {**std, "s": out("bfloat16", 40, 129), "d": psum("float32", 128, 12)},
         {}, "at most 128 columns (M)"),
        ("K differs", {**std, "m": out("bfloat16", 39, 12)}, {}, "40 partitions"),
        ("dst of another shape", {**std, "d": psum("float32", 6, 11)}, {}, "[6 x 12]"),
        ("float32 with bfloat16", {**std, "m": out("float32", 40, 12)}, {}, "or neither"),
        ("integer operand", {**std, "m": out("int32", 40, 12)}, {}, "moving is int32"),
        ("bfloat16 dst before trn3", {**std, "d": psum("bfloat16", 6, 12)}, {}, "float32 on trn2"),
        ("fn before trn3", {**std, "m": out("float8_e4m3fn", 40, 12)}, {}, "trn3 is the first"),
        ("size without position", std, {"tile_size": [64, 128]}, "both or neither"),
        ("tile of 48", std, {"tile_size": [48, 128], "tile_position": [0, 0]}, "32, 64 or 128"),
        ("tile not aligned", std, {"tile_size": [64, 128], "tile_position": [32, 0]}, "multiple"),
        ("K over the tile", std, {"tile_size": [32, 128], "tile_position": [0, 0]},
         "at most 32 partitions (K)"),
        ("double_row on bfloat16", std, {"perf_mode": "double_row"}, "in double_row mode"),
        ("double_row transposed", double, {"perf_mode": "double_row", "is_transpose": True},
         "is_transpose"),
        ("double_row with column tiling", double,
         {"perf_mode": "double_row", "tile_size": [64, 64], "tile_position": [0, 0]},
         "column tiling"),
        ("accumulate onto nothing", std, {"accumulate": True}, "never written"),
        ("transpose with a full moving tile", {**std, "d": psum("bfloat16", 6, 12)},
         {"is_transpose": True}, "without a single 1"),
    ]
    for title, tensors, more, message in errors:
        case(op, title, tensors, {**args, **more}, keep="moving tile" in title, error=message)
    case(op, "double_row on trn1", double, {**args, "perf_mode": "double_row"}, target="trn1",
         error="trn2 is the first")
    case(op, "tiles of 32 on trn1", std,
         {**args, "tile_size": [32, 32], "tile_position": [0, 0]}, target="trn1",
         error="64 or 128 each on trn1")
    case(op, "e4m3 with e4m3fn on trn3",
         {"s": out("float8_e4m3", 8, 4), "m": out("float8_e4m3fn", 8, 4),
          "d": psum("float32", 4, 4)}, args, target="trn3", error="mix float8_e4m3")
    memset = {"i": "memset", "dst": "d", "value": 0.0}
    case(op, "accumulate onto a memset", std, [memset, {"i": op, **args, "accumulate": True}],
         error="another engine wrote last")
    case(op, "accumulate onto a memset on trn3", std,
         [memset, {"i": op, **args, "accumulate": True}], target="trn3",
         expect={"d": product(*operands("bfloat16")[:2])})


def nc_transpose():
    op = "nc_transpose"
    args = {"dst": "d", "data": "x"}
    x = tile(321, 64, 40, "bfloat16")
    x[3, 5], x[4, 6] = np.nan, np.inf
    std = {"x": T("bfloat16", x), "d": psum("bfloat16", 40, 64)}
    case(op, "tensor engine moves bits", std, args, expect={"d": x.T},
         parts=[{"opcode": "LDWEIGHTS", "elements": 40, "has": ["transpose"]},
                {"opcode": "MATMUL", "elements": 64, "flops": 2 * 64 * 40 * 64}])
    case(op, "trn1's tensor engine spreads NaN", std, args, target="trn1",
         expect={"d": product(x, np.eye(64)).astype(ml_dtypes.bfloat16)})
    i = rng(322).integers(-2**31, 2**31, (32, 17)).astype(np.int32)
    case(op, "vector engine", {"x": T("int32", i), "d": out("int32", 17, 32)}, args,
         expect={"d": i.T}, parts=[{"opcode": "TRANSPOSE", "unit": "Vector"}])
    case(op, "free dimensions are flattened",
         {"x": T("int32", i[:, :12].reshape(32, 3, 4)), "d": out("int32", 12, 32)}, args,
         expect={"d": i[:, :12].T})
    case(op, "over the vector engine", std, {**args, "engine": "vector"}, error="at most 32 x 32")
    case(op, "over the tensor engine", {"x": out("bfloat16", 64, 129), "d": psum("bfloat16", 128,
         64)}, args, error="at most 128 x 128")
    case(op, "another dtype", {**std, "d": psum("float32", 40, 64)}, args, error="dtype of data")
    case(op, "another shape", {**std, "d": psum("bfloat16", 64, 40)}, args, error="[40 x 64]")
    case(op, "tensor engine into SBUF", {**std, "d": out("bfloat16", 40, 64)}, args,
         error="PSUM for the tensor engine")
    case(op, "tensor engine from PSUM", {**std, "x": psum("bfloat16", 64, 40)}, args,
         error="SBUF for the tensor engine")


ACTS = {
    "copy": lambda x: x, "square": np.square, "abs": np.abs, "relu": lambda x: np.maximum(x, 0),
    "exp": np.exp, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)), "softplus": lambda x: np.logaddexp(0, x),
    "arctan": np.arctan, "sin": np.sin,
}


def activation():
    op = "activation"
    args = {"dst": "y", "data": "x"}
    x, v, w = tile(331, 4, 9, low=-1.5, high=1.5), tile(332, 4, 1), tile(333, 4, 1)
    std = {"x": T("float32", x), "v": T("float32", v), "w": T("float32", w),
           "y": out("float32", 4, 9), "r": out("float32", 4, 1)}
    for name, fn in ACTS.items():
        case(op, name, std, {**args, "op": name}, expect={"y": fn(x.astype(np.float64))},
             rtol=1e-6, atol=1e-7)
    case(op, "scale and bias per partition", std,
         {**args, "op": "copy", "scale": "v", "bias": "w"}, expect={"y": x * v + w},
         parts=[{"opcode": "ACTIVATE", "unit": "Scalar", "elements": 9, "has": ["pointer"]}])
    case(op, "constant bias", std, {**args, "op": "square", "scale": 2.0, "bias": 0.5},
         expect={"y": (x * F32(2) + F32(0.5)) ** 2})
    case(op, "exp(-inf) is 0, exp(0) is 1",
         {"x": T("float32", [[-np.inf, 0, np.inf]]), "y": out("float32", 1, 3)},
         {**args, "op": "exp"}, expect={"y": [0, 1, np.inf]})
    seq = np.zeros((4,), F32)
    for c in range(9):
        seq = seq + x[:, c]
    case(op, "reset_reduce, reduce and read out", std,
         [{"i": op, **args, "op": "copy", "reduce_cmd": "reset_reduce"},
          {"i": op, **args, "op": "abs"},
          {"i": op, **args, "op": "copy", "reduce_op": "add", "reduce_cmd": "reduce",
           "reduce_res": "r"}],
         expect={"y": x, "r": np.sum(np.hstack([x, x]).astype(np.float64), axis=1)}, rtol=2e-6,
         atol=2e-6, parts=[{"opcode": "ACTIVATE"}, {"opcode": "ACT_READ_ACCUMULATOR",
                                                    "sbuf_write_bytes": 16}])
    case(op, "one reduction in order", std,
         {**args, "op": "copy", "reduce_cmd": "reset_reduce", "reduce_res": "r"}, expect={"r": seq})
    case(op, "reset only", std, [{"i": op, **args, "op": "copy", "reduce_cmd": "reset_reduce"},
                                 {"i": op, **args, "op": "copy", "reduce_cmd": "reset",
                                  "reduce_res": "r"}], expect={"r": [0, 0, 0, 0]})
    case(op, "constant bias on trn1", std, {**args, "op": "copy", "bias": 0.5}, target="trn1",
         error="a tensor of one column on trn1")
    case(op, "reciprocal with bias on trn1", std, {**args, "op": "reciprocal", "bias": "v"},
         target="trn1", error="trn2 is the first")
    case(op, "bias of two columns", {**std, "w": out("float32", 4, 2)},
         {**args, "op": "copy", "bias": "w"}, error="one column")
    case(op, "bfloat16 scale", {**std, "v": out("bfloat16", 4, 1)},
         {**args, "op": "copy", "scale": "v"}, error="scale is bfloat16")
    case(op, "tfloat32 bias", {**std, "v": out("tfloat32", 4, 1)},
         {**args, "op": "copy", "bias": "v"}, error="bias is tfloat32")
    case(op, "reduction other than add", std, {**args, "op": "copy", "reduce_op": "max"},
         error="add is required")
    case(op, "load_reduce", std, {**args, "op": "copy", "reduce_cmd": "load_reduce"},
         error="load_reduce")
    case(op, "in HBM", {**std, "x": hbm("float32", x)}, {**args, "op": "copy"}, error="data is in HBM")


def activation_reduce():
    op = "activation_reduce"
    args = {"dst": "y", "data": "x", "op": "square"}
    x = tile(341, 4, 6)
    std = {"x": T("float32", x), "y": out("bfloat16", 4, 6), "r": out("float32", 4, 1)}
    seq = np.zeros((4,), F32)
    for c in range(6):
        seq = seq + x[:, c] * x[:, c]
    case(op, "sums before the cast to dst", std, {**args, "reduce_op": "add", "reduce_res": "r"},
         expect={"y": cast(x * x, "bfloat16"), "r": seq},
         parts=[{"opcode": "ACTIVATE", "elements": 6}, {"opcode": "ACT_READ_ACCUMULATOR"}])
    case(op, "maximum from trn2 on", std, {**args, "reduce_op": "max", "reduce_res": "r"},
         expect={"r": np.max(x * x, axis=1)})
    case(op, "maximum on trn1", std, {**args, "reduce_op": "max", "reduce_res": "r"}, target="trn1",
         error="add on trn1")
    case(op, "result of two columns", {**std, "r": out("float32", 4, 2)},
         {**args, "reduce_op": "add", "reduce_res": "r"}, error="reduce_res")


def activate2():
    op = "activate2"
    x, v = tile(351, 4, 6), tile(352, 4, 1)
    std = {"x": T("float32", x), "v": T("float32", v), "h": out("bfloat16", 4, 1),
           "y": out("float32", 4, 6), "r": out("float32", 4, 1)}
    args = {"dst": "y", "data": "x", "op": "copy", "imm0": 2.0, "imm1": "v"}
    v4 = {"target": "trn3"}
    for op0, op1, want in (("multiply", "add", x * 2 + v), ("multiply", "subtract", x * 2 - v),
                           ("multiply", "bypass", x * 2), ("add", "bypass", x + 2),
                           ("subtract", "bypass", x - 2), ("bypass", "bypass", x)):
        case(op, f"{op0}, {op1}", std, {**args, "op0": op0, "op1": op1}, expect={"y": want}, **v4)
    case(op, "both reversed", std, {**args, "op0": "multiply", "op1": "subtract", "reverse0": True,
                                    "reverse1": True}, expect={"y": v - x * 2}, **v4)
    byp = {**args, "op0": "bypass", "op1": "bypass"}
    case(op, "prelu with a slope per partition", std, {**byp, "op": "prelu", "relu_param": "v"},
         expect={"y": np.where(x >= 0, x, x * v)}, **v4)
    case(op, "abs_max of the rows", std,
         {**byp, "reduce_op": "abs_max", "reduce_cmd": "reset_reduce", "reduce_res": "r"},
         expect={"r": x[np.arange(4), np.argmax(np.abs(x), axis=1)]}, **v4)
    case(op, "minimum starts at its identity", std,
         {**byp, "reduce_op": "min", "reduce_cmd": "reset_reduce", "reduce_res": "r"},
         expect={"r": np.min(x, axis=1)},
         parts=[{"opcode": "ACTIVATE2"}, {"opcode": "ACT_READ_ACCUMULATOR"}], **v4)
    case(op, "before trn3", std, byp, error="trn3 is the first")
    for title, more, message in (
            ("an unlisted pair", {"op0": "add", "op1": "add"}, "(add, add)"),
            ("op1 without op0", {"op0": "bypass", "op1": "add"}, "without op0"),
            ("reverse0 without op0", {"reverse0": True}, "reverse0"),
            ("reverse1 without op1", {"reverse1": True}, "reverse1"),
            ("immediates of two dtypes", {"imm0": "h"}, "dtype of imm0"),
            ("product reduction", {"reduce_op": "multiply"}, "abs_max or abs_min"),
            ("reduction without operator", {"reduce_cmd": "reduce"}, "reduce_op is missing")):
        case(op, title, std, {**byp, **more}, error=message, **v4)


def exponential():
    op = "exponential"
    x, v = tile(361, 4, 6), np.full((4, 1), 4, F32)
    std = {"x": T("float32", x), "v": T("float32", v), "y": out("float32", 4, 6),
           "r": out("float32", 4, 1)}
    args = {"dst": "y", "src": "x"}
    v4 = {"target": "trn3"}
    want = np.exp((x - v).astype(np.float64))
    case(op, "subtracts the maximum and sums", std,
         {**args, "max_value": "v", "reduce_cmd": "reset_reduce", "reduce_res": "r"},
         expect={"y": want, "r": want.sum(axis=1)}, rtol=1e-6,
         parts=[{"opcode": "EXPONENTIAL", "elements": 6}, {"opcode": "READ_ACCUMULATOR"}], **v4)
    case(op, "load_reduce starts at reduce_init", std,
         {**args, "max_value": 4.0, "reduce_cmd": "load_reduce", "reduce_init": 3.0,
          "reduce_res": "r"}, expect={"r": 3 + want.sum(axis=1)}, rtol=1e-6, **v4)
    case(op, "exp(-inf) is 0", {"x": T("float32", [[-np.inf, 0]]), "y": out("float32", 1, 2)}, args,
         expect={"y": [0, 1]}, **v4)
    case(op, "before trn3", std, args, error="trn3 is the first")
    case(op, "init without load_reduce", std, {**args, "reduce_init": 1.0},
         error="without load_reduce", **v4)
    case(op, "uint32 dst", {**std, "y": out("uint32", 4, 6)}, args, error="dst is uint32", **v4)


def dma_copy():
    op = "dma_copy"
    args = {"dst": "d", "src": "s"}
    x = tile(371, 6, 8)
    std = {"s": hbm("float32", x), "d": out("float32", 6, 8, partition=5)}
    case(op, "HBM to SBUF, any start partition", std, args, expect={"d": x},
         parts=[{"opcode": "DMA_DIRECT2D", "unit": "Sync", "elements": 6}])
    case(op, "SBUF to SBUF", {**std, "s": T("float32", x)}, args, expect={"d": x})
    case(op, "rearranged by patterns", {**std, "d": out("float32", 8, 6)},
         {**args, "src": {"tensor": "s", "ap": [[1, 8], [8, 6]]}}, expect={"d": x.T})
    for dtype in ("bfloat16", "float8_e4m3", "int8", "int32"):
        case(op, f"cast to {dtype}", {**std, "d": out(dtype, 6, 8)}, args,
             expect={"d": cast(x * 1, dtype)}, parts=[{"unit": "GpSimd"}])
    case(op, "static on trn1", std, args, target="trn1", expect={"d": x},
         parts=[{"opcode": "PSEUDO_DMA_TRIGGER", "unit": "Sync"}])
    idx = np.array([[5], [0], [3]], np.int32)
    some = {**std, "d": T("float32", np.full((3, 8), -1, F32)), "i": T("int32", idx)}

    def rows(tensor, limit=None):
        d = {"vector": "i", "stride": 8}
        if limit:
            d["limit"] = limit
        return {"tensor": tensor, "ap": [[8, 3], [1, 8]], "dynamic": [d]}

    case(op, "gathers rows", some, {**args, "src": rows("s")}, expect={"d": x[idx[:, 0]]},
         parts=[{"unit": "GpSimd", "has": ["indirect", "dynamic"]}])
    late = {**some, "i": T("int32", [[5], [6], [3]])}
    want = x[[5, 0, 3]]
    want[1] = -1
    case(op, "skips a row out of range", late, {**args, "src": rows("s"), "oob_mode": "skip"},
         expect={"d": want})
    case(op, "reports a row out of range", late, {**args, "src": rows("s", 6)}, keep=True,
         error="index 1")
    into = np.zeros((6, 8), F32)
    into[idx[:, 0]] = x[:3]
    put = {"s": T("float32", x[:3]), "d": hbm("float32", np.zeros((6, 8))), "i": T("int32", idx)}
    case(op, "scatters rows", put, {**args, "dst": rows("d")}, expect={"d": into})
    errors = [
        ("from PSUM", {**std, "s": psum("float32", 6, 8)}, {}, "src is in PSUM"),
        ("another element count", {**std, "d": out("float32", 6, 7)}, {}, "48 elements"),
        ("hwdge cast", {**std, "d": out("bfloat16", 6, 8)}, {"dge_mode": "hwdge"}, "cannot cast"),
        ("hwdge gather", some, {"src": rows("s"), "dge_mode": "hwdge"}, "vector_offset"),
        ("hwdge on gpsimd", std, {"dge_mode": "hwdge", "engine": "gpsimd"}, "sync or scalar"),
        ("static gather", some, {"src": rows("s"), "dge_mode": "none"}, "only at run time"),
        ("trigger on vector", std, {"engine": "vector"}, "sync, scalar, gpsimd"),
        ("priority before trn3", std, {"priority": 1}, "trn3 is the first"),
        ("cast of packed values", {**std, "d": out("float8_e5m2_x4", 6, 8)}, {}, "MX types"),
    ]
    for title, tensors, more, message in errors:
        case(op, title, tensors, {**args, **more}, error=message)
    case(op, "hwdge on trn1", std, {**args, "dge_mode": "hwdge"}, target="trn1",
         error="trn2 is the first")


def dma_transpose():
    op = "dma_transpose"
    args = {"dst": "d", "src": "s"}
    for axes in ((1, 0), (2, 1, 0), (3, 1, 2, 0)):
        shape = (16, 4, 3, 8)[:len(axes) - 1] + (8,)
        x = rng(381).integers(0, 65536, shape).astype(np.uint16)
        y = np.transpose(x, axes)
        case(op, f"axes {axes}", {"s": hbm("uint16", x), "d": out("uint16", *y.shape)},
             {**args, "axes": list(axes)}, expect={"d": y}, parts=[{"has": ["transpose"]}])
    x = rng(382).integers(0, 2**32, (16, 8), dtype=np.uint64).astype(np.uint32)
    case(op, "4-byte elements from SBUF", {"s": T("uint32", x), "d": out("uint32", 8, 16)}, args,
         expect={"d": x.T})
    table = rng(383).integers(0, 65536, (40, 8)).astype(np.uint16)
    idx = rng(384).integers(0, 40, (16, 1)).astype(np.uint32)
    std = {"s": hbm("uint16", table), "i": T("uint32", idx), "d": out("uint16", 8, 16)}
    view = {"tensor": "s", "ap": [[8, 16], [1, 8]], "dynamic": [{"vector": "i", "stride": 8}]}
    case(op, "gathers rows first", std, {**args, "src": view}, expect={"d": table[idx[:, 0]].T},
         parts=[{"unit": "GpSimd", "has": ["indirect"]}])
    direct = {**args, "src": {"tensor": "s", "ap": [[8, 16], [1, 8]]}}
    errors = [
        ("other axes", {**direct, "axes": [0, 1]}, {}, "(1, 0) for 2 dimensions"),
        ("another shape", {**direct, "src": "s"}, {}, "(8, 40) is required"),
        ("another dtype", direct, {"d": out("uint32", 8, 16)}, "dtype of src"),
        ("software descriptors without gather", {**direct, "dge_mode": "swdge"}, {},
         "unknown, hwdge or none"),
        ("hardware descriptors with gather", {**args, "src": view, "dge_mode": "hwdge"}, {},
         "unknown or swdge"),
        ("signed indices", {**args, "src": view}, {"i": out("int32", 16, 1)}, "uint32"),
        ("skip without dynamic address", {**direct, "oob_mode": "skip"}, {}, "oob_mode skip"),
    ]
    for title, program, more, message in errors:
        case(op, title, {**std, **more}, program, error=message)
    case(op, "hwdge needs 16 rows", std,
         {**direct, "src": {"tensor": "s", "ap": [[8, 8], [1, 8]]}, "dst": "d[:, 0:8]",
          "dge_mode": "hwdge"}, error="a first dimension of 16 for hwdge")
    case(op, "gather on trn1", std, {**args, "src": view}, target="trn1", error="trn2 is the first")


def dma_compute():
    op = "dma_compute"
    a, b = tile(391, 4, 6, "bfloat16"), tile(392, 4, 6)
    std = {"a": hbm("bfloat16", a), "b": T("float32", b), "d": hbm("float32", shape=(4, 6))}
    args = {"dst": "d", "srcs": ["a", "b", "a"], "reduce_op": "add"}
    case(op, "adds in FP32 in order", std, args, expect={"d": as_f32(a) + b + as_f32(a)})
    case(op, "casts the sum", {**std, "d": out("int16", 4, 6)}, args,
         expect={"d": cast(as_f32(a) + b + as_f32(a), "int16")})
    idx = np.array([[3], [1]], np.uint32)
    table = tile(393, 4, 6)
    rmw = {"t": hbm("float32", table), "i": T("uint32", idx), "x": T("float32", b[:2])}
    view = {"tensor": "t", "ap": [[6, 2], [1, 6]], "dynamic": [{"vector": "i", "stride": 6}]}
    after = table.copy()
    after[idx[:, 0]] += b[:2]
    scatter = {"dst": view, "srcs": [view, "x"], "reduce_op": "add"}
    case(op, "adds to scattered rows", rmw, scatter, expect={"t": after},
         parts=[{"unit": "GpSimd", "has": ["indirect"]}])
    case(op, "adds gathered rows", rmw, {"dst": "x", "srcs": ["x", view], "reduce_op": "add"},
         expect={"x": b[:2] + table[idx[:, 0]]})
    for title, tensors, program, message in (
            ("17 sources", std, {**args, "srcs": ["a"] * 17}, "1 to 16 sources"),
            ("another operator", std, {**args, "reduce_op": "max"}, "add is required"),
            ("a scale of 2", std, {**args, "scales": [1, 2, 1]}, "all 1"),
            ("repeated indices", rmw, {**scatter, "unique_indices": False}, "true is required"),
            ("three sources with gather", rmw, {**scatter, "srcs": [view, "x", "x"]},
             "exactly 2 sources"),
            ("another element count", {**std, "d": hbm("float32", shape=(4, 5))}, args,
             "20 elements")):
        case(op, title, tensors, program, error=message)


def quantize(x, dtype, emax):
    """Values and scale bytes [P/8, F/4] by the documented rule."""
    p, f = x.shape
    g = as_f32(x).astype(np.float64).reshape(p // 8, 8, f // 4, 4)
    top = np.abs(g).max(axis=(1, 3))
    e = np.where(top > 0, np.floor(np.log2(np.where(top > 0, top, 1))) - (emax - 1), -127)
    e = np.maximum(e, -127)
    q = (g / 2.0 ** e[:, None, :, None]).reshape(p, f).astype(F32).astype(dtype)
    return q, (e + 127).astype(np.uint8)


def quantize_mx():
    op = "quantize_mx"
    args = {"dst": "d", "src": "x", "dst_scale": "s"}
    v4 = {"target": "trn3"}
    for dtype, emax in (("float8_e4m3fn_x4", 8), ("float8_e5m2_x4", 15)):
        x = (tile(401, 64, 16) * 2.0 ** rng(402).integers(-20, 20, (64, 16))).astype(
            ml_dtypes.bfloat16)
        x[:8, :4] = 0
        q, s = quantize(x, PACKED[dtype], emax)
        rows = [[None] * 4] * 64
        for g in range(8):
            rows[g // 4 * 32 + g % 4] = list(s[g])
        case(op, dtype, {"x": T("bfloat16", x), "d": out(dtype, 64, 4), "s": out("uint8", 64, 4)},
             args, expect={"d": q, "s": rows},
             parts=[{"opcode": "QUANTIZE_MX", "elements": 16, "has": ["mx"]}], **v4)
    x = tile(403, 32, 8, "float16")
    q, s = quantize(x, E4M3FN, 8)
    std = {"x": T("float16", x), "d": out("float8_e4m3fn_x4", 32, 2), "s": out("uint8", 4, 2)}
    case(op, "one quadrant with packed scales", std, args, expect={"d": q, "s": s}, **v4)
    case(op, "before trn3", std, args, error="trn3 is the first")
    case(op, "16 partitions", {**std, "x": out("float16", 16, 8), "d": out("float8_e4m3fn_x4", 16,
         2)}, args, error="a multiple of 32", **v4)
    case(op, "6 columns", {**std, "x": out("float16", 32, 6)}, args, error="a multiple of 4", **v4)
    case(op, "source in PSUM", {**std, "x": psum("float16", 32, 8)}, args, error="in PSUM", **v4)
    case(op, "float32 source", {**std, "x": out("float32", 32, 8)}, args, error="src is float32",
         **v4)


def nc_matmul_mx():
    op = "nc_matmul_mx"
    args = {"dst": "d", "stationary": "s", "moving": "m", "stationary_scale": "ss",
            "moving_scale": "ms"}
    v4 = {"target": "trn3"}

    def side(seed, cols, dtype):
        x = tile(seed, 64, cols * 4).astype(PACKED[dtype])
        e = rng(seed + 1).integers(120, 134, (8, cols)).astype(np.uint8)
        rows = np.full((64, cols), 127, np.uint8)
        for g in range(8):
            rows[g // 4 * 32 + g % 4] = e[g]
        factor = np.repeat(2.0 ** (e.astype(np.float64) - 127), 8, axis=0)[:, :, None]
        flat = (as_f32(x).reshape(64, cols, 4) * factor).astype(F32)
        return x, rows, flat.transpose(0, 2, 1).reshape(256, cols)

    for a, b in (("float8_e4m3fn_x4", "float8_e4m3fn_x4"), ("float8_e5m2_x4", "float4_e2m1fn_x4")):
        s, ss, sf = side(411, 6, a)
        m, ms, mf = side(413, 10, b)
        std = {"s": X4(a, s), "m": X4(b, m), "ss": T("uint8", ss), "ms": T("uint8", ms),
               "d": psum("float32", 6, 10)}
        case(op, f"{a} by {b}", std, args, expect={"d": product(sf, mf)},
             parts=[{"opcode": "LDWEIGHTS", "has": ["mx"]},
                    {"opcode": "MATMUL_MX", "elements": 10, "flops": 2 * 256 * 6 * 10}], **v4)
    case(op, "accumulates", std, [{"i": op, **args}, {"i": op, **args, "accumulate": True}],
         expect={"d": product(sf, mf, product(sf, mf))}, **v4)
    case(op, "before trn3", std, args, error="trn3 is the first")
    for title, more, extra, message in (
            ("K of 40", {"s": out("float8_e5m2_x4", 40, 6), "m": out("float8_e5m2_x4", 40, 10)}, {},
             "a multiple of 32 partitions (K)"),
            ("odd M", {"s": out("float8_e5m2_x4", 64, 5), "d": psum("float32", 5, 10)}, {}, "even"),
            ("too few scale partitions", {"ss": out("uint8", 8, 6)}, {}, "36 to 64 partitions"),
            ("column tiling", {}, {"tile_size": [64, 64], "tile_position": [0, 0]},
             "row tiling only")):
        case(op, title, {**std, **more}, {**args, **extra}, error=message, **v4)


def cores():
    data = {"x": hbm("float32", shape=(4,))}
    case("core_barrier", "no effect on one core", {"x": hbm("float32", [1, 2, 3, 4])},
         {"data": "x", "cores": [0, 1]}, expect={"x": [1, 2, 3, 4]},
         parts=[{"opcode": "PSEUDO_CORE_BARRIER", "unit": "GpSimd"}])
    case("core_barrier", "on another engine", data, {"data": "x", "cores": [0, 1], "engine": "sync"},
         parts=[{"unit": "Sync"}])
    case("core_barrier", "other cores", data, {"data": "x", "cores": [0, 2]}, error="(0, 1)")
    case("core_barrier", "on trn1", data, {"data": "x", "cores": [0, 1]}, target="trn1",
         error="trn2 is the first")
    case("core_barrier", "data in SBUF", {"x": out("float32", 1, 4)},
         {"data": "x", "cores": [0, 1]}, error="data is in SBUF")
    op = "sendrecv"
    x = tile(421, 4, 6)
    std = {"x": T("float32", x), "y": out("float32", 4, 6)}
    args = {"src": "x", "dst": "y", "send_to_rank": 1, "recv_from_rank": 1, "pipe_id": 0}
    case(op, "one core receives what it sends", std, args, expect={"y": x},
         parts=[{"opcode": "SENDRECV"}])
    case(op, "GpSimd's own DMA", std, {**args, "dma_engine": "gpsimd_dma"}, expect={"y": x},
         parts=[{"unit": "GpSimd"}])
    for title, more, extra, message in (
            ("rank 2", {}, {"send_to_rank": 2}, "0 or 1"),
            ("another dtype", {"y": out("int32", 4, 6)}, {}, "dtype of src"),
            ("another shape", {"y": out("float32", 4, 5)}, {}, "shape of src"),
            ("in HBM", {"y": hbm("float32", shape=(4, 6))}, {}, "dst is in HBM"),
            ("too large for GpSimd", {"x": out("float32", 4, 257), "y": out("float32", 4, 257)},
             {"dma_engine": "gpsimd_dma"}, "at most 1024 bytes")):
        case(op, title, {**std, **more}, {**args, **extra}, error=message)
    case(op, "on trn1", std, args, target="trn1", error="trn2 is the first")


if __name__ == "__main__":
    sys.exit(base.main((nc_matmul, nc_transpose, activation, activation_reduce, activate2,
                        exponential, dma_copy, dma_transpose, dma_compute, quantize_mx,
                        nc_matmul_mx, cores)))
