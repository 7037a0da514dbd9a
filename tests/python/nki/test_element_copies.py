"""Tests the simulated time of copies within SBUF element by element: the chip's DMA engines take
9.3 ns for each of 1,024 elements (prefill attention: 402 such copies are active for 4,090 us,
322 for 3,260).
"""
import nki
import nki.isa as nisa
import nki.language as nl
import pytest

import nkisim

P = 128


def repeated(copies):
    """A column of [128, 1], repeated over 128 columns by `copies` DMAs."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.shared_hbm)
        column = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=column, src=x)
        wide = [nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf) for _ in range(copies)]
        for tile in wide:
            nisa.dma_copy(dst=tile, src=column.ap(pattern=[[1, P], [0, P]], offset=0))
        nisa.dma_copy(dst=out, src=wide[-1])
        return out

    return nkisim.run(kernel, nkisim.Shape((P, 1), "float32"), target="trn2", timing="only").latency_us


def test_a_copy_of_elements_takes_as_long_as_the_chip_says():
    one = (repeated(24) - repeated(8)) / 16
    assert one == pytest.approx((4090 - 3260) / 80, rel=0.1)  # two kernels that differ by 80 copies
