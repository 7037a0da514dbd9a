"""Tests that with_schedule, depends_on and no_reorder order a kernel's instructions in simulated time."""
import inspect

import numpy as np
import pytest

import nki
import nki.collectives as nccl
import nki.isa as nisa
import nki.language as nl
import nkisim
from scheduled_kernels import OVERLAP, TO_SCALAR, TO_VECTOR, X, cost, long_then_short, stored, tile, times, two_copies


def test_an_edge_on_one_engine_costs_the_wait_for_completion(tmp_path):
    plain, before = times(two_copies, tmp_path)
    assert plain["second"][0] - plain["first"][0] == pytest.approx(cost(480) - OVERLAP)
    found, after = times(two_copies.with_schedule([("second", "first")]), tmp_path)
    assert found["second"][0] - found["first"][1] == pytest.approx(TO_VECTOR)
    slower = 1000 * (after.latency_us - before.latency_us)
    assert slower == pytest.approx(OVERLAP + TO_VECTOR, abs=0.1)
    np.testing.assert_array_equal(after.outputs, before.outputs)


def test_an_order_makes_a_kernel_faster(tmp_path):
    """As written: long, short, then slow. Ordered: short, then slow, and long during slow."""
    plain, before = times(long_then_short, tmp_path)
    assert plain["slow"][0] == pytest.approx(plain["short"][1] + TO_SCALAR)
    found, after = times(long_then_short.with_schedule([("long", "short")]), tmp_path)
    assert found["short"][0] == pytest.approx(plain["long"][0])
    assert found["long"][0] == pytest.approx(found["short"][1] + TO_VECTOR)
    assert found["long"][1] < found["slow"][1]
    faster = 1000 * (before.latency_us - after.latency_us)
    assert faster == pytest.approx(cost(480) - OVERLAP, abs=0.1)
    np.testing.assert_array_equal(after.outputs, before.outputs)


def test_the_same_pair_the_other_way_is_a_wait(tmp_path):
    _, before = times(long_then_short, tmp_path)
    _, after = times(long_then_short.with_schedule([("short", ["long"])]), tmp_path)
    slower = 1000 * (after.latency_us - before.latency_us)
    assert slower == pytest.approx(OVERLAP + TO_VECTOR, abs=0.1)


def two_engines(ordered):
    @nki.jit
    def kernel(x):
        a, c, d = tile(), tile(), tile()
        nisa.dma_copy(dst=a, src=x)
        first = nisa.tensor_copy(dst=c, src=a, engine=nisa.vector_engine, name="first")
        second = nisa.activation(dst=d, data=a, op=nl.exp, name="second")
        if ordered:
            assert second.depends_on(first) is second
        nisa.tensor_tensor(dst=d, data1=c, data2=d, op=nl.add)
        return stored(d)

    return kernel


def test_depends_on_delays_another_engine(tmp_path):
    plain, before = times(two_engines(False), tmp_path)
    assert plain["second"][0] < plain["first"][1]
    found, after = times(two_engines(True), tmp_path)
    assert found["second"][0] == pytest.approx(found["first"][1] + TO_SCALAR)
    np.testing.assert_array_equal(after.outputs, before.outputs)


def test_a_load_waits_for_what_it_depends_on(tmp_path):
    """A second load would run during the first; it depends on the copy of what the first brought."""
    def loads(ordered):
        @nki.jit
        def kernel(x, y):
            a, b, c = tile(), tile(), tile()
            nisa.dma_copy(dst=a, src=x)
            copied = nisa.tensor_copy(dst=c, src=a, engine=nisa.vector_engine, name="copied")
            load = nisa.dma_copy(dst=b, src=y, name="load")
            if ordered:
                load.depends_on(copied)
            nisa.tensor_tensor(dst=c, data1=b, data2=c, op=nl.add, name="sum")
            return stored(c)

        return kernel

    plain, before = times(loads(False), tmp_path, X, X)
    assert plain["load"][0] < plain["copied"][0]
    found, after = times(loads(True), tmp_path, X, X)
    assert found["load"][0] >= found["copied"][1]
    assert after.compiled.ordered == 1
    np.testing.assert_array_equal(after.outputs, before.outputs)


def alternating(block, body):
    """Three loads, each copied and added up: with everything in one block nothing overlaps."""
    @nki.jit
    def kernel(x):
        tiles = [tile() for _ in range(3)]
        total = tile()
        nisa.memset(dst=total, value=0.0)

        def step(i):
            nisa.dma_copy(dst=tiles[i], src=x, name=f"load{i}")
            nisa.tensor_tensor(dst=total, data1=total, data2=tiles[i], op=nl.add, name=f"add{i}")

        if block:
            with nl.no_reorder():
                body(step)
        else:
            body(step)
        return stored(total)

    return kernel


def all_steps(step):
    for i in range(3):
        step(i)


def test_a_block_keeps_what_the_scheduler_would_move(tmp_path):
    plain, before = times(alternating(False, all_steps), tmp_path, compiler={"share": "none"})
    assert plain["load2"][0] < plain["add0"][0] and before.compiled.moved > 0
    found, after = times(alternating(True, all_steps), tmp_path, compiler={"share": "none"})
    order = [f"{what}{i}" for i in range(3) for what in ("load", "add")]
    for earlier, later in zip(order, order[1:]):
        assert found[earlier][1] <= found[later][0]
    assert after.latency_us > before.latency_us and after.compiled.moved == 0
    np.testing.assert_array_equal(after.outputs, before.outputs)


def test_a_block_is_a_chain_of_waits(tmp_path):
    """Three copies of VectorE, each after the one before: two waits more."""
    def copies(block):
        @nki.jit
        def kernel(x):
            a, results = tile(), [tile() for _ in range(3)]
            nisa.dma_copy(dst=a, src=x)

            def body():
                for i, r in enumerate(results):
                    nisa.tensor_copy(dst=r, src=a[:, 0:480], engine=nisa.vector_engine,
                                     name=f"copy{i}")

            if block:
                with nl.no_reorder(), nl.no_reorder():  # blocks nest
                    body()
            else:
                body()
            nisa.tensor_tensor(dst=a, data1=results[0], data2=results[1], op=nl.add)
            nisa.tensor_tensor(dst=a, data1=results[2], data2=a, op=nl.add)
            return stored(a)

        return kernel

    _, before = times(copies(False), tmp_path, compiler={"reuse": "none"})
    found, after = times(copies(True), tmp_path, compiler={"reuse": "none"})
    assert [found[f"copy{i}"][0] for i in range(3)] == pytest.approx(
        [found["copy0"][0] + i * (cost(480) + TO_VECTOR) for i in range(3)])
    slower = 1000 * (after.latency_us - before.latency_us)
    assert slower == pytest.approx(2 * (OVERLAP + TO_VECTOR), abs=0.1)


def test_what_is_outside_a_block_is_free(tmp_path):
    @nki.jit
    def kernel(x):
        with nl.no_reorder():
            a = nl.load(x)
        b = nl.load(x)
        with nl.no_reorder():
            return stored(nl.add(a, b))

    result = nkisim.run(kernel, X, target="trn2")
    assert result.compiled.ordered == 1  # the sum and its store
    np.testing.assert_array_equal(result.outputs, 2 * X)


def test_waits_in_a_loop_of_the_device(tmp_path):
    """Each iteration's instruction waits for that iteration's."""
    def alternating_steps(ordered):
        @nki.jit
        def kernel(x):
            a, c, d = tile(), tile(), tile()
            nisa.dma_copy(dst=a, src=x)
            for _ in nl.dynamic_range(3):
                first = nisa.tensor_copy(dst=c, src=a, engine=nisa.vector_engine)
                second = nisa.tensor_copy(dst=d, src=a, engine=nisa.vector_engine)
                if ordered:
                    second.depends_on(first)
            nisa.tensor_tensor(dst=d, data1=c, data2=d, op=nl.add)
            return stored(d)

        return kernel

    before, after = (nkisim.run(alternating_steps(o), X, target="trn2") for o in (False, True))
    slower = 1000 * (after.latency_us - before.latency_us)
    assert slower == pytest.approx(3 * (OVERLAP + TO_VECTOR), abs=0.1)


def test_both_cores_have_the_order():
    result = nkisim.run(two_copies.with_schedule([("second", "first")]), X, target="trn2", grid=2)
    assert result.compiled.ordered == 2


def test_all_ways_to_run_a_scheduled_kernel(tmp_path):
    scheduled = two_copies.with_schedule([("second", "first")])
    expected = nkisim.run(scheduled, X, target="trn2").latency_us
    assert scheduled.__name__ == "two_copies"
    assert inspect.signature(scheduled) == inspect.signature(two_copies)
    assert scheduled.run(X).latency_us == expected
    assert nki.jit(scheduled).run(X).latency_us == expected
    assert nkisim.run(scheduled[1], X, target="trn2").latency_us == expected
    np.testing.assert_array_equal(scheduled(X), 2 * X)

    @nki.jit
    def around(x):
        return scheduled(x)

    assert around.run(X).latency_us == expected
    again = two_copies.with_schedule([]).with_schedule([("second", "first")])
    assert again.run(X).latency_us == expected
    assert two_copies.run(X).latency_us < expected


def test_a_collective_can_be_named():
    @nki.jit
    def kernel(x):
        a = tile()
        mine, theirs = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm) for _ in range(2))
        nisa.dma_copy(dst=mine, src=x)
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_copy(dst=a, src=a, engine=nisa.vector_engine, name="copy")
        nccl.all_gather(srcs=[mine], dsts=[theirs], replica_group=nccl.ReplicaGroup([[0]]),
                        collective_dim=0, name="gather")
        return stored(a), stored(theirs)

    result = nkisim.run(kernel.with_schedule([("copy", "gather")]), X, target="trn2")
    assert result.compiled.ordered == 1
    np.testing.assert_array_equal(result.outputs[1], X)


def test_an_ordered_instruction_is_not_left_out():
    """The second sum would be the first's; a kernel that orders it has it."""
    @nki.jit
    def kernel(x):
        a, b, c = tile(), tile(), tile()
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_scalar(dst=b, data=a, op0=nl.add, operand0=1.0, name="one")
        nisa.tensor_scalar(dst=c, data=a, op0=nl.add, operand0=1.0, name="again")
        nisa.tensor_tensor(dst=a, data1=b, data2=c, op=nl.add)
        return stored(a)

    for edges, sums in (([], 1), ([("again", "one")], 2)):
        result = nkisim.run(kernel.with_schedule(edges), X, target="trn2")
        assert result.summary["nc_0"]["vector_engine_instruction_count"] == 1 + sums
        np.testing.assert_array_equal(result.outputs, 2 * (X + 1))
