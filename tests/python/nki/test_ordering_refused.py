"""Tests that impossible instruction orders are refused: unknown names, cycles, loops, instructions
without an order.
"""
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim
import scheduled_kernels
from scheduled_kernels import X, long_then_short, stored, tile, two_copies


def error_of(kernel, words, *arguments):
    with pytest.raises(nkisim.Error, match=words) as caught:
        nkisim.run(kernel, *(arguments or (X,)), target="trn2")
    assert caught.value.kernel_file in (__file__, scheduled_kernels.__file__) and caught.value.code == "bad_input"
    return caught.value


def test_names_that_nothing_has():
    problem = error_of(two_copies.with_schedule([("secnd", "first")]),
                      "names 'secnd', which no instruction of the kernel is called .did you mean 'second'")
    assert problem.source.startswith("problem = error_of(") and problem.instruction == "with_schedule"
    error_of(two_copies.with_schedule([("second", ["first", "none"])]), "names 'none'")


def test_names_that_several_have():
    @nki.jit
    def kernel(x):
        a = nl.load(x)
        for _ in range(4):
            nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0, name="step")
        nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0, name="last")
        return stored(a)

    error_of(kernel.with_schedule([("last", "step")]),
            r"names 'step', as 4 instructions are called .*:\d+, .*, \.\.\.")


def test_what_is_no_pair():
    for edges in ([("second", 3)], [("second",)], ["ab"], [("a", ["b", None])], 7):
        with pytest.raises(nkisim.Error, match="a .*pair.* of names") as caught:
            two_copies.with_schedule(edges)
        assert caught.value.kernel_file == __file__


def test_circles():
    error_of(two_copies.with_schedule([("second", "first"), ("first", "second")]),
            r"circle: \w+ \(.*\) after \w+ \(.*\) after \w+ ")
    error_of(two_copies.with_schedule([("second", "second")]), "circle: second .* after second")
    # through memory: slow reads what short writes
    error_of(long_then_short.with_schedule([("short", "slow")]), "circle: .*(short|slow).* after ")


def test_into_and_out_of_loops():
    def loops(wire):
        @nki.jit
        def kernel(x):
            a, b = nl.load(x), tile()
            before = nisa.tensor_copy(dst=b, src=a)
            for _ in nl.dynamic_range(2):
                inside = nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
                if wire == "in":
                    inside.depends_on(before)
            after = nisa.tensor_copy(dst=b, src=a)
            if wire == "out":
                after.depends_on(inside)
            if wire == "back":
                before.depends_on(after)
            return stored(b)

        return kernel

    np.testing.assert_array_equal(nkisim.run(loops("in"), X, target="trn2").outputs, X + 2)
    error_of(loops("out"), "is in a loop or branch of the device that this one is not in")
    error_of(loops("back"), "comes later, beyond loop_begin .*which nothing passes")


def test_loops_in_a_block():
    def loop_in_block(x):
        a = nl.load(x)
        with nl.no_reorder():
            for _ in nl.dynamic_range(2):
                nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
        return stored(a)

    def fori_in_block(x):
        a = nl.load(x)
        with nl.no_reorder():
            nl.fori_loop(0, 2, lambda i: nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0))
        return stored(a)

    def block_in_loop(x):
        a = nl.load(x)
        for _ in nl.dynamic_range(2):
            with nl.no_reorder():
                nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
                nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
        return stored(a)

    for kernel in (loop_in_block, fori_in_block):
        error_of(nki.jit(kernel), "dynamic loop begins inside a no_reorder block")
    result = nkisim.run(nki.jit(block_in_loop), X, target="trn2")
    np.testing.assert_array_equal(result.outputs, X + 4)
    assert result.compiled.ordered == 1


def test_what_cannot_be_ordered():
    def wrong(wire):
        @nki.jit
        def kernel(x):
            a = nl.load(x)
            made = nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
            wire(made)
            return stored(a)

        return kernel

    error_of(wrong(lambda made: made.depends_on(3)), "producer is 3; what a call of nki.isa returned")
    error_of(wrong(lambda made: made.depends_on(made)), "circle")
    error_of(wrong(lambda made: nisa.register_move(nisa.register_alloc(), 1).depends_on(made)),
            "runs on the sequencers")
    kept = []
    nkisim.run(wrong(kept.append), X, target="trn2")
    error_of(wrong(lambda made: made.depends_on(kept[0])), "of another recording")
    with pytest.raises(nkisim.Error, match="after the kernel was recorded"):
        kept[0].depends_on(kept[0])


def test_the_other_core_is_no_producer():
    kept = {}

    @nki.jit
    def kernel(x):
        core = nl.program_id(0)
        a, b = nl.load(x), tile()
        kept[core] = nisa.tensor_copy(dst=b, src=a)
        if core == 1:
            kept[1].depends_on(kept[0])
        return stored(b)

    with pytest.raises(nkisim.Error, match="on another core; an instruction of the same core"):
        nkisim.run(kernel, X, target="trn2", grid=2)
