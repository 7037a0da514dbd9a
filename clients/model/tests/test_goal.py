"""Tests `nkisim model --goal`, which finds the cheapest instances that serve a model fast enough."""

import dataclasses
import json
import random
from types import SimpleNamespace

import pytest
from running import cli
from small_model import SMALL

from nkisim_model import ModelError, command, goal, of_config
from nkisim_model.sweep import Sweep


@pytest.fixture
def timed(monkeypatch):
    """A sweep whose time per token is 10 ms over tp, and 1 ms more for each sequence; a prompt takes 400 ms over tp."""
    def predicted(self, point):
        us = 1e4 / point.tp + 1e3 * point.batch
        prompt = SimpleNamespace(step_us=4e5 / point.tp) if self.prompt else None
        return SimpleNamespace(found=us, prompt=prompt)

    monkeypatch.setattr(Sweep, "predicted", predicted)
    monkeypatch.setattr(goal, "served", lambda found: SimpleNamespace(us=getattr(found, "step_us", found)))
    return Sweep(of_config({**SMALL, "num_hidden_layers": 2}), "trn2", "bfloat16", {"tp": [8], "batch": [1],
                                                                                           "context": [256]})


def test_the_cheapest_by_hand(timed):
    """trn2.3xlarge has four ranks. With 20 ms a token tp 4 takes 17 sequences (2.5 + 17 < 20), tp 1 in four copies 10:
    batches of 1, 4, 16, 64 and 32, and of 1, 4, 16 and 8. The most tokens a second are 4 * 8 / 18 ms."""
    tried = list(goal.search(timed, goal.Goal(20.0, None), {"trn2.3xlarge": 3.6}, lambda line: None))
    assert [(f.tp, f.batch, bool(f.problem)) for f in tried] == [
        (4, 1, False), (4, 4, False), (4, 16, False), (4, 64, True), (4, 32, True),
        (2, 1, False), (2, 4, False), (2, 16, True), (2, 8, False),
        (1, 1, False), (1, 4, False), (1, 16, True), (1, 8, False)]
    best = goal.cheapest(tried)
    assert (best.tp, best.copies, best.batch, best.tpot_ms) == (1, 4, 8, 18.0)
    assert best.tokens_per_second == pytest.approx(4 * 8 / 0.018)
    assert best.dollars == pytest.approx(3.6 / 3600 / (4 * 8 / 0.018) * 1e6)


def test_a_goal_for_the_first_token(timed):
    asked = dataclasses.replace(timed, prompt=512)
    tried = list(goal.search(asked, goal.Goal(None, 150.0), {"trn2.3xlarge": 3.6}, lambda line: None))
    assert {f.tp for f in tried if not f.problem} == {4}  # 100 ms; 200 with tp 2
    assert goal.cheapest(tried).batch == max(f.batch for f in tried if f.tp == 4)
    assert "200 ms to the first token" in {f.problem for f in tried}
    assert goal.cheapest([f for f in tried if f.problem]) is None


def test_what_fits(timed):
    """By hand: 405B in bfloat16 are 812 GB, more than eight ranks of the largest inf2 and 16 of trn2 have."""
    model = of_config({"model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248,
                       "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8,
                       "vocab_size": 128256})
    found = goal.candidates(dataclasses.replace(timed, model=model), goal.PRICES)
    assert [(row.name, tp) for row, tp in found] == [("trn2.48xlarge", 64)]


@pytest.mark.parametrize("text", ["tpot", "tpot=0", "tpot=-1", "latency=3", "tpot=x", "", "tpot=20,ttft=nan"])
def test_a_goal_that_cannot_be(text):
    with pytest.raises(ModelError, match="tpot=MS"):
        goal.goal_of(text)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"p5": 1}', '{"trn2.3xlarge": "2"}', '{"trn2.3xlarge": 0}'])
def test_prices_that_cannot_be(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(ModelError, match="--prices"):
        goal.prices_of(str(tmp_path / "p.json"))


@pytest.mark.process
@pytest.mark.slow
def test_the_command(tmp_path):
    config, prices = tmp_path / "config.json", tmp_path / "prices.json"
    config.write_text(json.dumps({**SMALL, "num_hidden_layers": 1}))
    prices.write_text('{"inf2.xlarge": 1.0}')
    words = ("model", config, "--context", "256", "--prices", prices, "--goal")
    alone = json.loads(cli("model", config, "--context", "256", "--instance", "inf2.xlarge", "--json").stdout)
    met = f"tpot={1.01 * alone['served']['tpot_us'] / 1e3}"
    text = cli(*words, met).stdout.splitlines()
    assert text[0].split()[0] == "instance" and text[-2] == "cheapest" and text[-1].startswith("inf2.xlarge")
    found = json.loads(cli(*words, met, "--json").stdout)
    assert found["cheapest"] in found["tried"] and found["prices"] == {"inf2.xlarge": 1.0}
    assert "none meets the goal" in cli(*words, "tpot=0.001", code=3).stdout
    assert "--prompt" in cli(*words, "ttft=5", code=3).stderr
    cli(*words, "tpot=5", "--sweep", "tp=2", code=2)


def test_prices_are_read_as_they_were_written(tmp_path):
    drawn = random.Random(1)
    for _ in range(100):
        names = drawn.sample(sorted(goal.PRICES), drawn.randint(1, len(goal.PRICES)))
        prices = {name: 10 ** drawn.uniform(-6, 6) for name in names}
        (tmp_path / "prices.json").write_text(json.dumps(prices))
        assert goal.prices_of(str(tmp_path / "prices.json")) == prices
        prices[names[0]] *= drawn.choice([0, -1])
        (tmp_path / "prices.json").write_text(json.dumps(prices))
        with pytest.raises(ModelError, match="each above 0"):
            goal.prices_of(str(tmp_path / "prices.json"))


def test_fewer_ranks_are_not_tried_where_they_are_later(timed):
    """One sequence takes 3.5 ms with tp 4, 6 with tp 2: neither meets 3 ms, and tp 1 cannot either."""
    tried = list(goal.search(timed, goal.Goal(3.0, None), {"trn2.3xlarge": 3.6}, lambda line: None))
    assert [(f.tp, f.batch, bool(f.problem)) for f in tried] == [(4, 1, True), (2, 1, True)]


def test_instances_of_the_same_chips_are_predicted_once(timed, monkeypatch):
    """trn1n differs from trn1 in its network alone; the prompt of one sequence is the same for all batches."""
    asked, whole = [], Sweep.predicted

    def counted(self, point):
        asked.append((self.target, point.tp, point.batch, self.prompt))
        return whole(self, point)

    monkeypatch.setattr(Sweep, "predicted", counted)
    tried = list(goal.search(dataclasses.replace(timed, prompt=512), goal.Goal(8.0, None),
                             {"trn1.32xlarge": 21.5, "trn1n.32xlarge": 24.78}, lambda line: None))
    assert len(asked) == len(set(asked)) == len(tried) // 2
    assert sum(prompt is not None for *_, prompt in asked) == len({tp for _, tp, _, _ in asked})
    half = len(tried) // 2
    assert [(f.tp, f.batch, f.tpot_ms, f.ttft_ms) for f in tried[:half]] == \
        [(f.tp, f.batch, f.tpot_ms, f.ttft_ms) for f in tried[half:]]


@pytest.mark.parametrize("words", [("--tp", "4"), ("--batch", "2"), ("--ep", "2"), ("--target", "trn1"),
                                   ("--speculate", "3", "--acceptance", "0.5"), ("--html", "x.html")])
def test_what_a_goal_looks_for_itself_is_not_given(words, capsys):
    with pytest.raises(SystemExit) as end:
        command.arguments(["config.json", "--goal", "tpot=20", *words])
    assert end.value.code == 2 and f"--goal excludes {words[0]}" in capsys.readouterr().err
