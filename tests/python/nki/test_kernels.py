"""Tests whole kernels, from Python to outputs, against NumPy."""


import ml_dtypes
import numpy as np
import pytest

import nkisim
from running import cli

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

RNG = np.random.default_rng(7)


def load_add_store(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_add_on_every_generation(target):
    a, b = (RNG.random((128, 512), np.float32) for _ in range(2))
    result = nkisim.run(load_add_store, a, b, target=target)
    np.testing.assert_array_equal(result.outputs, a + b)
    assert result.latency_us > 1


def test_result_of_an_expression_is_written_in_place():
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
        tile[...] = nl.load(a)
        tile[:, 0:4] = nl.multiply(tile[:, 0:4], 2.0)
        nisa.dma_copy(out, tile)
        return out

    a = RNG.random((64, 8), np.float32)
    result = nkisim.run(kernel, a)
    expected = a.copy()
    expected[:, :4] *= 2
    np.testing.assert_array_equal(result.outputs, expected)
    assert result.instructions == 3  # load, multiply, store: no copies


def test_psum_accumulates_after_the_first_write():
    def kernel(a, b):
        out = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        total = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(3):
            x = nl.load(a[nl.ds(k * 128, 128), :])
            y = nl.load(b[nl.ds(k * 128, 128), :])
            nisa.nc_matmul(total, x, y)
        tile = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(tile, total)
        nisa.dma_copy(out, tile)
        return out

    a = RNG.random((384, 64), np.float32).astype(ml_dtypes.bfloat16)
    b = RNG.random((384, 512), np.float32).astype(ml_dtypes.bfloat16)
    out = nki.jit(kernel)(a, b)
    np.testing.assert_allclose(out, a.astype(np.float32).T @ b.astype(np.float32), rtol=1e-5)


def test_arguments_that_are_written_come_back():
    def kernel(cache, x):
        nisa.dma_copy(cache[2:4, :], nl.load(x))

    cache, x = np.zeros((8, 16), np.float32), RNG.random((2, 16), np.float32)
    nki.jit(kernel)(cache, x)
    expected = np.zeros((8, 16), np.float32)
    expected[2:4] = x
    np.testing.assert_array_equal(cache, expected)


def test_values_can_be_looked_at_while_recording(capsys):
    seen = []

    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tile = nl.load(a)
        seen.append(tile.numpy())
        print(tile)
        nl.store(out, tile)
        return out

    a = RNG.random((2, 4), np.float32)
    nki.jit(kernel)(a)
    np.testing.assert_array_equal(seen[0], a)
    assert "sbuf[2 x 4] float32" in capsys.readouterr().out


def test_dynamic_loop_with_a_register_bound():
    def kernel(x, count):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.zeros(x.shape, x.dtype))
        bound = nisa.register_alloc()
        nisa.register_load(bound, nl.load(count))
        for i in nl.dynamic_range(0, bound, 1):
            row = nl.ndarray((1, x.shape[1]), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(row, x.select(0, i).expand_dim(0))
            nisa.tensor_scalar(row, row, nl.multiply, 3.0)
            nisa.dma_copy(out.select(0, i).expand_dim(0), row)
        return out

    x = RNG.random((6, 32), np.float32)
    result = nkisim.run(kernel, x, np.array([[4]], np.int32))
    expected = np.zeros_like(x)
    expected[:4] = x[:4] * np.float32(3)
    np.testing.assert_array_equal(result.outputs, expected)
    assert result.instructions < 16  # the body is there once


def test_two_cores_share_what_they_allocate():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        half = x.shape[0] // nl.num_programs(0)
        rows = nl.ds(nl.program_id(0) * half, half)
        nl.store(out[rows, :], nl.multiply(nl.load(x[rows, :]), 2.0))
        return out

    x = RNG.random((128, 64), np.float32)
    np.testing.assert_array_equal(nki.jit(kernel)[2](x), x * 2)


def test_older_api_index_tiles_and_masks():
    import neuronxcc.nki as legacy
    import neuronxcc.nki.language as lnl

    @legacy.jit
    def kernel(x):
        out = lnl.ndarray(x.shape, dtype=x.dtype, buffer=lnl.shared_hbm)
        i_p, i_f = lnl.mgrid[0:128, 0:64]
        for t in lnl.affine_range(2):
            tile = lnl.load(x[t * 128 + i_p, i_f], mask=(t * 128 + i_p < x.shape[0]))
            lnl.store(out[t * 128 + i_p, i_f], lnl.exp(tile, mask=(t * 128 + i_p < x.shape[0])),
                      mask=(t * 128 + i_p < x.shape[0]))
        return out

    x = RNG.random((200, 64), np.float32)
    np.testing.assert_allclose(kernel(x), np.exp(x), rtol=1e-6)


def test_benchmark_gives_the_simulated_latency():
    benchmarked = nki.benchmark(warmup=1, iters=1)(load_add_store)
    a = np.ones((128, 128), np.float32)
    benchmarked(a, a)
    latency = benchmarked.benchmark_result.nc_latency.get_latency_percentile(99)
    same = nkisim.run(load_add_store, a, a, legacy=True)  # DMA queues follow the API
    assert latency == pytest.approx(same.latency_us)


@pytest.mark.process
def test_saved_trace_gives_the_same_latency(tmp_path):
    a = np.ones((128, 128), np.float32)
    result = nkisim.run(load_add_store, a, a)
    result.save(tmp_path / "k.nisa")
    done = cli("run", tmp_path / "k.nisa")
    assert f"{result.latency_us:.3f} us" in done.stdout


def test_timeline_and_summary(tmp_path):
    a = np.ones((128, 128), np.float32)
    result = nkisim.run(load_add_store, a, a)
    result.perfetto(tmp_path / "k.pftrace")
    assert (tmp_path / "k.pftrace").stat().st_size > 100
    assert "total_time" in result.summary_text
    np.testing.assert_array_equal(result.outputs, a + a)
