"""Tests that the host memory of a simulated run is freed at once, not when Python next looks for
cycles.
"""

import gc
import weakref

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

KEPT = []


def copy(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    register = nisa.register_alloc(1)
    nisa.dma_copy(tile, x)
    KEPT[:] = [tile, register]
    nisa.dma_copy(out, tile)
    return out


@pytest.fixture
def no_cycle_search():
    gc.disable()
    yield
    gc.enable()


def test_a_program_and_its_memory_end_with_the_result(no_cycle_search):
    result = nkisim.run(copy, np.ones((8, 8), np.float32))
    KEPT.clear()
    recorder, program = weakref.ref(result.recorder), result.recorder.program
    assert len(program) > 0
    del result
    assert recorder() is None


def test_a_tensor_kept_after_its_kernel_says_so():
    nkisim.run(copy, np.ones((8, 8), np.float32))
    with pytest.raises(nkisim.Error, match="tile is used outside a kernel"):
        KEPT[0].numpy()
    assert "no values" in str(KEPT[0])
    KEPT.clear()


def test_a_result_keeps_its_tensors_readable():
    result = nkisim.run(copy, np.ones((8, 8), np.float32))
    np.testing.assert_array_equal(KEPT[0].numpy(), 1)
    assert result.instructions > 0
    KEPT.clear()
