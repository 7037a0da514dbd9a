"""Tests the error message for a name that nki does not have: it offers near names."""

import sys
from types import ModuleType

import pytest

import nkisim
from nkisim.api.names import missing


@pytest.fixture
def module(monkeypatch):
    found = ModuleType("some.api")
    monkeypatch.setitem(sys.modules, "some.api", found)
    found.__dict__.update(dict.fromkeys(("tensor_a", "tensor_b", "tensor_c", "tensor_d", "other", "_tensor_e")))
    found.__getattr__ = missing("some.api")
    return found


def test_the_three_nearest_names_are_offered(module):
    with pytest.raises(AttributeError) as said:
        vars(module)["__getattr__"]("tensor_")
    [offered] = [text for text in str(said.value).splitlines() if "has no" in text][:1]
    named = [name for name in ("tensor_a", "tensor_b", "tensor_c", "tensor_d") if name in offered]
    assert len(named) == 3 and "_tensor_e" not in offered and "other" not in offered
    assert isinstance(said.value, nkisim.Error)


def test_one_name_that_is_nearer_than_others_is_offered_alone():
    import nki.language as nl

    with pytest.raises(AttributeError, match=r"nki.language has no sqroot; did you mean sqrt\? \[unsupported_call\]"):
        assert nl.sqroot
    with pytest.raises(AttributeError, match="nki.language has no concat; use a tile whose slices are assigned"):
        assert nl.concat


def test_where_no_name_is_near(module):
    with pytest.raises(AttributeError, match=r"some.api has no qqqqq; dir\(some.api\) lists its names"):
        vars(module)["__getattr__"]("qqqqq")
    with pytest.raises(AttributeError, match="^module 'some.api' has no attribute '__path__'$"):
        vars(module)["__getattr__"]("__path__")
