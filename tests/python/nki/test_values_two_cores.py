"""Tests values that a kernel's Python code looks at, where they depend on the other core of a
logical core.
"""

import os
import signal
import threading

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402

X = np.random.default_rng(3).random((2, 4, 8), np.float32)


@pytest.fixture(autouse=True)
def no_thread_stays():
    before = threading.active_count()
    yield
    assert threading.active_count() <= before


def swap(me, mine):
    """The values that the other core sends."""
    other = nl.ndarray(mine.shape, mine.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=mine, dst=other, send_to_rank=1 - me, recv_from_rank=1 - me, pipe_id=0)
    return other


def start(x):
    me = nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    return me, out, nl.load(x[me])


def exchange(x, seen, rounds=3):
    """Adds what the other core has, `rounds` times; `seen` gets (core, round, values)."""
    me, out, mine = start(x)
    for i in range(rounds):
        other = swap(me, mine)
        nisa.tensor_tensor(mine, mine, other, nl.add)
        if seen is not None:
            seen.append((me, i, mine.numpy()))
    nisa.dma_copy(out[me], mine)
    return out


def test_values_after_every_meeting_on_both_cores():
    seen = []
    result = nkisim.run(exchange, X, seen, grid=2)
    assert sorted((c, i) for c, i, _ in seen) == [(c, i) for c in range(2) for i in range(3)]
    for core, i, values in seen:
        both = X[core] + X[1 - core]
        np.testing.assert_array_equal(values, both * 2 ** i)
    np.testing.assert_array_equal(result.outputs, np.stack([(X[0] + X[1]) * 4] * 2))


def test_looking_changes_neither_values_nor_latency():
    plain = nkisim.run(exchange, X, None, grid=2)
    looked = nkisim.run(exchange, X, [], grid=2)
    np.testing.assert_array_equal(plain.outputs, looked.outputs)
    assert plain.latency_ns == looked.latency_ns


@pytest.mark.parametrize("looking", [0, 1])
def test_values_behind_a_barrier_in_shared_memory(looking):
    seen = []

    def kernel(x):
        me, out, mine = start(x)
        shared = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(shared[me], mine)
        nisa.core_barrier(shared, (0, 1))
        late = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)  # the looking core comes first
        if me == looking:
            seen.append(shared.numpy())
        nisa.dma_copy(late[me], shared[1 - me])
        nisa.core_barrier(late, (0, 1))
        nisa.dma_copy(out[me], late[1 - me])
        return out

    result = nkisim.run(kernel, X, grid=2)
    np.testing.assert_array_equal(seen[0], X)
    np.testing.assert_array_equal(result.outputs, X)


@pytest.mark.parametrize("dynamic", [True, False])
def test_a_loop_as_long_as_the_received_value_says(dynamic, capsys):
    """Each core adds one as many times as the other core's count says."""
    def kernel(x, counts):
        me, out, tile = start(x)
        received = swap(me, nl.load(counts[me:me + 1]))
        if dynamic:
            bound = nisa.register_alloc()
            nisa.register_load(bound, received)
            for _ in nl.dynamic_range(0, bound):
                nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        else:
            for _ in range(int(received.numpy()[0, 0])):
                nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        print(nl.program_id(0), tile.numpy()[0, 0] - np.float32(0))
        nisa.dma_copy(out[me], tile)
        return out

    counts = np.array([[2], [5]], np.int32)
    x = np.zeros((2, 4, 8), np.float32)
    result = nkisim.run(kernel, x, counts, grid=2)
    np.testing.assert_array_equal(result.outputs[:, 0, 0], [5, 2])
    assert capsys.readouterr().out.split() == ["0", "5.0", "1", "2.0"]


def test_meetings_inside_dynamic_loops():
    """A while loop on one core and a counted one on the other, which meet in every iteration."""
    seen = []

    def kernel(x):
        me, out, mine = start(x)
        total = nl.zeros(mine.shape, mine.dtype)

        def step():
            nisa.tensor_tensor(total, total, swap(me, mine), nl.add)

        if me == 0:
            for _ in nl.dynamic_range(0, 3):
                step()
        else:
            left = nl.full((1, 1), 3, dtype=nl.int32)
            register = nisa.register_alloc()
            nisa.register_load(register, left)
            while register:
                step()
                nisa.tensor_scalar(left, left, nl.subtract, 1)
                nisa.register_load(register, left)
        seen.append(total.numpy())
        nisa.dma_copy(out[me], total)
        return out

    result = nkisim.run(kernel, X, grid=2)
    np.testing.assert_allclose(result.outputs, X[::-1] * 3, rtol=1e-6)
    np.testing.assert_array_equal(np.stack(seen), result.outputs)


def test_device_print_prints_once_although_values_were_looked_at(capsys):
    def kernel(x):
        me, out, mine = start(x)
        nl.device_print(f"core {me}", mine[0:1, 0:1])
        nisa.dma_copy(out[me], swap(me, mine))
        mine.numpy()
        return out

    nkisim.run(kernel, X, grid=2)
    said = capsys.readouterr().out
    assert said.count("core 0") == said.count("core 1") == 1


def test_a_core_that_never_comes_is_an_error_at_the_waiting_line():
    def kernel(x):
        me, out, mine = start(x)
        if me == 0:
            other = swap(me, mine)
            other.numpy()
        nisa.dma_copy(out[me], mine)
        return out

    with pytest.raises(nkisim.Error, match="waits here for another core") as caught:
        nkisim.run(kernel, X, grid=2)
    assert caught.value.kernel_file == __file__ and "nisa.sendrecv" in caught.value.source


@pytest.mark.parametrize("asked", [True, False])
def test_an_error_of_the_other_core_is_its_own(asked):
    def kernel(x):
        me, out, mine = start(x)
        if me == 1:
            mine[:, 0:9]
        other = swap(me, mine)
        str(other)  # print() and debuggers must not raise
        if asked:
            other.numpy()
        return out

    with pytest.raises(nkisim.Error, match="slice 0:9 of dimension 1") as caught:
        nkisim.run(kernel, X, grid=2)
    assert caught.value.source == "mine[:, 0:9]"


def test_an_error_of_the_looking_core_ends_the_other():
    ended = []

    def kernel(x):
        me, out, mine = start(x)
        try:
            other = swap(me, mine)
            if me == 0:
                other.numpy()
                raise ValueError("enough")
            nisa.dma_copy(out[me], other)
        finally:
            ended.append(me)
        return out

    with pytest.raises(ValueError, match="enough") as caught:
        nkisim.run(kernel, X, grid=2)
    assert "in the kernel at" in caught.value.__notes__[0]
    assert sorted(ended) == [0, 1]
    np.testing.assert_array_equal(nkisim.run(exchange, X, [], 1, grid=2).outputs[0], X[0] + X[1])


def test_an_interrupt_ends_both_cores():
    def kernel(x):
        me, out, mine = start(x)
        if me == 1:
            os.kill(os.getpid(), signal.SIGINT)  # comes to the main thread, which waits
            while True:
                nisa.tensor_copy(mine, mine)
        swap(me, mine).numpy()
        return out

    with pytest.raises(KeyboardInterrupt):
        nkisim.run(kernel, X, grid=2)


@pytest.mark.parametrize("looking", [True, False])
def test_cores_that_wait_in_different_instructions(looking):
    def kernel(x):
        me, out, mine = start(x)
        if me == 0:
            swap(me, mine)
        else:
            nisa.core_barrier(out, (0, 1))
        if looking:
            mine.numpy()
        return out

    with pytest.raises(nkisim.Error, match="which waits in core_barrier at .*two_cores.py"):
        nkisim.run(kernel, X, grid=2, timing=False)


def test_a_tensor_of_a_kernel_that_failed_has_no_values():
    kept = []

    def kernel(x):
        kept.append(nl.load(x[0]))
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough") as caught:
        nkisim.run(kernel, X)
    assert caught.value.__traceback__ is not None  # which holds the kernel's recorder
    with pytest.raises(nkisim.Error, match="failed|outside a kernel"):
        kept[0].numpy()
