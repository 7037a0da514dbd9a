"""Tests `nkisim tune`, which searches a kernel's own parameters: its search, its journal and its
files.
"""

import csv
import json
import math
import pathlib
import statistics
import struct

import pytest

import nkisim
from running import python
from nkisim_evaluate import BadReference, keeping
from nkisim_evaluate.cache import is_record
from nkisim_evaluate.evaluator import Settings
from nkisim_evaluate.tune_command import parameter
from nkisim_evaluate.tuning import Search, Space, Tuning

pytestmark = pytest.mark.process
REFERENCE = """
import numpy as np
SEEDS = (0,)
def inputs(seed):
    return np.random.default_rng(seed).standard_normal((128, 512), dtype=np.float32),
def reference(x):
    return x * 2
"""
#: Wider pieces are faster, 384 does not divide 512, and `wrong` gives wrong values.
KERNEL = """
import nki, nki.isa as nisa, nki.language as nl
def make(width=64, wrong=False):
    @nki.jit
    def double(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(0, 512, width):
            t = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=t, src=x[:, i:i + width])
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=3.0 if wrong else 2.0)
            nisa.dma_copy(dst=out[:, i:i + width], src=t)
        return out
    return double
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "ref.py").write_text(REFERENCE)
    (tmp_path / "k.py").write_text(KERNEL)
    return tmp_path


def tune(files, *words):
    return python("-m", "nkisim_evaluate", "tune", "k.py:make", "--reference", "ref.py", "--target",
                  "trn2", *words, code=None, cwd=files)


def test_a_grid_finds_the_fastest_right_one(files):
    found = nkisim.tune(f"{files}/k.py:make", {"width": [64, 384, 512], "wrong": [False, True]},
                        files / "ref.py", jobs=1, target="trn2")
    assert found.best[0] == {"width": 512, "wrong": False}
    by = {tuple(p.values()): r for p, r in found.rows}
    assert len(by) == 6
    assert {k: r["status"] for k, r in by.items()} == {
        (64, False): "ok", (512, False): "ok", (64, True): "wrong", (512, True): "wrong",
        (384, False): "illegal", (384, True): "illegal"}
    assert found.default[1]["latency_us"] > found.best[1]["latency_us"]
    spread = found.best[1]["confidence"]["interval"]["versions"]
    assert found.likely == pytest.approx(statistics.NormalDist(0, spread).cdf(math.log(
        found.default[1]["latency_us"] / found.best[1]["latency_us"])), abs=1e-3)
    assert Tuning(found.space, [r for r in found.rows if r is not found.best]).likely is None


def test_patience_runs_out(files):
    """The fastest point comes first: after so many worse ones the search ends."""
    widths = [256, 64, 32, 16, 128, 512, 8, 4, 2, 1]
    found = nkisim.tune(f"{files}/k.py:make", {"width": widths}, files / "ref.py",
                        sampler="grid", patience=2, jobs=1, target="trn2")
    # Candidates proposed before the second worse one was known are finished, no more: one record that is not yet taken,
    # one candidate in the worker, one waiting for it and one that is to wait.
    assert found.best[0] == {"width": 256}
    assert 3 <= len(found.rows) <= 3 + 4


def test_the_journal_resumes(files):
    words = ("--param", "width=64,128,256", "--json")
    assert tune(files, *words, "--trials", 2, "--sampler", "grid").returncode == 0
    journal = files / "k.py-make.tune.jsonl"
    before = journal.read_text()
    assert len(before.splitlines()) == 1 + 2
    done = tune(files, *words)
    assert journal.read_text().startswith(before)  # what was known is not simulated again
    assert len(journal.read_text().splitlines()) == 1 + 3
    assert json.loads(done.stdout)["best"]["parameters"] == {"width": 256}
    (files / "k.py").write_text(KERNEL + "\n# changed\n")
    tune(files, *words)
    assert len(journal.read_text().splitlines()) == 1 + 3 + 3  # another kernel


@pytest.mark.parametrize("change", [
    {"status": {}}, {"status": None}, {"latency_us": "1"}, {"latency_us": 0}, {"latency_us": 10 ** 400},
    {"latency_us": float("nan")}, {"latency_us": None}, {"error": None}, {"error": {"message": 3}},
    {"sbuf_partition_bytes": []}, {"speedup": {}}], ids=str)
def test_a_damaged_record_is_none(change):
    record = {"status": "ok", "latency_us": 2.5, "speedup": None, "sbuf_partition_bytes": 64}
    assert is_record(record) and is_record({"status": "error", "latency_us": None})
    assert not is_record({**record, **change})


def test_files_are_written(files):
    done = tune(files, "--param", "width=64,512", "--param", "wrong=False", "--csv", "t.csv", "--plot", "t.png",
                "--out", "kept")
    assert done.returncode == 0, done.stderr
    assert "best: width=512" in done.stdout
    rows = list(csv.DictReader((files / "t.csv").open()))
    assert {r["width"] for r in rows} == {"64", "512"}
    picture = (files / "t.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    wide, high = struct.unpack(">II", picture[16:24])
    assert wide == 2 * high  # what has one value has no panel: the widths, and the front
    for name in ("best", "default"):
        assert "<html" in (files / "kept" / f"{name}.html").read_text()[:200].lower()
        record = json.loads((files / "kept" / f"{name}.json").read_text())
        assert record["parameters"]["width"] == (512 if name == "best" else 64)


@pytest.mark.parametrize("own, asked, target", [("trn3", None, "trn3"), ("trn3", "trn2", "trn2"), ("", "trn1", "trn1")])
def test_what_is_kept_runs_on_the_machine_it_was_tried_on(files, own, asked, target):
    (files / "ref.py").write_text(REFERENCE + f"TARGET = {own!r}\n" * bool(own))
    settings = Settings(files / "ref.py", target=asked, overrides={"a.b": 1}, switches={"dma_queues": "one"})
    assert keeping.options(settings, settings.load()) == ["--target", target, "--set", "a.b=1", "--dma-queues", "one"]


def test_files_are_written_of_what_is_right(files):
    (files / "k.py").write_text(KERNEL.replace("wrong=False", "wrong=True"))  # which is the default
    done = tune(files, "--param", "wrong=True", "--param", "width=64,512", "--csv", "t.csv", "--out", "none")
    assert "Traceback" not in done.stderr and not (files / "none").exists()
    assert [r["status"] for r in csv.DictReader((files / "t.csv").open())] == ["wrong", "wrong"]
    done = tune(files, "--param", "wrong=True,False", "--out", "kept")
    assert done.returncode == 0, done.stderr
    assert {p.name.split(".")[0] for p in (files / "kept").iterdir()} == {"best"}


def test_what_a_kernel_says_is_text(files):
    """No formula for a spreadsheet, no orders for a terminal."""
    (files / "k.py").write_text(KERNEL.replace(
        "    @nki.jit", "    if wrong: raise type('=1+1', (Exception,), {})('\\x1b[2J\\u202egone')\n"
        "    @nki.jit"))
    done = tune(files, "--param", "wrong=False,True", "--csv", "t.csv")
    assert done.returncode == 0, done.stderr
    errors = [r["error"] for r in csv.DictReader((files / "t.csv").open()) if r["status"] == "error"]
    assert errors == ["'=1+1: \x1b[2J\u202egone"]
    assert r"=1+1: \u001b[2J\u202egone" in done.stdout
    assert not any(c in done.stdout + done.stderr for c in "\x1b\u202e")


@pytest.mark.parametrize("words, code, said", [
    (["--param", "width=0:9:0"], 2, "has 0 values"),
    (["--param", "width=1", "--param", "width=2"], 2, "given twice"),
    ([], 3, "nothing varies"),
    (["--param", "wide=1,2"], 1, "unexpected keyword argument 'wide'"),
])
def test_mistakes_are_reported(files, words, code, said):
    done = tune(files, *words)
    assert done.returncode == code
    assert said in done.stderr + done.stdout and "Traceback" not in done.stderr


def test_parameters_as_they_are_written():
    assert parameter("tile=128,256") == ("tile", [128, 256])
    assert parameter("bufs=1:4") == ("bufs", [1, 2, 3, 4])
    assert parameter("tile=512:128:-128") == ("tile", [512, 384, 256, 128])
    assert parameter("engine=vector,scalar") == ("engine", ["vector", "scalar"])
    assert parameter("scale=0.5,True") == ("scale", [0.5, True])


def bowl(point):
    """A latency with one minimum, at (37, 'b')."""
    return 10 + abs(point["n"] - 37) + {"a": 5, "b": 0, "c": 9}[point["kind"]]


def test_the_model_beats_chance():
    """Fewer trials than a random search needs on average to come within 2 of the minimum: of 300
    combinations 5 do, so chance needs (300 + 1) / (5 + 1) = 50."""
    space = Space(["k.py:k"], {"n": range(100), "kind": ["a", "b", "c"]})
    needed = []
    for seed in range(5):
        search = Search(space, "tpe", seed)
        for trial in range(1, len(space) + 1):
            point = search.next()
            search.learn(point, {"status": "ok", "latency_us": bowl(point)})
            if bowl(point) <= 12:
                break
        needed.append(trial)
    assert sum(needed) / len(needed) < 40, needed


@pytest.mark.parametrize("sampler", ["grid", "random", "tpe"])
def test_every_combination_is_proposed_once(sampler):
    space = Space(["k.py:k"], {"n": range(5), "kind": ["a", "b", "c"]})
    search = Search(space, sampler, 0)
    points = [search.next() for _ in range(15)]
    assert len({json.dumps(p, sort_keys=True) for p in points}) == 15
    assert search.next() is None


def test_the_front_is_what_nothing_beats_in_both():
    def row(latency, sbuf):
        return {}, {"status": "ok", "latency_us": latency, "sbuf_partition_bytes": sbuf}
    rows = [row(5, 100), row(4, 200), row(6, 150), row(7, 50), row(4, 300), row(8, 50), row(6, 100)]
    assert [(r["latency_us"], r["sbuf_partition_bytes"]) for _, r in Tuning(None, rows).pareto()] == [
        (4, 200), (5, 100), (7, 50)]


def test_a_kernel_that_is_not_there(tmp_path):
    with pytest.raises(BadReference, match="existing file"):
        nkisim.tune(f"{tmp_path}/none.py:f", {"a": [1]}, tmp_path / "ref.py")
    assert pathlib.Path(tmp_path).is_dir()


def test_no_kernel_at_all(tmp_path):
    with pytest.raises(BadReference, match="no kernel to tune"):
        nkisim.tune([], {"a": [1]}, tmp_path / "ref.py")


def test_what_the_cache_knows_is_not_run_again(files):
    words = ("--param", "width=256,512", "--cache", "known", "--journal")
    first = json.loads(tune(files, *words, "a.jsonl", "--json").stdout)
    again = json.loads(tune(files, *words, "b.jsonl", "--json").stdout)
    assert [row["cached"] for row in first["rows"]] == [False, False]
    assert [row["cached"] for row in again["rows"]] == [True, True]
    assert again["best"]["latency_us"] == first["best"]["latency_us"]
