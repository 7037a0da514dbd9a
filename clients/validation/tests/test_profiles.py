"""Tests the fit of numbers to device profiles with one of them left out, on a machine that is one
formula.
"""
import pytest

pytest.importorskip("scipy")
from nkisim_validation import profiles  # noqa: E402
from nkisim_validation.replay import Figure  # noqa: E402


class Machine:
    """A kernel of n DMAs takes 10 + n / rate; the chip's rate is 2."""

    sizes = {"a_fused_fp32_s1": 100, "a_fused_bf16_s1": 200, "a_plain_fp32_s1": 400}

    def __init__(self):
        self.seen = []

    def diff(self, file, values, own_phase=False):
        del own_phase
        n, rate = self.sizes[file.name.split(".")[0]], values.get("rate", 1.6)
        return {"measured_total_ns": 10 + n / 2, "simulated_total_ns": 10 + n / rate,
                "engines": [{"engine": "Vector", "measured_active_ns": 5, "simulated_active_ns": 5}],
                "opcodes": [], "dma": {"duration_error": {"median": 0.01, "p90": 0.2},
                                       "measured_packet_time_ns": 0}}

    def figures(self, rows, values):
        self.seen.append({r.program.name for r in rows})
        return [Figure(r, r.name, d["measured_total_ns"], d["simulated_total_ns"], 1)
                for r in rows for d in [self.diff(r.program, values)]]


@pytest.fixture
def runs(tmp_path):
    for name in Machine.sizes:
        (tmp_path / f"{name}.json.gz").touch()
    made = profiles.Profiles(tmp_path, None, None, tmp_path, None)
    made.replays = Machine()
    return made


CONFIG = {"rate": {"value": 1.6, "unit": "-"}}


def test_families_are_kernels(runs):
    assert {profiles.family(f) for f in runs.files} == {"a_fused", "a_plain"}


def test_replay_compares_with_the_config(runs):
    row = next(r for r in profiles.replay(runs) if r["profile"] == "a_fused_fp32_s1")
    assert row["error"] == pytest.approx(100 * (72.5 / 60 - 1))
    assert row["engine_points"] == pytest.approx(100 * (5 / 72.5 - 5 / 60))
    assert (row["packet_median"], row["packet_p90"]) == pytest.approx((1, 20))


def test_what_is_held_out_is_not_fitted(runs):
    rows = profiles.leave_one_out(runs, ["rate=1:4"], CONFIG)
    assert [r["held_out"] for r in rows] == [1, 1, 1, 2, 2]
    for row in rows:
        assert row["values"]["rate"] == pytest.approx(2, rel=0.01)
        assert abs(row["error"]) < 1
    everything = {f"{n}.json.gz" for n in Machine.sizes}
    left_out = {frozenset(everything - seen) for seen in runs.replays.seen}
    assert left_out == {frozenset({f"{n}.json.gz"}) for n in Machine.sizes} | {
        frozenset({"a_fused_fp32_s1.json.gz", "a_fused_bf16_s1.json.gz"})}


def test_tables_say_what_was_found(runs):
    rows = profiles.leave_one_out(runs, ["rate=1:4"], CONFIG)
    text = profiles.text({"replay": profiles.replay(runs), "leave_one_out": rows})
    assert "| found without | `rate` |" in text
    assert "`a_fused_bf16_s1`, `a_fused_fp32_s1` | 2 |" in text
