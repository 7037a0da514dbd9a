"""Makes invalid instruction tests: each breaks one documented rule, and must be rejected with a
message that names the instruction; it may neither run nor crash.

Each breaker changes one instruction and returns what it broke, or None where it does not apply. The
message must speak of the broken rule: words of EXPECTED. Another rule that refuses the case by chance does
not hide that the broken one is not checked.
"""

import random
import re

from dtypes import DTYPES, FLOATS
from draw import Full
from generator import draw_case
from harness import CRASHED, OK
from machine import GENERATIONS, View

BREAKERS = []
FIRST = {"range_select": 3, "nonzero_with_count": 3, "activate2": 4, "exponential": 4, "quantize_mx": 4,
         "nc_matmul_mx": 4, "rand2": 4, "rand_set_state": 3, "rand_get_state": 3}  # fmt: skip
DMA = ("dma_copy", "dma_transpose", "dma_compute", "sendrecv", "sendrecv_compute", "register_load", "register_store")
ENGINES = {
    "tensor_tensor": ["vector", "gpsimd"], "tensor_scalar": ["vector", "scalar", "gpsimd"],
    "tensor_copy": ["vector", "scalar", "gpsimd"], "memset": ["vector", "gpsimd"],
    "iota": ["gpsimd"], "affine_select": ["gpsimd"], "local_gather": ["gpsimd"],
    "nc_n_gather": ["gpsimd"], "topk": ["gpsimd"], "sequence_bounds": ["gpsimd"],
    "nonzero_with_count": ["gpsimd"], "tensor_partition_reduce": ["gpsimd"], "activation": ["scalar", "gpsimd"],
    "activation_reduce": ["scalar"], "activate2": ["scalar", "gpsimd"], "nc_matmul": ["tensor"],
    "nc_matmul_mx": ["tensor"], "nc_transpose": ["tensor", "vector"], "rng": ["vector", "gpsimd"],
    "rand_set_state": ["vector", "gpsimd"], "rand_get_state": ["vector", "gpsimd"],
    "tensor_copy_dynamic_src": ["vector", "scalar", "gpsimd"],
    "tensor_copy_dynamic_dst": ["vector", "scalar", "gpsimd"],
}  # fmt: skip
# Sources that may not both be in PSUM.
PSUM_PAIRS = {"tensor_tensor": ("data1", "data2"), "scalar_tensor_tensor": ("data", "operand1"),
              "tensor_tensor_scan": ("data0", "data1"), "select_reduce": ("on_true", "predicate"),
              "tensor_copy_predicated": ("src", "predicate")}  # fmt: skip
SBUF_ONLY = {"iota": ["dst"], "affine_select": ["dst", "on_true_tile"], "local_gather": ["dst", "index"],
             "nc_n_gather": ["dst", "data", "indices"], "topk": ["src", "val_dst", "idx_dst"],
             "sequence_bounds": ["dst", "segment_ids"], "nonzero_with_count": ["dst", "src"],
             "tensor_partition_reduce": ["dst", "data"], "quantize_mx": ["src", "dst", "dst_scale"],
             "nc_matmul": ["stationary", "moving"], "nc_matmul_mx": ["stationary", "moving"],
             "dma_copy": ["dst", "src"], "dma_compute": ["dst"],
             "rand_set_state": ["src_seeds"]}  # fmt: skip
WRONG_DTYPE = {  # operand: dtypes the documents exclude
    "tensor_copy_predicated": {"predicate": ["float32", "int32", "bfloat16"]},
    "select_reduce": {"on_true": ["int32", "uint32", "tfloat32"], "predicate": ["float32", "uint32"],
                      "reduce_res": ["int32", "uint8"]},
    "tensor_scalar_cumulative": {"src": ["int32", "uint32"], "dst": ["int32", "uint32"]},
    "range_select": {"on_true_tile": ["int32", "uint8"], "bound0": ["bfloat16", "int32"]},
    "nc_find_index8": {"dst": ["int32", "float32", "uint8"]},
    "nc_match_replace8": {"dst_idx": ["int32", "float32", "uint16"]},
    "local_gather": {"index": ["int16", "uint32", "float32"]},
    "nc_n_gather": {"indices": ["int32", "uint16", "float32"]},
    "topk": {"src": ["float16"], "val_dst": ["float16"], "idx_dst": ["float32"]},
    "nonzero_with_count": {"src": ["float16", "uint8"], "dst": ["float32", "uint16"]},
    "sequence_bounds": {"segment_ids": ["bfloat16", "uint8"], "dst": ["uint16"]},
    "rng": {"dst": ["float32", "bfloat16"]},
    "rand_set_state": {"src_seeds": ["int32", "float32"]},
    "nc_matmul": {"stationary": ["int32", "uint8"], "moving": ["int16"], "dst": ["float16", "int32"]},
    "quantize_mx": {"src": ["float32", "int16"], "dst": ["float32"], "dst_scale": ["int8"]},
    "nc_matmul_mx": {"stationary": ["float32"], "moving_scale": ["int8"]},
    "exponential": {"src": ["tfloat32"], "dst": ["uint32"]},
}  # fmt: skip
PARTIAL = ("nc_matmul", "nc_matmul_mx", "nc_transpose", "dma_transpose", "tensor_partition_reduce",
           "rng", "rand_set_state", "rand_get_state", "memset", "iota", "quantize_mx",
           "nc_stream_shuffle")  # operands whose partition counts need not agree, or have only one


# Words of which the message has one, by rule.
EXPECTED = {
    "unknown_parameter": 'unknown parameter "no_such_parameter"',
    "missing_parameter": "is missing; it is required",
    "wrong_kind": 'is a list of|is an object|is "many"|is tensor "many"',
    "wrong_engine": "engine is",
    "too_old": "is not available on|is the first target|on (trn1|inf2|trn2)",
    "in_hbm": "is in HBM|in SBUF",
    "illegal_start": "start partition|a start on|starts|into a quadrant",
    "too_many_partitions": "partitions inside the tensor|partitions is|partitions from",
    "out_of_bounds": "offset is|an access within",
    "count_mismatch": "elements|element |the shape of|one column|of shape|x [0-9]+\\]|columns|dimensions",
    "row_mismatch": "partitions|partition |the shape of|one column|x [0-9]+\\]",
    "both_in_psum": "are both in PSUM|is in PSUM",
    "wrong_space": "is in PSUM|both in PSUM",
    "wrong_dtype": "; one of|the dtype of|dtype|float(16|32)",
    "bitvec_on_float": "an integer dtype|an arithmetic operator|bitvec|vector for bitwise",
    "unknown_operator": "an ALU operator|an activation function|is required",
    "too_new_operator": "for this operator|unary operator|one operand|mix bitvec|for op0=",
    "over_capacity": "a place within the [0-9]+ bytes",
}  # fmt: skip
CAPACITY = {"sbuf": {"trn1": 192, "inf2": 192, "trn2": 224, "trn3": 256},
            "psum": {"trn1": 16, "inf2": 16, "trn2": 16, "trn3": 16}}  # KiB per partition


def breaker(fn):
    BREAKERS.append(fn)
    return fn


def on_chip(inst, r):
    views = [(k, v) for k, v in inst.views() if v.on_chip and not v.dynamic]
    return r.choice(views) if views else (None, None)


@breaker
def unknown_parameter(case, inst, r):
    inst.args["no_such_parameter"] = 1
    return "a parameter that does not exist"


@breaker
def missing_parameter(case, inst, r):
    required = [k for k in ("dst", "data", "data1", "src", "op", "op0", "vals", "stationary", "srcs",
                            "pattern", "on_true_tile", "val_dst", "src_seeds", "tensor", "cores")
                if k in inst.args]  # fmt: skip
    key = r.choice(required)
    del inst.args[key]
    return f"{key} left out"


@breaker
def wrong_kind(case, inst, r):
    key = r.choice(sorted(inst.args))
    value = inst.args[key]
    inst.args[key] = [1.5] if not isinstance(value, list) else {"no": 1}
    if isinstance(value, (bool, int)) and not isinstance(value, View):
        inst.args[key] = "many"
    return f"{key} of a wrong kind"


@breaker
def wrong_engine(case, inst, r):
    allowed = ENGINES.get(inst.op, ["scalar", "sync", "gpsimd"] if inst.op in DMA else ["vector"])
    if inst.op in ("sendrecv", "sendrecv_compute", "core_barrier", "device_print") or inst.op.startswith("register"):
        return None  # any sequencer
    inst.engine = r.choice([e for e in ("tensor", "vector", "scalar", "gpsimd", "sync") if e not in allowed])
    return f"engine {inst.engine}"


@breaker
def too_old(case, inst, r):
    first = FIRST.get(inst.op)
    if not first:
        return None
    case.target = r.choice([t for t, g in GENERATIONS.items() if g < first])
    return f"target {case.target}"


@breaker
def in_hbm(case, inst, r):
    key, view = on_chip(inst, r)
    if view is None or inst.op in DMA or inst.op == "device_print":  # which may print HBM
        return None
    t = view.tensor
    t.space, t.shape, t.partition, t.address = "hbm", [t.shape[0] * t.shape[1]], 0, 0
    t.data = t.data.reshape(1, -1)
    view.dims, view.text = [[t.row_bytes() // t.shape[0] or 1, view.parts]] + view.dims, None
    return f"{key} in HBM"


@breaker
def illegal_start(case, inst, r):
    key, view = on_chip(inst, r)
    if view is None or inst.op in DMA or view.parts + 1 > 127:
        return None
    t = view.tensor
    starts = [p for p in (1, 2, 16, 31, 33, 48, 63, 65) if p + view.parts <= 128]
    t.partition, view.part, view.text = 0, r.choice(starts) if view.parts < 127 else 1, None
    rows = view.part + view.parts
    t.data = t.data[:1].repeat(rows, axis=0)
    t.shape[0] = rows
    return f"{key} starts at partition {view.part}"


@breaker
def too_many_partitions(case, inst, r):
    key, view = on_chip(inst, r)
    if view is None:
        return None
    view.parts, view.text = view.tensor.shape[0] - view.part + r.randint(1, 100), None
    return f"{key} leaves its tensor's partitions"


@breaker
def out_of_bounds(case, inst, r):
    views = [(k, v) for k, v in inst.views() if not v.dynamic]
    if not views:
        return None
    key, view = r.choice(views)
    size = view.dtype.size
    view.offset, view.text = r.choice([view.tensor.row_bytes(), -size, 2**40, -(2**40)]), None
    return f"{key} at offset {view.offset}"


@breaker
def over_capacity(case, inst, r):
    key, view = on_chip(inst, r)
    if view is None:
        return None
    case.virtual = False
    tensor = view.tensor
    end = CAPACITY[tensor.space][case.target] * 1024
    tensor.address = end - tensor.row_bytes() + r.choice([4, 64, 4096])
    return f"{key} ends beyond {tensor.space}"


@breaker
def count_mismatch(case, inst, r):
    key, view = on_chip(inst, r)
    if view is None or inst.op in ("memset", "rng", "local_gather", "rand2", "topk", "nc_stream_shuffle"):
        return None
    if inst.op in ("max8", "bn_stats", "nc_n_gather", "nc_matmul", "bn_aggr",
                   "nc_find_index8") and key != "dst":  # fmt: skip
        return None
    if key.endswith("_scale"):  # may be a wider tile
        return None
    if inst.op == "nc_transpose":
        return None
    view.dims, view.text = view.dims + [[0, 2]], None
    if inst.op == "tensor_reduce" and key == "data":
        inst.args["axis"] = [len(view.dims)]
        view.dims.append([0, 1])
        inst.args["axis"] = [len(view.dims)]
        if inst.args["dst"].columns == view.columns:
            return None
    return f"{key} with twice the elements"


@breaker
def row_mismatch(case, inst, r):
    key, view = on_chip(inst, r)
    others = [v for k, v in inst.views() if v is not view and v.on_chip]
    if view is None or inst.op in PARTIAL or not others or view.parts < 2:
        return None
    if all(v.rows == 1 for v in others):
        return None
    view.parts, view.text = view.parts - 1, None
    return f"{key} with one partition less"


@breaker
def both_in_psum(case, inst, r):
    pair = PSUM_PAIRS.get(inst.op)
    if not pair or not all(isinstance(inst.args.get(k), View) for k in pair):
        return None
    if inst.engine == "gpsimd" or any(inst.args[k].tensor.row_bytes() > 2048 for k in pair):
        return None
    case.virtual = True
    for key in pair:
        inst.args[key].tensor.space = "psum"
    return "both inputs in PSUM"


@breaker
def wrong_space(case, inst, r):
    keys = [k for k in SBUF_ONLY.get(inst.op, []) if isinstance(inst.args.get(k), View)]
    keys = [k for k in keys if inst.args[k].on_chip]
    if not keys:
        return None
    key = r.choice(keys)
    if inst.args[key].tensor.row_bytes() > 16384:
        return None
    case.virtual = True
    inst.args[key].tensor.space = "psum"
    return f"{key} in PSUM"


@breaker
def wrong_dtype(case, inst, r):
    table = WRONG_DTYPE.get(inst.op, {})
    keys = [k for k in table if isinstance(inst.args.get(k), View)]
    if not keys:
        return None
    key = r.choice(keys)
    view = inst.args[key]
    wrong = DTYPES[r.choice(table[key])]
    if wrong.size > view.dtype.size or inst.args.get("is_transpose") or wrong is view.dtype:
        return None
    view.dtype, view.text = wrong, None
    return f"{key} as {wrong.name}"


@breaker
def bitvec_on_float(case, inst, r):
    key = "op0" if "op0" in inst.args else "op"
    if inst.op not in ("tensor_tensor", "tensor_scalar", "tensor_reduce", "scalar_tensor_tensor",
                       "tensor_tensor_scan", "tensor_scalar_reduce"):  # fmt: skip
        return None
    data = inst.args.get("data", inst.args.get("data1", inst.args.get("data0")))
    if data.dtype not in FLOATS:
        return None
    if inst.op == "tensor_scalar" and inst.args.get("operand0") is None:  # a unary operator's
        return None
    inst.args[key] = r.choice(["bitwise_and", "bitwise_or", "bitwise_xor"])
    return f"{inst.args[key]} on {data.dtype.name}"


@breaker
def unknown_operator(case, inst, r):
    keys = [k for k in ("op", "op0", "reduce_op", "cmp_op", "reduce_cmd") if k in inst.args]
    if not keys:
        return None
    key = r.choice(keys)
    inst.args[key] = r.choice(["frobnicate", "", "ADD!"])
    return f"{key} {inst.args[key]!r}"


@breaker
def too_new_operator(case, inst, r):
    """abs_max, abs_min, square and relu came with trn3."""
    if inst.op not in ("tensor_scalar", "tensor_scalar_reduce") or case.target == "trn3":
        return None
    inst.args["op0"] = r.choice(["square", "relu", "abs_max", "abs_min"])
    return f"{inst.args['op0']} on {case.target}"


@breaker
def op_specific(case, inst, r):
    a = inst.args
    if inst.op == "local_gather":
        a["num_elem_per_idx"] = 3
    elif inst.op == "nc_stream_shuffle":
        a["shuffle_mask"] = r.choice([list(range(31)), list(range(33)), [32] * 32, [-1] * 32])
    elif inst.op == "tensor_reduce":
        a["axis"] = r.choice([[0], [len(a["data"].dims) + 1], []])
    elif inst.op == "range_select":
        a["on_false_value"] = 0.0
    elif inst.op == "topk":
        a["n"] = r.choice([7, 65536, a["src"].columns * 16 + 1])
    elif inst.op == "tensor_partition_reduce":
        a["op"] = r.choice(["minimum", "multiply", "subtract"])
    elif inst.op in ("iota", "affine_select"):
        a["pattern"] = a["pattern"][:-1] if r.random() < 0.5 else a["pattern"] + [1, 2]
    elif inst.op in ("activation", "activation_reduce"):
        if "reduce_op" not in a:
            return None
        a["reduce_op"] = "bitwise_and"
    elif inst.op == "activate2":
        a["op0"], a["op1"] = "add", "multiply"
    elif inst.op == "dma_copy":
        if case.target != "trn1" or a["src"].dynamic or a["dst"].dynamic:
            return None
        a["dge_mode"] = "hwdge"
    elif inst.op == "dma_compute":
        a["reduce_op"] = "maximum"
    elif inst.op == "rand2":
        a["min"], a["max"] = 2.0, 1.0
    elif inst.op == "dma_transpose":
        a["axes"] = list(range(len(a["src"].dims) + a["src"].on_chip))
    elif inst.op == "tensor_scalar" and a["op0"] in ("abs", "reciprocal"):
        a["operand0"] = 3.0
    else:
        return None
    return "a rule of its own"


def broken_case(op, seed, target):
    """A drawn case with one broken rule: (case, what)."""
    r = random.Random(f"{seed}/broken")
    for attempt in range(40):
        try:
            case = draw_case(op, f"{seed}/{attempt}", target=target, max_parts=64, max_columns=64)
        except (Full, RuntimeError):
            continue
        fn = r.choice(BREAKERS)
        inst = next(i for i in reversed(case.insts) if i.op == case.insts[-1].op)
        what = fn(case, inst, r)
        if what:
            return case, fn.__name__, what
    raise RuntimeError(f"{op}: nothing to break")


def check(driver, op, seed, target):
    """(coverage keys, failure or None)."""
    case, rule, what = broken_case(op, seed, target)
    keys = {("rejects",), (op, "reject", rule)}
    status, message, _ = driver.run(case)
    if status == CRASHED:
        return keys, ("crash", f"{what}: {message}", case)
    if status == OK:
        return keys, ("accepted", f"{what}, yet it ran", case)
    if not re.search(EXPECTED.get(rule, "."), message) or len(message) < 20:
        return keys, ("message", f"{rule}, {what}: {message!r}", case)
    return keys, None
