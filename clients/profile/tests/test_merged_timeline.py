"""Tests nkisim.Timeline, which joins the timelines of many kernel runs."""

import json

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.language as nl  # noqa: E402
from nki.simulator import simulate_kernel  # noqa: E402


@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


@nki.jit
def longer(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in range(20):
        tile = nl.exp(tile)
    nl.store(out, tile)
    return out


X = np.zeros((128, 256), np.float32)


@pytest.fixture
def timeline():
    with nkisim.Timeline() as found:
        double(X)
        found.mark("first")
        for _ in range(2):
            longer(X)
            double(X)
        found.mark("second")
    double(X)  # is not in it
    return found


def latencies():
    return [nkisim.run(k, X).latency_ns for k in (double, longer)]


def test_spans_and_kernels_add_up(timeline):
    short, long = (ns / 1e3 for ns in latencies())
    assert [c.name for c in timeline.calls] == ["double", "longer", "double", "longer", "double"]
    assert timeline.spans() == pytest.approx({"first": short, "second": 2 * (short + long)})
    assert timeline.kernels() == {"longer": (2, pytest.approx(2 * long)),
                                  "double": (3, pytest.approx(3 * short))}
    assert list(timeline.kernels("first")) == ["double"]
    assert timeline.total_us == pytest.approx(3 * short + 2 * long)
    assert f"{2 * long:.3f} us" not in timeline.report().split("\n\n")[0]
    share = 100 * long / (short + long)
    assert f"{2 * long:12.3f} {share:7.1f} %" in timeline.report()


def test_one_file_has_all_runs_in_a_row(timeline, tmp_path):
    short, long = (round(ns) for ns in latencies())
    path = timeline.write(tmp_path / "all.json")
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    rows = {}
    for e in events:
        if e["ph"] == "X":
            start = round(1000 * e["ts"])
            rows.setdefault(tracks[e["tid"]], []).append(
                (start, start + round(1000 * e["dur"]), e["name"]))
    starts = np.cumsum([0, short, long, short, long])
    ends = np.append(starts[1:], starts[-1] + short)
    names = ["double", "longer", "double", "longer", "double"]
    assert rows["Kernels"] == list(zip(starts, ends, names))
    assert rows["Spans"] == [(0, short, "first"), (short, ends[-1], "second")]
    scalar = sorted(r for track, r in rows.items() if track.startswith("Scalar"))[0]
    within = [(start, end) for start, end, _ in scalar]
    assert len(within) >= 2 * 20
    for a, b, name in rows["Kernels"]:  # each run's instructions lie in its slice
        inside = [w for w in within if a <= w[0] < b]
        assert all(end <= b for _, end in inside)
        assert len(inside) >= (20 if name == "longer" else 0)


def test_perfetto_has_the_same(timeline, tmp_path):
    from perfetto_files import slices
    rows, _ = slices(timeline.write(tmp_path / "all.pftrace"))
    assert [r[2] for r in sorted(rows["Kernels"])] == [c.name for c in timeline.calls]


def test_values_only_have_no_place_on_it(monkeypatch):
    monkeypatch.setenv("NKISIM_TIMING", "0")
    with nkisim.Timeline() as found, pytest.raises(ValueError, match="ran for its values only"):
        double(X)
    assert found.report() == "no kernel ran"


def test_simulate_kernel_as_vllm_calls_it():
    found = simulate_kernel(double.func, (), {"x": X + 3}, _lnc=1)
    np.testing.assert_array_equal(found, X + 6)
