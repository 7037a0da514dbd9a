"""Tests the page's curves and maps of SBUF and PSUM: reduced curves against each point of the whole ones, maps against
the addresses that the program declares.
"""

import json

import numpy as np
import pytest
from running import ROOT, cli

from nkisim_profile.report import occupancy
from nkisim_profile.session import Session


class Plain:
    """Keeps what a page packs."""

    @staticmethod
    def add(values, *_, **__):
        return np.asarray(values)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mean", [True, False], ids=["mean", "largest"])
def test_a_reduced_curve_has_each_stretch_s_mean_or_largest_value(seed, mean, monkeypatch):
    monkeypatch.setattr(occupancy, "POINTS", 40)
    draw = np.random.default_rng(seed)
    end, count = 4000, int(draw.integers(41, 300))
    time = np.sort(draw.choice(np.arange(1, end), count - 1, replace=False))
    time = np.concatenate([[0], time]).astype(float)
    value = draw.integers(0, 9, count).astype(float)
    value[-1] = 0  # a curve ends where its last user does
    every = value[np.searchsorted(time, np.arange(end), side="right") - 1].reshape(40, -1)  # at each tick
    at, found = occupancy.reduced(time, value, end, mean)
    assert at.tolist() == list(range(0, end, 100))
    assert found == pytest.approx(every.mean(axis=1) if mean else every.max(axis=1))


def test_a_curve_of_as_many_points_stays(monkeypatch):
    monkeypatch.setattr(occupancy, "POINTS", 3)
    time, value = np.arange(3.0), np.ones(3)
    assert occupancy.reduced(time, value, 3, True) == (time, value)


@pytest.mark.process
@pytest.mark.parametrize("name", ["softmax", "matmul_psum", "layernorm"])
def test_maps_lie_where_the_program_declares(name, tmp_path):
    trace = ROOT / "traces" / f"{name}.jsonl"
    cli("run", trace, "-q", "--session", tmp_path / "s.npz")
    session = Session(tmp_path / "s.npz")
    declared = [t for t in (json.loads(line).get("tensor") for line in trace.read_text().splitlines()) if t]
    maps = {m["name"]: m for m in occupancy.maps(session, Plain)}
    for space, kind in (("sbuf", "SBUF map"), ("psum", "PSUM map")):
        mine = [t for t in declared if t["space"] == space and t.get("core", 0) == 0]
        assert (kind in maps) == bool(mine)
        if not mine:
            continue
        found = maps[kind]
        sizes = {"float32": 4, "bfloat16": 2, "float16": 2}
        low = [t["address"] for t in mine]
        size = [int(np.prod(t["shape"][1:])) * sizes[t["dtype"]] for t in mine]
        assert found["low"].tolist() == low and found["bytes"].tolist() == size
        assert found["used"] == max(a + n for a, n in zip(low, size)) <= found["size"]
        assert all(text.startswith(f"{t['name']}: {t['dtype']}") for text, t in zip(found["texts"], mine))
        assert (found["start"] < found["end"]).all()
