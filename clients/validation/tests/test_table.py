"""Tests that the table of simulated and measured times keeps its published accuracy
(docs/evidence.md).
"""
import json
import statistics
import sys

import pytest

from running import PROGRAM, ROOT, python

sys.path.insert(0, str(ROOT / "clients" / "validation" / "table"))
import curve  # noqa: E402
import points  # noqa: E402
import report  # noqa: E402
from nkisim_validation import families, program, sets, validate  # noqa: E402

pytestmark = pytest.mark.process
TABLE = json.loads((ROOT / "clients" / "validation" / "table" / "measurements.json").read_text(encoding="utf-8"))


def test_every_point_names_one_measurement():
    known = [m["id"] for m in TABLE["single_core"]]
    used = [p.measurement for p in points.POINTS]
    assert len(set(known)) == len(known)
    assert len(set(used)) == len(used)
    assert set(used) <= set(known)
    assert not set(used) & {m["id"] for m in TABLE["two_cores"]}


def test_rank_correlation_by_hand():
    assert families.ranks([30, 10, 20, 20]) == [4, 1, 2.5, 2.5]
    assert families.spearman([1, 2, 3], [10, 30, 20]) == pytest.approx(0.5)  # 1 - 6 * 2 / 24


@pytest.fixture(scope="module", name="rows")
def fixture_rows(tmp_path_factory):
    out = tmp_path_factory.mktemp("validation") / "result.json"
    python(ROOT / "clients" / "validation" / "table" / "run", "--nkisim", PROGRAM, "--json", out)
    return json.loads(out.read_text())


@pytest.mark.parametrize("hardware, points", [("trn1", 27), ("trn2", 31)])
def test_latencies(rows, hardware, points):
    spread = report.spread([r for r in rows["points"] if r["kind"] == "latency"
                            and r["hardware"] == hardware])
    assert spread["points"] >= points
    assert spread["mean"] <= 8
    assert abs(spread["worst"]) <= 20, spread["worst_id"]


def test_the_sets_are_reported_apart(rows):
    parts = {(s["set"], s["part"]) for s in rows["summary"]["sets"]}
    assert {(sets.REPLAY, sets.HELD_OUT), (sets.REPLAY, sets.CALIBRATED),
            (sets.OWN, sets.CALIBRATED), (sets.SOURCE["new"], sets.HELD_OUT),
            (sets.SOURCE["legacy"], sets.BY_FAMILY)} <= parts


@pytest.mark.parametrize("kind", ["trace", "nki", "neuronxcc"])
def test_the_interval_has_four_of_five(rows, kind):
    """And seven of eight of a family that has no part in it; and the config has the interval that is found."""
    found = rows["summary"]["spread"][kind]
    assert found["coverage"] >= 0.8
    assert statistics.mean(found["left_out"].values()) >= 0.875 - 1e-9
    number = program.Program(PROGRAM).config("trn2")["spread"][kind]
    assert [number[end]["value"] for end in ("low", "high")] == pytest.approx(
        [found["low"], found["high"]], abs=0.02)
    assert number["targets"] == found["targets"]
    assert number["widening"]["value"] == found["widening"]
    if found["versions"] is not None:
        assert number["versions"]["value"] == pytest.approx(found["versions"], abs=0.01)


def test_variants_are_ordered_as_measured(rows):
    """Every pair that was measured more than 3 % apart."""
    pairs = 0
    for group, rank in rows["summary"]["ranks"].items():
        assert rank["right"] == rank["pairs"], group
        pairs += rank["pairs"]
    assert pairs >= 50


def test_isolated_instructions(rows):
    """The laws of public probes: median 2 %, worst 15 %."""
    errors = [abs(r["error"]) for r in rows["points"] if r["id"].startswith("trn2-law-")]
    assert len(errors) == 51
    assert statistics.median(errors) <= 2
    assert max(errors) <= 15


def test_tensor_engine_of_the_ladder(rows):
    steps = [r for r in rows["points"] if r["id"].startswith("trn2-autotune")
             and r["metric"] == "tensor_engine_active_percent"]
    assert len(steps) >= 4
    for r in steps:
        assert abs(r["points"]) <= 3, r["id"]


def test_active_shares(rows):
    shares = [r for r in rows["points"] if r["metric"].endswith("active_percent")]
    assert len(shares) >= 16
    known = {"trn1-doc-mamba-v1-4096-vector_active_percent",  # docs/evidence.md, Limits
             "trn2-doc-matmul-fp32-v2-tensor_engine_active_percent"}
    assert {r["id"] for r in shares if abs(r["points"]) > 5} <= known


def test_the_page_is_fresh(rows):
    """docs/evidence.md has what the table gives now; `nkisim validate --write` writes it."""
    page = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    for r in rows["points"]:
        line = next(x for x in page.splitlines() if x.startswith(f"| `{r['id']}` |"))
        assert f"| {report.number(r['simulated'])} |" in line, line
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert report.figures(rows["summary"]["spread"]) in readme


def test_hbm_bytes(rows):
    counted = [r for r in rows["points"] if r["metric"].startswith("hbm_")]
    assert len(counted) >= 6
    for r in counted:
        assert abs(r["error"]) <= 1, r["id"]


def test_dma_throughput_against_payload_size(tmp_path):
    # Published: the curve of nki-dma-overview.rst, and the achievable rates.
    simulator = validate.Simulator(program.Program(PROGRAM), tmp_path)
    rates = curve.measure(simulator.figures)
    full = max(curve.PUBLISHED)
    for size, percent in curve.PUBLISHED.items():
        simulated = 100 * rates["trn2"][size] / rates["trn2"][full]
        assert simulated == pytest.approx(percent, rel=0.05), size
    for target, rate in (("trn1", 272), ("trn2", 368), ("trn3", 528)):
        assert rates[target][full] == pytest.approx(rate, rel=0.05)
