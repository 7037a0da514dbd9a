# Tests that a kernel may not write the counter register of a running device loop, that what its body sets for a next
# iteration is reported, and views chosen at run time.

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


def _counted(tile):
    k = 0
    for _ in nl.dynamic_range(4):
        nisa.tensor_scalar(tile, tile, nl.add, float(k))
        k += 1
    return tile


def _renamed_sum(tile):
    total = nl.copy(tile)
    for _ in nl.dynamic_range(4):
        more = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(more, total, tile, nl.add)
        total = more
    return total


def _flag_of_a_function(tile):
    first = True

    def body(i):
        nonlocal first
        nisa.tensor_scalar(tile, tile, nl.add, 1.0 if first else 2.0)
        first = False
    nl.fori_loop(0, 4, body)
    return tile


def _own_of_an_iteration(tile):
    work = None
    for i in range(2):
        pass
    for i in nl.dynamic_range(4):  # noqa: B007
        work = nl.copy(tile) if work is None else work
        count = 0
        for _ in range(3):
            count += 1
        nisa.tensor_scalar(work, tile, nl.add, float(count - 2))
        nisa.tensor_copy(tile, work)
    return tile


@pytest.mark.parametrize("body, names, found", [
    (_counted, "k", 0), (_renamed_sum, "total", 2), (_flag_of_a_function, "first", 4), (_own_of_an_iteration, "", 4)])
def test_what_a_body_sets_for_its_next_iteration_is_reported(body, names, found, recwarn):
    """The device repeats the instructions of the one iteration that Python went through."""
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=out, src=body(tile))
        return out

    x = np.full((4, 8), body is _renamed_sum, np.float32)
    assert (nkisim.run(kernel, x).outputs == found).all()
    said = [str(w.message) for w in recwarn if "next iteration" in str(w.message)]
    assert len(said) == bool(names)
    assert not names or f"the body of a dynamic loop sets {names} for its next iteration" in said[0]


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


def _while(step, first=3):
    """Adds 1 while a register, first `first`, is not zero; `step` may give it its next value, from a tile of `left`."""
    def kernel(x, left):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.dma_copy(dst=count, src=left)

        def body(register):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            step(register, count)

        nl.while_loop(first, body)
        nisa.dma_copy(dst=out, src=tile)
        return out
    return kernel


def _nothing(register, count):
    """Leaves the register as it is."""


def _down(register, count):
    nisa.tensor_scalar(count, count, nl.subtract, 1)
    nisa.register_load(register, count)


ZEROS, THREE = np.zeros((4, 8), np.float32), np.full((1, 1), 3, np.int32)


@pytest.mark.parametrize("timing", [None, "only"])
def test_a_loop_whose_register_nothing_writes_never_ends(timing):
    with pytest.raises(nkisim.Error, match="the loop never ends: no instruction of its body writes register 0, which "
                       "is 3") as caught:
        nkisim.run(_while(_nothing), ZEROS, THREE, **({"timing": timing} if timing else {}))
    assert caught.value.rule == "dynamic_loop"


def test_a_loop_that_is_never_entered_or_counts_down_ends():
    assert (nkisim.run(_while(_nothing, 0), ZEROS, THREE).outputs == 0).all()
    assert (nkisim.run(_while(_down), ZEROS, THREE).outputs == 3).all()
