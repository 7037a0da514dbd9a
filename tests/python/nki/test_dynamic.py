"""Tests PSUM accumulation over dynamic loops, and values that a kernel's Python code looks at while
two cores are used.
"""

import numpy as np
import pytest

import nkisim
from kernels import stored

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


def sbuf(x):
    tile = nl.ndarray(x.shape, x.dtype, nl.sbuf)
    nisa.dma_copy(tile, x)
    return tile


def operands():
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, shape).astype(np.float32) for shape in ((64, 32), (64, 128))]


def product(a, b, loops, zero=False, inside=False):
    def kernel(a, b):
        a, b = sbuf(a), sbuf(b)
        total = nl.ndarray((32, 128), nl.float32, nl.psum)
        if zero:
            nisa.memset(total, 0)
        for _ in nl.dynamic_range(loops):
            if inside:
                nisa.memset(total, 0)
            nisa.nc_matmul(total, a, b)
        return stored(total)

    return nki.jit(kernel)(a, b)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("loops", [1, 2, 5])
def test_matmuls_add_over_a_dynamic_loop(loops, zero):
    a, b = operands()
    assert np.array_equal(product(a, b, loops, zero), loops * (a.T @ b))


def test_a_memset_inside_starts_anew():
    a, b = operands()
    assert np.array_equal(product(a, b, 3, inside=True), a.T @ b)


def test_a_tile_of_the_body_is_overwritten():
    @nki.jit
    def kernel(a, b):
        a, b = sbuf(a), sbuf(b)
        out = nl.ndarray((32, 128), nl.float32, nl.shared_hbm)
        for _ in nl.dynamic_range(3):
            part = nl.ndarray((32, 128), nl.float32, nl.psum)
            nisa.nc_matmul(part, a, b)
            nisa.nc_matmul(part, a, b)
            tile = nl.ndarray((32, 128), nl.float32, nl.sbuf)
            nisa.tensor_copy(tile, part)
            nisa.dma_copy(out, tile)
        return out

    a, b = operands()
    assert np.array_equal(kernel(a, b), 2 * (a.T @ b))


def test_an_inner_loop_starts_anew_in_each_outer_iteration():
    @nki.jit
    def kernel(a, b):
        a, b = sbuf(a), sbuf(b)
        out = nl.ndarray((32, 128), nl.float32, nl.shared_hbm)
        for _ in nl.dynamic_range(3):
            part = nl.ndarray((32, 128), nl.float32, nl.psum)
            for _ in nl.dynamic_range(4):
                nisa.nc_matmul(part, a, b)
            tile = nl.ndarray((32, 128), nl.float32, nl.sbuf)
            nisa.tensor_copy(tile, part)
            nisa.dma_copy(out, tile)
        return out

    a, b = operands()
    assert np.array_equal(kernel(a, b), 4 * (a.T @ b))


def exchange(look):
    def kernel(x):
        me = nl.program_id(0)
        mine = sbuf(x)
        nisa.tensor_scalar(mine, mine, nl.add, float(me))
        if look == "before":
            assert mine.numpy()[0, 0] == me
        other = nl.ndarray(x.shape, x.dtype, nl.sbuf)
        nisa.sendrecv(dst=other, src=mine, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
        if look == "after":
            other.numpy()
        out = nl.ndarray((2, *x.shape), x.dtype, nl.shared_hbm)
        nisa.dma_copy(out[me], other)
        return out

    return nki.jit(kernel)


@pytest.mark.parametrize("launch", [lambda k: k[2], lambda k: nki.simulate(k[2]),
                                    lambda k: nki.simulate(k)[2]])
@pytest.mark.parametrize("look", ["never", "before"])
def test_two_cores_exchange(launch, look):
    out = launch(exchange(look))(np.zeros((4, 4), np.float32))
    assert out[:, 0, 0].tolist() == [1.0, 0.0]


def test_values_after_a_dynamic_loop_are_those_of_all_its_iterations(capsys):
    seen = []

    def kernel(x, count):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        bound = nisa.register_alloc()
        nisa.register_load(bound, nl.load(count))
        for _ in nl.dynamic_range(0, bound):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        nl.device_print("tile", tile)
        seen.append(tile.numpy())
        for _ in nl.dynamic_range(0, 0):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        seen.append(tile.numpy())
        nl.store(out, tile)
        return out

    x = np.zeros((2, 4), np.float32)
    result = nkisim.run(kernel, x, np.array([[3]], np.int32))
    for values in (*seen, result.outputs):
        np.testing.assert_array_equal(values, x + 3)
    assert capsys.readouterr().out.count("tile") == 1  # by the run, not when looked at


@pytest.mark.parametrize("columns, fits", [(12 * 1024, True), (32 * 1024, False)])
def test_what_every_iteration_reads_lives_through_the_loop(columns, fits):
    """A tile of the body may not take the space of one that the next iteration reads again: 48 KiB
    twice fit a partition of 224 KiB, 128 KiB do not."""
    def kernel(x):
        out = nl.ndarray((128, 1), nl.float32, nl.shared_hbm)
        total = nl.ndarray((128, 1), nl.float32, nl.sbuf)
        nisa.memset(total, 0)
        kept = sbuf(x)
        for _ in nl.dynamic_range(3):
            nisa.tensor_tensor(total, total, kept[:, 0:1], nl.add)
            scratch = nl.ndarray((128, columns), nl.float32, nl.sbuf)
            nisa.memset(scratch, 5)
            nisa.tensor_tensor(total, total, scratch[:, 7:8], nl.add)
        nisa.dma_copy(out, total)
        return out

    x = np.full((128, columns), 2, np.float32)
    if not fits:
        with pytest.raises(nkisim.Error, match="SBUF is full"):
            nkisim.run(kernel, x, target="trn2")
        return
    np.testing.assert_array_equal(nkisim.run(kernel, x, target="trn2").outputs, 3 * (2 + 5))


def test_a_loop_that_outlives_its_kernel_is_refused():
    kept = []

    def left(x):
        kept.append(nl.dynamic_range(4))
        next(kept[0])
        return stored(sbuf(x))

    with pytest.raises(nkisim.Error, match="break or return inside a dynamic loop"):
        nki.jit(left)(operands()[0])
    with pytest.raises(nkisim.Error, match="outside the kernel that made it") as refused:
        next(kept[0])
    assert refused.value.rule == "outside_kernel"


@pytest.mark.parametrize("iterations", [0, 1, 5])
def test_while_loop_runs_until_its_register_is_zero(iterations):
    """The counter is in memory, as registers have no arithmetic: each iteration loads what is left."""
    def kernel(x, count):
        out, tile = nl.ndarray(x.shape, x.dtype, nl.shared_hbm), nl.ndarray(x.shape, x.dtype, nl.sbuf)
        left = nl.ndarray((1, 1), nl.int32, nl.sbuf)
        nisa.dma_copy(tile, x)
        nisa.dma_copy(left, count)
        first = nisa.register_alloc()
        nisa.register_load(first, left)

        def body(register):
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
            nisa.tensor_scalar(left, left, nl.subtract, 1)
            nisa.register_load(register, left)
            return register

        nl.while_loop(first, body)
        nisa.dma_copy(out, tile)
        return out

    x = np.zeros((8, 8), np.float32)
    np.testing.assert_array_equal(nkisim.run(kernel, x, np.array([[iterations]], np.int32)).outputs, x + iterations)
