"""Tests with validation/reach that no number or rule that rests on few measurements changes a
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
    loader = SourceFileLoader("reach", str(ROOT / "validation" / "reach"))
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
    table = json.loads((ROOT / "validation" / "reach.json").read_text(encoding="utf-8"))
    assert all(len(e["why"].split()) > 10 for e in table["exceptions"])
    assert all({"switch", "otherwise", "points", "domain", "targets"} <= set(r) for r in table["rules"])


def test_random_kernels_are_the_same_for_one_seed(reach):
    shapes = [[a.shape for a in arguments] for _, _, arguments in reach.drawn.kernels(7, 3)]
    assert shapes == [[a.shape for a in arguments] for _, _, arguments in reach.drawn.kernels(7, 3)]
    assert len(shapes) == 3 * len(reach.drawn.KINDS)
    assert reach.drawn.loads(random.Random(1))[1] != reach.drawn.loads(random.Random(2))[1]


@pytest.mark.process
def test_no_correction_reaches_further_than_its_measurements():
    done = python(ROOT / "validation" / "reach", "--seeds", "1")
    assert all(f"{target}: " in done.stdout for target in ("trn1", "trn2", "trn3"))
