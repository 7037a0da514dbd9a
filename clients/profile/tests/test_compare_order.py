"""Tests how `nkisim compare` computes that the version predicted as faster is also faster on a
chip.
"""
import math
import statistics
from types import SimpleNamespace

import pytest

from nkisim_profile import compare, versions


def session(us, origin="nki", spread=0.1, target="trn2"):
    interval = None if spread is None else {"low_us": us, "high_us": us, "versions": spread}
    return SimpleNamespace(facts={"confidence": {"origin": origin, "interval": interval},
                                  "machine": {"target": target}},
                           totals=lambda: {"total_time": us * 1e-6})


def test_by_the_normal_distribution():
    found = compare.order(session(100), session(110))
    assert found["faster"] == "a"
    assert found["likely"] == pytest.approx(statistics.NormalDist(0, 0.1).cdf(math.log(1.1)), abs=1e-3)
    assert compare.order(session(110), session(100)) == {**found, "faster": "b"}
    assert compare.order(session(100), session(100)) == {"faster": None, "likely": 0.5}


def test_nothing_is_reported_of_what_was_never_compared():
    assert compare.order(session(1), session(2, origin="neuronxcc")) is None
    assert compare.order(session(1), session(2, spread=None)) is None
    assert compare.order(session(1), session(2, target="trn3")) is None
    old = SimpleNamespace(facts={}, totals=lambda: {"total_time": 1e-6})  # of an older nkisim
    assert compare.order(old, old) is None


def test_more_runs_in_the_same_time_are_a_change():
    [row] = compare.changes({"same": [2, 5.0], "more": [2, 10.0]}, {"same": [2, 5.0], "more": [3, 10.0]})
    assert (row["what"], row["a_count"], row["b_count"], row["change_ns"]) == ("more", 2, 3, 0)


def test_a_latency_against_another():
    assert versions.likely_faster(100, 110, 0.1) == pytest.approx(
        statistics.NormalDist(0, 0.1).cdf(math.log(1.1)), abs=1e-3)
    assert versions.likely_faster(110, 100, 0.1) == pytest.approx(
        1 - versions.likely_faster(100, 110, 0.1), abs=1e-3)
    assert versions.likely_faster(100, 110, None) is versions.likely_faster(0, 110, 0.1) is None
