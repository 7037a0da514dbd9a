"""Tests bench/compare, which compares the speed of two commits: its interval of a median, and what
it runs.
"""
import importlib.machinery
import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def compare():
    loader = importlib.machinery.SourceFileLoader("compare", str(ROOT / "bench/compare"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
    loader.exec_module(module)
    return module


# The r-th least and the r-th largest of n values hold the median with 1 - 2 P(X < r), X ~ B(n, 1/2): n = 6: r = 1 gives
# 0.969, r = 2 0.781; n = 11: r = 2 0.988, r = 3 0.935; n = 20: r = 6 0.959, r = 7 0.885.
@pytest.mark.parametrize("n, r", [(6, 1), (11, 2), (20, 6)])
def test_the_interval_of_a_median(compare, n, r):
    ratios = [1 + i / 100 for i in range(n)]
    middle, low, high = compare.middle(ratios[::-1])
    assert (low, high) == (ratios[r - 1], ratios[n - r])
    assert middle == pytest.approx(1 + (n - 1) / 200)


def test_each_tree_runs_its_own_build_on_the_same_input(compare, tmp_path):
    one, two = (compare.commands(tmp_path / name, tmp_path, 1000) for name in ("a", "b"))
    for stage in compare.STAGES:
        same = [x for x in one[stage] if str(tmp_path / "a") not in str(x)]
        assert same == [x for x in two[stage] if str(tmp_path / "b") not in str(x)]
    assert str(one["time"][0]).startswith(str(tmp_path / "a"))
    assert compare.environment(tmp_path / "b")["PYTHONPATH"].startswith(str(tmp_path / "b"))


def test_instructions_that_valgrind_counted_are_those_of_all_processes(compare):
    text = "==7== I   refs:      1,234,567\n==7== \n==8== Events    : Ir\n==8== I   refs:      433\n"
    assert compare.seconds_of(text) == 1_235_000
    assert compare.seconds_of("==7== valgrind: unrecognised instruction\n") is None
