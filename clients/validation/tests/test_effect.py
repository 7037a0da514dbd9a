"""Tests clients/validation/table/effect, which lists the measured kernels whose simulated time a change of nkisim
moved.
"""
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest
from running import ROOT


@pytest.fixture(scope="module")
def effect():
    path = ROOT / "clients" / "validation" / "table" / "effect"
    loader = SourceFileLoader("effect", str(path))
    module = module_from_spec(spec_from_loader("effect", loader))
    loader.exec_module(module)
    return module


BEFORE = {"a": ["one", 100.0, 110.0], "b": ["one", 100.0, 90.0], "c": ["two", 50.0, 50.0]}


def test_rows_that_move_are_listed_by_family(effect, capsys):
    after = {**BEFORE, "a": ["one", 100.0, 104.0], "c": ["two", 50.0, 60.0]}
    assert effect.show(BEFORE, after, 1) == 1  # c: from 0 to 20 % off
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "one: 1 rows moved; mean error 10.0 -> 7.0 %"  # (10 + 10) / 2, (4 + 10) / 2
    assert lines[1].split() == ["a", "+10.0", "->", "+4.0", "%"]
    assert lines[3].split() == ["c", "+0.0", "->", "+20.0", "%", "further", "off"]
    assert lines[-1].startswith("2 of 3 rows moved, 1 further off")


def test_a_row_that_stays_is_not_listed(effect, capsys):
    assert effect.show(BEFORE, {**BEFORE, "a": ["one", 100.0, 110.1]}, 1) == 0  # less than 0.1 %
    assert capsys.readouterr().out.startswith("0 of 3 rows moved")


def test_a_better_row_and_a_new_one_are_no_failure(effect, capsys):
    after = {"a": ["one", 100.0, 91.0], "b": BEFORE["b"], "d": ["two", 10.0, 99.0]}
    assert effect.show(BEFORE, after, 1) == 0  # 10 % slow, then 9 % fast
    assert "1 new, 1 not run" in capsys.readouterr().out
