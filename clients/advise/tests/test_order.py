"""Tests the edit of `nkisim advise` that moves instructions together: dependent ones follow, none
is lost.
"""

from collections import namedtuple

import pytest

from nkisim_advise.order import together

Ref = namedtuple("Ref", "tensor")


class Steps:
    """Instructions as (name, what it writes, what it reads)."""

    def __init__(self, *steps):
        self.steps = steps
        self.insts = [{"i": name} for name, _, _ in steps]

    def operands(self, index):
        _, written, read = self.steps[index]
        return [("dst", None, Ref(t), None, True) for t in written] + [
            ("src", None, Ref(t), None, False) for t in read]

    def constant(self, tensor):
        return tensor == "weights"


PRODUCTS = [("memset", "a", ""), ("nc_matmul", "p", "a"), ("tensor_copy", "q", "p"), ("memset", "b", ""),
            ("nc_matmul", "r", "a"), ("tensor_copy", "s", "q"), ("tensor_copy", "t", "r")]


@pytest.mark.parametrize("chosen, before, after", [
    ([1, 4], [0, 3], [2, 5, 6]),  # the copy of the first product waits for both
    ([0, 3], [], [1, 2, 4, 5, 6]),
    ([5, 6], [0, 1, 2, 3, 4], [])])
def test_every_instruction_stays(chosen, before, after):
    assert together(Steps(*PRODUCTS), chosen) == (before, after)
    assert sorted([*before, *chosen, *after]) == list(range(len(PRODUCTS)))


def test_what_needs_the_others_result_cannot_overlap_it():
    assert together(Steps(*PRODUCTS), [1, 2]) is None  # one after the other already, but it needs p
    assert together(Steps(*PRODUCTS), [1, 5]) is None  # through q
