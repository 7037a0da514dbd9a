"""Tests `nkisim model` on ranks of several instances, and the interval of its predictions."""

import dataclasses
import importlib.machinery
import importlib.util
import json

import numpy as np
import pytest
from running import ROOT, cli
from small_model import LLAMA, SMALL, copied

import nkisim_model.trust
from nkisim_model import ModelError, of_config, predict, report, share_of
from nkisim_model.between import with_between
from nkisim_model.routing import busiest

PARTS = {"attention": copied, "mlp": copied}
#: 16 ranks of two cores: four chips.
WIDE = {**SMALL, "num_attention_heads": 16, "num_hidden_layers": 2}


def wide(**where):
    return share_of(of_config(WIDE), "trn2", 16, context=256, **where)


# ---- places ------
def test_what_lies_between_instances_takes_longer():
    """One instance, two that links join, two that the network joins, four: each takes longer, and a step over the
    network (15 us, configs) is in each of the two all-reduces of a layer at least once."""
    inside, joined, apart, four = (predict(wide(**where), None, PARTS) for where in (
        {}, dict(instances=2, ultraserver=True), dict(instances=2), dict(instances=4)))
    times = [p.step_us for p in (inside, joined, apart, four)]
    assert times == sorted(times) and len(set(times)) == 4
    assert apart.step_us - joined.step_us >= 2 * 2 * (15 - 5)
    assert (four.as_json()["instances"], joined.as_json()["ultraserver"]) == (4, True)
    assert "on trn2: tp 16, LNC 2, 2 instances, UltraServer, " in report.lines(joined)[0]


def test_copies_on_instances_of_their_own_do_not_pass_the_network():
    """Each copy fills an instance of 16 chips, of which the second one starts in the next."""
    model = of_config({**WIDE, "num_attention_heads": 64, "head_dim": 32, "hidden_size": 512})
    one, two = (predict(share_of(model, "trn2", 64, context=256, dp=dp), None, PARTS) for dp in (1, 2))
    assert two.step_us == pytest.approx(one.step_us, rel=1e-3)


def test_what_instances_the_machine_has():
    """By hand: 64 ranks of two cores are 16 chips, eight in each of two."""
    model = of_config({**LLAMA, "num_attention_heads": 64, "num_key_value_heads": 8})
    assert share_of(model, "trn2", 64).overrides is None
    assert share_of(model, "trn2", 64, instances=2).overrides == {"topology.rows": 2, "topology.columns": 4}
    assert share_of(model, "trn2", 32, instances=4, ultraserver=True).overrides == {
        "topology.rows": 1, "topology.columns": 2, "topology.instances_per_server": 4}
    assert share_of(model, "trn3", 64, instances=2).overrides == {"topology.rows": 1, "topology.columns": 8}


@pytest.mark.parametrize("target, where, words", [
    ("trn2", dict(instances=8), "whole chips of 8 cores"), ("trn2", dict(instances=3), "whole chips"),
    ("trn2", dict(instances=0), "at least 1"), ("trn3", dict(ultraserver=True), "one domain of its switch")])
def test_instances_that_cannot_be(target, where, words):
    with pytest.raises(ModelError, match=words):
        share_of(of_config(WIDE), target, 16, context=256, **where)


# ---- experts ------
MOE = {"model_type": "qwen3_moe", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4,
       "head_dim": 128, "moe_intermediate_size": 768, "intermediate_size": 6144, "num_experts": 128,
       "num_experts_per_tok": 8, "num_hidden_layers": 2, "vocab_size": 151936}


def test_groups_of_ranks_with_experts_of_their_own():
    """By hand: of 128 experts in 2 groups of 2 ranks each rank has half the width (384) of 64, the same bytes as a
    quarter (192) of all; whoever computes a part gets its group."""
    whole, groups = (share_of(of_config(MOE), "trn3", 4, context=256, ep=ep) for ep in (1, 2))
    assert (whole.experts, whole.inner) == (128, 192) and (groups.experts, groups.inner) == (64, 384)
    assert whole.weight_bytes == groups.weight_bytes
    seen = []

    def mine(x, w, share, step):
        seen.append((w.gate_up.shape, w.down.shape, w.router.shape, w.group.shape))
        return copied(x, w, share, step)

    found = predict(groups, None, {"attention": copied, "mlp": mine})
    assert set(seen) == {((64, 2048, 2, 384), (64, 384, 2048), (2048, 128), (1, 1))}
    assert found.as_json()["ep"] == 2 and ", 2 groups of experts, " in report.lines(found)[0]


@pytest.mark.parametrize("tokens, top_k, experts, groups", [
    (1, 8, 128, 4), (4, 8, 128, 16), (64, 8, 128, 128), (256, 10, 512, 64), (1, 1, 16, 4), (2, 2, 8, 8)])
def test_the_busiest_of_groups_is_as_drawn(tokens, top_k, experts, groups):
    rng, draws = np.random.default_rng(tokens), 400 if tokens < 64 else 60
    most = [np.bincount((np.argsort(rng.random((tokens, experts)), 1)[:, :top_k] // (experts // groups)).ravel()).max()
            for _ in range(draws)]
    error = np.std(most) / draws ** 0.5
    assert np.mean(most) - 4 * error - 0.02 * np.mean(most) <= busiest(tokens, top_k, experts, groups)
    assert busiest(tokens, top_k, experts, groups) <= np.ceil(np.mean(most) * 1.02 + 4 * error)


def test_groups_read_what_is_routed():
    """The busiest of 4 groups has 4 of a token's 8 experts (3.56 on average), of 3 matrices of 2048 x 768 each."""
    share = share_of(of_config(MOE), "trn2", 4, context=256, ep=4, own=True)
    assert (share.pairs, share.experts) == (4, 32)
    part = predict(share, None).parts["mlp"]
    read = 2 * 4 * 3 * 2048 * 768 * 2  # of two layers
    assert read <= part.read_bytes < 1.1 * read and part.us >= part.roof_us


def test_few_tokens_take_no_longer_than_one_more():
    """Up to 16 tokens' rows are turned by another way: single elements as descriptors took twice as long."""
    small = of_config({**MOE, "hidden_size": 1024, "num_hidden_layers": 1, "vocab_size": 2048})
    few, more = (predict(share_of(small, "trn2", 8, batch, 256, own=True), None).parts["mlp"].us for batch in (16, 17))
    assert few < 1.05 * more


@pytest.mark.parametrize("config, ep", [(MOE, 3), (MOE, 8), (WIDE, 2), (MOE, 0)])
def test_groups_that_cannot_be(config, ep):
    with pytest.raises(ModelError, match="a divisor of both"):
        share_of(of_config(config), "trn2", 4 if config is MOE else 16, context=256, ep=ep)


# ---- trust ------
def test_the_interval_by_hand():
    """A run of 200 us may take 190 to 300: 0.95 to 1.5 times the kernel, and the time between as it is."""
    run = {"interval": {"low_us": 190.0, "high_us": 300.0, "coverage": 0.8}, "reasons": ["a kernel"]}
    trust = nkisim_model.trust.trust_of(run, 200.0)
    assert nkisim_model.trust.interval(trust, 1000.0, {"host": 50.0}) == {
        "low_us": pytest.approx(1000.0), "high_us": pytest.approx(1550.0), "coverage": None}
    said = nkisim_model.trust.rests_on(trust, {"host": 50.0})
    assert said[0] == "a kernel" and said[-2:] == ["the host's time is as given", "without launches"]
    for nothing in (None, {"interval": None, "reasons": ["of none"]}):
        none = nkisim_model.trust.trust_of(nothing, 200.0)
        assert nkisim_model.trust.interval(none, 1000.0, {}) is None and none.reasons


def test_a_prediction_says_its_interval():
    found = predict(wide(), None, PARTS)
    low, high = found.interval["low_us"], found.interval["high_us"]
    assert low < found.step_us < high and found.interval["coverage"] is None
    assert any("several cores or ranks" in why for why in found.rests_on)
    later = with_between(found, 2, 100.0)
    more = later.step_us - found.step_us
    assert later.interval["low_us"] == pytest.approx(low + more)
    assert later.interval["high_us"] == pytest.approx(high + more)
    assert later.as_json()["interval"] == later.interval and later.as_json()["rests_on"] == later.rests_on
    line = next(line for line in report.lines(found) if line.startswith("interval"))
    assert f"{low / 1e3:.3f} to {high / 1e3:.3f} ms" in line and "without launches and the host" in line
    blind = dataclasses.replace(found, trust=nkisim_model.trust.Trust(reasons=("of none",)))
    assert "interval      none (of none; " in "\n".join(report.lines(blind))


@pytest.mark.process
def test_the_command_says_what_it_has_not(tmp_path):
    config, mine = tmp_path / "config.json", tmp_path / "mine.py"
    config.write_text(json.dumps(WIDE))
    support = str(ROOT / "tests" / "support")
    mine.write_text(f"import sys\nsys.path.append({support!r})\nfrom small_model import copied\n")
    words = ("model", config, "--tp", "16", "--context", "256", "--kernel", f"attention={mine}:copied", "--kernel",
             f"mlp={mine}:copied")
    assert "no experts in 2 groups of 16 ranks" in cli(*words, "--ep", "2", code=3).stderr
    found = json.loads(cli(*words, "--instances", "2", "--ultraserver", "--json").stdout)
    assert (found["instances"], found["ultraserver"]) == (2, True) and found["interval"]["coverage"] is None


# ---- measured steps ------
def test_the_table_of_measured_steps_is_what_is_stored():
    path = ROOT / "clients" / "validation" / "table" / "megakernels"
    loader = importlib.machinery.SourceFileLoader("megakernels_of_validation", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    points = json.loads(module.STORED.read_text(encoding="utf-8"))["points"]
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.paged(text, module.table(points)) == text
    assert all(abs(p["simulated"]["total"] / p["measured"]["total"] - 1) <= 0.10 for p in points)
