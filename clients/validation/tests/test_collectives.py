"""Tests times of collective operations against published ones, and predictions for ones left out of the fit."""
import json
import statistics

import pytest

from running import PROGRAM, ROOT
from nkisim_validation import collectives, program

pytestmark = pytest.mark.process


def config(target):
    return ROOT / "configs" / f"{target}.json"


@pytest.fixture(scope="module")
def nkisim():
    return program.Program(PROGRAM)


@pytest.fixture(scope="module")
def rows(nkisim):
    return collectives.rows(nkisim, collectives.points(ROOT / "clients" / "validation" / "table"), config)


def of(rows, start):
    return [r for r in rows if r["set"].startswith(start)]


@pytest.mark.parametrize("operation", ["all_gather", "all_reduce"])
def test_the_curves_of_64_ranks(rows, operation):
    errors = [abs(r["error"]) for r in of(rows, f"trn2 64 ranks {operation}")]
    assert len(errors) == 18
    assert max(errors) < 25
    assert statistics.median(errors) < 10


def test_the_curves_of_64_ranks_held_out(nkisim, rows):
    ways = collectives.held_out(of(rows, collectives.FITTED), collectives.numbers_of(nkisim, config))
    for found in ways.values():
        errors = [abs(e) for _, e in found]
        assert len(errors) >= 32
        assert max(errors) < 25
        assert statistics.median(errors) < 10


def test_a_small_operation_in_a_kernel(rows):
    (row,) = [r for r in rows if r["id"] == "trn2-tp4-allr-mesh-8K-mean"]
    assert row["measured_us"] == 13.331
    assert row["algorithm"] == "Mesh"
    assert abs(row["error"]) < 15


def test_an_operation_of_a_graph_has_its_buffers_free(nkisim):
    """Two all-reduces of a layer in a compiled graph of trn3 take 6.7 us each, in a kernel 27.77 together."""
    words = ["collective", "all_reduce", 8192, "--ranks", 4, "--target", config("trn3"), "--json"]
    in_kernel, in_graph = (json.loads(nkisim.call(*words, *more))["duration_ns"] / 1e3 for more in ([], ["--in-graph"]))
    assert in_kernel == pytest.approx(27.77 / 2, rel=0.1)
    assert in_graph == pytest.approx(6.7, rel=0.1)


def test_send_and_receive(rows):
    errors = [abs(r["error"]) for r in of(rows, "trn2 send and receive")]
    assert len(errors) == 4
    assert max(errors) < 15


def test_the_numbers_of_the_config_are_those_of_the_fit(nkisim, rows):
    """The configs hold the numbers that least squares finds, to 2 %."""
    numbers = collectives.numbers_of(nkisim, config)
    for algorithm, title in (("rdh", "RDH"), ("kangaring", "KangaRing")):
        part = [r for r in of(rows, collectives.FITTED) if r["algorithm"] == title]
        step, gather, reduce = collectives.fit(part, numbers)
        assert step == pytest.approx(numbers[algorithm]["step"]["value"], rel=0.02)
        assert 1 / gather == pytest.approx(numbers[algorithm]["gather_share"]["value"], rel=0.02)
        assert 1 / reduce == pytest.approx(numbers[algorithm]["reduce_share"]["value"], rel=0.02)


def test_a_fit_by_hand():
    """Time = 5 us + steps * 2 us + data at a share of 0.5, found again from other numbers."""
    numbers = {"a": {"step": {"value": 1000}, "gather_share": {"value": 0.8},
                     "reduce_share": {"value": 0.8}}}

    def row(steps, gathered, reduced):  # ns at a share of 1
        parts = [{"algorithm": "a", "reduces": True, "steps": steps, "data_ns": reduced / 0.8},
                 {"algorithm": "a", "reduces": False, "steps": steps, "data_ns": gathered / 0.8}]
        simulated = 5000 + 2 * steps * 1000 + (gathered + reduced) / 0.8
        measured = 5000 + 2 * steps * 2000 + gathered / 0.5 + reduced / 0.25
        return {"answer": {"parts": parts, "duration_ns": simulated}, "measured_us": measured / 1000}

    found = collectives.fit([row(1, 100, 900), row(3, 5000, 100), row(2, 10, 4000)], numbers)
    assert found == pytest.approx([2000, 2, 4])
    assert collectives.predict(row(7, 300, 300), numbers, found) == pytest.approx(
        row(7, 300, 300)["measured_us"])
