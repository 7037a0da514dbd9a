"""Tests that random model configurations, asked for in random ways, have an answer or one refusal with its reason."""

import os

import pytest
from drawn_models import FAMILIES, drawn

from nkisim_model import ModelError, effort, of_config, predict, share_of
from nkisim_model.share import Share

DRAWN = int(os.environ.get("NKISIM_DRAWN_MODELS", "12"))  # of each size; at night more


#: Draws that found mistakes: an endless run (of a queue that joins another on a contended stack), and parts whose loads
#: began in an earlier part's time, with none of that time.
FOUND = (5030, 5044, 5072)
PROMPTS = (0, 3, 6, 8, 5400, 5418)  # the last two: more logits than SBUF holds, next to a batch of several sequences


def answered(config, how, prompt=None):
    """Predicts it; no part is faster than its reads from HBM or its products at full rate, also where its loads begin
    in its neighbour's time."""
    share = share_of(of_config(config), **how)
    found = predict(share, None, prompt=prompt)
    assert all(part.us >= (1 - 1e-9) * max(part.read_us, part.flops_us) for part in found.parts.values())
    assert found.step_us > 0 and found.step_us == pytest.approx(sum(part.us for part in found.parts.values()), abs=1)
    assert set(found.kernels) and all(whose.startswith("nkisim") for whose in found.kernels.values())


@pytest.mark.parametrize("seed", [*range(DRAWN), *FOUND])
def test_small_ones_are_answered(seed):
    answered(*drawn(seed, small=True))


@pytest.mark.parametrize("seed", PROMPTS)
def test_prompts_of_small_ones_are_answered(seed):
    answered(*drawn(seed, small=True), prompt=200)


@pytest.mark.parametrize("seed", range(60))
def test_large_ones_are_answered_or_refused(seed):
    """Not simulated here: what is refused before a simulation says what is too much."""
    config, how = drawn(seed)
    try:
        share = share_of(of_config(config), **how)
        effort.check(share, min(share.model.layers, effort.samples(share)[0].layers))
    except ModelError as problem:
        assert "required: " in str(problem) and "\n" not in str(problem)
    else:
        assert isinstance(share, Share) and share.heads * share.tp >= share.model.heads


def test_all_experts_of_128_tokens_fit():
    """50 experts of 1856 a rank: the rows of all of them are 185,600 bytes of a partition, and as much turned."""
    answered({"model_type": "qwen3_moe", "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 2,
              "head_dim": 64, "num_hidden_layers": 1, "vocab_size": 32000, "num_experts": 50, "num_experts_per_tok": 4,
              "moe_intermediate_size": 1856}, {"target": "trn1", "tp": 1, "batch": 128, "context": 256})


def test_every_family_is_drawn():
    assert {seed % len(FAMILIES) for seed in range(DRAWN)} == set(range(len(FAMILIES)))


def test_a_step_of_too_many_instructions_is_refused():
    share = share_of(of_config({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
                                "num_key_value_heads": 32, "intermediate_size": 14336, "num_hidden_layers": 32,
                                "vocab_size": 32000}), "trn2", 1, 256, 131072)
    said = "million instructions to simulate, for batch 256 and context 131072, and [0-9.]+ of 24 GiB a rank"
    with pytest.raises(ModelError, match=said):
        predict(share, None)
