"""Which two instructions one can do: an instruction has two operators at most, and each keeps its own."""

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
