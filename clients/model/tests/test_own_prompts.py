"""Tests nkisim's own kernels of a model's prompt (prefill) against NumPy: any heads, windows, every
chip.
"""

import dataclasses

import numpy as np
import part_reference as reference
import pytest
from part_reference import close, normal

import nkisim
from nkisim_model import latent_prompt, linear_prompt, of_config, own_prompt, predict, share_of, step

DENSE = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
         "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1024}
MIXED = {**DENSE, "model_type": "qwen3_moe", "moe_intermediate_size": 192, "num_experts": 16, "num_experts_per_tok": 4}


def share_for(change, **more):
    return share_of(of_config({**DENSE, **change}), more.pop("target", "trn2"), 1, 1, more.pop("context", 512), **more)


def attended(x, w, m, positions, cos, sin, share):
    """The part for rows [tokens, hidden]; keys and values [heads, tokens, d]."""
    tokens, d, heads, kvs = x.shape[0], m.head_dim, share.heads, share.kv_heads
    qkv = reference.norm(x, w.norm1, m.eps, m.hidden) @ w.qkv + (0 if w.qkv_bias is None else w.qkv_bias)
    q, k, v, gate = (part.reshape(tokens, -1, d) for part in np.split(
        qkv, [heads * d, (heads + kvs) * d, (heads + 2 * kvs) * d], axis=1))
    if m.qk_norm:
        q, k = reference.norm(q, w.q_norm, m.eps), reference.norm(k, w.k_norm, m.eps)
    c, s = (np.asarray(t, np.float64)[:, :, 0].T for t in (cos, sin))
    q, k = reference.rotated(q, c, s), reference.rotated(k, c, s)
    ago = positions[:, None] - positions[None]
    open_ = (ago >= 0) & (ago < m.window if m.has_window(0) else True)
    found = np.zeros((tokens, heads, d))
    for h in range(heads):
        kv = h // (heads // kvs)
        scores = np.where(open_, q[:, h] @ k[:, kv].T * d ** -0.5, -np.inf)
        sink = w.sink[h, 0] if m.sinks else -np.inf
        top = np.maximum(scores.max(1), sink)[:, None]
        weights = np.exp(scores - top)
        found[:, h] = weights @ v[:, kv] / (weights.sum(1, keepdims=True) + np.exp(sink - top))
    if m.out_gate:
        found /= 1 + np.exp(-gate)
    return found.reshape(tokens, -1) @ w.out, k.transpose(1, 0, 2), v.transpose(1, 0, 2)


@pytest.mark.parametrize("change, how", [
    ({}, {}), ({}, {"lnc": 1}), ({}, {"target": "trn1"}), ({"model_type": "qwen3"}, {}), ({"model_type": "qwen2"}, {}),
    ({"num_key_value_heads": 1, "head_dim": 128}, {"target": "inf2"}), ({"head_dim": 256}, {}),
    ({"model_type": "mistral", "sliding_window": 200}, {}), ({"hidden_size": 200}, {}),
    ({"attn_output_gate": True}, {"target": "trn1"})])
def test_attention(change, how):
    share = share_for(change, **how)
    m, h, d, tokens = share.model, share.hidden, share.model.head_dim, 512
    rng = np.random.default_rng(len(repr((change, how))))
    columns, cached = d * (share.heads * (2 if m.out_gate else 1) + 2 * share.kv_heads), share.cached(0)
    x = normal(rng, 1, tokens, h)
    x[:, :, m.hidden:] = 0
    w = {"norm1": 1 + normal(rng, 1, h, scale=0.1), "qkv": normal(rng, h, columns, scale=h ** -0.5),
         "out": normal(rng, share.heads * d, h, scale=(share.heads * d) ** -0.5),
         "qkv_bias": normal(rng, 1, columns) if m.qkv_bias else None,
         "q_norm": 1 + normal(rng, 1, d, scale=0.1) if m.qk_norm else None,
         "k_norm": 1 + normal(rng, 1, d, scale=0.1) if m.qk_norm else None,
         "keys": normal(rng, 1, share.kv_heads, d, cached), "values": normal(rng, 1, share.kv_heads, cached, d)}
    positions = np.arange(tokens)
    cos, sin = reference.rotation(share, positions, d)
    expected, keys, values = attended(x[0].astype(np.float64), reference.exact(w), m, positions, cos, sin, share)
    found, after = reference.run(share, own_prompt.attention, x, w, cos=cos, sin=sin)
    close(found.reshape(tokens, h), expected)
    slots = positions[-cached:] % cached
    close(after["keys"][0][:, :, slots], keys[:, -cached:].transpose(0, 2, 1))
    close(after["values"][0][:, slots], values[:, -cached:])


@pytest.mark.parametrize("change, how", [({}, {}), ({"model_type": "gemma"}, {"target": "trn1"}),
                                         ({"intermediate_size": 400}, {"lnc": 1})])
def test_mlp(change, how):
    share = share_for(change, **how)
    m, h, n, tokens = share.model, share.hidden, share.inner, 512
    rng = np.random.default_rng(len(repr((change, how))))
    x = normal(rng, 1, tokens, h)
    w = {"norm2": 1 + normal(rng, 1, h, scale=0.1), "gate": normal(rng, h, n, scale=h ** -0.5),
         "up": normal(rng, h, n, scale=h ** -0.5), "down": normal(rng, n, h, scale=n ** -0.5)}
    e = reference.exact(w)
    rows = reference.norm(x[0].astype(np.float64), e.norm2, m.eps)
    act = {"silu": lambda a: a / (1 + np.exp(-a)),
           "gelu": lambda a: a / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (a + 0.044715 * a ** 3)))}[m.act]
    found, _ = reference.run(share, own_prompt.mlp, x, w)
    close(found.reshape(tokens, h), (act(rows @ e.gate) * (rows @ e.up)) @ e.down)


@pytest.mark.parametrize("how", [{}, {"target": "trn1"}])
def test_experts(how):
    share = share_for(MIXED, **how)
    m, h, n, tokens = share.model, share.hidden, share.inner, 512
    share = dataclasses.replace(share, slots=tokens)  # so that no expert is full, whatever the tokens choose
    rng = np.random.default_rng(7)
    x = normal(rng, 1, tokens, h)
    w = {"norm2": 1 + normal(rng, 1, h, scale=0.1), "router": normal(rng, h, m.experts, scale=h ** -0.5),
         "gate_up": normal(rng, m.experts, h, 2, n, scale=h ** -0.5),
         "down": normal(rng, m.experts, n, h, scale=n ** -0.5)}
    e = reference.exact(w)
    rows = reference.norm(x[0].astype(np.float64), e.norm2, m.eps)
    scores = rows @ e.router
    power = np.exp(scores - scores.max(1, keepdims=True))
    chosen = np.argsort(-scores, axis=1)[:, :m.top_k]
    expected = np.zeros((tokens, h))
    for t in range(tokens):
        for number in chosen[t]:
            gate, up = (rows[t] @ e.gate_up[number, :, k] for k in (0, 1))
            part = power[t, number] / power[t, chosen[t]].sum()
            expected[t] += part * (gate / (1 + np.exp(-gate)) * up) @ e.down[number]
    # Where tokens have last experts that are about as likely, bfloat16 decides.
    ranked = -np.sort(-scores, axis=1)
    clear = ranked[:, m.top_k - 1] - ranked[:, m.top_k] > 0.05 * np.abs(scores).max()
    found, _ = reference.run(share, own_prompt.experts, x, w)
    assert clear.sum() > 100
    close(found.reshape(tokens, h)[clear], expected[clear])


LATENT = {"model_type": "deepseek_v3", "q_lora_rank": 128, "kv_lora_rank": 128,
          "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64, "moe_intermediate_size": 192,
          "n_routed_experts": 8, "num_experts_per_tok": 2}


@pytest.mark.parametrize("change, how", [
    ({}, {}), ({"q_lora_rank": None}, {"target": "trn1"}), ({"qk_nope_head_dim": 160, "v_head_dim": 96}, {"lnc": 1}),
    ({"kv_lora_rank": 192, "q_lora_rank": 200}, {})])
def test_latent_attention(change, how):
    """Keys and values of each head are expanded from the compressed ones; the cache has these."""
    share = share_for({**LATENT, **change}, **how)
    m, h, tokens, one = share.model, share.hidden, 512, share.model.latent
    rng = np.random.default_rng(len(repr((change, how))))
    x, width, size = normal(rng, 1, tokens, h), one.plain + one.rotated, one.kv_rank + one.rotated
    shapes = {"kv_a": (h, size), "q_b": (one.q_rank or h, share.heads * width),
              "k_b": (share.heads, one.plain, one.kv_rank), "v_b": (share.heads, one.kv_rank, one.value),
              "out": (share.heads * one.value, h)} | ({"q_a": (h, one.q_rank)} if one.q_rank else {})
    w = {name: normal(rng, *shape, scale=shape[-2] ** -0.5) for name, shape in shapes.items()}
    w |= {name: 1 + normal(rng, 1, count, scale=0.1) for name, count in
          (("norm1", h), ("kv_a_norm", one.kv_rank), *((("q_a_norm", one.q_rank),) if one.q_rank else ()))}
    w = {"q_a": None, "q_a_norm": None, **w, "latent": normal(rng, 1, share.cached(0), size)}
    cos, sin = reference.rotation(share, np.arange(tokens), one.rotated)
    e, rows = reference.exact(w), x[0].astype(np.float64)
    c, s = (np.asarray(t, np.float64)[:, :, 0].T for t in (cos, sin))
    rows = reference.norm(rows, e.norm1, m.eps)
    small = reference.norm(rows @ e.q_a, e.q_a_norm, m.eps) if one.q_rank else rows
    q, packed = (small @ e.q_b).reshape(tokens, -1, width), rows @ e.kv_a
    latent = reference.norm(packed[:, :one.kv_rank], e.kv_a_norm, m.eps)
    key = reference.rotated(packed[:, None, one.kv_rank:], c, s)
    q = np.concatenate([q[..., :one.plain], reference.rotated(q[..., one.plain:], c, s)], -1)
    found = np.zeros((tokens, share.heads, one.value))
    for n in range(share.heads):
        keys = np.concatenate([latent @ e.k_b[n].T, key[:, 0]], 1)
        scores = np.where(np.tri(tokens, dtype=bool), q[:, n] @ keys.T * width ** -0.5, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        found[:, n] = weights / weights.sum(1, keepdims=True) @ (latent @ e.v_b[n])
    out, after = reference.run(share, latent_prompt.attention, x, w, cos=cos, sin=sin)
    close(out.reshape(tokens, h), found.reshape(tokens, -1) @ e.out)
    close(after["latent"][0, :tokens], np.concatenate([latent, key[:, 0]], 1))


DELTA = {"model_type": "qwen3_next", "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 64,
         "linear_value_head_dim": 64, "moe_intermediate_size": 192, "num_experts": 16, "num_experts_per_tok": 4}
MAMBA = {"model_type": "bamba", "attn_layer_indices": [1], "mamba_n_groups": 2, "mamba_n_heads": 8,
         "mamba_d_state": 128, "mamba_d_head": 32, "mamba_d_conv": 4}


@pytest.mark.parametrize("change, how", [
    (DELTA, {}), (DELTA, {"lnc": 1}), ({**DELTA, "linear_num_key_heads": 1, "linear_num_value_heads": 3}, {}),
    ({**DELTA, "linear_key_head_dim": 256, "linear_num_value_heads": 2}, {"target": "trn1"}),
    ({**DELTA, "linear_num_key_heads": 1, "linear_num_value_heads": 1}, {}), (MAMBA, {}), (MAMBA, {"target": "inf2"}),
    ({**MAMBA, "mamba_n_groups": 1, "mamba_d_state": 256, "mamba_n_heads": 9}, {"lnc": 1})])
def test_linear_attention(change, how):
    """The step's own reference, token by token from an empty state."""
    share = share_for(change, **how)
    one, h, tokens, values = share.model.linear, share.hidden, 512, share.value_heads
    rng = np.random.default_rng(len(repr((change, how))))
    convolved, columns = one.columns(share.key_heads, values)
    group = one.value_dim * (1 if one.delta else values // share.key_heads)
    x = normal(rng, 1, tokens, h)
    w = {"norm1": 1 + normal(rng, 1, h, scale=0.1), "linear_in": normal(rng, h, columns, scale=h ** -0.5),
         "linear_conv": normal(rng, one.convolution, convolved, scale=0.5),
         "linear_bias": normal(rng, 1, values, dtype=np.float32),
         "linear_rate": rng.uniform(0.001, 1, (1, values)).astype(np.float32),
         "linear_skip": normal(rng, 1, values, dtype=np.float32), "linear_norm": 1 + normal(rng, 1, group, scale=0.1),
         "linear_out": normal(rng, values * one.value_dim, h, scale=0.06),
         "state": np.zeros((1, one.key_dim, values, one.value_dim), np.float32),
         "convolved": np.zeros((1, one.convolution - 1, convolved), reference.BF16)}
    e, expected = reference.exact(w), np.zeros((tokens, h))
    for t in range(tokens):
        expected[t], e.state, new = reference.linear(x[:, t].astype(np.float64), e, share)
        e.convolved = np.concatenate([e.convolved[:, 1:], new[:, None]], 1)
    found, after = reference.run(share, linear_prompt.attention, x, w)
    close(found.reshape(tokens, h), expected, 0.03)
    close(after["state"], e.state, 0.03)
    close(after["convolved"], e.convolved)


def test_keys_that_are_alike():
    """The system of the delta rule whose powers grow most: every key the same, nothing forgotten, beta of 1."""
    share = share_for({**DELTA, "linear_num_value_heads": 2})
    one, h, tokens = share.model.linear, share.hidden, 512
    convolved, columns = one.columns(share.key_heads, share.value_heads)
    rng = np.random.default_rng(3)
    x = np.ones((1, tokens, h), reference.BF16)
    weights = normal(rng, h, columns, scale=h ** -0.5)
    weights[:, -2 * share.value_heads:-share.value_heads] = 0.125  # of beta
    w = {"norm1": np.ones((1, h), reference.BF16), "linear_in": weights,
         "linear_conv": normal(rng, one.convolution, convolved, scale=0.5),
         "linear_bias": np.zeros((1, 2), np.float32), "linear_rate": np.zeros((1, 2), np.float32),
         "linear_skip": np.zeros((1, 2), np.float32), "linear_norm": np.ones((1, one.value_dim), reference.BF16),
         "linear_out": normal(rng, 2 * one.value_dim, h, scale=0.06),
         "state": np.zeros((1, one.key_dim, 2, one.value_dim), np.float32),
         "convolved": np.zeros((1, one.convolution - 1, convolved), reference.BF16)}
    e = reference.exact(w)
    for t in range(tokens):
        _, e.state, new = reference.linear(x[:, t].astype(np.float64), e, share)
        e.convolved = np.concatenate([e.convolved[:, 1:], new[:, None]], 1)
    _, after = reference.run(share, linear_prompt.attention, x, w)
    close(after["state"], e.state, 0.03)


FORMATS = {"fp8": {"quant_method": "fbgemm_fp8"}, "4 bit": {"quant_method": "gptq", "bits": 4, "group_size": 128},
           "8 bit": {"quant_method": "gptq", "bits": 8, "group_size": 64}}


@pytest.mark.parametrize("name", FORMATS)
def test_weights_that_stay_packed(name):
    share = share_for({"quantization_config": FORMATS[name]})
    m, h, d, tokens = share.model, share.hidden, share.model.head_dim, 512
    rng = np.random.default_rng(len(name))
    shapes = step.layer_shapes(share, lambda *shape: nkisim.Shape(shape, share.dtype), 0)
    both = {key: reference.quantised(rng, shapes[key], shapes[key]["data"].shape[0] ** -0.5) for key in
            ("qkv", "out", "gate", "up", "down")}
    x = normal(rng, 1, tokens, h)
    w = {key: value for key, (value, _) in both.items()}
    w |= {"norm1": 1 + normal(rng, 1, h, scale=0.1), "norm2": 1 + normal(rng, 1, h, scale=0.1),
          "keys": normal(rng, 1, share.kv_heads, d, tokens), "values": normal(rng, 1, share.kv_heads, tokens, d),
          "qkv_bias": None, "q_norm": None, "k_norm": None}
    e = reference.exact({key: value for key, value in w.items() if key not in both})
    vars(e).update({key: value for key, (_, value) in both.items()})
    positions = np.arange(tokens)
    cos, sin = reference.rotation(share, positions, d)
    expected, _, _ = attended(x[0].astype(np.float64), e, m, positions, cos, sin, share)
    found, _ = reference.run(share, own_prompt.attention, x, w, cos=cos, sin=sin)
    close(found.reshape(tokens, h), expected, 0.03)
    rows = reference.norm(x[0].astype(np.float64), e.norm2, m.eps)
    gate = rows @ e.gate
    found, _ = reference.run(share, own_prompt.mlp, x, w)
    close(found.reshape(tokens, h), (gate / (1 + np.exp(-gate)) * (rows @ e.up)) @ e.down, 0.03)


KINDS = {"dense": ({}, "inf2"), "latent": ({**LATENT, "n_shared_experts": 1}, "trn2"),
         "packed": ({"quantization_config": FORMATS["4 bit"]}, "trn1"),
         "experts": ({**MIXED, "num_key_value_heads": 1}, "trn2"), "delta rule": (DELTA, "trn2"),
         "mamba": ({**MAMBA, "mamba_n_groups": 1}, "inf2"),
         "mamba next to attention": ({"model_type": "falcon_h1", **MAMBA, "mamba_n_groups": 1}, "trn2"),
         "windows and sinks": ({"model_type": "gpt_oss", "num_local_experts": 8, "num_experts_per_tok": 2,
                                "sliding_window": 128}, "trn2")}


def test_a_short_prompt_is_padded_to_a_tile():
    share = share_of(of_config({**DENSE, "num_hidden_layers": 3}), "trn2", 1, context=512)
    found, whole = predict(share, None, prompt=70), predict(share, None, prompt=128)
    assert (found.prompt, found.run_as, found.step_us) == (70, 128, whole.step_us)


@pytest.mark.parametrize("name", KINDS)
def test_a_prompt_of_each_kind_runs(name):
    """Without a library; no part reads less than its weights, and twice the tokens take longer."""
    change, target = KINDS[name]
    share = share_of(of_config({**DENSE, **change, "num_hidden_layers": 3}), target, 2, context=1024)
    short, long = (predict(share, None, prompt=tokens) for tokens in (512, 1024))
    weights = share.model.weights_of(share.sizes)
    each = 0.5 if name == "packed" else 2
    assert short.parts["attention"].read_bytes >= each * weights["attention"]
    assert short.parts["mlp"].read_bytes >= each * weights["mlp"]
    assert long.step_us > short.step_us
    more = long.parts["attention"].flops / short.parts["attention"].flops
    assert more == pytest.approx(2) if name == "delta rule" else more > 2  # scores grow with the square, a state not
    assert all(whose.startswith("nkisim (") for whose in short.kernels.values())
