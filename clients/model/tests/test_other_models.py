"""Tests models of odd kinds, wrappers and formats: each is answered or refused with its reason, and no key that changes
the cost is taken without a word."""

import dataclasses
import json
import random

import pytest
from running import ROOT

from nkisim_model import ModelError, of_config, predict, report, share_of
from nkisim_model.formats import format_of
from nkisim_model.instances import find

ROWS = json.loads((ROOT / "tests" / "support" / "other_models.json").read_text())["models"]
MODELS = {row["name"]: row for row in ROWS}
ANSWERED = [row["name"] for row in ROWS if "refused" not in row]
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
         "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256}
#: Failures once (heads of 256 elements of many sequences), and one of each kind.
RUN = [("GPT-J 6B", "trn1.32xlarge", 256), ("GPT-J 6B", "trn2.48xlarge", 64), ("Jamba 1.5 Mini", "trn1.32xlarge", 64),
       ("Mamba 2.8B", "trn2.3xlarge", 4), ("Kimi Linear 48B A3B", "trn2.48xlarge", 64), ("DBRX", "inf2.48xlarge", 4),
       ("MiniMax Text 01", "trn2.48xlarge", 4), ("Nemotron 3 Nano 30B A3B", "trn2.3xlarge", 4),
       ("Gemma 3n E4B", "inf2.48xlarge", 256), ("BitNet 2B", "trn1.32xlarge", 4), ("OPT 6.7B", "inf2.48xlarge", 1)]


@pytest.mark.parametrize("name", ANSWERED)
def test_nothing_of_it_is_unknown(name):
    model = of_config(MODELS[name]["config"])
    assert not model.unknown
    if "billions" in MODELS[name]:
        assert sum(model.weights.values()) == pytest.approx(MODELS[name]["billions"] * 1e9, rel=0.045)


@pytest.mark.parametrize("row", [row for row in ROWS if "refused" in row], ids=lambda row: row["name"])
def test_the_reason_of_a_refusal(row):
    with pytest.raises(ModelError, match=row["refused"]):
        of_config(row["config"])


def test_a_damaged_one_is_answered_or_refused():
    """One value of each is another, or is not there."""
    drawn = random.Random(7)
    others = (None, True, False, -1, 0, 3, 1 << 40, 1.5, "", "x", [], [1], [1, 2], [None], {}, {"a": 1})

    def places(config):
        for key, value in config.items():
            yield config, key
            if isinstance(value, dict):
                yield from places(value)

    for _ in range(20):
        for row in ROWS:
            config = json.loads(json.dumps(row["config"]))
            within, key = drawn.choice(list(places(config)))
            if drawn.random() < 0.3:
                del within[key]
            else:
                within[key] = drawn.choice(others)
            try:
                assert of_config(config).weights
            except ModelError as problem:
                assert "required: " in str(problem)


@pytest.mark.slow
@pytest.mark.parametrize("name, on, batch", RUN)
def test_one_of_each_kind_runs(name, on, batch):
    """A few layers on all ranks: every part is nkisim's, and none is faster than its roof."""
    instance, model = find(on), of_config(MODELS[name]["config"])
    few = dataclasses.replace(model, layers=5)
    found = predict(share_of(few, instance.target, instance.ranks_of(None), batch, 1024, lnc=instance.lnc), None,
                    exact=True)
    assert all(part.us >= 0.999 * max(part.read_us, part.flops_us) for part in found.parts.values())


# ---- keys ------------------------------------------------------------------------------------
def test_keys_that_a_config_lacks_are_those_of_transformers_classes():
    """Gemma 3 4B's file has neither heads nor vocabulary."""
    model = of_config(MODELS["Gemma 3 4B"]["config"])
    assert (model.heads, model.kv_heads, model.head_dim, model.vocabulary) == (8, 4, 256, 262208)
    assert model.notes.assumed == ("vocab_size 262208", "num_attention_heads 8", "num_key_value_heads 4",
                                   "head_dim 256")
    small = dataclasses.replace(model, layers=1)
    text = "\n".join(report.lines(predict(share_of(small, "trn2", 4, context=256), None, exact=True)))
    assert "taken         vocab_size 262208, num_attention_heads 8" in text
    assert not of_config(LLAMA).notes.assumed


@pytest.mark.parametrize("more, said", [
    ({"num_experts": 8, "moe_intermediate_size": 512}, ("moe_intermediate_size", "num_experts")),
    ({"kv_lora_rank": 512}, ("kv_lora_rank",)), ({"linear_num_value_heads": 16}, ("linear_num_value_heads",)),
    ({"use_cla": True}, ("use_cla",)), ({"word_embed_proj_dim": 512}, ("word_embed_proj_dim",)),
    ({"word_embed_proj_dim": 4096, "num_experts": 0, "kv_lora_rank": None}, ())])
def test_keys_of_what_the_kind_has_not_are_reported(more, said):
    assert of_config({**LLAMA, **more}).unknown == said


def test_a_decoder_of_a_kind_that_is_not_known_is_read_by_its_keys():
    model = of_config({**LLAMA, "model_type": "newest", "architectures": ["NewestForCausalLM"], "num_experts": 8,
                       "num_experts_per_tok": 2, "moe_intermediate_size": 1024})
    assert (model.experts, model.inner, model.gated) == (8, 1024, True)
    assert model.unknown == ("model_type",) and "read by its keys" in model.left_out[0]
    with pytest.raises(ModelError, match="model_type 'newest'"):
        of_config({**LLAMA, "model_type": "newest", "architectures": ["NewestForTokenClassification"]})


def test_layers_that_lists_give():
    base = {**LLAMA, "model_type": "glm4_moe", "num_hidden_layers": 4, "n_routed_experts": 8, "num_experts_per_tok": 2,
            "moe_intermediate_size": 512}
    kinds = ["dense", "experts", "dense", "experts"]
    for more in ({"mlp_layer_types": ["dense", "sparse"] * 2}, {"moe_layer_freq": [0, 1, 0, 1]}, {"moe_layers": [1, 3]},
                 {"moe_layer_frequency": 2}, {"expert_layer_period": 2, "expert_layer_offset": 1}):
        model = of_config({**base, **more})
        assert [model.mlp(n) for n in range(4)] == kinds and not model.unknown
    with pytest.raises(ModelError, match="several values"):
        of_config({**base, "num_experts_per_tok": [1, 2, 1, 2]})


# ---- formats ---------------------------------------------------------------------------------
@pytest.mark.parametrize("given, name, bits, unpacked", [
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_use_double_quant": True}, "nf4 of bitsandbytes",
     4.125, True),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8 of bitsandbytes", 8, True),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", 4.5, True),
    ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8 of modelopt", 8, False),
    ({"quant_method": "auto-round", "bits": 4, "group_size": 128}, "auto-round 4 bit", 4.15625, False),
    ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, "hqq 4 bit",
     4.3125, False),
    ({"quant_method": "quanto", "weights": "int8"}, "int8 of quanto", 8, True),
    ({"quant_method": "bitnet"}, "bitnet", 2, True),
    ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
        "type": "float", "num_bits": 4, "group_size": 16}}}}, "nvfp4", 4.5, True)])
def test_more_formats(given, name, bits, unpacked):
    found = format_of({"quantization_config": given})
    assert (found.name, 8 * found.bytes_per_element, found.unpacked) == (name, bits, unpacked)


def test_modules_that_a_format_leaves_out():
    """Kimi K2: experts alone have four bits. A module of one layer is none of all."""
    assert of_config(MODELS["Kimi K2 Thinking"]["config"]).quantised.parts == ("experts",)
    ignored = {"quant_method": "fp8", "modules_to_not_convert": ["lm_head", "model.layers.0.self_attn"]}
    assert format_of({"quantization_config": ignored}).parts == ("attention", "mlp", "experts")
    ignored["modules_to_not_convert"] = ["re:.*self_attn.*", "re:.*shared_experts.*"]
    assert format_of({"quantization_config": ignored}).parts == ("experts",)
