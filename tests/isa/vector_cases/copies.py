"""Makes tests of copies, fills, patterns and shuffles, with expected values from NumPy."""
import ml_dtypes
import numpy as np

from .table import F32, T, as_f32, case, cast, out, rng, tile


def copied_values():
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
             {"dst": "c", "src": "a"}, expect={"c": cast(x, dt)},
             parts=[{"opcode": "CAST", **({"has": ["8bit"]} if "8" in dt else {})}])
    big = np.array([[2**24 + 1, -(2**31), 2**31 - 1, 7]], np.int32)
    case(op, "int32 stays exact on ScalarE", {"a": T("int32", big), "c": out("int32", 1, 4)},
         {"dst": "c", "src": "a", "engine": "scalar"}, expect={"c": big}, parts=[{"unit": "Scalar"}])
    case(op, "int32 to float32 rounds", {"a": T("int32", big), "c": out("float32", 1, 4)},
         {"dst": "c", "src": "a"}, expect={"c": as_f32(big)})


def copied_views():
    op = "tensor_copy"
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


def gathered_copies():
    op = "tensor_copy"
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


def refused_copies():
    op = "tensor_copy"
    wide = tile(41, 2, 16)
    case(op, "ScalarE of trn1", {"a": T("float32", wide), "c": out("float32", 2, 16)},
         {"dst": "c", "src": "a", "engine": "scalar"}, target="trn1", error="scalar (trn2 and later)")
    case(op, "PSUM on GpSimd", {"a": T("float32", wide, space="psum"), "c": out("float32", 2, 16)},
         {"dst": "c", "src": "a", "engine": "gpsimd"}, error="GpSimd cannot reach")
    case(op, "element counts differ", {"a": T("float32", wide), "c": out("float32", 2, 15)},
         {"dst": "c", "src": "a"}, error="the shape of src")


def tensor_copy():
    copied_values()
    copied_views()
    gathered_copies()
    refused_copies()


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
    limited = {"partitions": 2, "ap": [[1, 4]], "dynamic": [{"scalar": "i", "limit": 4}]}
    case("tensor_copy_dynamic_src", "the last offset below its limit", tensors,
         {"dst": "c[:,0:4]", "src": {"tensor": "a", **limited}},
         expect={"c": np.concatenate([wide[:, 3:7], np.zeros_like(wide[:, :12])], 1)})
    case("tensor_copy_dynamic_src", "an offset that is its limit", {**tensors, "i": T("int32", [[4]])},
         {"dst": "c[:,0:4]", "src": {"tensor": "a", **limited}}, error="an index in 0..3")
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
    case(op, "what a predicate that was never written decides is undefined",
         {**std, "p": out("uint8", 4, 8)}, args, expect={"c": np.full((4, 8), None)})
    case(op, "int32 predicate", {**std, "p": T("int32", p)}, args, error="predicate is int32")
    case(op, "dtypes differ", {**std, "a": out("bfloat16", 4, 8)}, args, error="dst's dtype")
    case(op, "src and predicate in PSUM", {**std, "a": T("float32", a, space="psum"),
                                           "p": T("uint8", p, space="psum")}, args,
         error="both in PSUM")
    case(op, "shapes differ", {**std, "p": out("uint8", 4, 7)}, args, error="the shape of dst")


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
    for text, pattern in (("a step alone", [1]), ("a step too many", [1, 4, 1, 2, 1]), ("no dimension", [])):
        case(op, text, {"c": out("int32", 1, 8)}, {"dst": "c", "pattern": pattern}, error="one to four")
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


def device_print():
    op = "device_print"
    std = {"a": T("float32", tile(211, 2, 3))}
    case(op, "no effect on the data", std, {"print_prefix": "x", "tensor": "a"},
         expect={"a": tile(211, 2, 3)}, parts=[{"opcode": "DEVICE_PRINT", "unit": "Sync"}])
    case(op, "PSUM", {"a": out("float32", 2, 3, space="psum")},
         {"print_prefix": "x", "tensor": "a"}, error="tensor is in PSUM")
    case(op, "without a prefix", std, {"tensor": "a"}, error="print_prefix is missing")


ALL = [tensor_copy, legacy_copies, tensor_copy_predicated, memset, iota, affine_select, nc_stream_shuffle, device_print]
