"""Makes tests of matrix products, transposes and MX quantisation, with expected values from NumPy."""
import ml_dtypes
import numpy as np

from vector_cases.table import F32, T, as_f32, out, rng, tile

from .table import E4M3FN, PACKED, X4, case, product, psum, tf32


MATMUL = {"dst": "d", "stationary": "s", "moving": "m"}
TWICE = [{"i": "nc_matmul", **MATMUL}, {"i": "nc_matmul", **MATMUL, "accumulate": True}]


def operands(dtype, k=40, m=6, n=12, to="float32", other=None):
    s, v = tile(301, k, m, dtype), tile(302, k, n, other or dtype)
    return s, v, {"s": T(dtype, s), "m": T(other or dtype, v), "d": psum(to, m, n)}


def double_row():
    """Operands of double_row, and their tensors."""
    s, v = tile(307, 16, 2 * 6, "float8_e4m3"), tile(308, 16, 2 * 10, "float8_e4m3")
    return s, v, {"s": T("float8_e4m3", s.reshape(16, 2, 6)), "m": T("float8_e4m3", v.reshape(16, 2, 10)),
                  "d": psum("float32", 6, 10)}


def matmul_values():
    op, args = "nc_matmul", MATMUL
    for dtype, other in (("bfloat16", None), ("float16", None), ("float32", None),
                         ("float8_e4m3", "bfloat16"), ("float8_e5m2", "float8_e4m3")):
        s, v, std = operands(dtype, other=other)
        case(op, f"{dtype} by {other or dtype}", std, args, expect={"d": product(s, v)})
    s, v = tile(303, 40, 6), tile(304, 40, 12)
    case(op, "tfloat32 operands are rounded to 10 mantissa bits",
         {"s": T("tfloat32", s), "m": T("tfloat32", v), "d": psum("float32", 6, 12)}, args,
         expect={"d": product(tf32(s), tf32(v))})
    s, v, std = operands("bfloat16")
    case(op, "accumulates onto its own result", std, TWICE,
         expect={"d": product(s, v, product(s, v))})
    case(op, "full size", dict(zip("smd", (T("bfloat16", tile(305, 128, 128, "bfloat16")),
                                           T("bfloat16", tile(306, 128, 512, "bfloat16")),
                                           psum("float32", 128, 512)))), args,
         parts=[{"opcode": "LDWEIGHTS", "unit": "Tensor", "elements": 128, "rows": 128,
                 "columns": 128, "sbuf_read_bytes": 32768, "flops": 0},
                {"opcode": "MATMUL", "unit": "TensorMatrix", "elements": 512,
                 "flops": 2 * 128 * 128 * 512, "sbuf_read_bytes": 131072,
                 "psum_write_bytes": 262144, "psum_read_bytes": 0, "lacks": ["fp32", "transpose"]}])


def matmul_passes():
    op, args = "nc_matmul", MATMUL
    _, _, wide = operands("float32")
    case(op, "float32 takes two passes", wide, args,
         parts=[{"opcode": "LDWEIGHTS", "has": ["fp32", "fp32_low_pass"]},
                {"opcode": "MATMUL", "flops": 2 * 40 * 6 * 12},
                {"opcode": "LDWEIGHTS", "lacks": ["fp32_low_pass"]},
                {"opcode": "MATMUL", "flops": 2 * 40 * 6 * 12, "psum_read_bytes": 6 * 12 * 4}])
    case(op, "weights of 0 and 1 take one float32 pass", wide,
         {**args, "is_stationary_onezero": True},
         parts=[{"opcode": "LDWEIGHTS", "lacks": ["fp32_low_pass"]},
                {"opcode": "MATMUL", "has": ["onezero"]}])
    case(op, "a moving operand of 0 and 1 takes two float32 passes", wide,
         {**args, "is_moving_onezero": True},
         parts=[{"opcode": "LDWEIGHTS", "has": ["fp32_low_pass"]},
                {"opcode": "MATMUL", "has": ["onezero"], "flops": 2 * 40 * 6 * 12},
                {"opcode": "LDWEIGHTS", "lacks": ["fp32_low_pass"]},
                {"opcode": "MATMUL", "has": ["onezero"], "flops": 2 * 40 * 6 * 12}])
    s8, v8, double = double_row()
    case(op, "double_row contracts 2K rows", double, {**args, "perf_mode": "double_row"},
         expect={"d": product(s8.reshape(32, 6), v8.reshape(32, 10))},
         parts=[{"has": ["double_row", "fp8"]}, {"elements": 10, "flops": 2 * 32 * 6 * 10}])


def matmul_transposes():
    op, args = "nc_matmul", MATMUL
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
         {"s": T("bfloat16", x), "m": T("bfloat16", y), "d": psum("bfloat16", 4, 6)}, TWICE,
         target="trn3", expect={"d": (as_f32(first) + product(x, y)).astype(ml_dtypes.bfloat16)})


def matmul_of_gathered_columns():
    op, args = "nc_matmul", MATMUL
    index = rng(311).permutation(64)[:36].astype(np.uint32)
    grid = np.zeros((32, 2), np.uint32)
    for i, v in enumerate(index):
        grid[i % 32, i // 32] = v
    table, sb = tile(312, 40, 64, "bfloat16"), tile(301, 40, 6, "bfloat16")
    gathered = {"s": T("bfloat16", sb), "m": T("bfloat16", table), "d": psum("float32", 6, 36),
                "ix": T("uint32", grid)}
    view = {"tensor": "m", "ap": [[1, 36]], "partitions": 40,
            "dynamic": [{"indirect": "ix", "group": 32}]}
    case(op, "moving columns gathered through an index", gathered,
         {**args, "moving": view}, target="trn3", expect={"d": product(sb, table[:, index])},
         parts=[{}, {"has": ["indirect", "dynamic"]}])
    case(op, "indirection before trn3", gathered,
         {**args, "moving": view}, error="trn3")


def matmul_refused():
    op, args = "nc_matmul", MATMUL
    std = operands("bfloat16")[2]
    double = double_row()[2]
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
        ("transpose with a full moving tile", {**std, "d": psum("bfloat16", 6, 12)},
         {"is_transpose": True}, "without a single 1"),
        ("transpose that adds, with a full moving tile", {**std, "d": psum("float32", 6, 12)},
         {"is_transpose": True, "accumulate": True}, "without a single 1"),
        ("weights that are said to be 0 and 1, and a full tile", operands("float32")[2],
         {"is_stationary_onezero": True}, "an element of stationary is"),
        ("a moving operand said to be 0 and 1, and a full tile", operands("float32")[2],
         {"is_moving_onezero": True}, "an element of moving is"),
    ]
    for title, tensors, more, message in errors:
        case(op, title, tensors, {**args, **more}, keep="full" in title, error=message)


def matmul_refused_by_a_target():
    op, args = "nc_matmul", MATMUL
    std = operands("bfloat16")[2]
    double = double_row()[2]
    case(op, "double_row on trn1", double, {**args, "perf_mode": "double_row"}, target="trn1",
         error="trn2 is the first")
    case(op, "tiles of 32 on trn1", std,
         {**args, "tile_size": [32, 32], "tile_position": [0, 0]}, target="trn1",
         error="64 or 128 each on trn1")
    case(op, "e4m3 with e4m3fn on trn3",
         {"s": out("float8_e4m3", 8, 4), "m": out("float8_e4m3fn", 8, 4),
          "d": psum("float32", 4, 4)}, args, target="trn3", error="mix float8_e4m3")


def matmul_onto_nothing():
    op, args = "nc_matmul", MATMUL
    std = operands("bfloat16")[2]
    case(op, "accumulate onto nothing", std, {**args, "accumulate": True},
         expect={"d": np.full((6, 12), None)})
    memset = {"i": "memset", "dst": "d", "value": 0.0}
    case(op, "accumulate onto a memset", std, [memset, {"i": op, **args, "accumulate": True}],
         error="another engine wrote last")
    case(op, "accumulate onto a memset on trn3", std,
         [memset, {"i": op, **args, "accumulate": True}], target="trn3",
         expect={"d": product(*operands("bfloat16")[:2])})


def nc_matmul():
    matmul_values()
    matmul_passes()
    matmul_transposes()
    matmul_of_gathered_columns()
    matmul_refused()
    matmul_refused_by_a_target()
    matmul_onto_nothing()


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
    wide = {"x": out("float32", 64, 40), "d": psum("float32", 40, 64)}
    case(op, "transpose mode takes one float32 pass", wide, args,
         parts=[{"opcode": "LDWEIGHTS"}, {"opcode": "MATMUL", "flops": 2 * 64 * 40 * 64}])
    case(op, "trn1's float32 transpose takes two passes", wide, args, target="trn1",
         parts=[{"opcode": "LDWEIGHTS", "has": ["fp32_low_pass"]},
                {"opcode": "MATMUL", "flops": 2 * 64 * 40 * 64},
                {"opcode": "LDWEIGHTS", "lacks": ["fp32_low_pass"]},
                {"opcode": "MATMUL", "flops": 2 * 64 * 40 * 64, "has": ["transpose"]}])
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
            ("too few scale partitions", {"ss": out("uint8", 8, 6)}, {}, "at least 36 partitions"),
            ("column tiling", {}, {"tile_size": [64, 64], "tile_position": [0, 0]},
             "row tiling only")):
        case(op, title, {**std, **more}, {**args, **extra}, error=message, **v4)


ALL = [nc_matmul, nc_transpose, quantize_mx, nc_matmul_mx]
