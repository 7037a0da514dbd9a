"""Maps each measurement of a chip to the program and the simulated figure that are compared with
it.

A point is (measurement id, program, reading). Programs are built once and simulated once however
many points read them. Constants that belong to the way of measuring, not to the kernel, are here.
"""
import json
from functools import partial
from pathlib import Path

from programs import laws, matmul, single, vector

# Fixed overheads in us that a source's latency contains and a simulated kernel does not
# (docs/evidence.md): both trn2 values are from the two device profiles in profiles/.
BENCHMARK = 7.8         # nki.benchmark latency less the kernel body: 7.0 and 8.6
PROFILE = {"trn2": 15.35,  # total_time before the body (13.66) and after it (1.69)
           "trn3": 15.35,  # as trn2 (assumed)
           "trn1": 17.0}   # "about 13 us start, 4 us teardown" in the Mamba profiles
PEAK = {"trn2": 78.6432e6}  # bf16 flop per us: 128 x 128 x 2 x 2.4 GHz

# Bound of the points: latency where no engine is busy most of the time.
TENSOR, VECTOR, SCALAR, GPSIMD, DMA, LATENCY = "tensor", "vector", "scalar", "gpsimd", "DMA", "latency"


class Point:
    def __init__(self, measurement, program, read, bound, group=""):
        self.measurement, self.program, self.read = measurement, program, read
        self.bound, self.group = bound, group


def total(add=0.0):
    return lambda s: s["total_time"] * 1e6 + add


def mfu(flops, target="trn2"):
    return lambda s: 100 * flops / (total(PROFILE[target])(s) * PEAK[target])


def active(engine, target="trn2"):
    return lambda s: 100 * s[f"{engine}_engine_active_time"] * 1e6 / total(PROFILE[target])(s)


def share(engine):
    return lambda s: 100 * s[f"{engine}_engine_active_time_percent"]


def per_instruction(engine):
    return lambda s: (1e9 * s[f"{engine}_engine_instruction_time"]
                      / s[f"{engine}_engine_instruction_count"])


def scaled(name, factor):
    return lambda s: s[name] * factor


def table_load(s):
    """One activation: what ScalarE did apart from ACTIVATE."""
    return 1e9 * (s["scalar_engine_instruction_time"] - s["activate_instruction_time"])


def activate(s):
    return 1e9 * s["activate_instruction_time"] / s["activate_instruction_count"]


def per_product(s):
    """In a stream of laws.PRODUCTS."""
    return 1e9 * s["tensor_engine_active_time"] / laws.PRODUCTS


POINTS = []


def add(measurement, program, read, bound, group=""):
    POINTS.append(Point(measurement, program, read, bound, group))


def _tutorial_matmul():
    programs = {"v2": partial(matmul.tiled), "v3": partial(matmul.blocked),
                "v4": partial(matmul.blocked, bm=2, bn=2), "v5": partial(matmul.fully_blocked)}
    for version, program in programs.items():
        name, bound = f"trn2-doc-matmul-fp32-{version}-", DMA if version == "v2" else TENSOR
        add(name + "latency", program, total(), bound, "tutorial matmul, trn2")
        add(name + "tensor_engine_active_percent", program, share("tensor"), bound)
        add(name + "dma_active_percent", program,
            lambda s: 100 * s["dma_active_time_percent"], bound)
        add(name + "dma_packet_time_ms", program, scaled("dma_packet_time", 1e3), bound)
        add(name + "mbu_estimated_percent", program,
            lambda s: 100 * s["mbu_estimated_percent"], bound)
        add(name + "matmul_instruction_count", program, scaled("matmul_instruction_count", 1), bound)
    programs = {"tiled": partial(matmul.tiled), "hoist_load": partial(matmul.whole_blocks),
                "block_free": partial(matmul.whole_blocks, bm=2, bn=2),
                "fully_optimized": partial(matmul.fully_blocked)}
    for version, program in programs.items():
        add(f"trn1-doc-matmul-{version}", partial(program, target="trn1", dtype="bfloat16"),
            total(), TENSOR if version == "fully_optimized" else DMA, "tutorial matmul, trn1")


def _ladder():
    flops = 2 * 2048 ** 3
    rungs = (("trn2-autotune-ladder-inner-loads", matmul.inner_loads, {}, LATENCY),
             ("trn2-autotune-single_bank", matmul.resident, {}, TENSOR),
             ("trn2-autotune-rotate_only", matmul.resident, {"sets": 2}, TENSOR),
             ("trn2-autotune-skewed", matmul.resident, {"sets": 2, "skewed": True}, TENSOR),
             ("trn2-autotune-matmul-hand-90.92", matmul.two_stage, {}, TENSOR))
    for name, build, args, bound in rungs:
        program = partial(build, **args)
        twin = name.endswith(("bank", "only", "skewed"))
        add(name + ("-mfu" if twin else ""), program, mfu(flops), bound, "2048^3 ladder")
        if twin:
            add(name + "-tensor", program, active("tensor"), bound)
    program = partial(matmul.transposed_loads)
    add("trn2-autotune-matmul-lhs_rhs-89.26", program, mfu(flops), TENSOR)
    add("trn2-autotune-matmul-lhs_rhs-best", program, total(PROFILE["trn2"]), TENSOR)
    single = partial(matmul.resident)
    for engine in ("tensor", "vector"):
        add(f"trn2-autotune-single_bank-reprofile-{engine}_engine_active_percent", single,
            active(engine), TENSOR)
    add("trn2-autotune-4atoms-latency", partial(matmul.resident), total(PROFILE["trn2"]), TENSOR,
        "2048^3 tuned")
    add("trn2-autotune-tuned5-latency", partial(matmul.resident, sets=2), total(PROFILE["trn2"]),
        TENSOR, "2048^3 tuned")


def _vector_add():
    sizes = (("tiled-0", 1, 1), ("tiled-1", 128, 1), ("stream-2", 128, 2), ("stream-3", 128, 200))
    for name, rows, columns in sizes:
        add(f"trn2-cs149-vector_add_{name}", partial(vector.vector_add, rows=rows, columns=columns),
            total(BENCHMARK), LATENCY if columns > 2 else GPSIMD, "vector add")
    program = partial(vector.vector_add, n=256000, columns=2000, engine="sync")
    name = "trn2-rishic3-stream-fd2k-"
    add(name + "total_time", program, total(PROFILE["trn2"]), DMA)
    for metric in ("dma_active_time", "dma_packet_time"):
        add(name + metric, program, scaled(metric, 1e6), DMA)
    for metric in ("hbm_read_bytes", "hbm_write_bytes", "dma_transfer_count"):
        add(name + metric, program, scaled(metric, 1), DMA)


def _mamba():
    def one(name, version, seq, channels=4096):
        bound = DMA if version == 2 and seq == 8192 else VECTOR
        program = partial(vector.mamba, version=version, seq=seq, channels=channels)
        again = name.endswith(("v2-4096", "8k"))  # measured twice: one counts for the order
        group = "" if again or channels != 4096 else f"mamba, {seq} steps"
        add(name, program, total(PROFILE["trn1"]), bound, group)
        return program
    def active_percent(name, program):
        """The active share of the time from VectorE's first to its last instruction, as the page's selections are."""
        add(name + "-vector_active_percent", program, share("vector"), VECTOR)
    program = one("trn1-doc-mamba-v1-256", 1, 512, 256)
    add("trn1-doc-mamba-v1-256-vector_event_duration_sum_us", program,
        scaled("vector_engine_instruction_time", 1e6), VECTOR)
    add("trn1-doc-mamba-v1-256-vector_active_us", program,
        scaled("vector_engine_active_time", 1e6), VECTOR)
    active_percent("trn1-doc-mamba-v1-256", program)
    active_percent("trn1-doc-mamba-v1-4096", one("trn1-doc-mamba-v1-4096", 1, 512))
    program = one("trn1-doc-mamba-v2-4096", 2, 512)
    active_percent("trn1-doc-mamba-v2-4096", program)
    add("trn1-doc-mamba-v2-4096-vector_event_duration_sum_us", program,
        scaled("vector_engine_instruction_time", 1e6), VECTOR)
    for name, version in (("v2-4096-8k", 2), ("v3-4096-8k", 3)):
        name = f"trn1-doc-mamba-{name}"
        active_percent(name, one(name, version, 8192))
    for seq in (512, *range(1024, 8193, 1024)):
        one(f"trn1-doc-mamba-v2-seq{seq}", 2, seq)
        one(f"trn1-doc-mamba-v3-seq{seq}", 3, seq)


def _average_pool():
    shapes = ((1, 64, 56, 7), (2, 128, 28, 7), (1, 256, 14, 7, "float16"), (4, 64, 56, 7),
              (2, 128, 28, 14), (1, 512, 7, 1), (8, 64, 32, 4, "float16"), (2, 2048, 32, 3),
              (2, 64, 256, 1))
    for i, (n, c, size, out, *dtype) in enumerate(shapes):
        program = partial(vector.average_pool, n=n, c=c, h=size, w=size, out=out,
                          dtype=dtype[0] if dtype else "float32")
        add(f"trn-nkisamples-adaptive_avgpool-{i}", program, total(BENCHMARK), DMA, "average pool")


def _single_trn2():
    v, s = per_instruction("vector"), per_instruction("scalar")
    op = partial(partial, single.instruction)
    short = (128, 128)
    copy = {"engine": "vector"}
    add("trn2-doc-vec-copy-psum-512", op("tensor_copy", **copy), v, VECTOR)
    add("trn2-doc-vec-tt-psum-512", op("tensor_tensor", tensor_op="add"), v, VECTOR)
    name = "trn2-fusion-inst-"
    add(name + "vec-copy-psum-512", op("tensor_copy", **copy), v, VECTOR)
    add(name + "vec-copy-psum-128", op("tensor_copy", shape=short, **copy), v, VECTOR)
    add(name + "sca-copy-psum-512", op("tensor_copy", engine="scalar"), s, SCALAR)
    add(name + "sca-copy-psum-128", op("tensor_copy", shape=short, engine="scalar"), s, SCALAR)
    add(name + "vec-reduce-512", op("tensor_reduce", tensor_op="maximum", axis=[1]), v, VECTOR)
    add(name + "sca-act-512", op("activation", tensor_op="exp"), activate, SCALAR)
    add(name + "act-table", op("activation", tensor_op="exp"), table_load, SCALAR)
    add(name + "recip-4", op("reciprocal", shape=(128, 4), source="sbuf"), v, VECTOR)
    for engine in ("sync", "scalar", "gpsimd"):
        add(name + f"dma-direct2d-{engine}", partial(single.loads, engine=engine),
            per_instruction(engine), LATENCY)
    wide, square = {}, {"shape": (128, 128)}
    dma = scaled("dma_active_time", 1e9)
    one = {"dtype": "bfloat16", "engine": "gpsimd"}
    add("trn2-dma-32KiB-1engine", partial(single.loads, shape=(4, 4096), **one), dma, DMA)
    add("trn2-dma-16x2KiB-queue", partial(single.loads, shape=(128, 128), **one), dma, DMA)
    for example, args, exp in (("ex1", wide, "activation_exp_[4,4096]"), ("ex2", square, "")):
        program = partial(single.load_exp_store, **args)
        add(f"trn2-dma-{example}-0", program, table_load, SCALAR)
        add(f"trn2-dma-{example}-1", program, activate, SCALAR)
        last = f"trn2-dma-{example}-{3 if exp else 6}"
        add(last, program, scaled("total_time", 1e9), LATENCY)


def _single_trn1():
    v = per_instruction("vector")
    wide = partial(single.instruction, "tensor_tensor", target="trn1", source="sbuf")
    add("trn1-perfguide-2", partial(wide, shape=(128, 8192), tensor_op="multiply"), v, VECTOR)
    add("trn1-perfguide-3", partial(wide, shape=(64, 8192), tensor_op="add"), v, VECTOR)
    act = partial(single.instruction, "activation", target="trn1", source="sbuf", shape=(128, 1),
                  tensor_op="copy")
    add("trn1-perfguide-1", act, activate, SCALAR)
    add("trn1-perfguide-0", partial(act, count=400, chained=True),
        lambda s: s["total_time"] * 1e9 / 400, LATENCY)
    add("trn1-doc-act-table-load", partial(single.instruction, "activation", target="trn1",
                                           tensor_op="exp"), table_load, SCALAR)
    add("trn1-perfguide-7", partial(single.loads, "trn1", (128, 1024), store=True),
        scaled("dma_active_time", 1e9), DMA)


def _laws():
    """Isolated instructions: their parameters are the program's."""
    table = json.loads((Path(__file__).parent / "measurements.json").read_text(encoding="utf-8"))
    engines = {"activation": "scalar", "affine_select": "gpsimd"}
    for m in table["single_core"]:
        if not m["id"].startswith("trn2-law-"):
            continue
        parameters = m["parameters"]
        program = partial(laws.program, **parameters)
        engine = parameters.get("engine") or engines.get(parameters["op"], "vector")
        read = {"activation": activate, "nc_matmul": per_product}.get(
            parameters["op"], per_instruction(engine))
        add(m["id"], program, read, TENSOR if parameters["op"] == "nc_matmul" else engine)


_tutorial_matmul()
_ladder()
_vector_add()
_mamba()
_average_pool()
_single_trn2()
_single_trn1()
_laws()
REPLAYS = (  # profiles/: the traces are the chip's own instruction streams
    ("attention_fused_bf16_s512", "trn2-fusion-trace-fused_bf16_s512-",
     "trn2-fusion-attn-fused-bf16-s512-p50_us"),
    ("attention_baseline_fp32_s512", "trn2-fusion-trace-baseline_fp32_s512-",
     "trn2-fusion-attn-baseline-fp32-s512-p50_us"))
for profile, trace, benchmark in REPLAYS:
    add(trace + "total_time", profile, total(PROFILE["trn2"]), LATENCY, "attention")
    add(benchmark, profile, total(BENCHMARK), LATENCY, "attention p50")
    for figure in ("hbm_read_bytes", "hbm_write_bytes", "matmul_instruction_count"):
        add(trace + figure, profile, scaled(figure, 1), DMA)
