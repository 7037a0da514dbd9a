"""Tests simulated rates against documented ones: cycles per element, modes, exclusive ports, DMA
transposes.

Expected values are the documentation's or published measurements', never the simulator's. A slope is
the difference of two sizes, so start-up and fixed latencies drop out. See also test_rules.py.
"""
import sys

import pytest

from running import ROOT

sys.path.insert(0, str(ROOT / "clients" / "validation" / "table"))
from programs import single  # noqa: E402
from programs import common  # noqa: E402
from programs.common import P  # noqa: E402

pytestmark = pytest.mark.process
VECTOR = {"trn1": 1.12, "trn2": 0.96, "trn3": 1.2}  # GHz, architecture guides
COUNT = 100


class Program(common.Program):
    def sbuf(self, name, shape, dtype="float32", address=None):
        return super().sbuf(name, shape, dtype, address)


@pytest.fixture(name="total")
def fixture_total(run):
    """Total time in ns of a program."""
    return lambda program: 1e9 * run(program)["total_time"]


def interval(total, build):
    """ns between two of many; build(count) makes the program."""
    return (total(build(2 * COUNT)) - total(build(COUNT))) / COUNT


def cycles_per_element(total, build, clock, sizes=(256, 512)):
    """Cycles of `clock` GHz that one more element takes; build(count, size) makes the program."""
    few, many = (interval(total, lambda count, n=n: build(count, n)) for n in sizes)
    return (many - few) / (sizes[1] - sizes[0]) * clock


def repeated(name, target="trn2", source="sbuf", dtype="float32", **args):
    """build(count, size) of an instruction with one tile of P x size."""
    return lambda count, n: single.instruction(name, target, (P, n), source, dtype, count=count,
                                               **args)


def scan(target):
    def build(count, n):
        t = Program("scan", target)
        a, b = t.sbuf("a", (P, n)), t.sbuf("b", (P, n))
        out = t.ring("out", 2, (P, n))
        for _ in range(count):
            t.tensor_tensor_scan(dst=out(), data0=a, data1=b, initial=0.0, op0="multiply",
                                 op1="add")
        return t
    return build


def fixed_result(name, target, width, parameter="data", **args):
    """build(count, size) of an instruction whose result has `width` columns whatever the size."""
    def build(count, n):
        t = Program(name, target)
        src, out = t.sbuf("src", (P, n)), t.ring("out", 2, (P, width))
        for _ in range(count):
            getattr(t, name)(dst=out(), **{parameter: src}, **args)
        return t
    return build


# aws-neuron-sdk nki/api/nki/isa/__init__.py, cost notes of SDK 2.20 to 2.26, unless noted.
VECTOR_RATES = [
    ("two SBUF operands, trn1", "trn1", 2,
     repeated("tensor_tensor", "trn1", tensor_op="add", engine="vector")),
    ("one operand in PSUM, trn1", "trn1", 1,
     repeated("tensor_tensor", "trn1", source="psum", tensor_op="add", engine="vector")),
    ("scan, trn1", "trn1", 2, scan("trn1")),
    ("scan, trn2", "trn2", 2, scan("trn2")),
    # NKIBench silu, trn1: 985 us of VectorE for 448 tiles of a reciprocal and a product, which takes
    # 1.98 ns per element; its add is ScalarE's
    ("reciprocal, trn1", "trn1", 2.3, repeated("reciprocal", "trn1")),
    ("tensor_reduce fp32", "trn2", 1,
     repeated("tensor_reduce", tensor_op="add", axis=[1])),
    # half a cycle by the cost notes, which trn1 follows; isolated probes of trn2: 2280.8 ns for 2048
    ("tensor_reduce bf16", "trn2", 1,
     repeated("tensor_reduce", dtype="bfloat16", tensor_op="add", axis=[1])),
    ("tensor_reduce bf16, trn1", "trn1", 0.5,
     repeated("tensor_reduce", "trn1", dtype="bfloat16", tensor_op="add", axis=[1])),
    ("bn_stats", "trn2", 1, fixed_result("bn_stats", "trn2", 6)),
    ("max8", "trn2", 1, fixed_result("max8", "trn2", 8, parameter="src")),
    ("memset fp32, trn1", "trn1", 1, repeated("memset", "trn1", value=0.0, engine="vector")),
    # trainium3_arch.rst: exponentials on VectorE at four times ScalarE's rate
    ("exponential, trn3", "trn3", 0.25,
     lambda count, n: fixed_result("exponential", "trn3", n, "src", max_value=0.0)(count, n)),
]


@pytest.mark.parametrize("target, cycles, build", [r[1:] for r in VECTOR_RATES],
                         ids=[r[0] for r in VECTOR_RATES])
def test_vector_engine_cycles_per_element(total, target, cycles, build):
    assert cycles_per_element(total, build, VECTOR[target]) == pytest.approx(cycles, rel=0.03)


def test_scan_of_8192_elements_on_trn1(total):
    # mamba_v2_8K_seqlen_zoomed.png: 15.1 us, measured in the picture to +-0.2.
    assert interval(total, lambda count: scan("trn1")(count, 8192)) == pytest.approx(15100, rel=0.04)


def test_scalar_engine_of_trn3_doubles_its_rate_for_16_bit_copies(total):
    # trainium3_arch.rst
    build = repeated("tensor_copy", "trn3", dtype="bfloat16", engine="scalar")
    assert cycles_per_element(total, build, 1.2) == pytest.approx(0.5, rel=0.03)


def test_gpsimd_starts_with_150_cycles(total):
    # cost notes: iota takes 150 + N cycles (1.2 GHz on trn2).
    def build(count, n):
        t = Program("iota", "trn2")
        out = t.sbuf("out", (P, n), "int32")
        for _ in range(count):
            t.iota(dst=out, pattern=[1, n])
        return t
    assert cycles_per_element(total, build, 1.2) == pytest.approx(1, rel=0.03)
    assert interval(total, lambda count: build(count, 1024)) >= (150 + 1024) / 1.2


def test_reading_the_accumulator_takes_64_cycles(total):
    # trainium_inferentia2_arch.rst: ActReadAccumulator about 64 cycles of ScalarE.
    def build(reduce):
        def program(count):
            t = Program("activation", "trn2")
            src, dst, acc = (t.sbuf(n, (P, w)) for n, w in (("s", 1024), ("d", 1024), ("a", 1)))
            for _ in range(count):
                if reduce:
                    t.activation_reduce(dst=dst, op="exp", data=src, reduce_op="add",
                                        reduce_res=acc)
                else:
                    t.activation(dst=dst, op="exp", data=src)
            return t
        return program
    extra = interval(total, build(True)) - interval(total, build(False))
    assert 64 / 1.2 <= extra <= 4 * 64 / 1.2  # two instructions more have latencies of their own


def test_dynamic_addresses_take_600_cycles(total):
    # cost notes: max(600, N) cycles of a copy with a dynamic address.
    def build(count):
        t = Program("dynamic", "trn2")
        src, dst = t.sbuf("s", (P, 64)), t.sbuf("d", (P, 8))
        with t.loop(0, count) as i:
            t.tensor_copy(dst=dst, src=t.moved(src.ap([[1, 8]], partitions=P), register=i,
                                               stride=0), engine="vector")
        return t
    assert interval(total, build) == pytest.approx(600 / 0.96, rel=0.2)


def test_wide_strides_halve_the_rate_of_trn1(total):
    # trainium_inferentia2_arch.rst: more than 16 bytes apart, half the bandwidth.
    def build(stride):
        def program(count, n):
            t = Program("stride", "trn1")
            src, dst = t.sbuf("s", (P, n * stride)), t.sbuf("d", (P, n))
            for _ in range(count):
                t.tensor_copy(dst=dst, src=src.ap([[stride, n]], partitions=P),
                              engine="vector")
            return t
        return program
    narrow, wide = (cycles_per_element(total, build(s), 1.12) for s in (2, 8))
    assert wide / narrow == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize("target, banks, exclusive", [
    ("trn1", "apart", True),   # VectorE and ScalarE exclude each other in PSUM
    ("trn2", "apart", False),  # lifted, unless they use the same bank
    ("trn2", "shared", True)])
def test_vector_and_scalar_engine_in_psum(total, target, banks, exclusive):
    def build(engines):
        def program(count):
            t = Program("ports", target)
            first = t.psum("a", (P, 512), bank=0)
            second = t.psum("b", (P, 512), bank=0 if banks == "shared" else 1)
            left, right = t.sbuf("l", (P, 512)), t.sbuf("r", (P, 512))
            for _ in range(count):
                if "vector" in engines:
                    t.tensor_copy(dst=left, src=first, engine="vector")
                if "scalar" in engines:
                    t.activation(dst=right, op="copy", data=second)
            return t
        return program
    vector, scalar, both = (interval(total, build(e)) for e in
                            (("vector",), ("scalar",), ("vector", "scalar")))
    streams = 512 / VECTOR[target] + 512 / {"trn1": 1.4, "trn2": 1.2}[target]
    if exclusive:
        assert both >= streams
    else:
        assert both == pytest.approx(max(vector, scalar), rel=0.05)


def matmuls(target="trn2", dtype="bfloat16", k=P, **args):
    def build(count):
        t = Program("nc_matmul", target)
        inner = (k // P,) if k > P else ()
        left, right = t.sbuf("l", (P, *inner, P), dtype), t.sbuf("r", (P, *inner, 512), dtype)
        bank = t.ring("bank", 4, (P, 512), space="psum")
        for _ in range(count):
            t.nc_matmul(dst=bank(), stationary=left, moving=right, accumulate=False, **args)
        return t
    return build


def test_double_row_multiplies_twice_the_rows_in_the_same_time(total):
    # trainium2_arch.rst: FP8 at twice the BF16 rate.
    double = interval(total, matmuls(dtype="float8_e4m3", k=2 * P, perf_mode="double_row"))
    assert double == pytest.approx(512 / 2.4, rel=0.05)


@pytest.mark.parametrize("operand, times", [("moving", 2), ("stationary", 4)])
def test_fp32_with_zeros_and_ones_is_faster(total, operand, times):
    # nki.isa.nc_matmul: "could lead to 2x better performance" for either; weights save a pass as well.
    full = interval(total, matmuls(dtype="float32"))
    known = interval(total, matmuls(dtype="float32", **{f"is_{operand}_onezero": True}))
    assert full / known == pytest.approx(times, rel=0.1)


def test_row_tiles_multiply_side_by_side(total):
    # trainium2_arch.rst, row tiling: four tiles of 32 rows at once.
    def build(tiles):
        def program(count):
            t = Program("tiling", "trn2")
            left, right = t.sbuf("l", (P, 64), "bfloat16"), t.sbuf("r", (P, 512), "bfloat16")
            banks = [t.psum(f"b{i}", (64, 512)) for i in range(4)]
            for i in range(count):
                row = 32 * (i % tiles)
                t.nc_matmul(dst=banks[i % 4], stationary=left[row:row + 32, :],
                            moving=right[row:row + 32, :], accumulate=False,
                            tile_position=[row, 0], tile_size=[32, 64])
            return t
        return program
    one, four = interval(total, build(1)), interval(total, build(4))
    # 32 rows are a quarter of the array: alone they never lift the utilisation limit (published
    # products of few rows run at half rate), four next to each other do.
    assert one == pytest.approx(2 * 512 / 2.4, rel=0.1)
    assert four == pytest.approx(512 / 2.4 / 4, rel=0.1)


@pytest.mark.parametrize("source, share", [("hbm", 0.9), ("sbuf", 0.5)])
def test_dma_transposes(total, source, share):
    # trainium2_arch.rst: at most 90 % (from HBM) and 50 % (from SBUF) of the DMA throughput.
    def build(transpose):
        def program(count):
            t = Program("dma", "trn2")
            for i in range(count):
                name, shape = f"s{i}", (P, 2048)
                src = t.input(name, shape, "bfloat16") if source == "hbm" else \
                    t.sbuf(name, shape, "bfloat16")
                if transpose:
                    for c in range(2048 // P):
                        t.dma_transpose(dst=t.sbuf(f"d{i}_{c}", (P, P), "bfloat16"),
                                        src=src[:, c * P:(c + 1) * P], engine="sync")
                else:
                    t.dma_copy(dst=t.sbuf(f"d{i}", shape, "bfloat16"), src=src, engine="sync")
            return t
        return program
    few, many = 10, 30
    copy, turned = ((total(build(x)(many)) - total(build(x)(few))) / (many - few)
                    for x in (False, True))
    assert copy / turned <= share * 1.05
