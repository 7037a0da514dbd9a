"""Tests `nkisim calibrate`, which fits numbers of the machine description to measurements, on known
numbers.
"""
import json
import os

import pytest

from running import ROOT, cli
from nkisim_validation import measurements

pytestmark = pytest.mark.process
TRACES = ("softmax", "flash_attention", "matmul_psum", "layernorm", "rmsnorm_rope")
BANDWIDTH, WAKE = "dma.bytes_per_ns", "engines.vector.wake"  # 27.2 B/ns and 23.5 ns in trn2


def measured(trace, *changes):
    sets = [word for c in changes for word in ("--set", c)]
    file = ROOT / "traces" / f"{trace}.jsonl"
    return json.loads(cli("run", file, "--timing-only", "--json", *sets).stdout)["summary"]["nc_0"]


@pytest.fixture(name="file")
def fixture_file(tmp_path):
    """Total and DMA time of five traces on a chip with 19 B/ns and a wake-up of 60 ns."""
    rows = []
    for trace in TRACES:
        figures = measured(trace, f"{BANDWIDTH}=19", f"{WAKE}=60")
        path = os.path.relpath(ROOT / "traces" / f"{trace}.jsonl", tmp_path)
        rows += [{"trace": path, "metric": "total_time", "value": figures["total_time"] * 1e6 + 7,
                  "unit": "us", "overhead": 7},
                 {"trace": path, "metric": "dma_packet_time", "value": figures["dma_packet_time"]}]
    (tmp_path / "m.json").write_text(json.dumps({"measurements": rows}))
    return tmp_path / "m.json"


def calibrate(file, *words, code=0, env=None):
    return cli("calibrate", "--measurements", file, "--json", "-o", file.parent / "new.json", *words,
               code=code, env={**os.environ, **(env or {})})


def test_known_numbers_are_found_again(file):
    out = calibrate(file, "--param", f"{BANDWIDTH}=10:40", "--param", f"{WAKE}=0:100",
                    "--param", "rules.copy_predicated.fixed=0:200", "--hold-out", "0.4")
    result = json.loads(out.stdout)
    bandwidth, wake, unused = result["parameters"]
    assert bandwidth["after"] == pytest.approx(19, rel=0.005)
    assert wake["after"] == pytest.approx(60, abs=1)
    assert unused["after"] == unused["before"] and "depends" in unused["note"]
    for part, rows in (("fitted", 6), ("held back", 4)):
        assert result["errors"][part]["before"]["rows"] == rows
        assert result["errors"][part]["before"]["mean_percent"] > 5
        assert result["errors"][part]["after"]["mean_percent"] < 0.5

    config = json.loads((file.parent / "new.json").read_text())
    leaf = config["dma"]["bytes_per_ns"]
    assert leaf["value"] == bandwidth["after"] and leaf["confidence"] == "derived"
    assert all(word in leaf["source"] for word in ("m.json", "before", "after", "was 27.2"))
    assert "gpsimd" not in config["engines"]
    run = cli("run", ROOT / "traces" / "softmax.jsonl", "--timing-only", "--json", "--config",
              file.parent / "new.json")
    total = json.loads(run.stdout)["summary"]["nc_0"]["total_time"]
    assert total == pytest.approx(measured("softmax", f"{BANDWIDTH}=19", f"{WAKE}=60")["total_time"],
                                  rel=0.005)


def test_rules_by_id_and_a_config_file_as_base(tmp_path):
    file = tmp_path / "m.json"
    trace = os.path.relpath(ROOT / "traces" / "softmax.jsonl", tmp_path)
    time = measured("softmax", "rules.vector_default.fixed=200")["total_time"]
    file.write_text(json.dumps({"measurements": [
        {"trace": trace, "metric": "total_time", "value": time}]}))
    (tmp_path / "base.json").write_text('{"inherits": "trn2", "name": "base", "target": "trn2"}')
    out = calibrate(file, "--config", tmp_path / "base.json",
                    "--param", "rules.vector_default.fixed=100:400")
    assert json.loads(out.stdout)["parameters"][0]["after"] == pytest.approx(200, abs=4)
    shown = cli("config", "show", tmp_path / "new.json").stdout
    assert "calibrated from m.json" in shown


def test_a_profile_is_replayed(tmp_path):
    profile = ROOT / "clients" / "validation" / "table" / "profiles" / "attention_fused_bf16_s512.json.gz"
    file = tmp_path / "m.json"
    file.write_text(json.dumps({"measurements": [{"profile": str(profile)}]}))
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({
        "inherits": "trn2", "name": "wrong", "target": "trn2", "rules": [{
            "id": "activate", "fixed": {"value": 700, "unit": "ns", "source": "wrong on purpose",
                                        "confidence": "assumed"}}]}))
    out = calibrate(file, "--config", wrong, "--param", "rules.activate.fixed=100:800")
    # The profile's own ACTIVATEs: 258.3 ns around the stream (configs/trn2.json).
    assert json.loads(out.stdout)["parameters"][0]["after"] == pytest.approx(258.3, rel=0.1)


def test_the_seed_chooses_what_is_held_back(tmp_path):
    for i in range(8):
        (tmp_path / f"{i}.jsonl").write_text("")
    file = tmp_path / "m.json"
    file.write_text(json.dumps({"measurements": [
        {"trace": f"{i}.jsonl", "metric": m, "value": 1} for i in range(8)
        for m in ("total_time", "dma_packet_time")]}))
    rows = measurements.read(file)
    chosen = set()
    for seed in range(10):
        fitted, held = measurements.split(rows, 0.25, seed)
        assert len(held) == 4 and len({r.program for r in held}) == 2  # both rows of two programs
        assert not {r.program for r in held} & {r.program for r in fitted}
        assert measurements.split(rows, 0.25, seed) == (fitted, held)
        chosen.add(tuple(r.name for r in held))
    assert len(chosen) > 3


def test_nothing_to_gain(tmp_path):
    file = tmp_path / "m.json"
    time = measured("softmax")["total_time"]
    file.write_text(json.dumps({"measurements": [
        {"trace": str(ROOT / "traces" / "softmax.jsonl"), "metric": "total_time", "value": time}]}))
    out = calibrate(file, "--param", f"{BANDWIDTH}=10:40", code=1)
    assert not json.loads(out.stdout)["written"]
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize("change, message", [
    ({"trace": "nothing.jsonl"}, "nothing.jsonl is not a file"),
    ({"metric": "total"}, "'total' is not a metric"),
    ({"metric": "bottleneck"}, "'bottleneck' is not a metric"),
    ({"value": "3"}, "value is '3'; a number is required"),
    ({"value": 0}, "more than 0 is required"),
    ({"unit": "hours"}, "unit 'hours'"),
    ({"vaule": 1}, "'vaule' is not a key"),
    ({"profile": "x.json"}, "either trace or profile"),
])
def test_bad_measurements(file, change, message):
    table = json.loads(file.read_text())
    table["measurements"][1].update(change)
    file.write_text(json.dumps(table))
    assert message in calibrate(file, "--param", f"{BANDWIDTH}=10:40", code=3).stderr


@pytest.mark.parametrize("words, message", [
    (["--param", "dma.speed=1:2"], "the config has no 'speed'"),
    (["--param", "dma.stagger=1:2"], "is not a number"),
    (["--param", f"{BANDWIDTH}=2:1"], "LOW < HIGH"),
    (["--param", BANDWIDTH], "PATH=LOW:HIGH"),
    (["--param", f"{BANDWIDTH}=10:40", "--param", f"{BANDWIDTH}=1:4"], "twice"),
    (["--param", f"{BANDWIDTH}=10:40", "--hold-out", "0.95"], "leaves none"),
    (["--param", f"{BANDWIDTH}=10:40", "--hold-out", "1.5"], "fraction"),
])
def test_bad_usage(file, words, message):
    assert message in calibrate(file, *words, code=2).stderr


def test_without_scipy(file, tmp_path):
    (tmp_path / "hidden" / "scipy").mkdir(parents=True)
    (tmp_path / "hidden" / "scipy" / "__init__.py").write_text("")
    path = f"{tmp_path / 'hidden'}:{os.environ.get('PYTHONPATH', '')}"
    done = calibrate(file, "--param", f"{BANDWIDTH}=10:40", code=3, env={"PYTHONPATH": path})
    assert "pip install 'scipy" in done.stderr


def test_the_committed_example(tmp_path):
    """docs/evidence.md: both profiles, one of them held back."""
    out = cli("calibrate", "--measurements", ROOT / "clients" / "validation" / "table" / "calibration.json", "--param",
              f"{BANDWIDTH}=20:40", "--hold-out", "0.5", "-o", tmp_path / "new.json", "--json")
    result = json.loads(out.stdout)
    assert result["errors"]["held back"]["before"]["rows"] == 1


