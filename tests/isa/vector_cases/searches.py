"""Makes tests of searches, gathers and random numbers, with expected values from NumPy."""
import ml_dtypes
import numpy as np

from .table import F32, T, as_f32, case, out, rng, tile


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
    case(op, "no space for the count", {**std, "c": out("int32", 32, 8)}, {"dst": "c", "src": "a"},
         error="9 elements")
    case(op, "other partitions", {**std, "c": out("int32", 16, 9)}, {"dst": "c", "src": "a"}, error="partitions")


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
    last = index.copy()
    last[0, 0] = 22  # elements 22 and 23, the last two
    last_want = want.copy()
    last_want[0:16, 0:2] = src[0:16, 22:24]
    case(op, "the last index", {**std, "i": T("uint16", last)}, {**args, "num_valid_indices": 20},
         expect={"c": last_want})
    last[0, 0] = 23
    case(op, "an index one beyond the last", {**std, "i": T("uint16", last)},
         {**args, "num_valid_indices": 20}, error="index 0 of partitions from 0")
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
    case(op, "indices never written", {**std, "i": out("uint32", 4, 7)}, args,
         error="indices i is undefined")
    case(op, "data of two dimensions is flattened", {**std, "s": T("float32", src.reshape(4, 3, 4))},
         args, expect={"c": np.take_along_axis(src, index.astype(np.int64), 1)})
    case(op, "one instruction per 512 indices", {"s": out("float32", 4, 12),
                                                 "i": out("uint32", 4, 1030),
                                                 "c": out("float32", 4, 1030)}, args,
         parts=[{"elements": 512}, {"elements": 512}, {"elements": 6, "sbuf_write_bytes": 96}])
    case(op, "an index out of range", {**std, "i": T("uint32", index + 6)}, args, error="0 to 11")
    edge = np.full_like(index, 11)
    edge[-1, -1] = 12  # on the last partition: behind it is nothing of the buffer
    case(op, "an index one past the end", {**std, "i": T("uint32", edge)}, args, error="0 to 11")
    case(op, "int32 indices", {**std, "i": out("int32", 4, 7)}, args, error="indices is int32")
    case(op, "dtypes differ", {**std, "c": out("bfloat16", 4, 7)}, args, error="data's dtype")
    case(op, "in PSUM", {**std, "s": out("float32", 4, 12, space="psum")}, args,
         error="data is in PSUM")
    case(op, "shapes differ", {**std, "c": out("float32", 4, 8)}, args, error="the shape of indices")


def topk():
    op = "topk"
    x = rng(181).permutation(32 * 3).reshape(32, 3).astype(ml_dtypes.bfloat16)
    n, k = 42, 5
    values, indices = np.full((32, k), 7.0), np.full((32, k), 9)  # what the instruction leaves alone
    for g in (0, 16):
        snake = as_f32(x[g:g + 16]).flatten(order="F")[:n]
        best = np.argsort(snake, kind="stable")[-k:]
        values[g:g + k, 0], indices[g:g + k, 0] = snake[best], best
    std = {"s": T("bfloat16", x), "v": T("bfloat16", np.full((32, k), 7)), "i": T("uint32", np.full((32, k), 9))}
    args = {"val_dst": "v", "idx_dst": "i", "src": "s", "n": n}
    case(op, "ascending, per group of 16 partitions", std, args,
         expect={"v": values, "i": indices},
         parts=[{"opcode": "TOPK", "unit": "GpSimd", "elements": 42, "columns": 5}])
    wide = as_f32(x[:16]).flatten(order="F")
    best = np.argsort(wide, kind="stable")[-40:]  # 40 results: two columns and eight partitions of a third
    where = (np.arange(40) % 16, np.arange(40) // 16)
    want = {"v": np.full((16, 40), 7.0), "i": np.full((16, 40), 9)}
    want["v"][where], want["i"][where] = wide[best], best
    case(op, "results are a snake as well", {"s": T("bfloat16", x[:16]), "v": T("bfloat16", np.full((16, 40), 7)),
                                             "i": T("uint32", np.full((16, 40), 9))},
         {**args, "n": 48, "sorted": True}, expect=want)
    same = {"s": T("bfloat16", np.zeros((16, 1))), "v": T("bfloat16", np.ones((16, 2))),
            "i": T("uint32", np.full((16, 2), 9))}
    lower = np.full((16, 2), 9)
    lower[:2, 0] = 1, 0
    case(op, "among equals the lower positions", same, {**args, "n": 8},
         expect={"v": np.where(lower == 9, 1.0, 0.0), "i": lower})
    case(op, "17 partitions", {"s": out("bfloat16", 17, 3), "v": out("bfloat16", 17, k),
                               "i": out("uint32", 17, k)}, args, error="a multiple of 16")
    case(op, "n of 7", std, {**args, "n": 7}, error="8 to 65535")
    case(op, "n of 65536", std, {**args, "n": 65536}, error="8 to 65535")
    case(op, "too few columns", std, {**args, "n": 49}, error="4 columns or more")
    case(op, "K over n", {**std, "v": out("bfloat16", 32, 43), "i": out("uint32", 32, 43)}, args,
         error="at most n")
    case(op, "float32 source", {**std, "s": out("float32", 32, 3)}, args, error="src is float32")
    case(op, "other partitions", {**std, "v": out("bfloat16", 16, k), "i": out("uint32", 16, k)}, args,
         error="partitions")
    case(op, "fewer places than values", {**std, "i": out("uint32", 32, k - 1)}, args, error="shape")
    case(op, "places of other partitions", {**std, "i": out("uint32", 16, k)}, args, error="shape")


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


def gpsimd_numbers():
    """Tensors and a program that seeds, draws five numbers and keeps the state; bits, states before and after."""
    state = rng(191).integers(1, 2**32, (4, 6), dtype=np.uint64).astype(np.uint32)
    runs = [xorwow(row, 5) for row in state]
    bits = np.array([r[0] for r in runs], np.uint64)
    tensors = {"s": T("uint32", state), "c": out("uint32", 4, 5), "e": out("uint32", 4, 6)}
    program = [{"i": "rand_set_state", "src_seeds": "s"},
               {"i": "rng", "dst": "c", "engine": "gpsimd"},
               {"i": "rand_get_state", "dst": "e"}]
    after = np.array([r[1] for r in runs], np.uint64)
    return tensors, program, bits, state, after


def random_on_gpsimd():
    tensors, program, bits, state, after = gpsimd_numbers()
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


def random_on_vector():
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


def random_seeds():
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


def random():
    random_on_gpsimd()
    random_on_vector()
    random_seeds()


def dropout():
    op = "dropout"
    a = tile(201, 4, 8)
    std = {"a": T("float32", a), "v": T("float32", [[0], [1], [0], [1]]), "c": out("float32", 4, 8)}
    args = {"dst": "c", "data": "a"}
    case(op, "probability 0 keeps, 1 drops, per partition", std, {**args, "prob": "v"},
         expect={"c": np.where([[1], [0], [1], [0]], a, 0)},
         parts=[{"opcode": "DROPOUT", "unit": "Vector", "elements": 8, "has": ["pointer"]}])
    case(op, "a probability above 1 drops all (assumed)",
         {**std, "v": T("float32", [[99.5], [0], [1.5], [0]])}, {**args, "prob": "v"},
         expect={"c": np.where([[0], [1], [0], [1]], a, 0)})
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
    for name, value in (("a percentage", 50), ("a negative probability", -0.5)):
        case(op, name, {"a": out("float32", 4, 8), "c": out("float32", 4, 8)}, {**args, "prob": value},
             error="a probability of 0 to 1")
    case(op, "integer probability", {**std, "v": out("int32", 4, 1)}, {**args, "prob": "v"},
         error="a float dtype")


ALL = [max8, match8, nonzero_with_count, local_gather, nc_n_gather, topk, sequence_bounds, random, dropout]
