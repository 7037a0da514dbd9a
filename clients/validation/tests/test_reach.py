"""Tests with clients/validation/table/reach that no number or rule that rests on few measurements changes a
kernel's time by more than 1.5 times.
"""
import json
import random
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

import pytest

from running import ROOT, python


@pytest.fixture(scope="module")
def reach():
    loader = SourceFileLoader("reach", str(ROOT / "clients" / "validation" / "table" / "reach"))
    module = module_from_spec(spec_from_loader("reach", loader))
    loader.exec_module(module)
    return module


def number(points=None, value=10, otherwise=0, source="a", confidence="derived"):
    found = {"value": value, "unit": "ns", "source": source, "confidence": confidence}
    if points is not None:
        found["reach"] = {"points": points, "domain": "here", "otherwise": otherwise}
    return found


def test_a_derived_number_without_reach_is_an_error(reach):
    config = {"dma": {"gap": number(), "rate": number(confidence="measured"), "floor": number(4)},
              "topology": {"link": number()}}
    assert reach.unmarked({"trn2": config}) == [
        "configs/trn2.json: dma.gap is derived; its reach is required (points, domain, otherwise)"]


def test_corrections_of_one_source_are_left_out_together(reach):
    config = {"rules": [{"id": i, "fixed": number(n, source="probe")} for i, n in (("a", 1), ("b", 2))],
              "dma": {"gap": number(1, otherwise=3), "many": number(3)}}
    rules = [{"switch": "casts", "otherwise": "dma", "points": 1, "targets": ["trn1"]},
             {"switch": "share", "otherwise": "none", "points": 9, "targets": ["trn1"]}]
    assert reach.corrections(config, "trn1", rules) == {
        "rules.a.fixed rules.b.fixed": {"set": ["rules.a.fixed=0", "rules.b.fixed=0"]},
        "dma.gap": {"set": ["dma.gap=3"]}, "compiler casts": {"casts": "dma"}}
    assert "compiler casts" not in reach.corrections(config, "trn2", rules)


def test_more_than_one_and_a_half_times_needs_an_exception(reach):
    found = [("dma.gap", "drawn loads 1", 1.51), ("dma.gap", "drawn loads 2", 1.49), ("dma.gap", "drawn moves 1", 0.5)]
    exceptions = [{"targets": ["trn1"], "correction": "gap", "kernels": "drawn moves"},
                  {"targets": ["trn2"], "correction": "gap", "kernels": "drawn loads"}]
    wrong, needed = reach.check_ratios("trn1", found, exceptions)
    assert wrong == ["trn1 drawn loads 1: 1.51 times what it is without dma.gap"] and needed == {0}


def test_every_exception_has_a_reason():
    table = json.loads((ROOT / "clients" / "validation" / "table" / "reach.json").read_text(encoding="utf-8"))
    assert all(len(e["why"].split()) > 10 for e in table["exceptions"])
    assert all({"switch", "otherwise", "points", "domain", "targets"} <= set(r) for r in table["rules"])


def test_a_threshold_of_few_measurements_needs_a_ladder(reach):
    def of(unit, **more):
        return {**number(**more), "unit": unit}

    config = {"dma": {"near": of("B", points=1), "old": of("B", points=3), "off": of("B", value=0, points=1),
                      "time": of("ns", points=1)},
              "throttle": {"known_rows": of("rows", confidence="assumed")}}
    assert reach.cliffs.thresholds(config) == ["dma.near", "throttle.known_rows"]
    assert reach.cliffs.without_ladder("trn2", config) == [
        "trn2 dma.near: a threshold of few measurements that no ladder of cliffs.py crosses"]


def test_a_step_that_the_sizes_do_not_explain_is_a_cliff(reach):
    found = [(64, 10.0), (128, 20.0), (130, 26.0), (132, 20.0)]
    assert reach.cliffs.cliffs("loads", "trn2", found) == [
        "trn2 loads: 20.00 us at 128 and 26.00 at 130", "trn2 loads: 26.00 us at 130 and 20.00 at 132"]


@pytest.mark.process
def test_the_former_limit_of_the_array_is_a_cliff(reach):
    """Products of K = 92 and 96 took 1.8 times as long and once, with a threshold that K = 64 and 128 gave."""
    kernels = {rows: reach.cliffs.products(rows) for rows in (88, 92, 96, 100)}
    for settings, steep in (({}, 0), ({"throttle.known_rows": "0", "throttle.rise_doubt": "0"}, 1)):
        runs = [(rows, reach.nkisim.run(kernel, *arguments, target="trn2", timing="only", overrides=settings))
                for rows, (kernel, arguments) in kernels.items()]
        found = [(rows, run.latency_us) for rows, run in runs]
        assert len(reach.cliffs.cliffs("products", "trn2", found)) == steep, found


def test_a_result_beyond_the_interval_is_found(reach):
    runs = reach.Runs.__new__(reach.Runs)
    runs.intervals = {"a": {"low_us": 8.0, "high_us": 15.0}, "b": {}}
    assert [runs.uncovered("a", us) for us in (7.9, 8.0, 15.0, 15.1)] == [True, False, False, True]
    assert not runs.uncovered("b", 1.0)


def test_random_kernels_are_the_same_for_one_seed(reach):
    shapes = [[a.shape for a in arguments] for _, _, arguments in reach.drawn.kernels(7, 3)]
    assert shapes == [[a.shape for a in arguments] for _, _, arguments in reach.drawn.kernels(7, 3)]
    assert len(shapes) == 3 * len(reach.drawn.KINDS)
    assert reach.drawn.loads(random.Random(1))[1] != reach.drawn.loads(random.Random(2))[1]


@pytest.mark.process
def test_no_correction_reaches_further_than_its_measurements():
    done = python(ROOT / "clients" / "validation" / "table" / "reach", "--seeds", "1")
    assert all(f"{target}: " in done.stdout for target in ("trn1", "trn2", "trn3"))
