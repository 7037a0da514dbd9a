"""Makes tests of reductions, statistics and selections, with expected values from NumPy."""
import ml_dtypes
import numpy as np

from .table import F32, T, as_f32, case, out, rng, tile


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
    case(op, "average", a3, {**args, "op": "average", "axis": [3]}, error="can reduce")
    case(op, "bitvec on floats", a3, {**args, "op": "bitwise_or", "axis": [3]},
         error="an integer dtype")
    case(op, "negated bits", {"a": T("uint16", u), "c": out("uint16", 4, 1)},
         {**args, "op": "bitwise_or", "axis": [1], "negate": True}, error="negate is set")
    case(op, "rows differ", {**a3, "c": out("float32", 3, 6)}, {**args, "axis": [3]},
         error="4 partitions")


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
    case(op, "bitwise_xor", bits, {**args, "op": "bitwise_xor"},
         expect={"c": np.bitwise_xor.reduce(u, 0)})
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


ALL = [tensor_reduce, bn, tensor_partition_reduce, tensor_scalar_cumulative, tensor_scalar_reduce, range_select,
       select_reduce]
