"""Tests `nkisim model --speculate` (speculative decoding): tokens of a step by hand, and the verifying step."""

import json

import pytest
from running import cli
from small_model import SMALL

from nkisim_model import ModelError, of_config, predict, share_of
from nkisim_model.speculation import Speculation, check, verifying


@pytest.mark.parametrize("tokens, acceptance, expected", [
    (1, 0.5, 1.5), (3, 0.5, 1 + 0.5 + 0.25 + 0.125), (4, 1.0, 5), (7, 0.0, 1), (2, 0.8, 1 + 0.8 + 0.64)])
def test_the_tokens_of_a_step(tokens, acceptance, expected):
    assert Speculation(tokens, acceptance, None).expected == pytest.approx(expected)


@pytest.mark.parametrize("tokens, acceptance", [(0, 0.5), (3, None), (3, 1.5), (-1, 0.5), (3, float("nan"))])
def test_what_does_not_fit_together(tokens, acceptance):
    with pytest.raises(ModelError):
        check(tokens, acceptance)


@pytest.mark.process
def test_the_command(tmp_path):
    """The step is that of four times the sequences; the memory that is needed stays that of one."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**SMALL, "num_hidden_layers": 3}))
    words = ("model", config, "--own", "--tp", "2", "--context", "256", "--speculate", "3")
    found = json.loads(cli(*words, "--acceptance", "0.5", "--json").stdout)
    share = share_of(of_config({**SMALL, "num_hidden_layers": 3}), "trn2", 2, context=256, own=True)
    step = predict(verifying(share, 3), None)
    assert step.share.batch == 4
    assert found["speculation"]["step_us"] == pytest.approx(step.step_us)
    assert found["speculation"]["tpot_us"] == pytest.approx(step.step_us / 1.875)
    assert found["cache_bytes"] == share.cache_bytes and found["tpot_us"] < step.step_us
    head, row = cli(*words, "--acceptance", "0.5", "--sweep", "tp=2").stdout.splitlines()
    assert head.split()[-2:] == ["speculated", "next"] and row.split()[-2] == f"{step.step_us / 1.875e3:.3f}"
    text = cli(*words, "--acceptance", "0.5", "--compare", "batch=2").stdout
    assert any(line.startswith("speculation") and "ms" in line for line in text.splitlines())
    assert "verifies 3 tokens" in cli(*words, "--acceptance", "0.5").stdout
    cli(*words, code=3)
