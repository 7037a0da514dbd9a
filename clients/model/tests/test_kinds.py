"""Tests which layers `nkisim model` reads from a model's config.json: other names, wrappers,
unknown keys, layers that differ. It also tests which layers are simulated in place of all.
"""

import json

import pytest
from running import cli
from small_model import LLAMA, SMALL, copied

from nkisim_model import of_config, predict, report, share_of
from nkisim_model.sampling import OF_PROMPT, OF_STEP, Sample, is_steady, mixed_sample_of, sample_of, weights_of

TEXT = {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "rms_norm_eps": 1e-6}
MOE = {"model_type": "qwen3_moe", "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4,
       "head_dim": 128, "moe_intermediate_size": 768, "intermediate_size": 6144, "num_experts": 128,
       "num_experts_per_tok": 8, "num_hidden_layers": 48, "vocab_size": 151936}


# ---- kinds -----------------------------------------------------------------------------------
@pytest.mark.parametrize("config, left", [
    ({"model_type": "mistral3", "text_config": {**TEXT, "model_type": "mistral"}, "vision_config": {"depth": 1}},
     ("the vision tower",)),
    ({"model_type": "qwen3_vl", "text_config": {**TEXT, "model_type": "qwen3_vl_text"}, "vision_config": {"depth": 1}},
     ("the vision tower",)),
    ({"model_type": "qwen2_5_vl", **TEXT, "vision_config": {"depth": 1}}, ("the vision tower",)),
    ({"model_type": "phi3", **TEXT}, ()), ({"model_type": "smollm3", **TEXT}, ()),
    ({"model_type": "granite", **TEXT}, ("scaling of embedding, residuals and logits",)),
    ({"model_type": "olmo2", **TEXT}, ("norms after, not before, the parts",)),
    ({"model_type": "seed_oss", **TEXT, "attention_bias": True}, ())])
def test_a_decoder_under_another_name(config, left):
    """The same weights as Llama's of these sizes, by hand."""
    model = of_config(config)
    layer = 4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 12288
    assert sum(model.weights.values()) == 36 * layer + 2 * 151936 * 4096
    assert model.left_out == left and not model.unknown


def test_older_names_of_keys():
    """GPT-2: 124.4 million by the card, of which 0.8 embed positions and 0.1 are biases and norms."""
    model = of_config({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_inner": None,
                       "vocab_size": 50257})
    assert (model.kv_heads, model.inner, model.gated, model.tied) == (12, 3072, False, True)
    assert sum(model.weights.values()) == 12 * (4 * 768 * 768 + 2 * 768 * 3072) + 50257 * 768
    assert sum(model.weights.values()) == pytest.approx(124.4e6 - 0.9e6, rel=2e-3)


def test_null_heads_of_keys_and_values_are_as_many_as_of_queries():
    assert of_config({**LLAMA, "num_key_value_heads": None}).kv_heads == 32


def test_windows_begin_at_a_layer():
    model = {**LLAMA, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 4096}
    assert not any(of_config({**model, "max_window_layers": 32}).has_window(n) for n in range(32))
    found = of_config({**model, "max_window_layers": 30})
    assert [n for n in range(32) if found.has_window(n)] == [30, 31]


def test_a_pattern_of_windows():
    model = of_config({**TEXT, "model_type": "gemma3_text", "sliding_window": 512})
    assert [n for n in range(36) if not model.has_window(n)] == [5, 11, 17, 23, 29, 35]


# ---- experts ---------------------------------------------------------------------------------
def test_shared_experts_and_dense_layers_by_hand():
    model = of_config({**MOE, "model_type": "glm4_moe", "n_routed_experts": 128, "n_shared_experts": 1,
                       "first_k_dense_replace": 1})
    layer = model.mlp_weights(1, model.sizes)
    assert layer == {"experts": 3 * 2048 * 768 * 128, "mlp": 3 * 2048 * 768 + 2048 * 128}
    assert model.mlp_weights(0, model.sizes) == {"mlp": 3 * 2048 * 6144}
    assert [model.mlp(n) for n in range(3)] == ["dense", "experts", "experts"]
    assert of_config({**MOE, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 5632}).shared == 5632


# ---- keys that are not known -----------------------------------------------------------------
def test_keys_that_are_not_known_are_reported(capsys, tmp_path):
    model = of_config({**SMALL, "torch_dtype": "bfloat16", "rope_theta": 1e4, "weight_sharing_period": 2,
                       "old_key": None})
    assert model.unknown == ("weight_sharing_period",)
    text = "\n".join(report.lines(predict(share_of(model, "trn2", 2, context=256), None, {
        "attention": copied, "mlp": copied})))
    assert "not known     weight_sharing_period" in text


@pytest.mark.process
def test_strict_refuses_them(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**SMALL, "weight_sharing_period": 2, "num_hidden_layers": 1}))
    words = ("model", config, "--tp", "2", "--context", "256")
    refused = cli(*words, "--strict", code=3).stderr
    assert "keys that are not known: weight_sharing_period" in refused and "Traceback" not in refused
    assert "warning: the config has keys that are not looked at: weight_sharing_period" in cli(*words).stderr


# ---- the layers that stand for all -----------------------------------------------------------
def test_layers_whose_spread_explains_the_difference_are_steady():
    """Means 160.8 and 161.7 of layers 2 us apart from each other: by hand 0.53 %, and 1.3 standard errors."""
    model = of_config({**LLAMA, "num_hidden_layers": 80})
    noise = [-3, 2, 1, -1, 3, -2, 0, 2, -2, 0]
    assert is_steady(model, OF_STEP, [170] * 4 + [160.8 + n for n in noise] + [161.7 + n for n in noise])
    assert not is_steady(model, OF_STEP, [170] * 4 + [160.8] * 10 + [161.7] * 10)  # no spread that explains it
    assert not is_steady(model, OF_STEP, [170.0 + n for n in range(24)])           # they grow
    assert not is_steady(model, OF_STEP, [170] * 4 + [100 + 9 * n for n in noise] + [103 + 9 * n for n in noise])


def test_layers_of_several_kinds_count_as_often_as_the_model_has_them():
    """One dense layer, then a window in five of six: groups of twelve begin with the fifth layer."""
    model = of_config({**TEXT, "model_type": "gemma3_text", "sliding_window": 512, "num_hidden_layers": 62})
    sample = sample_of(model, OF_STEP)
    assert sample == Sample(4, 12)
    times = weights_of(model, sample)
    assert sum(times) == pytest.approx(62)
    full = sum(t for n, t in enumerate(times) if not model.has_window(n))
    assert full == pytest.approx(sum(not model.has_window(n) for n in range(62))) == pytest.approx(10)
    dense = of_config({**MOE, "model_type": "glm4_moe", "n_routed_experts": 128, "first_k_dense_replace": 6})
    assert sample_of(dense, OF_STEP) == Sample(6, 10)
    assert sample_of(of_config({**LLAMA, "num_hidden_layers": 24}), OF_STEP) is None
    irregular = ["full_attention" if n in (1, 7, 9, 20, 33, 50) else "sliding_attention" for n in range(62)]
    assert sample_of(of_config({**TEXT, "model_type": "gemma3_text", "sliding_window": 512, "num_hidden_layers": 62,
                                "layer_types": irregular}), OF_STEP) is None


def test_a_prompts_sample_has_kinds_in_any_order():
    """Layers 5 to 11 are -M*-M-M, 12 to 18 -M-M-M*: three of each kind but one of attention."""
    pattern = "M-M-M-M*-" + "M-M-M-M-M*-" * 3 + "M-M-M-M-M-"
    model = of_config({**LLAMA, "model_type": "nemotron_h", "hybrid_override_pattern": pattern, "conv_kernel": 4,
                       "num_hidden_layers": len(pattern), "mamba_num_heads": 128, "mamba_head_dim": 64,
                       "ssm_state_size": 128, "n_groups": 8})
    assert sample_of(model, OF_PROMPT) is None
    sample = mixed_sample_of(model, OF_PROMPT)
    assert sample == Sample(5, 7)
    times = weights_of(model, sample)
    for kind in "M-*":
        assert sum(t for t, k in zip(times, pattern) if k == kind) == pytest.approx(pattern.count(kind))
    assert mixed_sample_of(of_config({**LLAMA, "num_hidden_layers": 6}), OF_PROMPT) is None


# ---- instances -------------------------------------------------------------------------------
@pytest.mark.process
@pytest.mark.slow
def test_an_instance_has_ranks_and_memory(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**SMALL, "num_hidden_layers": 1}))
    words = ("model", config, "--context", "256", "--json")
    found = json.loads(cli(*words, "--instance", "trn2.3xlarge").stdout)
    assert (found["target"], found["tp"], found["lnc"]) == ("trn2", 4, 2)
    found = json.loads(cli(*words, "--instance", "trn2.3xlarge", "--lnc", "1").stdout)
    assert (found["tp"], found["lnc"]) == (8, 1)
    found = json.loads(cli(*words, "--instance", "inf2.xlarge").stdout)
    assert (found["target"], found["tp"], found["lnc"], found["kernels"]["attention"][:6]) == ("inf2", 2, 1, "nkisim")
    for more, said in ((("--instance", "trn2.3xlarge", "--tp", "8"), "at most its 4 ranks"),
                       (("--instance", "p5.48xlarge"), "one of trn1.2xlarge")):
        assert said in cli(*words[:4], *more, code=3).stderr
    config.write_text(json.dumps({**LLAMA, "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64}))
    assert "GiB a rank" in cli("model", config, "--instance", "inf2.xlarge", code=3).stderr
    cli(*words, "--instance", "inf2.xlarge", "--target", "trn2", code=2)


def test_a_relative_library_is_sent_as_an_absolute_one(monkeypatch, tmp_path):
    """A worker in another folder finds it, and where it has none it says so, and who it is."""
    from types import SimpleNamespace

    from nkisim_model import sweep as module

    monkeypatch.chdir(tmp_path)
    sent = []

    class Executor:
        def submit(self, function, asked, point):
            sent.append(asked.library)
            return SimpleNamespace(result=lambda: function(asked, point))

    asked = module.Sweep(of_config(SMALL), "trn2", "bfloat16", {"tp": [2], "batch": [1], "context": [256]},
                         SimpleNamespace(root="nki-library"))
    points = asked.run(executor=Executor())
    assert sent == [str(tmp_path / "nki-library")]
    assert points[0].problem.startswith("on worker ") and str(tmp_path / "nki-library") in points[0].problem


