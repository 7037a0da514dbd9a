"""Tests the grouping of measured kernels into families, and how well each family is ranked."""
import json
import random

import pytest

from running import ROOT
from nkisim_validation import families

FOLDER = ROOT / "clients" / "validation" / "table"
STORED, BEFORE = (json.loads((FOLDER / name).read_text(encoding="utf-8"))
                  for name in ("public.json", "before.json"))


def test_every_kernel_is_in_a_family():
    assert all(families.of(r["id"])[0] for r in STORED["kernels"])
    assert families.of("trn2-cs149-vector_add") == (None, None)
    assert set(STORED["without_family"]) <= {name for name, *_ in families.FAMILIES}


def test_versions_of_one_task():
    tasks = {}
    for r in STORED["kernels"]:
        family, task = families.of(r["id"])
        tasks.setdefault((family, task), []).append(r["id"])
    assert sorted(tasks["attention", "trn2-fusion-attn-bf16-s1024"]) == [
        "trn2-fusion-attn-baseline-bf16-s1024-p50_us", "trn2-fusion-attn-fused-bf16-s1024-p50_us"]
    assert sorted(tasks["tutorial Mamba, trn1", "trn1-doc-mamba-seq512"]) == [
        "trn1-doc-mamba-v1-4096", "trn1-doc-mamba-v2-seq512", "trn1-doc-mamba-v3-seq512"]
    assert len(tasks["nki-autotune matmul", "trn2-autotune-"]) == 4
    assert all(len(ids) == 1 for (family, _), ids in tasks.items() if family == "NKIBench")


def test_each_family_counts_once_with_what_is_found_without_it():
    kernels = [{"id": i, "error_percent": e} for i, e in (
        ("trn2-decode-moe-bf16-v1", 10.0), ("trn2-decode-moe-fp8-v1", -20.0), ("trn2-nkilib-mlp_cte-L1", 4.0),
        ("trn2-fusion-mlp-a", 90.0), ("trn1-nkibench-silu-total_time", 3.0))]
    without = {"NKIBench": {"trn1-nkibench-silu-total_time": -50.0}, "x": {"trn2-decode-moe-bf16-v1": 30.0}}
    found = families.left_out({"kernels": kernels, "without_family": without})
    assert [(r["family"], r["kernels"], r["mean"], r["worst"], r["calibrated"]) for r in found] == [
        ("nki-library MLP", 1, 4, 4, 4), ("fused MoE decode", 2, 25, 30, 15), ("NKIBench silu", 1, 50, -50, 3)]
    assert "**median of 3 families** | | **25.0 %** | -50.0 % | 4.0 % |" in families.left_out_markdown(found)


def test_rank_correlation_by_hand():
    assert families.ranks([30, 10, 20, 20]) == [4, 1, 2.5, 2.5]
    assert families.spearman([1, 2, 3], [10, 30, 20]) == pytest.approx(0.5)  # 1 - 6 * 2 / 24
    assert families.spearman([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    assert families.spearman([1, 2], [5, 5]) is None


@pytest.mark.slow
def test_rank_correlation_is_scipys():
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(5)
    for _ in range(50):
        a, b = ([draw.randint(0, 9) for _ in range(12)] for _ in range(2))
        assert families.spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_pairs_by_hand():
    rows = [("x", 1, 10), ("x", 2, 20), ("x", 3, 15), ("y", 1, 9), ("y", 1, 8), ("z", 5, 1)]
    assert families.ordered(rows) == (2, 3)  # 2 and 3 swapped; y is measured alike, z alone
    assert families.ordered([("x", 2, 7), ("x", 1, 7)]) == (0, 1)  # no order is not the right one
    assert families.ordered([("x", 100, 8), ("x", 103, 7), ("x", 104, 9)]) == (1, 1)  # 3 % is alike


def row(name, measured, simulated):
    return {"id": f"trn2-autotune-{name}", "measured_us": measured, "simulated_us": simulated,
            "error_percent": 100 * (simulated / measured - 1)}


def test_a_table_by_hand():
    stored = {"kernels": [row("a", 100, 110), row("b", 200, 190), row("c", 300, 330)],
              "without_family": {"nki-autotune matmul": {"trn2-autotune-a": -20.0,
                                                         "trn2-autotune-b": 30.0}}}
    before = {"simulated_us": {"trn2-autotune-a": 400, "trn2-autotune-b": 190}}  # c came later
    (found,) = families.found(stored, before)
    assert found["kernels"] == 3 and found["now"]["worst"] == pytest.approx(10)
    assert found["now"]["mean"] == pytest.approx((10 + 5 + 10) / 3)
    assert found["without"] == {"mean": 25, "worst": 30}
    assert found["before"] == {"variants": 2, "right": 0, "pairs": 1, "spearman": pytest.approx(-1)}
    assert found["after"] == {"variants": 2, "right": 1, "pairs": 1, "spearman": pytest.approx(1)}
    text = families.markdown([found])
    assert "| nki-autotune matmul | 3 | 25.0 % (+30 %) | 8.3 % (+10 %) | 1.000 | 1 of 1 |" in text


def test_what_is_published_is_ranked():
    """Nearly all choices of a search are in order; wrong figures would not be."""
    found = {r["family"]: r for r in families.read(FOLDER)}
    assert found["attention"]["after"]["pairs"] == 4 and found["attention"]["after"]["right"] == 4
    assert found["attention"]["before"]["right"] < 4
    assert found["nki-library MLP"]["after"]["spearman"] > 0.95
    shuffled = {"kernels": [dict(r) for r in STORED["kernels"]],
                "without_family": STORED["without_family"]}
    values = [r["simulated_us"] for r in shuffled["kernels"]]
    random.Random(1).shuffle(values)
    for r, value in zip(shuffled["kernels"], values):
        r["simulated_us"] = value
    wrong = {r["family"]: r for r in families.found(shuffled, BEFORE)}
    assert wrong["nki-library MLP"]["after"]["spearman"] < 0.6


def test_the_page_has_the_table():
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    assert families.markdown(families.read(FOLDER)) in page
