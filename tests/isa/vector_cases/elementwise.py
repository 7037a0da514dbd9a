"""Makes tests of element-wise instructions, with expected values from NumPy."""
import ml_dtypes
import numpy as np

from .table import F32, DTYPES, T, as_f32, case, cast, out, rng, tile


def two_tiles():
    """Two tiles, their tensors with a result, and the arguments of tensor_tensor."""
    a, b = tile(1, 4, 8), tile(2, 4, 8)
    std = {"a": T("float32", a), "b": T("float32", b), "c": out("float32", 4, 8)}
    return a, b, std, {"dst": "c", "data1": "a", "data2": "b"}


def sums_of_tiles():
    op, (a, b, std, args) = "tensor_tensor", two_tiles()
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


def words_of_tiles():
    op, (_a, _b, _std, args) = "tensor_tensor", two_tiles()
    i = rng(5).integers(-2**31, 2**31, (4, 8)).astype(np.int32)
    j = rng(6).integers(-2**31, 2**31, (4, 8)).astype(np.int32)
    words = {"a": T("int32", i), "b": T("int32", j), "c": out("int32", 4, 8)}
    with np.errstate(over="ignore"):
        case(op, "int32 add is exact and wraps, on GpSimd by default", words, {**args, "op": "add"},
             expect={"c": i + j}, parts=[{"unit": "GpSimd"}])
        case(op, "int32 multiply is exact and wraps", words, {**args, "op": "multiply"},
             expect={"c": i * j})
    edges = np.array([2**24 + 1, 2**24, 2**30 + 1, 2**31 - 1, -2**31, -1, 0, 7], np.int64)
    near = np.array([2**24, 2**24 + 1, 2**30, 2**31 - 2, -2**31 + 1, 0, 0, -7], np.int64)
    functions = {"maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal,
                 "greater": np.greater, "greater_equal": np.greater_equal, "less": np.less,
                 "less_equal": np.less_equal, "logical_and": np.logical_and, "logical_xor": np.logical_xor}
    for dt in ("int32", "uint32"):
        x, y = (v.astype(DTYPES[dt])[None, :] for v in (edges, near))
        for name, fn in functions.items():
            case(op, f"{name} of {dt} sees all 32 bits, on GpSimd by default",
                 {"a": T(dt, x), "b": T(dt, y), "c": out(dt, 1, 8)}, {**args, "op": name},
                 expect={"c": fn(x, y).astype(DTYPES[dt])}, parts=[{"unit": "GpSimd"}])
    case(op, "int32 and uint32 are compared by their values",
         {"a": T("int32", edges.astype(np.int32)[None, :]), "b": T("uint32", near.astype(np.uint32)[None, :]),
          "c": out("int32", 1, 8)}, {**args, "op": "less"},
         expect={"c": (edges < near.astype(np.uint32).astype(np.int64)).astype(np.int32)[None, :]})
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
    case(op, "arithmetic right shift",
         {"a": T("int16", u16.view(np.int16)), "b": T("uint16", s16), "c": out("int16", 4, 8)},
         {**args, "op": "arith_shift_right"}, error="which no instruction has; right_shift")


def operators_of_tiles():
    op, (a, b, std, args) = "tensor_tensor", two_tiles()
    i = rng(5).integers(-2**31, 2**31, (4, 8)).astype(np.int32)
    j = rng(6).integers(-2**31, 2**31, (4, 8)).astype(np.int32)
    for absent, instead in (("divide", "the reciprocal and multiply is required"),
                            ("mod", "a sequence of other operators is required"),
                            ("fmod", "a sequence of other operators is required"),
                            ("average", "tensor_partition_reduce has it")):
        case(op, absent, std, {**args, "op": absent}, error=instead)
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


def refused_pairs():
    op, (a, b, std, args) = "tensor_tensor", two_tiles()
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
         expect={"c": np.full((4, 8), None)})


def tensor_tensor():
    sums_of_tiles()
    words_of_tiles()
    operators_of_tiles()
    refused_pairs()


def tile_and_column():
    """A tile, a column, their tensors with a result, and the arguments of tensor_scalar."""
    a, v = tile(11, 4, 8), tile(12, 4, 1)
    std = {"a": T("float32", a), "v": T("float32", v), "c": out("float32", 4, 8)}
    return a, v, std, {"dst": "c", "data": "a"}


def random_bits():
    """Words and a mask per partition, and their tensors with a result."""
    u = rng(13).integers(0, 2**32, (4, 8), dtype=np.uint64).astype(np.uint32)
    m = rng(14).integers(0, 2**32, (4, 1), dtype=np.uint64).astype(np.uint32)
    return u, m, {"a": T("uint32", u), "m": T("uint32", m), "c": out("uint32", 4, 8)}


def sums_with_numbers():
    op, (a, v, std, args) = "tensor_scalar", tile_and_column()
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
        case(op, f"unary {name}", std, {**args, "op0": name, "operand0": 0}, expect={"c": fn(a)},
             target="trn2" if name == "abs" else "trn3")
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


def words_with_numbers():
    op, (_a, _v, std, args) = "tensor_scalar", tile_and_column()
    u, m, bits = random_bits()
    case(op, "mask and shift bits", bits,
         {**args, "op0": "bitwise_and", "operand0": "m", "op1": "right_shift", "operand1": 3},
         expect={"c": (u & m) >> 3})
    case(op, "invert", bits, {**args, "op0": "invert"}, expect={"c": ~u})
    i8 = np.arange(-16, 16, dtype=np.int8).reshape(4, 8)
    case(op, "logical right shift of int8", {"a": T("int8", i8), "c": out("int8", 4, 8)},
         {**args, "op0": "right_shift", "operand0": 1},
         expect={"c": (i8.view(np.uint8) >> 1).view(np.int8)})
    case(op, "arithmetic right shift", {"a": T("int8", i8), "c": out("int8", 4, 8)},
         {**args, "op0": "arith_shift_right", "operand0": 2}, error="which no instruction has")
    case(op, "divide", std, {**args, "op0": "divide", "operand0": 2.0},
         error="which no instruction has")
    case(op, "average as op1", std,
         {**args, "op0": "add", "operand0": 2.0, "op1": "average", "operand1": 2.0},
         error="tensor_partition_reduce has it")
    i32 = rng(15).integers(-2**31, 2**31, (4, 8)).astype(np.int32)
    case(op, "int32 with a constant goes through FP32", {"a": T("int32", i32),
                                                         "c": out("int32", 4, 8)},
         {**args, "op0": "add", "operand0": 1}, expect={"c": cast(as_f32(i32) + F32(1), "int32")})
    step = rng(16).integers(0, 1000, (4, 1)).astype(np.int32)
    with np.errstate(over="ignore"):
        case(op, "int32 with an int32 tile is exact", {"a": T("int32", i32), "s": T("int32", step),
                                                       "c": out("int32", 4, 8)},
             {**args, "op0": "add", "operand0": "s"}, expect={"c": i32 + step})


def scalar_engines():
    op, (a, _v, std, args) = "tensor_scalar", tile_and_column()
    bits = random_bits()[2]
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


def scalar_operands():
    op, (a, _v, std, args) = "tensor_scalar", tile_and_column()
    bits = random_bits()[2]
    case(op, "bitvec and arithmetic mixed", bits,
         {**args, "op0": "bitwise_and", "operand0": 1, "op1": "add", "operand1": 1.0},
         error="mix bitvec and arithmetic")
    case(op, "bitvec on floats", std, {**args, "op0": "bitwise_and", "operand0": 1},
         error="an integer dtype")
    case(op, "bitvec with a real constant", bits, {**args, "op0": "bitwise_and", "operand0": 1.5},
         error="an integer for bitwise_and")
    case(op, "relu before trn3", std, {**args, "op0": "relu", "operand0": 0},
         error="trn3 for this operator")
    case(op, "operand of a unary operator", std, {**args, "op0": "abs", "operand0": 2.0},
         error="none or 0")
    case(op, "missing operand", std, {**args, "op0": "add"}, error="operand0 is missing")
    case(op, "operand1 without op1", std, {**args, "op0": "add", "operand0": 1.0, "operand1": 2.0},
         error="given without op1")
    case(op, "operand tile of two columns", {**std, "v": out("float32", 4, 2)},
         {**args, "op0": "add", "operand0": "v"}, error="one column")
    case(op, "operand tile in bf16", {**std, "v": out("bfloat16", 4, 1)},
         {**args, "op0": "add", "operand0": "v"}, error="float32 (or a constant)")
    case(op, "power on GpSimd", std,
         {**args, "op0": "power", "operand0": 2.0, "engine": "gpsimd"}, error="only with rsqrt")
    case(op, "inverse root by power", {**std, "a": T("float32", np.abs(a))},
         {**args, "op0": "add", "operand0": 0.25, "op1": "power", "operand1": -0.5},
         expect={"c": 1 / np.sqrt((np.abs(a) + F32(0.25)).astype(np.float64))}, rtol=1.2e-7,
         parts=[{"unit": "Vector"}])
    case(op, "shapes differ", {**std, "c": out("float32", 4, 7)},
         {**args, "op0": "add", "operand0": 1.0}, error="the shape of data")


def shifts_there_and_back():
    # Two stages in the width of the element: what the first shifts out does not come back.
    for dt in ("int8", "uint8", "int16", "uint16"):
        kind = np.dtype(DTYPES[dt])
        bits = 8 * kind.itemsize
        word = rng(31).integers(0, 2 ** bits, (4, 8)).astype(f"uint{bits}")
        want = (word << np.array(3, word.dtype)) >> np.array(3, word.dtype)
        case("tensor_scalar", f"{dt} shifted left, then right",
             {"a": T(dt, word.view(kind)), "c": out(dt, 4, 8)},
             {"dst": "c", "data": "a", "op0": "left_shift", "operand0": 3, "op1": "right_shift",
              "operand1": 3}, expect={"c": want.view(kind)})


def tensor_scalar():
    sums_with_numbers()
    words_with_numbers()
    scalar_engines()
    scalar_operands()
    shifts_there_and_back()


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
    fused_reductions(op, a, b, std, {**args, "op0": "multiply", "operand0": 2.0, "op1": "add"})


def fused_reductions(op, a, b, std, args):
    """reduce_cmd, reduce_op and reduce_res, which SDK 2.33 adds: of the result, before the cast to dst."""
    a, b = np.rint(a), np.rint(b)  # so that sums and products are exact in any order
    std = {**std, "a": T("float32", a), "b": T("float32", b), "r": out("float32", 4, 1)}
    y, once = a * 2 + b, {**args, "reduce_cmd": "reset_reduce", "reduce_res": "r"}
    for name, fold in (("add", np.sum), ("multiply", np.prod), ("max", np.max), ("min", np.min)):
        case(op, f"{name} of the result", std, {**once, "reduce_op": name},
             expect={"c": y, "r": fold(y, axis=1, keepdims=True)},
             parts=[{"opcode": "SCALAR_TENSOR_TENSOR"}, {"opcode": "READ_ACCUMULATOR"}])
    more = {**args, "reduce_cmd": "reset_reduce", "reduce_op": "add"}
    case(op, "reduce goes on", std, [{"i": op, **more}, {"i": op, **more, "reduce_cmd": "reduce", "reduce_res": "r"}],
         expect={"r": 2 * y.sum(axis=1, keepdims=True)})
    case(op, "a sum is of float32", {**std, "c": out("bfloat16", 4, 8)},
         {**once, "reduce_op": "add", "operand0": 0.001},
         expect={"r": np.cumsum(a * F32(0.001) + b, axis=1, dtype=F32)[:, -1:]})
    case(op, "reduce_res without reduce_op", std, once, error="reduce_op is missing")
    case(op, "reduce_op without reduce_cmd", std, {**args, "reduce_op": "add"}, error="reduce_cmd is missing")
    case(op, "load_reduce", std, {**once, "reduce_op": "add", "reduce_cmd": "load_reduce"},
         error="reset_reduce or reduce")
    case(op, "a sum of bits", std, {**once, "reduce_op": "bitwise_or"}, error="maximum or minimum")


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


ALL = [tensor_tensor, tensor_scalar, scalar_tensor_tensor, tensor_tensor_scan, reciprocal]
