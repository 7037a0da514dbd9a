"""Tests `nkisim run --explain` for several cores: which facts appear once, and which for each core."""

import json

import pytest

from running import ROOT, cli

pytestmark = pytest.mark.process
SHAPE = {"dtype": "float32", "shape": [128, 64]}


@pytest.mark.parametrize("cores", [1, 2])
def test_the_critical_path_of_each_core(cores, tmp_path):
    lines = [{"nisa": 1, "target": "trn2", **({"cores": 2} if cores == 2 else {})},
             {"tensor": {"name": "x", "role": "input", **SHAPE, "data": {"generator": "ones"}}},
             *({"tensor": {"name": f"y{c}", "role": "output", **SHAPE}} for c in range(cores)),
             *({"i": "dma_copy", "dst": f"y{c}", "src": "x", "core": c} for c in range(cores))]
    (tmp_path / "k.jsonl").write_text("\n".join(map(json.dumps, lines)))
    said = cli("run", tmp_path / "k.jsonl", "--explain").stdout
    assert said.count("Until the last semaphore the run takes") == cores
    for core in range(2):
        assert said.count(f"On core {core} the critical path is ") == (cores == 2)
    assert said.count("Its critical path is ") == (cores == 1)


def test_the_phase_of_the_limit_is_reported_where_it_is_asked_for(tmp_path):
    profile = ROOT / "tests/src/data/profile_small.json"
    said = [cli("import-profile", profile, "-o", tmp_path / "k.jsonl", *words).stdout.splitlines()
            for words in ((), ("--throttle-from-profile",))]
    assert len(said[0]) == 1 and said[0][0].endswith("4 runtime instructions left out")
    assert said[1][0] == said[0][0] and len(said[1]) == 2


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)], ids=["none", "help", "h", "word"])
def test_the_overview_by_any_of_its_names(words):
    done = cli(*words)
    assert (done.stdout, done.stderr) == (cli("--help").stdout, "") and "usage: nkisim" in done.stdout


def test_no_bytes_are_bytes(tmp_path):
    lines = [{"nisa": 1, "target": "trn2"},
             {"tensor": {"name": "x", "role": "input", **SHAPE, "data": {"generator": "ones"}}},
             {"tensor": {"name": "y", "role": "output", **SHAPE}}, {"i": "dma_copy", "dst": "y", "src": "x"}]
    (tmp_path / "k.jsonl").write_text("\n".join(map(json.dumps, lines)))
    said = {words[0]: words[1:] for words in map(str.split, cli(
        "run", tmp_path / "k.jsonl", "--summary-text").stdout.splitlines()) if words}
    assert said["psum_read_bytes"] == ["0.00", "B"]
    assert said["hbm_write_bytes"] == ["32.00", "KiB"]  # 128 * 64 * 4
