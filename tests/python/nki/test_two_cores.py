"""Tests two cores of a logical core (LNC2) that reach a barrier at different simulated times."""

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


def exchange(x, first, second, barrier=False):
    """Each core loads its row, `first` and `second` times, and adds what the other loaded."""
    me = nl.program_id(0)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    mine = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.sbuf)
    other = nl.ndarray(x.shape[1:], dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(second if me else first):
        nisa.dma_copy(mine, x[me])
    if barrier:
        shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(shared[me], mine)
        nisa.core_barrier(shared, (0, 1))
        nisa.dma_copy(other, shared[1 - me])
    else:
        nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
    nisa.tensor_tensor(mine, mine, other, nl.add)
    nisa.dma_copy(out[me], mine)
    return out


def exchange_under_load(a, b, dma_engine, clear, loaded):
    """Cores exchange small tiles while `loaded` of them still load and store large ones."""
    core = nl.program_id(0)
    out = nl.ndarray((2, 128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    kept = nl.ndarray((2, 128, 2048), dtype=nl.float32, buffer=nl.shared_hbm)
    mine = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    theirs = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    large = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
    copy = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    if core in loaded:
        nisa.dma_copy(dst=large, src=b)
    nisa.dma_copy(dst=mine, src=a[core])
    if clear:
        nisa.memset(theirs, value=-7.0)
    nisa.sendrecv(src=mine, dst=theirs, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0,
                  dma_engine=dma_engine)
    nisa.memset(mine, value=9.0)  # what was sent is overwritten
    nisa.tensor_copy(copy, theirs)
    nisa.dma_copy(dst=out[core], src=copy)
    if core in loaded:
        nisa.dma_copy(dst=kept[core], src=large)
    else:
        nisa.dma_copy(dst=kept[core], src=b)
    return out, kept


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("loaded", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("dma_engine", [nisa.dma_engine.dma, nisa.dma_engine.gpsimd_dma])
def test_each_core_gets_what_the_other_had_when_they_met(dma_engine, loaded, clear, timing):
    a = np.stack([np.full((128, 8), v, np.float32) for v in (1, 5)])
    b = np.zeros((128, 2048), np.float32)
    for target in ("trn2", "trn3"):
        out, kept = nkisim.run(exchange_under_load, a, b, dma_engine, clear, loaded, grid=2,
                               target=target, timing=timing).outputs
        np.testing.assert_array_equal(out, a[::-1])
        np.testing.assert_array_equal(kept, np.zeros_like(kept))


def test_the_register_of_the_moment_says_what_is_sent():
    """Each core sends the column its own counter says, which has gone on before the other is there."""
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray((2, 4, 128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        mine = nl.load(x[me])
        large = nl.ndarray((128, 2048), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.dynamic_range(0, 4):
            got = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
            if me == 1:
                nisa.memset(large, value=0.0)
            nisa.sendrecv(src=mine[:, nl.ds(i, 1)], dst=got, send_to_rank=1 - me,
                          recv_from_rank=1 - me, pipe_id=0)
            nisa.dma_copy(out[me, nl.ds(i, 1)].reshape((128, 1)), got)
        return out

    x = np.random.default_rng(2).random((2, 128, 4), np.float32)
    for timing in (True, False):
        result = nkisim.run(kernel, x, grid=2, timing=timing)
        np.testing.assert_array_equal(np.asarray(result.outputs)[..., 0],
                                      x[::-1].transpose(0, 2, 1))


@pytest.mark.parametrize("timing", [True, False, "only"])
def test_cores_in_different_instructions_are_an_error_with_and_without_time(timing):
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        mine = nl.load(x[me])
        if me == 0:
            nisa.sendrecv(src=mine, dst=mine, send_to_rank=1, recv_from_rank=1, pipe_id=0)
        else:
            nisa.core_barrier(out, (0, 1))
        nisa.dma_copy(out[me], mine)
        return out

    with pytest.raises(nkisim.Error, match="which waits in core_barrier at .*two_cores.py"):
        nkisim.run(kernel, np.zeros((2, 4, 8), np.float32), grid=2, timing=timing)


@pytest.mark.parametrize("timing", [True, False, "only"])
def test_pipes_that_do_not_fit_are_an_error_with_and_without_time(timing):
    def kernel(x):
        me = nl.program_id(0)
        mine = nl.load(x[me])
        nisa.sendrecv(src=mine, dst=mine, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=me)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out[me], mine)
        return out

    with pytest.raises(nkisim.Error, match="pipe_id is 0; the other core's, 1"):
        nkisim.run(kernel, np.zeros((2, 4, 8), np.float32), grid=2, timing=timing)


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("columns", [64, 1280])
@pytest.mark.parametrize("first, second", [(1, 1), (5, 1), (1, 5), (100, 1), (1, 100)])
def test_the_later_core_decides_when_both_go_on(first, second, columns, barrier):
    x = np.random.default_rng(1).random((2, 128, columns), np.float32)
    result = nkisim.run(exchange, x, first, second, barrier, grid=2)
    np.testing.assert_array_equal(result.outputs, np.stack([x[0] + x[1]] * 2))


def test_waiting_for_the_other_core_takes_its_time():
    x = np.zeros((2, 128, 1280), np.float32)
    balanced, late, early = (nkisim.run(exchange, x, *times, grid=2).latency_us
                             for times in ((1, 1), (1, 20), (20, 1)))
    assert late > balanced + 5 and early > balanced + 5
    assert late == pytest.approx(early, rel=0.02)


def test_a_barrier_on_a_tile_is_a_hint(monkeypatch):
    """Data in shared HBM is documented; nki-library's blockwise product has its loop's counter in
    SBUF there. The cores meet all the same: what either stored before, the other loads after."""
    def kernel(x):
        me = nl.program_id(0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        shared = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(count, value=me)
        nisa.dma_copy(shared[me], x[me])
        nisa.core_barrier(shared, (0, 1))
        nisa.core_barrier(count, (0, 1))
        nisa.dma_copy(out[me], shared[1 - me])
        return out

    x = np.random.default_rng(0).random((2, 64, 8), np.float32)
    for strict in ("0", "1"):  # nki-library compiles
        monkeypatch.setenv("NKISIM_STRICT", strict)
        with pytest.warns(UserWarning, match="data in shared HBM is required"):
            np.testing.assert_array_equal(nkisim.run(kernel, x, grid=2).outputs, x[::-1])
