"""Tests the predicted times of served models against AWS's published ones: errors, order, range."""

import itertools
import json
import math
import statistics

import pytest
from running import ROOT

from nkisim_model import of_config, predict, share_of
from nkisim_model.between import Served, expected_range, served
from nkisim_model.served_points import FIRST_TOKENS, POINTS, Measured

SUPPORT = ROOT / "tests" / "support"
MODELS = {row["name"]: row["config"] for row in json.loads((SUPPORT / "real_models.json").read_text())["models"]}
CONFIGS = {"Llama 3 70B": "Llama 3.1 70B", "Llama 2 7B": "Llama 2 7B"}


def test_errors_order_and_interval():
    errors = [abs(p.predicted_ms / p.measured_ms - 1) for p in POINTS]
    assert statistics.median(errors) < 0.06 and max(errors) < 0.32
    assert max(e for e, p in zip(errors, POINTS) if "trn2" not in p.family) < 0.12
    pairs = [(a, b) for a, b in itertools.combinations(POINTS, 2) if a.measured_ms != b.measured_ms]
    right = [(a.measured_ms < b.measured_ms) == (a.predicted_ms < b.predicted_ms) for a, b in pairs]
    assert sum(right) / len(right) > 0.9
    found = Served(1000.0, 0.0, 0.0, 1000.0).interval
    assert found["low_us"] < 1000 < found["high_us"] < 1.8 * found["low_us"]
    assert 0.9 < found["coverage"] < 1
    assert all(found["low_us"] < 1000 * p.measured_ms / p.predicted_ms < found["high_us"] for p in POINTS)


def test_first_tokens_have_a_range_of_their_own():
    errors = [p.predicted_ms / p.measured_ms - 1 for p in FIRST_TOKENS]
    assert -0.34 < min(errors) and max(errors) < 0.06
    found = Served(1000.0, 0.0, 0.0, 1000.0, first=True).interval
    assert found["low_us"] < 1000 < found["high_us"] < 3 * found["low_us"] and found["coverage"] > 0.8
    assert all(found["low_us"] < 1000 * p.measured_ms / p.predicted_ms < found["high_us"] for p in FIRST_TOKENS)


def test_the_interval_of_two_families_by_hand():
    """Logarithms of 0.1 and -0.1: their variance is 0.02, and 6.314 of Student's t with one degree of freedom."""
    points = [Measured(name, 1, 1, math.exp(log), 1.0) for name, log in (("a", 0.1), ("b", -0.1))]
    wide = 6.314 * (0.02 * (1 + 1 / 2)) ** 0.5
    assert expected_range(points) == pytest.approx((math.exp(-wide), math.exp(wide)))
    twice = [*points, Measured("a", 1, 1, math.exp(0.3), 1.0)]  # means 0.2 and -0.1, and 0.02 within a family
    wide = 6.314 * ((0.045 + 0.02) * (1 + 1 / 2)) ** 0.5
    assert expected_range(twice) == pytest.approx((math.exp(0.05 - wide), math.exp(0.05 + wide)))


def share_for(point, context):
    model, target, tp = point.family.split(", ")
    return share_of(of_config(MODELS[CONFIGS[model]]), target, int(tp.split()[1]), point.batch, context)


@pytest.mark.slow
@pytest.mark.parametrize("point", [p for p in POINTS if "trn2" not in p.family], ids=str)
def test_the_table_is_what_is_predicted(point):
    assert served(predict(share_for(point, point.context), None)).us / 1e3 == pytest.approx(point.predicted_ms,
                                                                                            rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("point", FIRST_TOKENS, ids=str)
def test_first_tokens_are_what_is_predicted(point):
    found = served(predict(share_for(point, 4096), None, prompt=point.context))
    assert found.first and found.us / 1e3 == pytest.approx(point.predicted_ms, rel=0.03)
