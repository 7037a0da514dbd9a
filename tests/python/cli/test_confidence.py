"""Tests the confidence interval that a run prints with its latency."""
import json

import neuronxcc.nki as old
import neuronxcc.nki.language as onl
import numpy as np
import pytest

from running import ROOT, cli

import nki
import nki.isa as nisa
import nki.language as nl
import nkisim
from nkisim.run.compiling import SWITCHES

X = np.ones((128, 512), np.float32)


def config(target):
    done = cli("config", "show", target)
    return json.loads(done.stdout)


def run_json(path, *words):
    done = cli("run", path, "--json", "--timing-only", *words)
    return json.loads(done.stdout)


def added(columns):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x)
        nisa.tensor_tensor(dst=a, data1=a, data2=a, op=nl.add)
        nisa.dma_copy(dst=out, src=a)
        return out

    return kernel


@old.jit
def legacy(x):
    out = onl.ndarray(x.shape, dtype=x.dtype, buffer=onl.shared_hbm)
    onl.store(out, onl.load(x) + 1.0)
    return out


def trusted(kernel, *arguments, **settings):
    return nkisim.run(kernel, *arguments, **{"target": "trn2", **settings})


def by_hand(result, kind, target):
    """The interval from the config's numbers and the run's own uncertain share."""
    spread, said = config(target)["spread"][kind], result.confidence
    wider = 1 + spread["widening"]["value"] * said["uncertain"]
    return [result.latency_us * spread[end]["value"] ** wider for end in ("low", "high")]


@pytest.mark.process
def test_an_interval_from_the_spread_of_its_kind():
    for kernel, kind in ((added(512), "nki"), (legacy, "neuronxcc")):
        result = trusted(kernel, X)
        said = result.confidence
        assert said["origin"] == kind and said["interval"]["coverage"] == 0.8
        assert [said["interval"]["low_us"], said["interval"]["high_us"]] == pytest.approx(
            by_hand(result, kind, "trn2"), rel=1e-6)
        assert said["interval"]["low_us"] <= result.latency_us <= said["interval"]["high_us"]
        assert f"trust         {said['text']}" in result.report()
        assert "4 of 5 cases" in said["text"]


def test_shares_are_of_all_busy_time():
    said = trusted(added(512), X).confidence
    assert sum(said["shares"].values()) == pytest.approx(1)
    assert sum(r["share"] for r in said["rates"]) == pytest.approx(1)
    unsure = sum(said["shares"][k] for k in ("extrapolated", "other_generation", "assumed"))
    assert said["uncertain"] == pytest.approx(unsure)


def rate(said, unit, opcode):
    return next(r for r in said["rates"] if (r["unit"], r["opcode"]) == (unit, opcode))


@pytest.mark.process
def test_sizes_beyond_the_measured_ones_are_extrapolated():
    known = config("trn2")["calibrated"]["trn2"]["Vector"]["TENSOR_TENSOR"]["value"]
    inside = rate(trusted(added(known[1]), np.ones((128, known[1]), np.float32)).confidence,
                  "Vector", "TENSOR_TENSOR")
    assert inside["measured_sizes"] == known and list(inside["basis"]) == ["measured"]
    wide = np.ones((128, 4 * known[1]), np.float32)
    beyond = rate(trusted(added(4 * known[1]), wide).confidence, "Vector", "TENSOR_TENSOR")
    assert beyond["sizes"] == [4 * known[1]] * 2 and "measured" not in beyond["basis"]


@pytest.mark.process
def test_a_number_of_ones_own_is_assumed(tmp_path):
    path = tmp_path / "k.nisa"
    trusted(added(512), X).save(path)
    plain, changed = (run_json(path, *more)["confidence"] for more in (
        (), ("--set", "rules.tensor_tensor_sbuf.fixed=200")))
    assert "assumed" not in rate(plain, "Vector", "TENSOR_TENSOR")["basis"]
    assert list(rate(changed, "Vector", "TENSOR_TENSOR")["basis"]) == ["assumed"]
    assert changed["uncertain"] > plain["uncertain"]


@pytest.mark.process
def test_a_saved_program_says_the_same(tmp_path):
    for kernel in (added(512), legacy):
        result = trusted(kernel, X)
        for compiled in (True, False):
            path = tmp_path / "k.nisa"
            result.save(path, compiled)
            again = run_json(path)["confidence"]
            assert again["origin"] == result.confidence["origin"]
            for found in (again["interval"], before := dict(result.confidence["interval"])):
                found.update(found.pop("without"), least=found["low_us"], most=found["high_us"])
            assert again["interval"] == pytest.approx(before)
            assert again["reasons"] == result.confidence["reasons"]


@pytest.mark.process
def test_a_trace_leaves_nothing_to_a_compiler():
    said = run_json(ROOT / "traces" / "softmax.jsonl")["confidence"]
    assert said["origin"] == "trace" and said["compiler"] == {}


@pytest.mark.process
def test_the_profiles_are_within_the_measured_sizes(tmp_path):
    """The sizes of the config are those that clients/validation/table/sizes finds in the profiles, or more."""
    trace = tmp_path / "p.nisa"
    profiles = sorted((ROOT / "clients" / "validation" / "table" / "profiles").glob("*.json.gz"))
    assert len(profiles) == 4
    for profile in profiles:
        cli("import-profile", profile, "-o", trace)
        shares = run_json(trace)["confidence"]["shares"]
        assert shares["extrapolated"] == shares["other_generation"] == 0


def test_trn3_has_coverage_where_it_was_measured():
    """Four kernels of the new API, and none of the legacy API."""
    assert trusted(added(512), X, target="trn3").confidence["interval"]["coverage"] == 0.8
    said = trusted(legacy, X, target="trn3").confidence
    assert said["interval"]["coverage"] is None
    assert any("no latency of such a run is published for trn3" in r for r in said["reasons"])
    assert said["shares"]["other_generation"] > 0


def test_too_much_memory_is_reported():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.ndarray((128, 32768), dtype=x.dtype, buffer=nl.sbuf) for _ in range(2)]
        for t in tiles:
            nisa.dma_copy(dst=t[:, 0:512], src=x)
            nisa.memset(dst=t[:, 512:32768], value=0.0)
        nisa.tensor_tensor(dst=tiles[0], data1=tiles[0], data2=tiles[1], op=nl.add)
        nisa.dma_copy(dst=out, src=tiles[0][:, 0:512])
        return out

    said = trusted(kernel, X, over_capacity=True).confidence
    assert said["over_capacity"] and said["uncertain"] == 1
    assert any("exceed the memory" in r for r in said["reasons"])


def test_the_report_has_it(tmp_path):
    from nkisim_profile.report import trust
    from nkisim_profile.session import Session

    result = trusted(added(512), X)
    result.write(session=tmp_path / "k.npz")
    assert trust(Session(str(tmp_path / "k.npz")).facts) == result.confidence["text"]
    assert trust({}) == ""


# ---- the compiler's switches --------------------------------------------------------------------
def tiles_one_by_one(tiles=6):
    """Each iteration loads, adds and stores: in the program's order a store holds up the next load."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray((tiles, 128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(tiles):
            a = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=a, src=x)
            nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=float(i))
            nisa.dma_copy(dst=out[i], src=a)
        return out

    return kernel


def test_switches_that_matter_are_found_by_running_them(tmp_path):
    plain = trusted(tiles_one_by_one(), X)
    assert plain.confidence["switches"] is None
    full = trusted(tiles_one_by_one(), X, confidence="full")
    said = full.confidence["switches"]
    found = {(s["switch"], s["choice"]): s for s in said["matter"]}
    assert ("dma_queues", "split") in found and said["tried"] >= 15
    for (switch, choice), s in found.items():
        other = trusted(tiles_one_by_one(), X, compiler={switch: choice}).latency_us
        assert s["latency_us"] == pytest.approx(other, rel=0.01)
        assert abs(s["change"]) > 0.05
    assert all(abs(a["change"]) >= abs(b["change"])
               for a, b in zip(said["matter"], said["matter"][1:]))
    for switch, choices in SWITCHES.items():
        for choice in set(choices) - {"auto"} - {s[1] for s in found if s[0] == switch}:
            if switch == "broadcasts" or choice == choices[0]:
                continue
            same = trusted(tiles_one_by_one(), X, compiler={switch: choice}).latency_us
            assert same == pytest.approx(plain.latency_us, rel=0.06), (switch, choice)


def test_trying_switches_changes_nothing_else(tmp_path):
    plain, full = (trusted(tiles_one_by_one(), X, confidence=c) for c in ("quick", "full"))
    assert full.latency_us == plain.latency_us and full.summary == plain.summary
    np.testing.assert_array_equal(full.outputs, plain.outputs)
    kept = ("origin", "compiler", "shares", "rates", "interval", "uncertain")
    assert all(full.confidence[k] == plain.confidence[k] for k in kept)
    texts = []
    for name, result in (("a", plain), ("b", full)):
        (tmp_path / name).mkdir()
        result.save(tmp_path / name / "k.jsonl")
        texts.append((tmp_path / name / "k.jsonl").read_text())
    assert texts[0] == texts[1]
    full.write(session=tmp_path / "s.npz", accounting_json=tmp_path / "a.json")
    reason = next(r for r in full.confidence["reasons"] if "other choices" in r)
    assert "dma_queues=split -" in reason and reason in full.confidence["text"]


@pytest.mark.process
def test_a_saved_program_is_tried_as_it_was_recorded(tmp_path):
    full = trusted(tiles_one_by_one(), X, confidence="full")
    full.save(tmp_path / "k.nisa", compiled=False)
    said = run_json(tmp_path / "k.nisa", "--confidence", "full")["confidence"]
    assert said["switches"] == full.confidence["switches"]
    assert run_json(tmp_path / "k.nisa")["confidence"]["switches"] is None
    full.save(tmp_path / "k.nisa")
    said = run_json(tmp_path / "k.nisa", "--confidence", "full")["confidence"]
    assert said["switches"] == {"tried": 0, "why_not": "the program is compiled already"}


def test_nothing_matters_where_nothing_is_left_open():
    """Load, sum, store, each with its engine: no switch finds anything to change."""
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        by = {"engine": nisa.sync_engine, "dge_mode": nisa.dge_mode.hwdge}
        nisa.dma_copy(dst=a, src=x, **by)
        nisa.tensor_tensor(dst=a, data1=a, data2=a, op=nl.add, engine=nisa.vector_engine)
        nisa.dma_copy(dst=out, src=a, **by)
        return out

    said = trusted(kernel, X, confidence="full").confidence
    assert said["switches"]["matter"] == [] and said["switches"]["tried"] >= 15
    assert "no switch of the compiler's changes it by more than 5 %" in said["reasons"]


def test_a_course_that_depends_on_values():
    @nki.jit
    def kernel(x, count):
        a, n = (nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf) for t in (x, count))
        nisa.dma_copy(dst=a, src=x)
        nisa.dma_copy(dst=n, src=count)
        for _ in nl.dynamic_range(nisa.register_alloc(n)):
            nisa.tensor_scalar(dst=a, data=a, op0=nl.add, operand0=1.0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=a)
        return out

    result = trusted(kernel, X, np.full((1, 1), 3, np.int32), confidence="full")
    np.testing.assert_array_equal(result.outputs, X + 3)
    assert result.confidence["switches"] == {"tried": 0, "why_not": "its course depends on values"}
    assert any("not tried: its course" in r for r in result.confidence["reasons"])


@pytest.mark.process
def test_how_to_ask(tmp_path, monkeypatch):
    monkeypatch.setenv("NKISIM_CONFIDENCE", "full")
    assert trusted(added(512), X).confidence["switches"]["tried"] > 0
    assert added(512).run(X).confidence["switches"]["tried"] > 0
    assert trusted(added(512), X, confidence="quick").confidence["switches"] is None
    path = tmp_path / "k.nisa"
    trusted(added(512), X, confidence="quick").save(path, compiled=False)
    assert run_json(path)["confidence"]["switches"]["tried"] > 0
    with pytest.raises(nkisim.Error, match="'most'; quick or full is required"):
        trusted(added(512), X, confidence="most")
    done = cli("run", path, "--confidence", "most", code=None)
    assert done.returncode == 2 and "quick or full is required" in done.stderr
