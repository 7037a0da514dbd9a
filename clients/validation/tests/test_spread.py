"""Tests the confidence interval of a run's latency against values worked out by hand."""
import json
import math
import statistics

import pytest

from running import ROOT
from nkisim_profile.versions import likely_faster
from nkisim_validation import families, spread


def rows(ratios, family="f", kind="nki", uncertain=0.0):
    return [(kind, f"{family}{n}" if family == "f" else family, "trn2", r, uncertain, 1.0, 1.0)
            for n, r in enumerate(ratios)]


def test_quantiles_by_weight():
    assert spread.quantile([3, 1, 2], [1, 1, 1], 0.9) == 3
    assert spread.quantile([3, 1, 2], [1, 1, 8], 0.9) == 2
    assert spread.quantile(range(1, 11), [1] * 10, 0.9) == 9


def ends(data, widening=1.0):
    return tuple(math.exp(x) for x in spread.tails(data, widening))


def test_an_interval_from_a_tenth_to_a_tenth():
    data = rows([0.5, 0.8, 0.9, 1, 1, 1, 1.1, 1.2, 1.3, 3.0])
    assert ends(data) == pytest.approx((0.8, 1.3))
    assert spread.Fit(data, 1.0).interval((1, 1)) == pytest.approx((0.8, 1.3), abs=0.011)


def test_families_weigh_the_same():
    """45 settings of one kernel do not outvote two others."""
    many = rows([1.0] * 45, "many") + rows([2.0], "a") + rows([0.5], "b")
    assert ends(many) == pytest.approx((0.5, 2.0))


def test_unmeasured_rates_widen():
    one = ("nki", "f", "trn2", 4.0, 1.0, 1.0, 1.0)
    assert ends([one]) == pytest.approx((1.0, 2.0))  # the root: its logarithm over 1 + 1
    assert ends([one], widening=0.0) == pytest.approx((1.0, 4.0))


def test_what_rules_of_few_measurements_leave_open_is_no_error_and_widens():
    wide = [("nki", "f", "trn2", ratio, 0.0, 0.5, 2.0) for ratio in (4.0, 1.5, 0.7, 0.25)]
    assert [spread.score(row, 0.0) for row in wide] == pytest.approx([math.log(2), 0, 0, math.log(0.5)])
    fit = spread.Fit(wide, 0.0)
    low, high = fit.interval((1, 1))
    assert (low, high) == pytest.approx((0.5, 2.0), abs=0.011)
    assert fit.width((1, 1)) == pytest.approx(4 * high / low)


def test_a_family_is_held_against_the_others():
    fit = spread.Fit(rows([0.9, 1.0, 1.1, 2.0]), 1.0)
    assert fit.left_out((1, 1)) == {"f0": 0, "f1": 1, "f2": 1, "f3": 0}  # the least and the most are beyond the others
    twins = spread.Fit(rows([2.0, 2.0], "twin") + rows([1.0], "a"), 1.0)
    assert twins.left_out((1, 1)) == {"twin": 0, "a": 1}
    assert not twins.holds((1, 1))


def test_it_is_widened_until_nine_of_ten_of_a_family_are_within_that_is_left_out():
    data = rows([math.exp(x / 10) for x in (-3, -2, -1, 0, 0, 0, 1, 2, 4)])
    data += rows([0.95, 1.05, 1.3], "twin")
    found = spread.narrowest_intervals(data)["nki"]
    assert sum(found["left_out"].values()) / len(found["left_out"]) >= 0.9 and found["coverage"] >= 0.8
    assert found["high"] / found["low"] > ends(data)[1] / ends(data)[0]
    assert spread.left_out_sentence({"nki": found}).startswith("The interval of a run claims 80 %, and holds ")


def test_the_median_width_counts_unmeasured_rates():
    fit = spread.Fit(rows([0.5, 1.0], "a", uncertain=1.0) + rows([1.0], "b"), 1.0)
    low, high = fit.interval((1, 1))
    assert fit.width((1, 1)) == pytest.approx((high / low) ** 2)


def test_versions_by_hand():
    four_of_five = 1.2816  # standard deviations
    pairs = [(f, d) for f in "ab" for d in (0.1, -0.1, 0.1, -0.1, 2.5)]  # however far the fifth is
    assert spread.versions(pairs) == pytest.approx(0.1 / four_of_five, rel=1e-4)
    # Without b nothing says 0.3: two of three families are within, until all that there is counts.
    assert spread.versions([("a", 0.1), ("a", -0.1), ("b", 0.3), ("c", 0.2)]) == pytest.approx(
        0.3 / four_of_five, rel=1e-4)
    assert spread.versions([]) is spread.versions([("a", 0.1), ("a", 0.2)]) is None  # one family says nothing of others
    stored = {"kernels": [{"id": f"trn2-autotune-{i}", "api": "new", "measured_us": m,
                           "error_percent": e} for i, m, e in (("a", 100, 0), ("b", 110, 10),
                                                               ("c", 101, 50))]}
    pairs = spread.pairs_of(stored)  # a and c are measured alike
    assert pairs == [("nki-autotune matmul", pytest.approx(math.log(1.1))),
                     ("nki-autotune matmul", pytest.approx(math.log(1.5 / 1.1)))]


def test_compare_is_right_as_often_as_it_claims():
    """Over all measured pairs of versions, with the number that the config has."""
    stored = json.loads((ROOT / "clients/validation/table/public.json").read_text())
    number = json.loads((ROOT / "configs/trn2.json").read_text())["spread"]["nki"]["versions"]["value"]
    claimed, right = [], []
    for a, b in spread.versions_apart(stored):
        slower, faster = sorted((r["measured_us"] * (1 + r["error_percent"] / 100), r["measured_us"])
                                for r in (a, b))[::-1]
        claimed.append(likely_faster(faster[0], slower[0], number))
        right.append(faster[1] < slower[1])
    assert len(right) > 100 and abs(statistics.mean(claimed) - statistics.mean(right)) < 0.05


def test_families_are_kernels_of_one_repository():
    kin = families.kernel_of
    assert kin("trn2-nkilib-mlp_cte-L230") == "nki-library MLP"
    assert kin("trn2-fusion-trace-fused_fp32_s1024-total_time") == kin("trn2-fusion-attn-fused-fp32-s1024-p50_us")
    assert kin("trn3-decode-moe-fp8-v14a") == kin("trn2-decode-moe-bf16-v13") != kin("trn2-decode-attn-v10a")
    assert kin("trn2-decode-attn4-v0") == kin("trn2-decode-attn-v10a")
    assert kin("trn1-nkibench-silu-total_time") != kin("trn1-nkibench-lora-total_time")
    assert kin("trn1-doc-mamba-v1-256") != kin("trn1-doc-matmul-tiled")
