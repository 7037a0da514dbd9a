"""Tests the simulator on one small program per rule of thumb of AWS's documentation, with its
expected figure.

Expected values are written here from the documentation or from published measurements, never from
the simulator. Run with NKISIM_PROGRAM=path/to/nkisim, or the build folder's.
"""
import sys

import pytest

from running import ROOT

sys.path.insert(0, str(ROOT / "clients" / "validation" / "table"))
from programs import matmul, single, vector  # noqa: E402

pytestmark = pytest.mark.process



def interval(run, build, count=200):
    """ns between two of many: the difference of two lengths, free of start and end."""
    few, many = (run(build(count=n))["total_time"] for n in (count, 2 * count))
    return (many - few) * 1e9 / count


def op(name, **args):
    return lambda count: single.instruction(name, count=count, **args)


@pytest.mark.parametrize("target, columns, ns", [
    ("trn1", 3, 64 / 1.12),  # isa docs: MIN_II is about 64 engine cycles
    ("trn2", 3, (6011 - 9.4) * 1000 / 131072),  # a conv1d's instructions, less what a launch takes
    ("trn2", 8, 68)])  # profiles: 67 and 69
def test_short_instructions_start_soon_after_one_another(run, target, columns, ns):
    reduce = op("tensor_reduce", tensor_op="add", axis=[1], shape=(128, columns), source="sbuf", target=target)
    assert interval(run, reduce) == pytest.approx(ns, rel=0.01 if columns == 3 else 0.13)


@pytest.mark.parametrize("dtype, source, rate", [
    ("float32", "psum", 1), ("bfloat16", "psum", 2), ("bfloat16", "sbuf", 4)])
def test_vector_performance_modes(run, dtype, source, rate):
    # trainium2_arch.rst: copies of 16-bit data 4x in SBUF, 2x with PSUM. Rate from two sizes.
    args = {"source": source, "dtype": dtype, "engine": "vector"}
    small, large = (interval(run, op("tensor_copy", shape=(128, n), **args)) for n in (512, 1024))
    assert 512 / (large - small) / 0.96 == pytest.approx(rate, rel=0.03)


def test_16_bit_tensor_tensor_is_twice_as_fast(run):
    ns = {}
    for dtype in ("float32", "bfloat16"):
        args = {"source": "sbuf", "dtype": dtype, "tensor_op": "add", "engine": "vector"}
        small, large = (interval(run, op("tensor_tensor", shape=(128, n), **args))
                        for n in (512, 1024))
        ns[dtype] = large - small
    assert ns["float32"] / ns["bfloat16"] == pytest.approx(2, rel=0.05)


def test_scalar_engine_takes_one_element_per_cycle(run):
    args = {"tensor_op": "exp"}
    small, large = (interval(run, op("activation", shape=(128, n), **args)) for n in (256, 512))
    assert large - small == pytest.approx(256 / 1.2, rel=0.02)


def test_dependent_chain_on_trn1(run):
    # Measured: 189 ns between dependent one-element activations (nki_perf_guide.rst).
    ns = interval(run, op("activation", target="trn1", source="sbuf", shape=(128, 1),
                          tensor_op="copy", chained=True))
    assert ns == pytest.approx(189, rel=0.03)


@pytest.mark.parametrize("target, ns", [("trn1", 368), ("trn2", 1283)])
def test_activation_table_load(run, target, ns):
    s = run(single.instruction("activation", target=target, tensor_op="exp"))
    load = 1e9 * (s["scalar_engine_instruction_time"] - s["activate_instruction_time"])
    assert load == pytest.approx(ns, rel=0.02)


def test_matmul_takes_one_column_per_cycle_and_hides_its_weights(run):
    # 128 x 128 x 512 bf16: 512 cycles of 2.4 GHz; the load of the next weights (fast: 32 cycles)
    # is hidden behind the product.
    ns = interval(run, lambda count: single.products(dtype="bfloat16", count=count), 400)
    assert ns == pytest.approx(512 / 2.4, rel=0.03)


def test_fp32_matmul_takes_four_cycles_per_column(run):
    # Measured: 430 ns per pass, two passes (kernel-optimization.rst).
    ns = interval(run, lambda count: single.products(dtype="float32", count=count), 200)
    assert ns == pytest.approx(2 * 430, rel=0.02)


def test_narrow_products_cost_64_columns(run):
    # MM_INIT_LATENCY: 64 cycles; with fast weight loads of 32 cycles hidden behind them.
    one, sixty = (interval(run, lambda count, n=n: single.products(
        dtype="bfloat16", columns=n, count=count), 800) for n in (1, 64))
    assert one == pytest.approx(64 / 2.4)
    assert one <= sixty <= 1.12 * one  # the array's start is part of the 64 cycles, and comes before 64 columns


def test_a_product_of_two_new_tiles_waits_by_a_further_instruction(run):
    # v2 of the tutorial matmul: 163,912 TensorE instructions for 32,768 nc_matmul of two loaded tiles
    # each. FP32 makes four of one; about 70 belong to the runtime.
    products = 2 * 64 * 2
    result = run(matmul.tiled(m=256, k=8192, n=1024))
    count = result["tensor_engine_instruction_count"] / products
    assert count == pytest.approx((163912 - 70) / 32768, rel=0.001)


def test_hardware_dma_instruction_takes_600_ns(run):
    # trainium2_arch.rst: about 600 ns per DMA instruction; v2 of the tutorial matmul: 609 ns.
    ns = interval(run, lambda count: single.loads(shape=(128, 64), engine="sync", count=count), 64)
    assert ns == pytest.approx(609, rel=0.03)


def test_software_dma_descriptors(run):
    # Measured: 25,600 steps of three one-element DMAs take 37,310 us (nki.benchmark).
    s = run(vector.vector_add(n=2560, rows=1, columns=1))
    assert s["total_time"] * 1e6 / 2560 == pytest.approx(37310 / 25600, rel=0.03)


@pytest.mark.parametrize("target, per_engine", [("trn1", 17), ("trn2", 23)])
def test_stores_approach_the_documented_rate_per_engine(run, target, per_engine):
    # nki-dma-bandwidth-guide.rst: the rate that a DMA engine sustains, 16 engines.
    shape = (128, 16384)
    few, many = (run(single.loads(target, shape, count=n, store=True))["total_time"]
                 for n in (4, 8))
    rate = 4 * 128 * 16384 * 4 / ((many - few) * 1e9) / 16
    assert rate >= per_engine * 0.95


def test_larger_elements_use_the_dma_engines_better(run):
    # nki-dma-bandwidth-guide.rst: 512 B rows waste most of the bandwidth, 2 KiB are near its end.
    def rate(columns):
        few, many = (run(single.loads(shape=(128, columns), count=n))["total_time"]
                     for n in (16, 32))
        return 16 * 128 * columns * 4 / ((many - few) * 1e9)
    small, medium, large = (rate(n) for n in (16, 128, 2048))
    assert small < 0.2 * large
    assert small < medium < large
