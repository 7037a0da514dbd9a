"""Tests simulated times against public measurements on trn1 (SDK 2.32): dynamic loops, short
instructions on FP8.
"""
import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim

FP8 = np.ones((128, 512), ml_dtypes.float8_e4m3)
SCALES = np.ones((128, 512), np.float32)


def loop(iterate):
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for _ in iterate(64):
            nisa.tensor_scalar(dst=tile[:, 0:64], data=tile[:, 0:64], op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out, src=tile)
        return out

    return kernel


def test_an_iteration_of_a_dynamic_loop_costs_a_microsecond_and_a_half():
    rolled, unrolled = (nkisim.run(loop(i), SCALES, target="trn1").latency_us for i in (nl.dynamic_range, range))
    assert (rolled - unrolled) / 64 == pytest.approx((257 - 161) / 64, rel=0.1)  # 64 iterations: 257 and 161 us


def dequantise(engines, count):
    """`count` tiles of [128, 512] FP8 to BF16, in four pieces of 128 columns with a scale for each row."""
    @nki.jit
    def kernel(w, s):
        out = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        codes = nl.ndarray((128, 512), dtype=w.dtype, buffer=nl.sbuf)
        scales = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=codes, src=w)
        nisa.dma_copy(dst=scales, src=s)
        tiles = [nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf) for _ in range(4)]
        for i in range(count):
            for j in range(4):
                piece, scale = slice(j * 128, (j + 1) * 128), scales[:, j:j + 1]
                if engines[j % len(engines)] == "scalar":
                    nisa.activation(dst=tiles[i % 4][:, piece], op=nl.copy, data=codes[:, piece], scale=scale)
                else:
                    nisa.tensor_scalar(dst=tiles[i % 4][:, piece], data=codes[:, piece], op0=nl.multiply,
                                       operand0=scale, engine=nisa.engine.vector)
        nisa.dma_copy(dst=out, src=tiles[(count - 1) % 4])
        return out

    return kernel


@pytest.mark.parametrize("engines, least, most", [
    (("vector",), 480, 600), (("scalar",), 450, 470), (("vector", "scalar"), 270, 350)])
def test_a_dequantised_tile_takes_what_the_chip_does(engines, least, most):
    few, many = (nkisim.run(dequantise(engines, n), FP8, SCALES, target="trn1", timing="only").latency_us
                 for n in (64, 192))
    assert least <= (many - few) / 128 * 1000 <= most


def test_a_rate_of_trn1s_probes_stays_on_trn1():
    rolled, unrolled = (nkisim.run(loop(i), SCALES, target="trn2").latency_us for i in (nl.dynamic_range, range))
    assert (rolled - unrolled) / 64 < 0.1


def summed(cast):
    import neuronxcc.nki as legacy
    import neuronxcc.nki.language as ll

    @legacy.jit
    def kernel(source):
        total = ll.zeros((ll.par_dim(128), 1), dtype=ll.float32)
        out = ll.ndarray((128, 1), dtype=ll.float32, buffer=ll.shared_hbm)
        for r in ll.affine_range(source.shape[0] // 128):
            tile = ll.load(source[r * 128:(r + 1) * 128, :])
            wide = tile.astype(ll.float32) if cast else tile
            total += ll.sum(wide, axis=1, keepdims=True, dtype=ll.float32)
        ll.store(out, value=total)
        return out

    return kernel


def test_a_widening_cast_before_a_sum_costs_nothing_in_the_older_api():
    # A public bandwidth test reads bf16 at 273 GB/s with the cast and at 269 without.
    us = {}
    for cast in (False, True):
        few, many = (nkisim.run(summed(cast), np.zeros((n * 128, 2048), ml_dtypes.bfloat16), target="trn1",
                                timing="only").latency_us for n in (64, 128))
        us[cast] = many - few
    assert us[True] == pytest.approx(us[False], rel=0.02)


def test_a_cast_that_is_folded_changes_no_bit():
    x = np.random.default_rng(1).standard_normal((256, 512)).astype(ml_dtypes.bfloat16)
    results = [nkisim.run(summed(True), x, target="trn1", compiler={"casts": c}).outputs for c in ("dma", "engine")]
    assert results[0].tobytes() == results[1].tobytes()
    expected = x.astype(np.float64).reshape(2, 128, 512).sum(axis=(0, 2)).reshape(128, 1)
    np.testing.assert_allclose(results[1], expected, rtol=1e-5, atol=1e-4)


LEAST = np.float32(2.0 ** -126)  # the smallest normal number


@pytest.mark.parametrize("target, flushed", [("trn1", True), ("inf2", True), ("trn2", False), ("trn3", False)])
@pytest.mark.parametrize("call", ["activation", "nl.exp", "row by row", "reduction"])
def test_exp_has_no_results_below_the_normal_numbers(target, flushed, call):
    @nki.jit
    def kernel(x, b):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        tile, bias = nl.load(x), nl.load(b)
        if call == "nl.exp":
            tile = nl.exp(tile)
        elif call == "reduction":
            sums = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation_reduce(dst=tile, op=nl.exp, data=tile, bias=bias, reduce_op=nl.add, reduce_res=sums)
        else:
            nisa.activation(dst=tile, op=nl.exp, data=tile, bias=bias, scale=1.0)
        nl.store(out, tile)
        return out

    columns = 2048 if call == "row by row" else 64
    x = np.linspace(-104, 85, 128 * columns, dtype=np.float32).reshape(128, columns)
    x[0, :4] = [-np.inf, np.nan, -87.33654, -87.33655]  # the last two are next to the border
    got = np.asarray(nkisim.run(kernel, x, np.zeros((128, 1), np.float32), target=target).outputs)
    exact = np.exp(x.astype(np.float64)).astype(np.float32)
    wanted = np.where(exact < LEAST, 0, exact) if flushed else exact
    assert ((0 < exact) & (exact < LEAST)).sum() > 500 * columns // 64
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=2e-45 if not flushed else 0)
    assert not (got[wanted == 0].any() or np.signbit(got[wanted == 0]).any())


@pytest.mark.parametrize("op", [nl.sigmoid, nl.silu, nl.erf_dx, nl.softplus])
def test_other_functions_keep_them(op):
    """No source says what becomes of theirs (docs/values.md)."""
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        tile, bias = nl.load(x), nl.ndarray((128, 1), nl.float32, nl.sbuf)
        nisa.memset(bias, 0.0)
        nisa.activation(dst=tile, op=op, data=tile, bias=bias)
        nl.store(out, tile)
        return out

    x = np.linspace(-103, 0, 128 * 64, dtype=np.float32).reshape(128, 64)
    x[:, :32] = np.linspace(-10.1, -9.4, 128 * 32, dtype=np.float32).reshape(128, 32)
    got = np.abs(np.asarray(nkisim.run(kernel, x, target="trn1").outputs))
    assert ((0 < got) & (got < LEAST)).any()


def test_a_function_that_names_neuronxcc_alone_is_of_the_older_api():
    plain = summed(True).func
    few, many = (nkisim.run(plain, np.zeros((n * 128, 2048), ml_dtypes.bfloat16), target="trn1", timing="only")
                 for n in (64, 128))
    assert few.recorder.dialect.name == "neuronxcc"
    assert 64 * 128 * 4096 / (many.latency_us - few.latency_us) / 1e3 == pytest.approx(271, rel=0.1)  # GB/s
    assert nkisim.run(plain, np.zeros((128, 64), np.float32), legacy=False).recorder.dialect.name == "nki"


EXPERTS, BYTES = 256, 6528


def fetch(blob, index):
    out = nl.ndarray((128, BYTES), dtype=nl.uint8, buffer=nl.shared_hbm)
    numbers = nl.ndarray((1, EXPERTS), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=numbers, src=index)
    tiles = [nl.ndarray((128, BYTES), dtype=nl.uint8, buffer=nl.sbuf) for _ in range(4)]
    for tile in tiles:
        nisa.memset(dst=tile, value=0)
    for e in range(EXPERTS):
        nisa.dma_copy(dst=tiles[e % 4], src=blob.select(0, numbers[0:1, e:e + 1]), oob_mode=nisa.oob_mode.skip)
    nisa.dma_copy(dst=out, src=tiles[0])
    return out


@pytest.mark.parametrize("skips, us", [("none", 843), ("half", 523), ("all", 203)])
def test_a_load_whose_index_skips_it_moves_nothing(skips, us):
    # Notes of a serving engine: 256 loads of [128, 6528] bytes by an index in SBUF.
    numbers = np.arange(EXPERTS)
    chosen = {"none": numbers, "half": np.where(numbers % 2, numbers, 999), "all": np.full(EXPERTS, 999)}[skips]
    found = nkisim.run(fetch, np.zeros((EXPERTS, 128, BYTES), np.uint8), chosen.astype(np.int32).reshape(1, EXPERTS),
                       target="trn1")
    assert found.latency_us == pytest.approx(us, rel=0.1)
    moved = {"none": 256, "half": 128, "all": 0}[skips] * 128 * BYTES
    assert next(iter(found.summary.values()))["hbm_read_bytes"] == moved + 4 * EXPERTS


def multiplied(columns):
    @nki.jit
    def kernel(w):
        out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=w)
        sums = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
        for i in range(COUNT["n"]):
            nisa.nc_matmul(dst=sums, stationary=tile[:, 0:128], moving=tile[:, 0:columns], accumulate=i > 0)
        result = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=sums)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel


COUNT = {"n": 0}


@pytest.mark.parametrize("columns, least, most", [(16, 30, 37.5), (512, 200, 246)])
def test_a_product_of_few_columns_waits_for_the_array_once(columns, least, most):
    # A device probe: 30 ns for 16 columns, 200 to 246 for 512; here 64 cycles, of which the array's start is part.
    us = []
    for COUNT["n"] in (64, 192):
        us.append(nkisim.run(multiplied(columns), np.ones((128, 512), ml_dtypes.bfloat16), target="trn1",
                             timing="only").latency_us)
    assert least <= (us[1] - us[0]) / 128 * 1000 <= most
