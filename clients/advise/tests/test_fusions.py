"""Tests how `nkisim advise` finds two instructions that one can replace: at most two operators,
each as it is.
"""

import pytest

from nkisim_advise import fusions


def scalar(**operators):
    return {"i": "tensor_scalar", "dst": "t", "data": "x", **operators}


TWICE = {"op0": "multiply", "operand0": 2.0, "op1": "add", "operand1": 1.0}
ONCE = {"op0": "subtract", "operand0": 3.0, "reverse0": True}


def rule(first, then, parameter="data"):
    found = fusions._RULES[first["i"], then["i"]](first, {**then, parameter: "t"}, parameter)
    return found and {k: v for k, v in found[0].items() if v is not None}


def test_two_operators_of_one_instruction_each():
    assert rule(scalar(**ONCE), {**scalar(op0="maximum", operand0=0.0), "dst": "y"}) == {
        "i": "tensor_scalar", "dst": "y", "data": "x", **ONCE, "op1": "maximum", "operand1": 0.0}
    other = {"i": "tensor_tensor", "dst": "y", "data1": "t", "data2": "z", "op": "add", "engine": "vector"}
    assert rule(scalar(**ONCE), other, "data1") == {
        "i": "scalar_tensor_tensor", "dst": "y", "data": "x", **ONCE, "op1": "add", "operand1": "z"}
    assert rule(scalar(**ONCE), {**other, "data1": "z"}, "data2") == {
        "i": "scalar_tensor_tensor", "dst": "y", "data": "x", **ONCE, "op1": "add", "operand1": "z", "reverse1": True}


@pytest.mark.parametrize("first, then", [
    (TWICE, ONCE), (ONCE, TWICE), (TWICE, TWICE), ({}, ONCE), (ONCE, {}), ({}, {})])
def test_no_instruction_has_three_operators_or_none(first, then):
    assert rule(scalar(**first), scalar(**then)) is None
    if first is not ONCE:
        other = {"i": "tensor_tensor", "dst": "y", "data2": "z", "op": "add"}
        assert rule(scalar(**first), other, "data1") is None


WHOLE, PART = "whole", "part"


class Wholes:
    def whole(self, ref):
        return ref == WHOLE


@pytest.mark.parametrize("uses, made", [
    ([], True),  # filled at 0 and read at 2 alone
    ([(5, "data", WHOLE, True, False)], False),  # read again later
    ([(2, "dst", WHOLE, False, True), (5, "data", WHOLE, True, False)], True),  # reads what 2 fills anew
    ([(2, "dst", PART, False, True), (5, "data", WHOLE, True, False)], False),
    ([(2, "data2", WHOLE, True, False)], False)])  # by two operands
def test_a_tile_that_is_filled_for_one_instruction(uses, made):
    begin = [(0, "dst", WHOLE, False, True), (2, "data", WHOLE, True, False)]
    assert fusions._made_for(Wholes(), [*begin, *uses], 2) is made
    if not uses:
        for first in ((0, "dst", PART, False, True), (0, "data", WHOLE, True, True), (0, "out", WHOLE, False, True)):
            assert not fusions._made_for(Wholes(), [first, (2, "data", WHOLE, True, False)], 2)
        assert not fusions._made_for(Wholes(), [(0, "dst", WHOLE, False, True)], 2)
        assert not fusions._made_for(Wholes(), [(0, "dst", WHOLE, False, True), (3, "data", WHOLE, True, False)], 2)
