"""Tests `nkisim run --ranks`, which simulates several ranks, and program files for several ranks."""

import json
from xml.etree import ElementTree

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import nkisim
from perfetto_files import packets
from running import cli

pytestmark = pytest.mark.process
HEADER = {"nisa": 1, "target": "trn2", "name": "sum", "ranks": 4}
LINES = [
    {"tensor": {"name": "x", "dtype": "float32", "shape": [8, 4], "role": "input",
                "data": {"generator": "arange", "start": 1}}},
    {"tensor": {"name": "n", "dtype": "float32", "shape": [8, 4], "role": "input",
                "data": {"generator": "normal", "seed": 3, "per_rank": True}}},
    {"tensor": {"name": "y", "dtype": "float32", "shape": [8, 4], "role": "output"}},
    {"tensor": {"name": "s", "dtype": "float32", "shape": [8, 4]}},
    {"tensor": {"name": "d", "dtype": "float32", "shape": [8, 4]}},
    {"i": "dma_compute", "dst": "s", "srcs": ["x", "n"], "reduce_op": "add"},
    {"i": "all_reduce", "srcs": ["s"], "dsts": ["d"], "replica_group": [[0, 1], [2, 3]], "op": "add"},
    {"i": "dma_copy", "dst": "y", "src": "d"}]


@pytest.fixture
def trace(written):
    return written([HEADER, *LINES], "sum.jsonl")


def call(*args, code=0):
    done = cli(*args, code=code)
    return done.stdout + done.stderr


def test_ranks_of_the_trace(trace, tmp_path):
    assert "by 4 ranks" in call("run", trace)
    call("run", trace, "--outputs", tmp_path / "o.{rank}.npz")
    found = [np.load(tmp_path / f"o.{r}.npz")["y"] for r in range(4)]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[2], found[3])
    assert not np.array_equal(found[0], found[2])  # the generator's seed is the rank's
    for options in (["--functional"], ["--no-fold"]):
        call("run", trace, "--expect", tmp_path / "o.{rank}.npz", "--rtol", 0, "--atol", 0, *options)
    said = call("run", trace, "--expect", tmp_path / "o.0.npz", code=1)
    assert "rank 2: output y: 32 of 32 elements differ" in said and "rank 1" not in said


def test_inputs_of_each_rank(trace, tmp_path):
    for r in range(4):
        np.savez(tmp_path / f"in.{r}.npz", x=np.full((8, 4), r, np.float32), n=np.zeros((8, 4), np.float32))
        np.savez(tmp_path / f"out.{r}.npz", y=np.full((8, 4), [1, 1, 5, 5][r], np.float32))
    call("run", trace, "--inputs", tmp_path / "in.{rank}.npz", "--expect", tmp_path / "out.{rank}.npz")


def test_files_of_ranks_and_what_json_says(trace, tmp_path):
    said = json.loads(call("run", trace, "--json", "--summary-json", tmp_path / "s.{rank}.json",
                           "--accounting-json", tmp_path / "a.{rank}.json", "--no-fold",
                           "--perfetto", tmp_path / "p.{rank}.pftrace"))
    assert len(said["ranks"]) == 4 and said["ranks"][3]["summary"]["nc_0"]["total_time"] > 0
    for r in range(4):
        for name in (f"s.{r}.json", f"a.{r}.json", f"p.{r}.pftrace"):
            assert (tmp_path / name).stat().st_size > 0


def test_budgets_of_all_ranks(trace, tmp_path):
    for r in range(4):
        np.savez(tmp_path / f"out.{r}.npz", y=np.zeros((8, 4), np.float32))
    ends = [r["summary"]["nc_0"]["total_time"] for r in
            json.loads(call("run", trace, "--no-fold", "--json"))["ranks"]]
    within = f"total_time<={1e6 * max(ends) + 0.001:.6f}us"
    assert "kept" in call("run", trace, "--budget", within, "--junit", tmp_path / "j.xml")
    assert [c.find("failure") for c in ElementTree.parse(tmp_path / "j.xml").iter("testcase")] == [None]
    said = call("run", trace, "--budget", within, "--budget", "total_time<=1us", "--junit", tmp_path / "j.xml",
                "--expect", tmp_path / "out.{rank}.npz", code=1)
    assert "over budget: total_time is" in said and "of rank" in said
    cases = {c.get("name"): c.find("failure") for c in ElementTree.parse(tmp_path / "j.xml").iter("testcase")}
    assert list(cases) == [*(f"rank {r}: output y" for r in range(4)), f"budget {within}", "budget total_time<=1us"]
    assert [name for name, failed in cases.items() if failed is None] == [f"budget {within}"]
    said = json.loads(call("run", trace, "--json", "--quiet", "--budget", within))
    assert said["budgets"][0]["kept"] is True
    call("run", trace, "--budget", "total_time<=1us", code=1)  # with no output that differs


@pytest.mark.parametrize("fold", [[], ["--no-fold"]])
def test_every_rank_has_its_files(tmp_path, fold):
    path = tmp_path / "alike.jsonl"
    lines = [dict(LINES[0]), *[line for line in LINES[2:] if "i" not in line],
             {"i": "dma_copy", "dst": "s", "src": "x"}, *LINES[6:]]
    path.write_text("\n".join(json.dumps(line) for line in [HEADER, *lines]))
    said = call("run", path, "--html", tmp_path / "{rank}.html", "--session", tmp_path / "{rank}.npz",
                "--perfetto", tmp_path / "{rank}.pftrace", "--chrome", tmp_path / "{rank}.json",
                "--accounting-json", tmp_path / "a.{rank}.json", *fold)
    assert ("simulated in time for all" in said) == (not fold)
    first = [p.ByteSize() for p in packets((tmp_path / "0.pftrace").read_bytes())]
    assert len(first) > 10
    for r in range(4):
        assert "<html" in (tmp_path / f"{r}.html").read_text()[:200].lower()
        facts = json.loads(bytes(np.load(tmp_path / f"{r}.npz", allow_pickle=False)["facts"]).decode())
        assert facts["world"]["rank"] == r
        assert json.loads((tmp_path / f"a.{r}.json").read_text())
        assert (tmp_path / f"{r}.json").stat().st_size == (tmp_path / "0.json").stat().st_size
        # Compressed, files of one size are not of one size: ranks' names differ.
        assert [p.ByteSize() for p in packets((tmp_path / f"{r}.pftrace").read_bytes())] == first


def test_what_is_refused(trace, tmp_path):
    assert "rank 2; a rank below 2" in call("run", trace, "--ranks", 2, code=3)
    assert "a name with {rank} in it" in call("run", trace, "--outputs", tmp_path / "o.npz", code=2)
    assert "a name with {rank} in it" in call("run", trace, "--html", tmp_path / "o.html", code=2)
    assert "--summary-json" in call("run", trace, "--summary-text", code=2)
    assert "--budget needs time" in call("run", trace, "--functional", "--budget", "total_time<=1s", code=2)
    assert "ring order is up" in call("run", trace, "--ring-order", "up", code=3)
    bad = [dict(HEADER, ranks=0), dict(HEADER, ranks=5000)]
    for header in bad:
        trace.write_text("\n".join(json.dumps(line) for line in [header, *LINES]))
        call("run", trace, code=3)


@pytest.mark.parametrize("group", [[[0, -1]], [0, 1], [[0, 1.5]], [["0"]], "all", [[0, 99999]]])
def test_groups_that_are_none(trace, group):
    lines = [dict(line) for line in LINES]
    lines[6]["replica_group"] = group
    trace.write_text("\n".join(json.dumps(line) for line in [HEADER, *lines]))
    assert "replica_group" in call("run", trace, code=3)


def test_the_binary_form_has_the_same(trace, tmp_path):
    call("convert", trace, tmp_path / "a.nisa")
    call("convert", tmp_path / "a.nisa", tmp_path / "b.jsonl")
    call("convert", tmp_path / "b.jsonl", tmp_path / "c.nisa")
    assert (tmp_path / "a.nisa").read_bytes() == (tmp_path / "c.nisa").read_bytes()
    text = (tmp_path / "b.jsonl").read_text()
    assert '"ranks":4' in text and '"replica_group":[[0,1],[2,3]]' in text and '"per_rank":true' in text
    assert call("run", trace) == call("run", tmp_path / "a.nisa")
    assert "ok" in call("check", trace) and "warning" not in call("check", trace)


def test_a_run_saves_a_trace_of_its_ranks(tmp_path):
    def kernel(x, shared):
        src, dst, out = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(3))
        tile = nl.load(x)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(shared), op=nl.add)
        nisa.dma_copy(dst=src, src=tile)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([[0, 1]]), nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    x = [np.random.default_rng(r).standard_normal((8, 16)).astype(np.float32) for r in range(2)]
    result = nkisim.run(kernel, nkisim.per_rank(x), np.ones((8, 16), np.float32), ranks=2)
    path = result.save(tmp_path / "k.nisa")
    call("run", path, "--expect", tmp_path / "k.expected.{rank}.npz", "--rtol", 0, "--atol", 0)
    compiled = call("run", path, "--json")
    assert json.loads(compiled)["ranks"][0]["summary"]["nc_0"]["total_time"] == \
        result[0].summary["nc_0"]["total_time"]
    result.save(tmp_path / "open.nisa", compiled=False)
    call("run", tmp_path / "open.nisa", "--expect", tmp_path / "open.expected.{rank}.npz",
         "--rtol", 0, "--atol", 0)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_saved_world_begins_as_its_run_began(tmp_path, processes):
    def kernel(x, cache, seen):  # each rank's cache changes in place; `seen` is one array of all
        src, dst, out = (nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(3))
        tile = nl.load(cache)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(x), op=nl.add)
        nisa.dma_copy(dst=cache, src=tile)
        nisa.dma_copy(dst=seen, src=tile)
        nisa.dma_copy(dst=src, src=cache)
        ncc.all_reduce([src], [dst], ncc.ReplicaGroup([list(range(2))]), nl.add)
        nisa.dma_copy(dst=out, src=dst)
        return out

    rng = np.random.default_rng(0)
    x, cache, (seen, _) = rng.standard_normal((3, 2, 8, 16)).astype(np.float32)
    x, cache = list(x), list(cache)
    before = [c.copy() for c in cache]
    result = nkisim.run(kernel, nkisim.per_rank(x), nkisim.per_rank(cache), seen, ranks=2,
                        processes=processes)
    for own, old, given in zip(cache, before, x):
        np.testing.assert_array_equal(own, old + given)
    for compiled in (True, False):
        path = result.save(tmp_path / "k.nisa", compiled=compiled)
        kept = np.load(tmp_path / "k.npz")
        for r in range(2):
            np.testing.assert_array_equal(kept[f"cache@{r}"], before[r])
        call("run", path, "--expect", tmp_path / "k.expected.{rank}.npz", "--rtol", 0, "--atol", 0)
    for own in x:  # the caller goes on with its arrays
        own += 1
    if processes > 1:  # no process here has what the run began with
        with pytest.raises(nkisim.Error, match="argument x of rank 0 is another than the run"):
            result.save(tmp_path / "late.nisa")
        return
    path = result.save(tmp_path / "late.nisa")
    call("run", path, "--expect", tmp_path / "late.expected.{rank}.npz", "--rtol", 0, "--atol", 0)
