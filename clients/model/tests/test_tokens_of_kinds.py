"""Tests that a small model of each kind decodes the tokens of plain torch, with the kernels that a prediction uses."""

import dataclasses
import os

import numpy as np
import part_reference as reference
import pytest
from small_model import LLAMA

import nkisim
from nkisim_model import of_config, prefill, share_of
from nkisim_model.library import load
from nkisim_model.routes import routes
from nkisim_model.step import arguments, decode

torch = pytest.importorskip("torch")
import torch_decoder  # noqa: E402

torch.set_num_threads(1)

TOKENS, CONTEXT, BATCH, PROMPT, F16 = 16, 256, 2, 512, np.float16
SMALL = {**LLAMA, "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
         "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 256}
MIXED = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
LATENT = {"q_lora_rank": 128, "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
          "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "n_shared_experts": 1,
          "first_k_dense_replace": 1}
DELTA = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 32,
         "linear_value_head_dim": 32, "full_attention_interval": 2}
MAMBA = {"mamba_n_groups": 1, "mamba_n_heads": 4, "mamba_d_state": 64, "mamba_d_head": 32, "mamba_d_conv": 4}
KINDS = {
    "dense": {"model_type": "qwen2", "num_key_value_heads": 4},
    "grouped": {"model_type": "qwen3", "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 80},
    "without gate": {"model_type": "nemotron", "num_key_value_heads": 1},
    "experts": {"model_type": "qwen3_moe", **MIXED},
    "all experts": {"model_type": "qwen3_moe", **MIXED, "num_experts_per_tok": 4},
    "shared experts": {"model_type": "qwen2_moe", **MIXED, "shared_expert_intermediate_size": 256},
    "latent": {"model_type": "deepseek_v3", **LATENT},
    "latent, one projection": {"model_type": "deepseek_v2", **LATENT, "q_lora_rank": None},
    "delta rule": {"model_type": "qwen3_5_text", **DELTA},
    "delta rule with experts": {"model_type": "qwen3_next", **DELTA, **MIXED, "shared_expert_intermediate_size": 128},
    "mamba": {"model_type": "bamba", **MAMBA, "attn_layer_indices": [1]},
    "mamba next to attention": {"model_type": "falcon_h1", **MAMBA},
    "fp8": {"quantization_config": {"quant_method": "fbgemm_fp8"}},
    "fp8 in blocks": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
    "4 bit": {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}},
    "8 bit": {"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": 64}}}
FAST = ("grouped",)
EMPTY = ("keys", "values", "latent", "state", "convolved")  # what a step leaves for the next


def drawn(rng, name, shape, half=F16):
    """(weights as the step takes them, as torch takes them) of a name and its shape, some shapes by name, or None."""
    if shape is None:
        return None, None
    if isinstance(shape, dict) and "data" not in shape:
        both = {key: drawn(rng, key, each, half) for key, each in shape.items()}
        return {k: a for k, (a, _) in both.items()}, {k: b for k, (_, b) in both.items()}
    if isinstance(shape, dict):
        own, exact = reference.quantised(rng, shape, shape["data"].shape[0] ** -0.5, half)
        return own, torch.tensor(exact)
    dtype, size = np.dtype(shape.dtype), shape.shape
    if name in EMPTY:
        return np.zeros(size, dtype), None
    if name == "linear_rate":
        own = rng.uniform(0.1, 1, size).astype(dtype)
    elif name == "linear_conv":
        own = reference.normal(rng, *size, scale=0.5, dtype=dtype)
    else:
        rows = {"gate_up": 1, "down": -2, "k_b": -2, "v_b": -2}.get(name, 0)
        own = reference.normal(rng, *size, scale=size[rows] ** -0.5, dtype=dtype)
        if "norm" in name:
            own = (1 + own / 10).astype(dtype)
        if name in ("router", "linear_bias"):
            own = own * dtype.type(3)
    return own, torch.tensor(own.astype(np.float64))


def weights(share, seed):
    """The step's arguments that stay, and the same for torch."""
    rng = np.random.default_rng(seed)
    shapes = arguments(share, share.model.layers, routes(share, None, {}))
    both = {name: drawn(rng, name, shapes[name]) for name in ("embedding", "norm", "head")}
    table, exact_table = both["embedding"]
    both["embedding"] = (table * table.dtype.type(16)).astype(table.dtype), exact_table * 16
    layers = [drawn(rng, "", shape) for shape in shapes["layers"]]
    own = {name: a for name, (a, _) in both.items()} | {"layers": [a for a, _ in layers]}
    exact = {name: b for name, (_, b) in both.items()} | {"layers": [b for _, b in layers]}
    return own | {"rank_offset": np.zeros((1, 1), np.float32)}, exact


def torchs(model, exact, first):
    """The tokens after the first ones [steps, batch], and the least of the leads that decided them or an expert."""
    decoder, tokens, leads = torch_decoder.Decoder(model, exact), [torch.tensor(first)], []
    for position in range(TOKENS):
        logits = decoder.step(tokens[-1], position)
        best = torch.topk(logits, 2)
        leads.append(float(((best.values[:, 0] - best.values[:, 1]) / logits.std(1)).min()))
        tokens.append(best.indices[:, 0])
    return [t.tolist() for t in tokens[1:]], min(leads + decoder.gaps)


def places(share, at, lib):
    """The mask and the positions, as nkisim's attention or the library's has them: there the last is the new token."""
    if lib is None:
        return {"mask": reference.mask(share, CONTEXT, at).astype(F16),
                "positions": reference.slots(share, CONTEXT, at)}
    number = np.arange(CONTEXT)
    seen = ((number < at[0]) | (number == CONTEXT - 1))[:, None, None, None]
    return {"mask": np.broadcast_to(seen, (CONTEXT, BATCH, share.heads, 1)).astype(np.uint8),
            "positions": np.array(at, np.uint32)[:, None]}


def decoded(share, own, first, lib=None):
    """The same of the step's kernel, whose caches are written in place."""
    found = routes(share, lib, {})
    assert {route.whose for route in found.values()} == {"nkisim" if lib is None else "nki-library"}
    kernel, expected = decode(share, lib, found), arguments(share, share.model.layers, found)
    tokens, found = np.array(first, np.int32)[:, None], []
    for position in range(TOKENS):
        at = [position] * BATCH
        cos, sin = (t.astype(own["head"].dtype) for t in reference.rotation(share, at, 2 * expected["cos"].shape[0]))
        given = {"tokens": tokens, "cos": cos, "sin": sin, "window": None, **places(share, at, lib)}
        result = nkisim.run(kernel, **given, **own, lnc=share.lnc, target=share.target, timing=False)
        tokens = np.array(result.outputs[0])
        found.append(tokens[:, 0].tolist())
    return found


def lead(share, first, clear=0.01):
    """Weights of the first seed with which no token or expert is decided by less than float16 leaves."""
    for seed in range(100):
        own, exact = weights(share, seed)
        tokens, least = torchs(share.model, exact, first)
        if least > clear and len({tuple(t) for t in tokens}) > 4:
            return own, tokens
    raise AssertionError("every seed has a token that wins by next to nothing")


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in KINDS])
def test_the_tokens_are_torchs(name):
    share = share_of(of_config({**SMALL, **KINDS[name]}), "trn2", 1, BATCH, CONTEXT, "float16")
    own, tokens = lead(share, [7, 11])
    assert decoded(share, own, [7, 11]) == tokens


@pytest.mark.slow
@pytest.mark.parametrize("name", ["experts", "latent", "delta rule", "mamba"])
def test_on_one_core_of_trn1_too(name):
    share = share_of(of_config({**SMALL, **KINDS[name]}), "trn1", 1, BATCH, CONTEXT, "float16")
    own, tokens = lead(share, [3, 5])
    assert decoded(share, own, [3, 5]) == tokens


PROMPTS = ("grouped", "experts", "latent", "delta rule with experts", "mamba", "mamba next to attention", "4 bit")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROMPTS)
def test_the_first_token_after_a_prompt_is_torchs(name):
    """A prompt of 512 drawn tokens, whose token wins clearly. No expert is full."""
    share = share_of(of_config({**SMALL, **KINDS[name]}), "trn2", 1, 1, PROMPT, "float16")
    share = dataclasses.replace(share, slots=PROMPT)
    prompt = np.random.default_rng(5).integers(0, 256, PROMPT)
    for seed in range(100):
        own, exact = weights(share, seed)
        decoder = torch_decoder.Decoder(share.model, exact)
        for position, token in enumerate(prompt):
            logits = decoder.step(torch.tensor([token]), position)
        best = torch.topk(logits[0], 2)
        if best.values[0] - best.values[1] > 0.2 * logits.std():
            break
    found = prefill.routes(share, None, PROMPT)
    size = prefill.arguments(share, PROMPT, share.model.layers, "nkisim")["cos"].shape[0]
    cos, sin = (t.astype(F16) for t in reference.rotation(share, np.arange(PROMPT), 2 * size))
    result = nkisim.run(prefill.prefill(share, None, found), tokens=prompt.astype(np.int32)[:, None], cos=cos, sin=sin,
                        **own, lnc=share.lnc, target=share.target, timing=False)
    assert int(np.array(result.outputs[0])[0, 0]) == int(best.indices[0])


@pytest.mark.slow
@pytest.mark.skipif("NKISIM_LIBRARY" not in os.environ, reason="NKISIM_LIBRARY names a checkout of nki-library")
@pytest.mark.parametrize("change", [{}, {"model_type": "qwen3_moe", **MIXED, "num_experts": 16, "head_dim": 128}])
def test_the_librarys_kernels_give_them_too(change):
    """In bfloat16, as its kernel of experts computes."""
    config = {**SMALL, "num_key_value_heads": 1, **change}
    share = share_of(of_config(config), "trn2", 1, BATCH, CONTEXT, "bfloat16")
    own, tokens = lead(share, [7, 11], 0.04)
    assert decoded(share, own, [7, 11], load(os.environ["NKISIM_LIBRARY"])) == tokens
