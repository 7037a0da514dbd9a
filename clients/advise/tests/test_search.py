"""Tests the budget of `nkisim advise`: half of what is left goes to single edits."""

from types import SimpleNamespace

import pytest

from nkisim_advise import search


@pytest.fixture
def tried(monkeypatch):
    """tried(left, cost of a run) of a budget of 16: how many of 10 edits are applied, and how many are left."""
    for step in ("_verify", "_combine"):
        monkeypatch.setattr(search, step, lambda *_: None)

    def run(left, each):
        applied, spent = [], [16 - left]

        def edit(n):
            return SimpleNamespace(apply=lambda program: applied.append(n) or n)

        def timed(variant):
            spent[0] += each
            return {"latency_us": 10.0}

        monkeypatch.setattr(search, "all_edits", lambda program: [edit(n) for n in range(10)])
        bench = SimpleNamespace(used=lambda: spent[0] / 16, time=timed)
        advice = SimpleNamespace(left=0, tried=0, refused=0, bounds=["known"])
        search._search(bench, None, {"latency_us": 10.0}, advice, 3, lambda text: None)
        assert applied == list(range(len(applied))) and advice.tried == len(applied)
        return len(applied), advice.left
    return run


@pytest.mark.parametrize("left, each, count", [
    (0, 1, 1), (-5, 1, 0), (8, 1, 5), (8, 0.25, 10), (8, 3, 2), (8, 5, 1)])  # one is begun until half has gone
def test_edits_are_tried_for_half_of_what_is_left(tried, left, each, count):
    assert tried(left, each) == (count, 10 - count)
