"""Tests `nkisim validate`, which compares simulated and measured times: its options, limits and
exit codes.
"""
import json

import pytest

from running import cli

pytestmark = pytest.mark.process


def validate(*words, code=0):
    done = cli("validate", *words, code=code)
    return done


def test_table_and_json(tmp_path):
    assert "trn1-perfguide-0" in validate("--only", "perfguide").stdout
    table = json.loads(validate("--only", "perfguide", "--json").stdout)
    validate("--only", "perfguide", "--json", tmp_path / "t.json")
    assert table == json.loads((tmp_path / "t.json").read_text())
    row = next(p for p in table["points"] if p["id"] == "trn1-perfguide-2")
    assert row["measured"] == 14987  # nki_perf_guide.rst
    assert row["error"] == pytest.approx(100 * (row["simulated"] / row["measured"] - 1))


def test_a_changed_config_counts():
    plain, slow = (json.loads(validate("--only", "perfguide-7", "--config", "trn1", "--json",
                                       *more).stdout)["points"][0]["simulated"]
                   for more in ((), ("--set", "dma.bytes_per_ns=9.25")))
    assert slow > 1.8 * plain


def test_other_targets_are_left_out():
    ids = [p["id"] for p in json.loads(validate("--only", "act-table", "--config", "trn1",
                                                "--json").stdout)["points"]]
    assert ids and all(i.startswith("trn1-") for i in ids)


def test_limits():
    only = ("--only", "vector_add_tiled-1")
    validate(*only, "--max-mean", "50", "--max-worst", "50")
    assert "mean error" in validate(*only, "--max-mean", "0.001", code=1).stderr
    assert "tiled-1" in validate(*only, "--max-worst", "0.001", code=1).stderr


def test_bad_usage():
    assert "no measurement has" in validate("--only", "xyz", code=2).stderr
    assert "neither a file" in validate("--only", "act-table", "--config", "xyz", code=3).stderr
    assert "whole table" in validate("--write", "--only", "a", code=2).stderr


def test_errors_as_json():
    error = json.loads(validate("--only", "xyz", "--json", code=2).stdout)
    assert not error["ok"] and error["exit_code"] == 2 and error["error"]["code"] == "usage"
    assert "no measurement has" in error["error"]["message"]


def test_replays_of_the_profiles():
    rows = json.loads(validate("--replay", "--json").stdout)["replay"]
    assert len(rows) == 4
    measured = {r["profile"]: r["measured_us"] for r in rows}  # of clients/validation/table/profiles/README.md
    assert measured == pytest.approx({
        "attention_fused_bf16_s512": 20.555, "attention_fused_fp32_s1024": 57.693,
        "attention_baseline_fp32_s512": 43.014, "attention_baseline_bf16_s1024": 87.259})
    for r in rows:
        assert r["error"] == pytest.approx(100 * (r["simulated_us"] / r["measured_us"] - 1))
        assert abs(r["error"]) <= 6 and abs(r["engine_points"]) <= 3 and r["packet_median"] <= 10
        assert r["packet_p90"] <= 20
    assert sum(abs(r["error"]) for r in rows) / 4 <= 3
    assert "baseline_bf16_s1024" in validate("--replay").stdout


def test_replays_with_another_number():
    slow = json.loads(validate("--replay", "--json", "--set", "dma.bytes_per_ns=5").stdout)["replay"]
    assert all(r["error"] > 10 for r in slow)


def test_replay_stands_alone():
    assert "without limits" in validate("--replay", "--only", "x", code=2).stderr
    assert "--leave-one-out goes with" in validate("--leave-one-out", code=2).stderr
