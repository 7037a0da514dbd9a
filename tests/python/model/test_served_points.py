"""Tests the predicted times of served models against AWS's published ones: errors, order, range."""

import itertools
import json
import statistics
from pathlib import Path

import pytest

from nkisim_model import of_config, predict, share_of
from nkisim_model.between import Served, served
from nkisim_model.served_points import POINTS

SUPPORT = Path(__file__).resolve().parents[2] / "support"
MODELS = {row["name"]: row["config"] for row in json.loads((SUPPORT / "real_models.json").read_text())["models"]}
CONFIGS = {"Llama 3 70B": "Llama 3.1 70B", "Llama 2 7B": "Llama 2 7B"}


def test_errors_order_and_interval():
    errors = [abs(p.predicted_ms / p.measured_ms - 1) for p in POINTS]
    assert statistics.median(errors) < 0.06 and max(errors) < 0.15
    pairs = [(a, b) for a, b in itertools.combinations(POINTS, 2) if a.measured_ms != b.measured_ms]
    right = [(a.measured_ms < b.measured_ms) == (a.predicted_ms < b.predicted_ms) for a, b in pairs]
    assert sum(right) / len(right) > 0.9
    found = Served(1000.0, 0.0, 0.0, 1000.0).interval
    assert found["low_us"] < 1000 < found["high_us"] < 1.35 * found["low_us"]
    assert 0.7 < found["coverage"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("point", [p for p in POINTS if "trn2" not in p.family], ids=str)
def test_the_table_is_what_is_predicted(point):
    model, target, tp = point.family.split(", ")
    share = share_of(of_config(MODELS[CONFIGS[model]]), target, int(tp.split()[1]), point.batch, point.context)
    assert served(predict(share, None)).us / 1e3 == pytest.approx(point.predicted_ms, rel=0.03)
