"""Lists nki.isa calls that AWS's documents forbid, each with the rule it breaks; nkisim must refuse
every one.
"""

import numpy as np

from .bench import refuse, t
from .case import nisa, nl

F32, P = t(), t(buffer="psum")
ENGINE = {n: nisa("engine." + n) for n in ("vector", "scalar", "gpsimd", "tensor")}
COL = t(shape=(32, 1))
RESET = {"reduce_cmd": nisa("reduce_cmd.reset_reduce")}

refuse("tensor_copy", "not on the Scalar Engine of v2", last=2, dst=F32, src=F32, engine=ENGINE["scalar"])
refuse("tensor_copy", "GpSimd cannot access PSUM", dst=F32, src=P, engine=ENGINE["gpsimd"])
refuse("tensor_copy", "same partition size", dst=t(shape=(16, 16)), src=F32)
refuse("tensor_copy", "same number of elements per partition", dst=t(shape=(32, 8)), src=F32)
refuse("memset", "x4 types: only value=0", first=4, dst=t("float8_e4m3fn_x4"), value=1)
refuse("memset", "Vector or GpSimd", dst=F32, value=1.0, engine=ENGINE["scalar"])
for other in ("int32", "float32", "int8", "bfloat16"):
    refuse("tensor_copy_predicated", "predicate is uint8, 16 or 32", dst=F32, src=F32, predicate=t(other))
refuse("tensor_copy_predicated", "src and dst share the type", dst=F32, src=t("bfloat16"), predicate=t("uint8"))
refuse("tensor_copy_predicated", "not both in PSUM", dst=F32, src=P, predicate=t("uint32", buffer="psum"))
refuse("tensor_copy_predicated", "as many elements", dst=F32, src=F32, predicate=t("uint8", (32, 8)))

PS = t(buffer="psum", shape=(16, 16))
BF = t("bfloat16")
refuse("nc_matmul", "dst is in PSUM", dst=t(shape=(16, 16)), stationary=BF, moving=BF)
refuse("nc_matmul", "inputs are in SBUF", dst=PS, stationary=t("bfloat16", buffer="psum"), moving=BF)
refuse("nc_matmul", "float32 goes with float32", dst=PS, stationary=F32, moving=BF)
refuse("nc_matmul", "partition sizes are identical", dst=PS, stationary=BF, moving=t("bfloat16", (16, 16)))
refuse("nc_matmul", "no integers", dst=PS, stationary=t("int8"), moving=t("int8"))
refuse(
    "nc_matmul", "dst is float32 on v2 and v3", last=3, dst=t("bfloat16", (16, 16), "psum"), stationary=BF, moving=BF
)
refuse("nc_matmul", "dst is float32 or bfloat16", dst=t("float16", (16, 16), "psum"), stationary=BF, moving=BF)
refuse("nc_matmul", "float8_e4m3fn starts with v4", last=3, dst=PS, stationary=t("float8_e4m3fn"), moving=BF)
refuse(
    "nc_matmul", "e4m3 and e4m3fn do not mix", first=4, dst=PS, stationary=t("float8_e4m3fn"), moving=t("float8_e4m3")
)
refuse(
    "nc_matmul",
    "moving has at most 512 columns",
    last=3,
    dst=t(shape=(16, 600), buffer="psum"),
    stationary=BF,
    moving=t("bfloat16", (32, 600)),
)
refuse("nc_matmul", "dst has the shape of the product", dst=t(shape=(16, 8), buffer="psum"), stationary=BF, moving=BF)
DOUBLE = {"perf_mode": nisa("matmul_perf_mode.double_row")}
refuse(
    "nc_matmul",
    "double_row is not on v2",
    last=2,
    dst=PS,
    stationary=t("float8_e5m2", (32, 2, 16)),
    moving=t("float8_e5m2", (32, 2, 16)),
    **DOUBLE,
)
refuse(
    "nc_matmul",
    "double_row is for FP8",
    first=3,
    dst=PS,
    stationary=t("bfloat16", (32, 2, 16)),
    moving=t("bfloat16", (32, 2, 16)),
    **DOUBLE,
)
refuse(
    "nc_matmul",
    "double_row: the first free dimension is 2",
    first=3,
    dst=PS,
    stationary=t("float8_e5m2", (32, 3, 16)),
    moving=t("float8_e5m2", (32, 3, 16)),
    **DOUBLE,
)
refuse(
    "nc_matmul",
    "32 rows start with v3",
    last=2,
    dst=PS,
    stationary=BF,
    moving=BF,
    tile_position=(0, 0),
    tile_size=(32, 128),
)
refuse(
    "nc_matmul",
    "start_row is a multiple of row_size",
    dst=PS,
    stationary=BF,
    moving=BF,
    tile_position=(32, 0),
    tile_size=(64, 128),
)
refuse(
    "nc_matmul", "tile_position and tile_size come together", dst=PS, stationary=BF, moving=BF, tile_position=(64, 0)
)
refuse(
    "nc_matmul",
    "the stationary fits the tile",
    dst=PS,
    stationary=t("bfloat16", (128, 16)),
    moving=t("bfloat16", (128, 16)),
    tile_position=(0, 0),
    tile_size=(64, 128),
)
refuse(
    "nc_transpose", "Vector: at most 32 x 32", dst=t(shape=(64, 32)), data=t(shape=(32, 64)), engine=ENGINE["vector"]
)
refuse("nc_transpose", "dst has the type of data", dst=t("bfloat16", (16, 32)), data=F32, engine=ENGINE["vector"])
refuse("nc_transpose", "Tensor writes PSUM", dst=t(shape=(16, 32)), data=F32, engine=ENGINE["tensor"])
refuse("nc_transpose", "Tensor reads SBUF", dst=t(shape=(16, 32), buffer="psum"), data=P, engine=ENGINE["tensor"])
refuse("nc_transpose", "dst has the transposed shape", dst=F32, data=F32, engine=ENGINE["vector"])

ADD, AND = nl("add"), nl("bitwise_and")
refuse("tensor_tensor", "bit operators want integers", dst=F32, data1=F32, data2=F32, op=AND)
refuse("tensor_tensor", "not both in PSUM", dst=F32, data1=P, data2=P, op=ADD)
refuse("tensor_tensor", "power: no tile in PSUM", dst=F32, data1=P, data2=F32, op=nl("power"))
refuse("tensor_tensor", "same partition size", dst=F32, data1=F32, data2=t(shape=(16, 16)), op=ADD)
refuse("tensor_tensor", "same number of elements", dst=F32, data1=F32, data2=t(shape=(32, 8)), op=ADD)
refuse("tensor_tensor", "Vector or GpSimd", dst=F32, data1=F32, data2=F32, op=ADD, engine=ENGINE["scalar"])
refuse("tensor_tensor", "GpSimd cannot access PSUM", dst=P, data1=F32, data2=F32, op=ADD, engine=ENGINE["gpsimd"])
refuse("tensor_tensor", "abs_max starts with v4", last=3, dst=F32, data1=F32, data2=F32, op=nl("abs_max"))
I8 = t("int8")
refuse(
    "tensor_scalar",
    "both bit operators or both arithmetic",
    dst=I8,
    data=I8,
    op0=AND,
    operand0=1,
    op1=ADD,
    operand1=1.0,
)
refuse("tensor_scalar", "bit operators want integers", dst=F32, data=F32, op0=AND, operand0=1)
refuse("tensor_scalar", "bit operators run on Vector", dst=I8, data=I8, op0=AND, operand0=1, engine=ENGINE["gpsimd"])
refuse("tensor_scalar", "operand0 is float32", dst=F32, data=F32, op0=ADD, operand0=t("bfloat16", (32, 1)))
refuse("tensor_scalar", "operand0 has one element per partition", dst=F32, data=F32, op0=ADD, operand0=t(shape=(32, 2)))
refuse("tensor_scalar", "operand0 has the partitions of data", dst=F32, data=F32, op0=ADD, operand0=t(shape=(16, 1)))
refuse(
    "tensor_scalar",
    "Scalar on trn2: multiply, add",
    first=3,
    last=3,
    dst=F32,
    data=F32,
    op0=nl("maximum"),
    operand0=1.0,
    engine=ENGINE["scalar"],
)
refuse(
    "tensor_scalar",
    "Scalar on trn2: multiply then add",
    first=3,
    last=3,
    dst=F32,
    data=F32,
    op0=ADD,
    operand0=1.0,
    op1=nl("multiply"),
    operand1=2.0,
    engine=ENGINE["scalar"],
)
refuse("tensor_scalar", "the unary operand is None or 0", dst=F32, data=F32, op0=nl("abs"), operand0=2.0)
refuse("scalar_tensor_tensor", "no bit operators", dst=I8, data=I8, op0=AND, operand0=1.0, op1=AND, operand1=I8)
refuse("scalar_tensor_tensor", "not both in PSUM", dst=F32, data=P, op0=ADD, operand0=1.0, op1=ADD, operand1=P)
refuse(
    "scalar_tensor_tensor",
    "operand1 has the shape of data",
    dst=F32,
    data=F32,
    op0=ADD,
    operand0=1.0,
    op1=ADD,
    operand1=t(shape=(32, 8)),
)

refuse("tensor_reduce", "axis 0 cannot be reduced", dst=t(shape=(1, 16)), op=ADD, data=F32, axis=0)
refuse("tensor_reduce", "the last axes", dst=t(shape=(32, 4)), op=ADD, data=t(shape=(32, 4, 4)), axis=1)
for op in ("equal", "less", "power", "left_shift", "abs_max"):
    refuse("tensor_reduce", "a legal operator of reductions", dst=COL, op=nl(op), data=F32, axis=1)
refuse("tensor_reduce", "bit operators want integers", dst=COL, op=AND, data=F32, axis=1)
refuse("tensor_reduce", "negate is for arithmetic", dst=t("int8", (32, 1)), op=AND, data=I8, axis=1, negate=True)
refuse("tensor_reduce", "dst has one element per partition", dst=t(shape=(32, 2)), op=ADD, data=F32, axis=1)
refuse("tensor_partition_reduce", "add, average, max, or, and", dst=t(shape=(1, 16)), op=nl("multiply"), data=F32)
for other in ("int32", "uint32"):
    refuse("tensor_scalar_cumulative", "no 32-bit integers", dst=F32, src=t(other), op0=ADD, op1=ADD, imm0=1.0)
    refuse("tensor_scalar_cumulative", "no 32-bit integers", dst=t(other), src=F32, op0=ADD, op1=ADD, imm0=1.0)
refuse("tensor_scalar_cumulative", "op1 is add .. min", dst=F32, src=F32, op0=ADD, op1=nl("equal"), imm0=1.0)
refuse("tensor_scalar_cumulative", "op0 is arithmetic", dst=I8, src=I8, op0=AND, op1=ADD, imm0=1.0)
refuse("tensor_scalar_cumulative", "imm0 is float32", dst=F32, src=F32, op0=ADD, op1=ADD, imm0=t("bfloat16", (32, 1)))
refuse("tensor_scalar_reduce", "no bit operators", dst=I8, data=I8, op0=AND, operand0=1, reduce_op=ADD, reduce_res=COL)
refuse(
    "tensor_scalar_reduce",
    "reduce_op is add .. min",
    dst=F32,
    data=F32,
    op0=ADD,
    operand0=1.0,
    reduce_op=nl("subtract"),
    reduce_res=COL,
)
refuse(
    "tensor_scalar_reduce",
    "load_reduce needs reduce_init",
    dst=F32,
    data=F32,
    op0=ADD,
    operand0=1.0,
    reduce_op=ADD,
    reduce_res=COL,
    reduce_cmd=nisa("reduce_cmd.load_reduce"),
)
refuse(
    "tensor_scalar_reduce",
    "reduce_res is a column",
    dst=F32,
    data=F32,
    op0=ADD,
    operand0=1.0,
    reduce_op=ADD,
    reduce_res=F32,
)
refuse("tensor_tensor_scan", "not both in PSUM", dst=F32, data0=P, data1=P, initial=0.0, op0=ADD, op1=ADD)
refuse("tensor_tensor_scan", "arithmetic operators", dst=I8, data0=I8, data1=I8, initial=0.0, op0=AND, op1=ADD)
refuse(
    "tensor_tensor_scan", "as many elements", dst=F32, data0=F32, data1=t(shape=(32, 8)), initial=0.0, op0=ADD, op1=ADD
)

EXP = nl("exp")
refuse("activation", "bias is a vector on v2", last=2, dst=F32, op=EXP, data=F32, bias=1.5)
refuse("activation", "reduce_op is add", dst=F32, op=EXP, data=F32, reduce_op=nl("maximum"), reduce_res=COL, **RESET)
refuse("activation", "scale is float32", dst=F32, op=EXP, data=F32, scale=t("bfloat16", (32, 1)))
refuse("activation", "scale has the partitions of data", dst=F32, op=EXP, data=F32, scale=t(shape=(16, 1)))
refuse("activation", "an activation function", dst=F32, op=nl("subtract"), data=F32)
refuse(
    "activation_reduce",
    "reduce_op is add on v2",
    last=2,
    dst=F32,
    op=EXP,
    data=F32,
    reduce_op=nl("maximum"),
    reduce_res=COL,
)
BYPASS = nl("bypass")
refuse("activate2", "v4 only", last=3, dst=F32, op=EXP, data=F32, imm0=1.0, imm1=0.0, op0=BYPASS, op1=BYPASS)
refuse(
    "activate2",
    "six pairs of operators",
    first=4,
    dst=F32,
    op=EXP,
    data=F32,
    imm0=1.0,
    imm1=0.0,
    op0=ADD,
    op1=nl("multiply"),
)
refuse(
    "activate2",
    "reduce_op is add .. abs_min",
    first=4,
    dst=F32,
    op=EXP,
    data=F32,
    imm0=1.0,
    imm1=0.0,
    op0=BYPASS,
    op1=BYPASS,
    reduce_op=nl("multiply"),
    reduce_res=COL,
    **RESET,
)
refuse("exponential", "v4 only", last=3, dst=F32, src=F32)
refuse("exponential", "dst of uint32 is not listed", first=4, dst=t("uint32"), src=F32)
refuse("exponential", "max_value is float32", first=4, dst=F32, src=F32, max_value=t("bfloat16", (32, 1)))
refuse("exponential", "as many elements", first=4, dst=F32, src=t(shape=(32, 8)))

LINE = [[1, 16]]
refuse("iota", "dst is in SBUF", dst=t("int32", buffer="psum"), pattern=LINE)
refuse("iota", "the pattern fills dst", dst=t("int32"), pattern=[[1, 8]])
refuse("iota", "at most four dimensions", dst=t("int32"), pattern=[[1, 2], [1, 2], [1, 2], [1, 2], [1, 1]])
refuse(
    "affine_select", "dst is in SBUF", dst=P, pattern=LINE, channel_multiplier=1, on_true_tile=F32, on_false_value=0.0
)
refuse(
    "affine_select",
    "the pattern fills dst",
    dst=F32,
    pattern=[[1, 8]],
    channel_multiplier=1,
    on_true_tile=F32,
    on_false_value=0.0,
)
refuse(
    "affine_select",
    "cmp_op compares",
    dst=F32,
    pattern=LINE,
    channel_multiplier=1,
    on_true_tile=F32,
    on_false_value=0.0,
    cmp_op=ADD,
)
U16, U32 = t("uint16", (32, 1)), t("uint32", (32, 1))
refuse("local_gather", "index is uint16", dst=F32, src_buffer=F32, index=U32)
refuse(
    "local_gather",
    "a multiple of 16 partitions",
    dst=t(shape=(24, 16)),
    src_buffer=t(shape=(24, 16)),
    index=t("uint16", (24, 1)),
)
refuse("local_gather", "1, 2, 4 .. 32 elements", dst=t(shape=(32, 48)), src_buffer=F32, index=U16, num_elem_per_idx=3)
refuse("local_gather", "no cast", dst=BF, src_buffer=F32, index=U16)
refuse("local_gather", "valid ones exist", dst=t(shape=(32, 20)), src_buffer=F32, index=U16, num_valid_indices=20)
refuse("nc_n_gather", "indices are uint32", dst=COL, data=F32, indices=t("int32", (32, 1)))
refuse("nc_n_gather", "dst has the type of data", dst=t("bfloat16", (32, 1)), data=F32, indices=U32)
refuse("nc_n_gather", "all in SBUF", dst=COL, data=P, indices=U32)
refuse("nc_n_gather", "dst has the shape of indices", dst=t(shape=(32, 2)), data=F32, indices=U32)
refuse("bn_stats", "at most 512 elements", dst=t(shape=(32, 6)), data=t(shape=(32, 513)))
refuse("bn_stats", "6 results", dst=t(shape=(32, 5)), data=F32)
refuse("bn_aggr", "a multiple of three", dst=t(shape=(32, 2)), data=t(shape=(32, 7)))
refuse("bn_aggr", "two results", dst=t(shape=(32, 3)), data=t(shape=(32, 6)))
refuse("max8", "at least 8 elements", dst=t(shape=(32, 8)), src=t(shape=(32, 7)))
refuse("max8", "8 results", dst=t(shape=(32, 7)), src=F32)
EIGHT = t(shape=(32, 8))
refuse("nc_find_index8", "uint16 or uint32", dst=t("int32", (32, 8)), data=F32, vals=EIGHT)
refuse("nc_find_index8", "8 values", dst=t("uint32", (32, 8)), data=F32, vals=t(shape=(32, 7)))
refuse("nc_find_index8", "at least 8 elements", dst=t("uint32", (32, 8)), data=t(shape=(32, 7)), vals=EIGHT)
refuse("nc_match_replace8", "8 values", dst=F32, data=F32, vals=t(shape=(32, 9)), imm=0.0)
refuse("nonzero_with_count", "from v3 on", last=2, dst=t("int32", (32, 17)), src=F32)
refuse("nonzero_with_count", "one element more", first=3, dst=t("int32", (32, 16)), src=F32)
refuse("nonzero_with_count", "float32 or int32", first=3, dst=t("int32", (32, 17)), src=BF)
refuse("nonzero_with_count", "dst is int32", first=3, dst=t("uint32", (32, 17)), src=F32)
refuse("nonzero_with_count", "src is in SBUF", first=3, dst=t("int32", (32, 17)), src=P)
refuse("sequence_bounds", "one partition", dst=t(shape=(2, 2, 16)), segment_ids=t(shape=(2, 16)))
refuse("sequence_bounds", "float32 or int32", dst=t("bfloat16", (1, 2, 16)), segment_ids=t("bfloat16", (1, 16)))
SNAKE = {"val_dst": t("bfloat16", (32, 16)), "idx_dst": t("uint32", (32, 16))}
refuse("topk", "src is bfloat16", src=F32, n=32, **SNAKE)
refuse("topk", "n is at least 8", src=BF, n=7, **SNAKE)
refuse("topk", "k is at most n", src=BF, n=12, **SNAKE)
refuse("topk", "src holds n", src=t("bfloat16", (32, 1)), n=40, **SNAKE)

MASK = list(range(32))
refuse("nc_stream_shuffle", "dst has the type of src", dst=BF, src=F32, shuffle_mask=MASK)
refuse("nc_stream_shuffle", "32 elements", dst=F32, src=F32, shuffle_mask=MASK[:31])
refuse("nc_stream_shuffle", "as many elements", dst=t(shape=(32, 8)), src=F32, shuffle_mask=MASK)
refuse("nc_stream_shuffle", "a partition of the quadrant or 255", dst=F32, src=F32, shuffle_mask=[*MASK[:31], 32])
for other in ("float32", "bfloat16"):
    refuse("rng", "integers only", dst=t(other))
refuse("rng", "GpSimd from v3 on", last=2, dst=t("uint32"), engine=ENGINE["gpsimd"])
refuse("rng", "GpSimd cannot access PSUM", first=3, dst=t("uint32", buffer="psum"), engine=ENGINE["gpsimd"])
refuse("rand2", "v4 only", last=3, dst=F32, min=0.0, max=1.0)
refuse("rand2", "min < max", first=4, dst=F32, min=1.0, max=1.0)
refuse("dropout", "dst has the type of data", dst=BF, data=F32, prob=0.5)
refuse("dropout", "prob of integers is float32", dst=I8, data=I8, prob=t("bfloat16", (32, 1)))
refuse("dropout", "prob is a float", dst=F32, data=F32, prob=t("int32", (32, 1)))
refuse("set_rng_seed", "a [1,1] tensor", src_seeds=t("uint32", (1, 2)))
refuse("set_rng_seed", "a 32-bit value", src_seeds=t("uint16", (1, 1)))
refuse("rand_set_state", "from v3 on", last=2, src_seeds=t("uint32", (32, 6)))
refuse("rand_set_state", "6 words on GpSimd", first=3, src_seeds=t("uint32", (32, 5)))
refuse("rand_set_state", "Vector from v4 on", first=3, last=3, src_seeds=t("uint32", (32, 24)), engine=ENGINE["vector"])
refuse("rand_set_state", "uint32", first=3, src_seeds=t("int32", (32, 6)))

SELECT = {"comp_op0": nl("less"), "comp_op1": nl("less"), "on_false_value": float(np.finfo(np.float32).min)}
refuse("range_select", "from v3 on", last=2, dst=F32, on_true_tile=F32, bound0=COL, bound1=COL, **SELECT)
refuse(
    "range_select",
    "bounds are float32",
    first=3,
    dst=F32,
    on_true_tile=F32,
    bound0=t("bfloat16", (32, 1)),
    bound1=COL,
    **SELECT,
)
refuse(
    "range_select",
    "on_true_tile is a float",
    first=3,
    dst=F32,
    on_true_tile=t("int32"),
    bound0=COL,
    bound1=COL,
    **SELECT,
)
refuse("range_select", "one bound per partition", first=3, dst=F32, on_true_tile=F32, bound0=F32, bound1=COL, **SELECT)
refuse(
    "range_select",
    "five comparisons",
    first=3,
    dst=F32,
    on_true_tile=F32,
    bound0=COL,
    bound1=COL,
    **SELECT | {"comp_op0": nl("not_equal")},
)
refuse(
    "range_select",
    "on_false_value is FP32_MIN",
    first=3,
    dst=F32,
    on_true_tile=F32,
    bound0=COL,
    bound1=COL,
    **SELECT | {"on_false_value": 0.0},
)
refuse(
    "range_select",
    "reduce_op is maximum",
    first=3,
    dst=F32,
    on_true_tile=F32,
    bound0=COL,
    bound1=COL,
    reduce_op=ADD,
    reduce_res=COL,
    **SELECT,
)
U8 = t("uint8")
for other in ("int32", "uint32"):
    refuse("select_reduce", "on_true is no 32-bit integer", dst=F32, predicate=U8, on_true=t(other), on_false=0.0)
    refuse("select_reduce", "predicate has 8 or 16 bits", dst=F32, predicate=t(other), on_true=F32, on_false=0.0)
refuse("select_reduce", "predicate is an integer", dst=F32, predicate=F32, on_true=F32, on_false=0.0)
refuse("select_reduce", "not both in PSUM", dst=F32, predicate=t("uint8", buffer="psum"), on_true=P, on_false=0.0)
refuse(
    "select_reduce",
    "reduce_op is max",
    dst=F32,
    predicate=U8,
    on_true=F32,
    on_false=0.0,
    reduce_op=ADD,
    reduce_res=COL,
    **RESET,
)
refuse(
    "select_reduce",
    "reduce_res is a float",
    dst=F32,
    predicate=U8,
    on_true=F32,
    on_false=0.0,
    reduce_op=nl("maximum"),
    reduce_res=t("int8", (32, 1)),
    **RESET,
)

X4, SCALE = t("float8_e4m3fn_x4", (32, 4)), t("uint8", (4, 4))
refuse("quantize_mx", "v4 only", last=3, dst=t("uint32", (32, 4)), src=BF, dst_scale=SCALE)
refuse("quantize_mx", "src is float16 or bfloat16", first=4, dst=X4, src=F32, dst_scale=SCALE)
refuse(
    "quantize_mx",
    "a multiple of 32 partitions",
    first=4,
    dst=t("float8_e4m3fn_x4", (16, 4)),
    src=t("bfloat16", (16, 16)),
    dst_scale=t("uint8", (2, 4)),
)
refuse("quantize_mx", "a multiple of 4 columns", first=4, dst=X4, src=t("bfloat16", (32, 18)), dst_scale=SCALE)
refuse("quantize_mx", "all in SBUF", first=4, dst=X4, src=t("bfloat16", buffer="psum"), dst_scale=SCALE)
refuse("quantize_mx", "dst is an x4 of FP8", first=4, dst=t("float8_e4m3fn"), src=BF, dst_scale=SCALE)

refuse("dma_copy", "the element counts match", dst=t(shape=(32, 8)), src=F32)
refuse("dma_copy", "no PSUM", dst=F32, src=P)
refuse("dma_copy", "hwdge from v3 on", last=2, dst=F32, src=F32, dge_mode=nisa("dge_mode.hwdge"))
refuse("dma_copy", "priority from v4 on", last=3, dst=F32, src=F32, priority=1)
refuse("dma_copy", "priority is 0 to 3", first=4, dst=F32, src=F32, priority=4)
refuse("dma_compute", "reduce_op is add", dst=F32, srcs=lambda b: [b.tile(), b.tile()], reduce_op=nl("maximum"))
refuse("dma_compute", "scales are 1.0", dst=F32, srcs=lambda b: [b.tile(), b.tile()], reduce_op=ADD, scales=[1.0, 2.0])
refuse("dma_compute", "at most 16 sources", dst=F32, srcs=lambda b: [b.tile() for _ in range(17)], reduce_op=ADD)
refuse(
    "dma_compute", "the element counts match", dst=F32, srcs=lambda b: [b.tile(), b.tile(shape=(32, 8))], reduce_op=ADD
)
refuse("dma_transpose", "the axes of the rank", dst=F32, src=t(shape=(16, 32)), axes=(0, 1))
refuse("dma_transpose", "one type", dst=t("float16", (16, 32)), src=BF, axes=(1, 0))
refuse(
    "dma_transpose",
    "hwdge: 16 rows",
    first=3,
    dst=t("bfloat16", (16, 32)),
    src=BF,
    axes=(1, 0),
    dge_mode=nisa("dge_mode.hwdge"),
)
refuse(
    "dma_transpose",
    "hwdge: two bytes",
    first=3,
    dst=t(shape=(32, 16)),
    src=t(shape=(16, 32)),
    axes=(1, 0),
    dge_mode=nisa("dge_mode.hwdge"),
)
