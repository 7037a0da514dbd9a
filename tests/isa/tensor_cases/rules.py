"""Makes tests that break each rule that many instructions share, and tests of registers."""
import numpy as np

from vector_cases.table import T, out

from .table import case, hbm, psum


def view(tensor, columns, partitions=4, index="ix", **more):
    """An indirect view of a tile."""
    return {"tensor": tensor, "ap": [[1, columns]], "partitions": partitions,
            "dynamic": [{"indirect": index, **more}]}


def placement():
    op = "tensor_copy"
    args = {"dst": "d", "src": "s"}
    for title, tensor, message in (
            ("129 partitions", out("float32", 129, 8), "at most 128"),
            ("4 partitions from 16", out("float32", 4, 8, partition=16),
             "start partition 0, 32, 64 or 96"),
            ("33 partitions from 32", out("float32", 33, 8, partition=32),
             "start partition 0 or 64"),
            ("65 partitions from 32", out("float32", 65, 8, partition=32),
             "start partition 0 (more than 64 partitions)")):
        case(op, title, {"s": tensor, "d": out("float32", *tensor.shape)}, args, error=message)
    std = {"s": out("float32", 4, 8), "d": out("float32", 4, 8)}
    case(op, "beyond its tensor", std,
         {**args, "src": {"tensor": "s", "ap": [[1, 8]], "partitions": 4, "offset": 4}},
         error="an access within its 32 bytes per partition")
    case(op, "partitions of another tensor", std,
         {**args, "src": {"tensor": "s", "ap": [[1, 8]], "partition": 1, "partitions": 4}},
         error="partitions inside the tensor")
    case(op, "packed destination of another dtype", {**std, "d": out("float8_e5m2_x4", 4, 8)}, args,
         error="float8_e5m2_x4")
    case(op, "over the capacity of SBUF", {"s": out("float32", 4, 8, address=196600),
                                           "d": out("float32", 4, 8, address=0)},
         args, target="trn1", addresses="physical", error="196608")
    for target in ("trn1", "inf2", "trn2", "trn3"):  # 16 KiB per partition on all of them
        for title, address, more in (("over", 16384 - 28, {"error": "within the 16384 bytes"}),
                                     ("up to", 16384 - 32, {"keep": True, "parts": [{}]})):
            case(op, f"{title} the capacity of PSUM on {target}",
                 {"s": out("float32", 4, 8, address=0),
                  "d": T("float32", shape=(4, 8), space="psum", address=address)},
                 args, target=target, addresses="physical", **more)
    table, data = hbm("float32", shape=(8, 6)), out("float32", 4, 6)
    case("dma_copy", "an index tensor beyond its bounds",
         {"t": table, "d": data, "i": out("uint32", 4, 1)},
         {"dst": "d", "src": {"tensor": "t", "ap": [[6, 4], [1, 6]],
                              "dynamic": [{"vector": {"tensor": "i", "ap": [[1, 1]], "partitions": 4,
                                                      "offset": 4}}]}},
         error="an access within its 4 bytes per partition")


def banks():
    """A matmul's output within one bank of 2 KiB (before trn3), at addresses known and not."""
    s, m = out("bfloat16", 8, 4, address=0), out("bfloat16", 8, 16, address=64)
    for target, rule in (("trn1", True), ("trn2", True), ("trn3", False)):
        d = T("float32", shape=(4, 16), space="psum", address=2016)
        more = {"error": "within one bank of 2048 bytes"} if rule else {"parts": [{}, {}]}
        case("nc_matmul", f"across two banks on {target}", {"s": s, "m": m, "d": d},
             {"dst": "d", "stationary": "s", "moving": "m"}, target=target, addresses="physical",
             **more)
    d = T("bfloat16", shape=(8, 16), space="psum", address=2032)
    case("nc_transpose", "across two banks", {"x": out("bfloat16", 16, 8, address=0), "d": d},
         {"dst": "d", "data": "x"}, addresses="physical", error="within one bank of 2048 bytes")
    late = {"tensor": "d", "ap": [[1, 16]], "partitions": 4, "dynamic": [{"register": 1}]}
    zeros = {n: T("bfloat16", [[0.0] * w] * 8, address=a)
             for n, w, a in (("s", 4, 0), ("m", 16, 64))}
    case("nc_matmul", "across two banks at run time",
         {**zeros, "d": T("float32", shape=(4, 1024), space="psum", address=0)},
         [{"i": "register_alloc", "dst": "r1", "x": 504},
          {"i": "nc_matmul", "dst": late, "stationary": "s", "moving": "m"}],
         addresses="physical", keep=True, error="within one bank of 2048 bytes")


def indirection():
    ix, v3 = out("uint32", 16, 1), {"target": "trn3"}
    std = {"s": out("float32", 4, 8), "d": out("float32", 4, 8), "ix": ix}
    source = {"dst": "d", "src": view("s", 8)}
    for title, tensors, program, message in (
            ("index off a quadrant", {"ix": out("uint32", 16, 1, partition=16)}, source,
             "a start on a multiple of 32"),
            ("index in PSUM", {"ix": psum("uint32", 16, 1)}, source, "SBUF is required"),
            ("index of floats", {"ix": out("float32", 16, 1)}, source, "an integer dtype"),
            ("index in groups of 32", {}, {**source, "src": view("s", 8, group=32)},
             "groups of 16 on the vector engine"),
            ("index of dst away from src", {"ix": out("uint32", 16, 1, partition=32)},
             {"dst": view("d", 8), "src": "s"}, "partition 0, where src starts"),
            ("index of dst away from the index of src",
             {"s": psum("float32", 4, 8), "iy": out("uint32", 16, 1, partition=32)},
             {"dst": view("d", 8, index="iy"), "src": view("s", 8)},
             "partition 0, where the index of src starts")):
        case("tensor_copy", title, {**std, **tensors}, program, error=message, **v3)
    no = "an indirect view, which this operand does not support"
    direct = {**std, "b": out("float32", 4, 8), "v": out("float32", 4, 1),
              "p": out("uint8", 4, 8)}
    for op, program in (
            ("tensor_tensor", {"dst": "d", "data1": "s", "data2": view("b", 8), "op": "add"}),
            ("tensor_scalar", {"dst": "d", "data": "s", "op0": "add", "operand0": view("v", 1)}),
            ("tensor_copy_predicated", {"dst": "d", "src": view("s", 8), "predicate": "p"}),
            ("reciprocal", {"dst": "d", "data": view("s", 8)}),
            ("activation", {"dst": "d", "data": "s", "op": "copy", "bias": view("v", 1)})):
        case(op, "an operand without indirection", direct, program, error=no, **v3)
    words = {n: out("int32", 4, 8) for n in "sd"}
    case("tensor_scalar", "indirect address arithmetic", {**words, "v": out("int32", 4, 1), "ix": ix},
         {"dst": "d", "data": view("s", 8), "op0": "add", "operand0": "v"},
         error="32-bit integer operands", **v3)
    scattered = {**std, "d": psum("float32", 4, 8)}
    case("activation", "scatter to PSUM", scattered,
         {"dst": view("d", 8), "data": "s", "op": "copy"}, error="scattered to PSUM", **v3)
    case("activate2", "scatter to PSUM", scattered,
         {"dst": view("d", 8), "data": "s", "op": "copy", "imm0": 1.0, "imm1": 0.0, "op0": "bypass",
          "op1": "bypass"}, error="scattered to PSUM", **v3)


def tensor_engine_indirection():
    v3 = {"target": "trn3"}
    std = {"s": out("bfloat16", 40, 6), "m": out("bfloat16", 40, 12), "d": psum("float32", 6, 12),
           "ix": out("uint32", 32, 1)}
    args = {"dst": "d", "stationary": "s", "moving": view("m", 12, 40)}
    for title, tensors, more, message in (
            ("index in groups of 16", {}, {"moving": view("m", 12, 40, group=16)},
             "groups of 32 on the tensor engine"),
            ("indirect float32", {"s": out("float32", 40, 6), "m": out("float32", 40, 12)}, {},
             "float16, bfloat16 or fp8 with tensor indirection"),
            ("indirect moving in transpose mode", {}, {"is_transpose": True},
             "moving cannot use tensor indirection with is_transpose"),
            ("indirect in a tile of the array", {"s": out("bfloat16", 32, 6),
                                                 "m": out("bfloat16", 32, 12)},
             {"moving": view("m", 12, 32), "tile_size": [64, 128], "tile_position": [64, 0]},
             "tile_position other than (0, 0)"),
            ("index of dst away from stationary", {"iy": out("uint32", 32, 1, partition=32)},
             {"moving": "m", "dst": view("d", 12, 6, index="iy")}, "where stationary starts")):
        case("nc_matmul", title, {**std, **tensors}, {**args, **more}, error=message, **v3)
    mx = {"s": out("float8_e5m2_x4", 64, 6), "m": out("float8_e5m2_x4", 64, 10),
          "ss": out("uint8", 64, 6), "ms": out("uint8", 64, 10), "d": psum("float32", 6, 10),
          "ix": out("uint32", 32, 1)}
    args = {"dst": "d", "stationary": "s", "moving": "m", "stationary_scale": "ss",
            "moving_scale": "ms"}
    for title, more, message in (
            ("stationary indirect without its scale", {"stationary": view("s", 6, 64)},
             "stationary and stationary_scale use different indirection"),
            ("moving indirect without its scale", {"moving": view("m", 10, 64)},
             "moving and moving_scale use different indirection")):
        case("nc_matmul_mx", title, mx, {**args, **more}, error=message, **v3)


def more_rules():
    """Rules of single instructions that their own builders leave out."""
    x = {"s": out("float32", 4, 8), "d": out("float32", 4, 8), "h": out("bfloat16", 4, 1),
         "w": out("float32", 4, 2), "r": out("float32", 4, 1)}
    reduce = {"dst": "d", "data": "s", "op": "copy", "reduce_op": "add", "reduce_res": "r"}
    case("activation_reduce", "bias of two columns", x, {**reduce, "bias": "w"}, error="one column")
    case("activation_reduce", "bfloat16 scale", x, {**reduce, "scale": "h"},
         error="scale is bfloat16")
    case("activation_reduce", "bitvec reduction", x, {**reduce, "reduce_op": "bitwise_and"},
         error="reduce_op")
    rows = {"tensor": "t", "ap": [[6, 2], [1, 6]], "dynamic": [{"vector": "i"}]}
    gather = {"t": hbm("float32", shape=(4, 6)), "x": out("float32", 2, 6),
              "i": out("uint32", 2, 1)}
    case("dma_copy", "swdge gather on trn1", gather,
         {"dst": "x", "src": rows, "dge_mode": "swdge"}, target="trn1", error="trn2 is the first")
    case("dma_copy", "to PSUM", {"s": hbm("float32", shape=(4, 8)), "d": psum("float32", 4, 8)},
         {"dst": "d", "src": "s"}, error="dst is in PSUM")
    add = {"dst": "x", "srcs": ["x", rows], "reduce_op": "add"}
    case("dma_compute", "gather on trn1", gather, add, target="trn1", error="trn2 is the first")
    case("dma_compute", "gather without dst among the sources", {**gather, "y": out("float32", 2, 6)},
         {**add, "dst": "y"}, error="neither source is dst")
    late = {"tensor": "t", "ap": [[6, 2], [1, 6]], "dynamic": [{"register": 1}]}
    case("dma_compute", "a dynamic address", gather, {"dst": "x", "srcs": ["x", late],
                                                      "reduce_op": "add"},
         error="a fixed address or a vector_offset")
    case("dma_transpose", "another rank", {"s": hbm("uint16", shape=(16, 4, 8)),
                                           "d": out("uint16", 8, 64)},
         {"dst": "d", "src": "s", "axes": [2, 1, 0]}, error="(8, 4, 16) is required")
    case("quantize_mx", "result of another dtype", {
        "x": out("float16", 32, 8), "d": out("float8_e4m3fn", 32, 8), "s": out("uint8", 4, 2)},
        {"dst": "d", "src": "x", "dst_scale": "s"}, target="trn3", error="dst is float8_e4m3fn")
    case("tensor_partition_reduce", "average of bits", {"a": out("uint16", 5, 6),
                                                        "c": out("uint16", 1, 6)},
         {"dst": "c", "data": "a", "op": "left_shift"}, error="bitwise_and or bitwise_xor")


def registers():
    two = {"x": hbm("int32", shape=(2,))}
    case("register_load", "two elements", two, {"dst": "r1", "src": "x"},
         error="exactly one element")
    case("register_store", "two elements", two, {"dst": "x", "src": "r1"},
         error="exactly one element")
    psum_word = {"x": psum("int32", 1, 1)}
    case("register_load", "from PSUM", psum_word, {"dst": "r1", "src": "x"}, error="src is in PSUM")
    case("register_store", "to PSUM", psum_word, {"dst": "x", "src": "r1"}, error="dst is in PSUM")
    case("register_move", "from a tensor", two, {"dst": "r1", "src": "x"},
         error="an integer or a register")


def scalars():
    wide = {"x": T("int64", [[3_000_000_000]]), "y": out("int64", 1, 1), "n": T("int32", [[-7]]),
            "m": out("int32", 1, 1), "h": hbm("int64", [[1 << 40]])}

    def lines(source, target, *steps):
        return [{"i": "scalar_load", "dst": "r1", "src": source}, *steps,
                {"i": "scalar_store", "dst": target, "value": "r1"}]

    def step(op, a, b):
        return {"i": "scalar_alu", "dst": "r1", "op": op, "lhs": a, "rhs": b}

    case("scalar_load", "64 bits", wide, lines("x", "y"), expect={"y": wide["x"].values})
    case("scalar_load", "64 bits of HBM", wide, lines("h", "y"), expect={"y": wide["h"].values})
    case("scalar_load", "32 bits", wide, lines("n", "m"), expect={"m": wide["n"].values})
    case("scalar_load", "32 bits, stored wider", wide, lines("n", "y"), expect={"y": wide["n"].values})
    for op, value in (("add", 3_000_000_005), ("subtract", 2_999_999_995), ("multiply", 15_000_000_000)):
        case("scalar_alu", op, wide, lines("x", "y", step(op, "r1", 5)), expect={"y": [[value]]})
    wrapped = (3_000_000_000 * 3_000_000_000 * 3 + 2 ** 63) % 2 ** 64 - 2 ** 63
    back = [step("multiply", "r1", "r1"), step("multiply", "r1", 3), step("subtract", "r1", wrapped)]
    case("scalar_alu", "wraps at 64 bits", wide, lines("x", "y", *back), expect={"y": [[0]]})
    two = {"x": hbm("int64", shape=(2,)), "u": hbm("uint32", shape=(1,)), "p": psum("int32", 1, 1)}
    case("scalar_load", "two elements", two, {"dst": "r1", "src": "x"}, error="exactly one element")
    case("scalar_load", "unsigned", two, {"dst": "r1", "src": "u"}, error="int32, int64 is required")
    case("scalar_load", "from PSUM", two, {"dst": "r1", "src": "p"}, error="src is in PSUM")
    case("scalar_store", "two elements", two, {"dst": "x", "value": "r1"}, error="exactly one element")
    case("scalar_store", "too large", wide, lines("x", "m"), keep=True, error="of 32 bits, as dst is")
    loop = [{"i": "scalar_load", "dst": "r1", "src": "x"},
            {"i": "loop_begin", "register": "r2", "start": 0, "stop": "r1"}, {"i": "loop_end"}]
    case("scalar_load", "a bound of 64 bits", wide, loop, keep=True, error="do not compare 64")


def split_collectives():
    meta, group = {"m": hbm("uint32", shape=(3, 2)), "f": hbm("float32", shape=(3, 2))}, [[0, 1]]
    for op in ("all_gather_v_prepare", "all_to_all_v_prepare"):
        case(op, "float metadata", meta, {"replica_group": group, "metadata_tensor": "f"}, error="is float32")
        case(op, "a rank twice", meta, {"replica_group": [[0, 0]], "metadata_tensor": "m"}, error="twice")


def two_cores():
    def on_core(core):
        tiles = {f"{n}{core}": T("float32", [[core] * 6] * 4, core=core) for n in "xy"}
        return tiles, {"i": "sendrecv", "core": core, "src": f"x{core}", "dst": f"y{core}",
                       "send_to_rank": 1 - core, "recv_from_rank": 1 - core, "pipe_id": 0}

    (tiles, first), (more, second) = on_core(0), on_core(1)
    std = {**tiles, **more}
    for title, lines, message in (
            ("alone", [first], "waits here for another core"),
            ("meets another instruction", [first, {"i": "core_barrier", "core": 1, "data": "h",
                                                   "cores": [0, 1]}], "waits here for another core"),
            ("another pipe", [first, {**second, "pipe_id": 1}], "pipe_id is 0; the other core's, 1"),
            ("sent elsewhere", [first, {**second, "send_to_rank": 1}], "which sends to core 1")):
        case("sendrecv", title, {**std, "h": hbm("float32", shape=(4,))}, lines, keep=True, cores=2,
             error=message)
    case("sendrecv", "exchanges", std, [first, second], cores=2,
         expect={"y0": [[1] * 6] * 4, "y1": [[0] * 6] * 4})
    one_way = [{**first, "recv_from_rank": 0}, {**second, "send_to_rank": 1}]
    case("sendrecv", "core 0 receives its own, core 1 core 0's", std, one_way, cores=2,
         expect={"y0": [[0] * 6] * 4, "y1": [[0] * 6] * 4})
    case("core_barrier", "alone", {"h": hbm("float32", shape=(4,))},
         [{"i": "core_barrier", "core": 1, "data": "h", "cores": [0, 1]}], cores=2,
         error="waits here for another core")


def two_cores_reduce():
    op, x = "sendrecv_compute", [[[1, 300, -5], [2, -7, 0.5]], [[4, 0.25, -6], [-2, 9, 0.5]]]
    for space in ("sbuf", "hbm"):
        make = T if space == "sbuf" else (lambda dtype, values, core: hbm(dtype, np.array(values, np.float32)))
        std = {f"x{c}": make("float32", x[c], core=c) for c in (0, 1)}
        std |= {f"y{c}": make("float32", np.zeros((2, 3)), core=c) for c in (0, 1)}
        both = [{"i": op, "core": c, "src": f"x{c}", "dst": f"y{c}", "send_to_rank": 1 - c, "recv_from_rank": 1 - c,
                 "reduce_op": "add"} for c in (0, 1)]
        for name, fold in (("add", np.add), ("maximum", np.maximum), ("minimum", np.minimum)):
            want = fold(*np.array(x))
            case(op, f"{name} in {space}", std, [{**line, "reduce_op": name} for line in both], cores=2,
                 expect={"y0": want, "y1": want})
        if space == "hbm":
            continue
        for title, change, message in (
                ("another operator on the other core", {"reduce_op": "maximum"},
                 "reduce_op is add; the other core's, maximum,"),
                ("to itself", {"send_to_rank": 1}, "send_to_rank is 1; the other core, 0,"),
                ("rank 2", {"recv_from_rank": 2}, "0 or 1"),
                ("multiplies", {"reduce_op": "multiply"}, "add, maximum or minimum")):
            case(op, title, std, [both[0], {**both[1], **change}], keep=True, cores=2, error=message)
        case(op, "alone", std, both[:1], keep=True, cores=2, error="waits here for another core")
        odd = {**std, "h": hbm("float32", np.zeros((2, 3))), "n": T("float32", np.zeros((2, 2))),
               "b": out("bfloat16", 2, 3)}
        for title, dst, message in (("into HBM", "h", "dst is in HBM; SBUF, as src is,"),
                                    ("another shape", "n", "the shape of src"),
                                    ("another dtype", "b", "the dtype of src")):
            case(op, title, odd, [{**both[0], "dst": dst}], keep=True, cores=2, error=message)
        one = {key: std[key] for key in ("x0", "y0")}
        case(op, "one core", one, both[:1], keep=True, error="in a program of one core")
        case(op, "on trn1", one, both[:1], target="trn1", keep=True, error="trn2 is the first")


ALL = [two_cores, two_cores_reduce, placement, banks, indirection, tensor_engine_indirection, more_rules, registers,
       scalars, split_collectives]
