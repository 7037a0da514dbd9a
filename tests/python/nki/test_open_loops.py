# Tests that a kernel may not write the counter register of a running device loop, and views chosen
# at run time.

import numpy as np
import pytest

import nki.isa as nisa
import nki.language as nl
import nkisim


def _loop(change):
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for i in nl.dynamic_range(4):
            change(i)
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.dma_copy(dst=out, src=tile)
        return out
    return kernel


def _of_another(i):
    other = nisa.register_alloc(2)
    nisa.register_move(dst=other, imm=9)


@pytest.mark.parametrize("change", [
    lambda i: nisa.register_move(dst=i, imm=3),
    lambda i: [nisa.register_move(dst=i, imm=j) for j in nl.dynamic_range(2)],
], ids=["in its body", "in an inner loop"])
def test_the_register_of_an_open_loop_is_its_own(change):
    with pytest.raises(nkisim.Error, match="which counts a loop that is open") as caught:
        nkisim.run(_loop(change), np.zeros((4, 8), np.float32))
    assert caught.value.rule == "loop_register_written"


def test_other_registers_may_be_written_in_a_loop():
    result = nkisim.run(_loop(_of_another), np.zeros((4, 8), np.float32))
    assert (result.outputs == 4).all()


def test_a_register_is_free_when_its_loop_is_over():
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for i in nl.dynamic_range(4):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nisa.register_move(dst=i, imm=3)
        nisa.dma_copy(dst=out, src=tile)
        return out

    assert (nkisim.run(kernel, np.zeros((4, 8), np.float32)).outputs == 4).all()


def _ap(**offsets):
    def kernel(x, rows):
        out = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        index = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)
        tile = nl.ndarray((4, 8), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=index, src=rows)
        register = nisa.register_alloc(0)
        given = {"scalar_offset": register, "vector_offset": index}
        nisa.dma_copy(dst=tile, src=x.ap(pattern=[[8, 4], [1, 8]], offset=0, indirect_dim=0,
                                         **{name: given[name] for name in offsets}))
        nisa.dma_copy(dst=out, src=tile)
        return out
    return kernel


def test_ap_takes_one_run_time_offset():
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    rows = np.array([[5], [0], [7], [2]], np.int32)
    got = nkisim.run(_ap(vector_offset=True), x, rows).outputs
    assert (got == x[rows[:, 0]]).all()
    with pytest.raises(nkisim.Error, match="given together with vector_offset"):
        nkisim.run(_ap(scalar_offset=True, vector_offset=True), x, rows)


def test_the_middle_of_a_tile_is_reduced_by_a_permuted_view():
    x = np.random.default_rng(3).standard_normal((16, 3, 5)).astype(np.float32)

    def kernel(x, axis, permuted):
        out = nl.ndarray((16, 5), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        total = nl.ndarray((16, 5), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_reduce(total, nl.maximum, tile.permute((0, 2, 1)) if permuted else tile, axis=axis)
        nisa.dma_copy(dst=out, src=total)
        return out

    assert (nkisim.run(kernel, x, axis=2, permuted=True).outputs == x.max(axis=1)).all()
    with pytest.raises(nkisim.Error, match="the last free dimensions"):
        nkisim.run(kernel, x, axis=1, permuted=False)
