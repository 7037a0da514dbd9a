"""The interval of a run's confidence, by hand."""
import math
import sys

import pytest

from running import ROOT

sys.path.append(str(ROOT / "python"))  # behind the built package
from nkisim_validation import spread  # noqa: E402


def rows(ratios, family="f", kind="nki", uncertain=0.0):
    return [(kind, f"{family}{n}" if family == "f" else family, "trn2", r, uncertain)
            for n, r in enumerate(ratios)]


def test_quantiles_by_weight():
    assert spread.quantile([3, 1, 2], [1, 1, 1], 0.9) == 3
    assert spread.quantile([3, 1, 2], [1, 1, 8], 0.9) == 2
    assert spread.quantile(range(1, 11), [1] * 10, 0.9) == 9


def test_an_interval_from_a_tenth_to_a_tenth():
    found = spread.fit(rows([0.5, 0.8, 0.9, 1, 1, 1, 1.1, 1.2, 1.3, 3.0]))
    assert found == pytest.approx((0.8, 1.3))


def test_families_weigh_the_same():
    """45 settings of one kernel do not outvote two others."""
    many = rows([1.0] * 45, "many") + rows([2.0], "a") + rows([0.5], "b")
    assert spread.fit(many) == pytest.approx((0.5, 2.0))


def test_unmeasured_rates_widen():
    one = ("nki", "f", "trn2", 4.0, 1.0)
    assert spread.fit([one]) == pytest.approx((1.0, 2.0))  # the root: its logarithm over 1 + 1
    assert spread.inside(one, (1.0, 2.0)) and not spread.inside(one, (1.0, 1.99))
    assert spread.inside(("nki", "f", "trn2", 2.0, 0.0), (1.0, 2.0))


def test_the_interval_of_the_others():
    data = rows([0.9, 1.0, 1.1, 2.0])
    assert spread.left_out(data, 1.0, False) == 0.5  # the least and the most are beyond the others
    twins = rows([2.0, 2.0], "twin") + rows([1.0], "a")
    assert spread.left_out(twins, 1.0, False) == 1
    assert spread.left_out(twins, 1.0, True) == pytest.approx(1 / 3)


def test_it_is_widened_until_four_of_five_are_within():
    data = rows([math.exp(x / 10) for x in (-3, -2, -1, 0, 0, 0, 1, 2, 4)])
    found = spread.found(data)["nki"]
    assert found["coverage_left_family_out"] >= 0.8 and found["factor"] > 1
    assert found["low"] < spread.fit(data)[0] and found["high"] > spread.fit(data)[1]


def test_families():
    assert spread.family("trn2-nkilib-mlp_cte-L230") == spread.family("trn2-nkilib-mlp_cte-L363")
    assert spread.family("trn1-nkibench-silu-total_time") != spread.family("trn1-nkibench-bmm-total_time")
    assert spread.family("trn2-fusion-trace-fused_fp32_s1024-total_time") == spread.family(
        "trn2-fusion-attn-fused-fp32-s1024-p50_us")
    assert spread.family("trn1-doc-mamba-v1-256") == spread.family("trn1-doc-mamba-v2-seq512")
