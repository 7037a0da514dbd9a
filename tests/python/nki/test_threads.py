"""Tests that kernels in several Python threads at once give the same results as one after the other."""

import builtins
import concurrent.futures
import ctypes
import gc
import sys
import threading
import time

import numpy as np
import pytest

import nkisim
from nkisim.record import instances

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

THREADS = 6


@pytest.fixture(autouse=True)
def _often():
    """Threads alternate as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def scaled(x, factor, meet=None):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(8):
        if meet is not None:
            meet.wait(60)  # every thread is in the middle of its kernel now
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nl.store(out, tile)
    return out


def product(x, y):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(x), moving=nl.load(y))
    nl.store(out, acc)
    return out


def keyword(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=sbuf)  # noqa: F821 a keyword of NKI 0.2
    nisa.dma_copy(dst=tile, src=x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=shared_hbm)  # noqa: F821
    nisa.dma_copy(dst=out, src=tile)
    return out


def two_cores(x):
    core = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = slice(64 * core, 64 * core + 64)
    tile = nl.load(x[rows, :])
    nisa.core_barrier(out, (0, 1))
    if float(np.asarray(tile)[0, 0]) < 1e9:  # asks for values in the middle of recording
        nisa.dma_copy(dst=out[rows, :], src=tile)
    return out


def in_threads(calls):
    """The result of each call; all of them begin together."""
    ready = threading.Barrier(len(calls))

    def one(call):
        ready.wait(60)
        return call()

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        return [f.result(120) for f in [pool.submit(one, c) for c in calls]]


X = np.random.default_rng(1).random((128, 512), np.float32)
W = np.random.default_rng(2).random((128, 128), np.float32)


def test_kernels_that_meet_in_the_middle_stay_apart():
    meet = threading.Barrier(THREADS)
    targets = ["trn1", "trn2", "trn3"] * (THREADS // 3)
    results = in_threads([lambda n=n, t=t: nkisim.run(scaled, X, float(n), meet, target=t)
                          for n, t in enumerate(targets)])
    for n, (target, result) in enumerate(zip(targets, results)):
        alone = nkisim.run(scaled, X, float(n), target=target)
        want = X
        for _ in range(8):
            want = want * np.float32(n)
        np.testing.assert_array_equal(np.asarray(result.outputs), want)
        assert result.latency_ns == alone.latency_ns
        assert result.instructions == alone.instructions and result.recorder.target == target


def test_a_thread_that_has_recorded_its_core_is_not_interrupted(monkeypatch):
    """Its number may belong to a thread of another run by then, which would never begin."""
    run, interrupted = instances.Instances._run, []

    def linger(self, instance):
        run(self, instance)
        time.sleep(0.3)

    monkeypatch.setattr(instances.Instances, "_run", linger)
    monkeypatch.setattr(ctypes.pythonapi, "PyThreadState_SetAsyncExc", lambda *args: interrupted.append(args))
    np.testing.assert_array_equal(nkisim.run(two_cores, X, grid=2).outputs, X)
    assert not interrupted


@pytest.mark.slow
def test_many_runs_of_many_kernels():
    cases = [lambda: nkisim.run(scaled, X, 3.0), lambda: nkisim.run(product, W, X),
             lambda: nkisim.run(keyword, X), lambda: nkisim.run(two_cores, X, grid=2),
             lambda: nkisim.run(scaled, X, 2.0, target="trn1", timing=False)]
    alone = [case() for case in cases]
    for _ in range(3):
        results = in_threads(cases + cases)
        for result, want in zip(results, alone + alone):
            np.testing.assert_array_equal(np.asarray(result.outputs), np.asarray(want.outputs))
            assert result.latency_ns == want.latency_ns
            assert result.summary == want.summary
    assert not hasattr(builtins, "sbuf") and gc.isenabled()


def test_an_error_in_one_thread_is_its_own():
    meet = threading.Barrier(2)

    def wrong(x):
        meet.wait(60)
        return nisa.tensor_scalar(dst=x, data=x, op0=nl.multiply, operand0=2.0)

    def right(x):
        tile = nl.load(x)
        meet.wait(60)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    def message():
        with pytest.raises(nkisim.Error) as caught:
            nkisim.run(wrong, X)
        return str(caught.value)

    said, result = in_threads([message, lambda: nkisim.run(right, X)])
    assert "HBM" in said and "test_threads.py" in said
    np.testing.assert_array_equal(np.asarray(result.outputs), X)


def test_a_thread_without_a_kernel_records_nothing():
    inside, go_on = threading.Event(), threading.Event()

    def waits(x):
        inside.set()
        assert go_on.wait(60)
        return scaled(x, 2.0)

    def outside():
        assert inside.wait(60)
        try:
            with pytest.raises(nkisim.Error, match="outside a kernel"):
                nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        finally:
            go_on.set()
        return True

    result, refused = in_threads([lambda: nkisim.run(waits, X), outside])
    assert refused
    np.testing.assert_array_equal(np.asarray(result.outputs), X * 256)
