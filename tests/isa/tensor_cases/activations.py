"""Makes tests of activation instructions and the exponential, with expected values from NumPy."""
import numpy as np

from vector_cases.table import F32, T, cast, out, tile

from .table import case, hbm, psum

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
    parts = {"copy": ["no_bias"], "silu": ["silu"]}
    for name, fn in ACTS.items():
        case(op, name, std, {**args, "op": name}, expect={"y": fn(x.astype(np.float64))},
             rtol=1e-6, atol=1e-7, **({"parts": [{"has": parts[name]}]} if name in parts else {}))
    case(op, "scale and bias per partition", std,
         {**args, "op": "copy", "scale": "v", "bias": "w"}, expect={"y": x * v + w},
         parts=[{"opcode": "ACTIVATE", "unit": "Scalar", "elements": 9,
                 "has": ["pointer", "scale_tile"]}])
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
    on_gpsimd(op, std, args, np.maximum(x, 0))


def on_gpsimd(op, std, args, want):
    """The engine that SDK 2.33 adds: from trn3 on, without the registers of reductions and without PSUM."""
    there = {**args, "op": "relu", "engine": "gpsimd"}
    case(op, "on GpSimd", std, there, expect={"y": want}, target="trn3")
    if op == "activation":  # activate2 is on trn3 alone
        case(op, "on GpSimd of trn2", std, there, error="gpsimd (trn3 and later)")
    case(op, "a sum on GpSimd", std, {**there, "reduce_op": "add", "reduce_cmd": "reset_reduce"}, target="trn3",
         error="scalar, which has the registers")
    case(op, "a read-out on GpSimd", std, {**there, "reduce_op": "add", "reduce_res": "r"}, target="trn3",
         error="scalar, which has the registers")
    case(op, "PSUM on GpSimd", {**std, "y": psum("float32", *want.shape)}, there, target="trn3",
         error="which GpSimd cannot reach")


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
    case(op, "maximum", std, {**args, "reduce_op": "max", "reduce_res": "r"},
         error="add (of others: tensor_reduce")
    for target in ("trn1", "trn3"):
        case(op, f"maximum on {target}", std, {**args, "reduce_op": "max", "reduce_res": "r"}, target=target,
             error="add (of others: tensor_reduce")
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


ALL = [activation, activation_reduce, activate2, exponential]
