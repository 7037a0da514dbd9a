"""Tests `nkisim probe`: from the times of a simulated chip it finds the chip's numbers again."""
import json
import random

import pytest

from running import PROGRAM, cli
from nkisim_validation import probe, program

#: The numbers that the hidden chip has otherwise.
HIDDEN = {"dma.bytes_per_ns": 21.0, "dma.software.interval_base": 700, "dma.hardware.trigger.sync": 450,
          "dma.software.dynamic_trigger": 1700, "hbm.bytes_per_ns": 500, "rules.reciprocal.cycles_per_element": 4.0,
          "rules.activate.cycles_per_element": 1.3, "rules.matmul.cycles_per_element": 1.25,
          "rules.vector_fp32_sbuf.overlap": 60}


def form(target="trn2"):
    return {"nkisim_probe": 1, "target": target, "measured_on": "a test", "probes": {
        name: {"counts": list(counts), "us": [[], []]} for name, (_, counts) in probe.of(target).items()}}


def fill(filled, simulated, settings, noise, times=5, seed=4):
    draw = random.Random(seed)
    for name, entry in filled["probes"].items():
        for (_, trace), us in zip(simulated.traces[name], entry["us"]):
            one = simulated._us(trace, settings)
            us.extend(one * draw.gauss(1, noise) for _ in range(times))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    names = list(probe.of("trn2"))
    return probe.Simulated(program.Program(PROGRAM), "trn2", "trn2", names, tmp_path_factory.mktemp("probes"))


def answer(filled, folder, *words, code=0):
    file = folder / "results.json"
    file.write_text(json.dumps(filled))
    return cli("probe", "--measurements", file, "-o", folder / "mine.json", *words, code=code).stdout


@pytest.mark.process
def test_the_numbers_of_a_hidden_chip_are_found(simulated, tmp_path):
    filled = form()
    fill(filled, simulated, HIDDEN, noise=0.03, times=21)
    assert "nothing fits" not in answer(filled, tmp_path)
    found = program.Program(PROGRAM).config(tmp_path / "mine.json")
    for path, value in HIDDEN.items():
        assert probe._leaf(found, path)["value"] == pytest.approx(value, rel=0.05), path
    assert "nkisim probe" in probe._leaf(found, "hbm.bytes_per_ns")["source"]


@pytest.mark.process
def test_a_chip_like_the_model_confirms_it(simulated, tmp_path):
    filled = form()
    fill(filled, simulated, {}, noise=0.0)
    rows = json.loads(answer(filled, tmp_path, "--json"))["probes"]
    assert {r["verdict"] for r in rows} == {"confirmed", "fits"} and not (tmp_path / "mine.json").exists()


@pytest.mark.process
def test_a_mechanism_that_the_model_lacks_fits_nothing(simulated, tmp_path):
    filled = form()
    fill(filled, simulated, {}, noise=0.0)
    near = filled["probes"]["pieces_near"]
    near["us"] = [[3 * x for x in times] for times in near["us"]]
    said = answer(filled, tmp_path, code=1)
    assert [line.split()[0] for line in said.splitlines() if "nothing fits " in line] == ["pieces_near"]


def verdicts(simulated, noise, times, seed, **factors):
    """{probe: verdict} of a chip like the model, but for factors of single probes."""
    filled = form()
    fill(filled, simulated, {}, noise, times, seed)
    slopes = {name: probe.Slope(entry["counts"], [[x * factors.get(name, 1) for x in us] for us in entry["us"]])
              for name, entry in filled["probes"].items()}
    rows, _ = probe.compare_slopes(simulated, slopes, "trn2", program.Program(PROGRAM).config("trn2"))
    return {row["probe"]: row["verdict"] for row in rows}


@pytest.mark.process
def test_noise_alone_contradicts_and_misses_nothing(simulated):
    said = [verdict for seed in range(3) for verdict in verdicts(simulated, 0.03, 5, seed).values()]
    assert sum(verdict not in ("confirmed", "fits") for verdict in said) <= 1  # of 81, at three standard errors


@pytest.mark.process
@pytest.mark.parametrize("noise, verdict", [(0.003, "nothing fits"), (0.06, "fits")])
def test_what_fits_nothing_depends_on_the_noise(simulated, noise, verdict):
    assert verdicts(simulated, noise, 9, 1, pieces_near=1.06)["pieces_near"] == verdict


def test_the_error_of_a_slope_follows_from_noise_and_repetitions():
    draw = random.Random(0)
    slopes = []
    for _ in range(400):
        times = [[n * draw.gauss(1, 0.02) for _ in range(9)] for n in (10, 50)]
        slopes.append(probe.Slope((10, 50), times))
    beyond = sum(abs(slope.us - 1) > slope.off for slope in slopes)
    assert beyond <= 4  # 0.27 % of 400 is 1
    mean = sum(slope.off for slope in slopes) / len(slopes)
    by_hand = 1.2533 * 0.02 / 3 * (10**2 + 50**2)**0.5 / 40  # of one standard error of medians
    assert 3 * by_hand < mean < 4 * by_hand
    assert probe.error([2.0]) == pytest.approx(0.06)  # nothing is known of the noise of one time


@pytest.mark.process
def test_the_folder_has_kernels_and_a_form(tmp_path):
    cli("probe", "--target", "trn1", "-o", tmp_path / "p")
    written = json.loads((tmp_path / "p" / "results.json").read_text())
    assert written["target"] == "trn1" and written["probes"]["loop"]["number"] == "rules.loop_vector.fixed"
    assert "hardware_trigger" not in written["probes"]  # trn1 has no such descriptors
    compile((tmp_path / "p" / "measure.py").read_text(), "measure.py", "exec")
    assert "is not empty" in cli("probe", "--target", "trn1", "-o", tmp_path / "p", code=3).stderr


@pytest.mark.process
@pytest.mark.parametrize("change, said", [
    (lambda f: f.pop("nkisim_probe"), "a form of `nkisim probe` is required"),
    (lambda f: f["probes"]["loop"].update(us=[["x"], [1]]), "loop: counts and us, two lists of times, are required"),
    (lambda f: f["probes"]["loop"].update(us=[[2], [1]]), "loop: 160 of them take no longer than 32"),
    (lambda f: None, "no probe has times at both counts")])
def test_a_form_that_says_nothing_is_an_error(tmp_path, change, said):
    filled = form()
    change(filled)
    (tmp_path / "results.json").write_text(json.dumps(filled))
    assert said in cli("probe", "--measurements", tmp_path / "results.json", code=3).stderr


def test_a_folder_that_cannot_be_written_whole_is_left_empty(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_text("")
    for place in ("file", "file/new"):
        with pytest.raises(program.Failed, match="not empty|Not a directory"):
            probe.write("trn2", tmp_path / place)
    monkeypatch.setattr(probe, "of", full)  # when the other files are there
    with pytest.raises(program.Failed, match="No space left"):
        probe.write("trn2", tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())
