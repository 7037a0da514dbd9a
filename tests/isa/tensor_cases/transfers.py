"""Makes tests of DMA and of the instructions that join two cores, with expected values from NumPy."""
import numpy as np

from vector_cases.table import F32, T, as_f32, cast, out, rng, tile

from .table import case, hbm, psum


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
    far = np.where(np.arange(32) < 16, 40, np.arange(32)).astype(np.uint32).reshape(32, 1)
    two = {**std, "i": T("uint32", far), "d": T("uint16", np.full((8, 32), 7, np.uint16))}
    late = {**args, "oob_mode": "skip",
            "src": {**view, "ap": [[8, 32], [1, 8]], "dynamic": [{"vector": "i", "stride": 8, "limit": 40}]}}
    kept = np.concatenate([np.full((8, 16), 7, np.uint16), table[16:32].T], axis=1)
    case(op, "skips a group of 16 indices", two, late, expect={"d": kept})
    for title, at, said in (("skips part of a group of 16", 17, "index 17 is skipped and index 16 is not"),
                            ("takes part of a group of 16", 3, "index 0 is skipped and index 3 is not")):
        part = far.copy()
        part[at] = 0 if at < 16 else 40
        case(op, title, {**two, "i": T("uint32", part)}, late, keep=True, error=said)
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
    case("core_barrier", "data in SBUF", {"x": T("float32", [[1, 2, 3, 4]])},
         {"data": "x", "cores": [0, 1]}, expect={"x": [[1, 2, 3, 4]]})
    case("core_barrier", "data in PSUM", {"x": psum("float32", 1, 4)},
         {"data": "x", "cores": [0, 1]}, error="data is in PSUM")
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


ALL = [dma_copy, dma_transpose, dma_compute, cores]
