"""Tests the text that `nkisim advise` prints for proposed changes, given as data here."""

from types import SimpleNamespace

from nkisim_advise import text
from nkisim_advise.search import Advice, Finding

KEEP = SimpleNamespace(line="/a/b/k.py:14", what="dma_copy", say="load it once")
QUEUE = SimpleNamespace(line="k.py:20", what="dma_copy", say="use another queue")
FINDINGS = [Finding(KEEP, 75.0, 0.25, (0.2, 0.3)), Finding(QUEUE, 90.0, 0.1, None)]


def advice(**more):
    return Advice("k.jsonl", "trn2", 100.0, "DMA", FINDINGS, bounds=[("HBM traffic", 30.0), ("sync engine", 2.0)],
                  tried=7, refused=2, differ=1, own_seconds=0.5, processor_seconds=4.0, seconds=5.0, **more)


HEAD = ["latency      100.000 us on trn2", "bottleneck   DMA",
        " 1. -25.0 % (-30.0 % to -20.0 % in 4 of 5 cases)  k.py:14 dma_copy", "    load it once",
        " 2. -10.0 %  k.py:20 dma_copy", "    use another queue"]
BOUNDS = "HBM traffic alone takes 30.0 us, sync engine alone takes 2.0 us"
TRIED = "tried        7 variants: 2 that the machine or its memory refuses, 1 with other values"


def test_findings_that_do_not_combine():
    assert text.lines(advice()) == [*HEAD, "bounds       " + BOUNDS, TRIED + "; 5.0 s, 8.0 times a run"]


def test_one_finding_is_not_together():
    assert text.lines(advice(combined=[KEEP], combined_us=75.0)) == [
        *HEAD, "bounds       with these " + BOUNDS,
        TRIED + "; 5.0 s, 8.0 times a run"]


def test_two_findings_together_and_what_was_left():
    assert text.lines(advice(combined=[QUEUE, KEEP], combined_us=68.0, left=3)) == [
        *HEAD, "together     2, 1: 68.000 us, -32.0 %",
        "bounds       with these " + BOUNDS,
        TRIED + "; 3 not tried for lack of time (--effort); 5.0 s, 8.0 times a run"]


def test_nothing_helps():
    nothing = Advice("k.jsonl", "trn2", 100.0, "DMA", [], tried=0, own_seconds=1.0)
    assert "advice       nothing that was tried helps" in text.lines(nothing)
