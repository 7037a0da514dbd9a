"""LNC2: two cores that reach a meeting at different times, in simulated time."""

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
