"""Tests nkisim's own kernels of a model's decode step against NumPy: any heads, any batch, every
chip.
"""

import dataclasses

import ml_dtypes
import numpy as np
import part_reference as reference
import pytest
from part_reference import close, normal

import nki
import nkisim
from nki import collectives as ncc
from nkisim_model import latent, linear, many, mixture, of_config, own, share_of, step

DENSE = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
         "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1024}


def share_for(change, tp=1, batch=1, context=256, **more):
    return share_of(of_config({**DENSE, **change}), more.pop("target", "trn2"), tp, batch, context, **more)


@pytest.mark.parametrize("change, how", [
    ({}, {}), ({}, {"batch": 3}), ({}, {"batch": 3, "lnc": 1}), ({}, {"batch": 130}), ({}, {"target": "trn1"}),
    ({}, {"target": "inf2", "batch": 20}), ({}, {"target": "trn3", "batch": 20}),
    ({"num_key_value_heads": 1}, {"batch": 5}), ({"num_key_value_heads": 8}, {"batch": 2}),
    ({"head_dim": 128}, {"context": 4352}), ({"head_dim": 256}, {"batch": 2}), ({"head_dim": 192}, {"batch": 2}),
    ({"head_dim": 80}, {}), ({"head_dim": 512, "num_attention_heads": 2}, {}),
    ({"num_attention_heads": 6, "num_key_value_heads": 3}, {}), ({"hidden_size": 200, "head_dim": 32}, {"batch": 2}),
    ({"num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 32}, {"batch": 2}),
    ({"model_type": "qwen3"}, {"batch": 2}), ({"model_type": "qwen2"}, {"batch": 18}),
    ({}, {"cache_dtype": "float8_e4m3", "batch": 2}),
    ({"attn_output_gate": True}, {"batch": 3}), ({"attn_output_gate": True, "head_dim": 256}, {})])
def test_attention(change, how):
    share = share_for(change, **how)
    m, h, d = share.model, share.hidden, share.model.head_dim
    rng = np.random.default_rng(len(repr((change, how))))
    cached, columns = share.cached(0), d * (share.heads * (2 if m.out_gate else 1) + 2 * share.kv_heads)
    x = normal(rng, share.batch, 1, h)
    x[:, :, m.hidden:] = 0
    w = {"norm1": 1 + normal(rng, 1, h, scale=0.1), "qkv": normal(rng, h, columns, scale=h ** -0.5),
         "out": normal(rng, share.heads * d, h, scale=(share.heads * d) ** -0.5),
         "qkv_bias": normal(rng, 1, columns) if m.qkv_bias else None,
         "q_norm": 1 + normal(rng, 1, d, scale=0.1) if m.qk_norm else None,
         "k_norm": 1 + normal(rng, 1, d, scale=0.1) if m.qk_norm else None,
         "keys": normal(rng, share.batch, share.kv_heads, d, cached),
         "values": normal(rng, share.batch, share.kv_heads, cached, d)}
    if share.cache_dtype:
        w |= {name: w[name].astype(ml_dtypes.float8_e4m3) for name in ("keys", "values")}
    positions = [0 if n == 1 else (37 * n + cached - 1) % cached for n in range(share.batch)]
    cos, sin = reference.rotation(share, positions, d)
    expected, keys, values = reference.attention(x[:, 0].astype(np.float64), reference.exact(w), m, positions, cos, sin,
                                                 share.heads, share.kv_heads)
    before = w["keys"].copy()
    found, after = reference.run(share, own.attention, x, w, cos=cos, sin=sin,
                                 mask=reference.mask(share, cached, positions),
                                 positions=reference.slots(share, cached, positions))
    close(found, expected)
    for b, n in enumerate(positions):  # float8_e4m3 has four bits
        close(after["keys"][b, :, :, n], keys[b], 0.07 if share.cache_dtype else 0.02)
        close(after["values"][b, :, n], values[b], 0.07 if share.cache_dtype else 0.02)
    assert (after["keys"] != before).sum() <= keys.size  # nothing else is written


@pytest.mark.parametrize("change, how", [
    ({}, {}), ({}, {"batch": 3, "lnc": 1}), ({}, {"batch": 20}), ({}, {"batch": 300}),
    ({"intermediate_size": 400}, {}), ({"intermediate_size": 100}, {"batch": 17}), ({"hidden_size": 4224}, {}),
    ({"intermediate_size": 2600}, {"batch": 2}), ({}, {"target": "trn1"}), ({}, {"target": "inf2", "batch": 20}),
    ({"model_type": "gemma"}, {}), ({"model_type": "nemotron"}, {"batch": 2})])
def test_mlp(change, how):
    share = share_for(change, **how)
    m, h, n = share.model, share.hidden, share.inner
    rng = np.random.default_rng(len(repr((change, how))))
    x = normal(rng, share.batch, 1, h)
    w = {"norm2": 1 + normal(rng, 1, h, scale=0.1), "gate": normal(rng, h, n, scale=h ** -0.5) if m.gated else None,
         "up": normal(rng, h, n, scale=h ** -0.5), "down": normal(rng, n, h, scale=n ** -0.5)}
    e = reference.exact(w)
    rows = reference.norm(x[:, 0].astype(np.float64), e.norm2, m.eps)
    act = {"silu": lambda a: a / (1 + np.exp(-a)), "relu2": lambda a: np.maximum(a, 0) ** 2,
           "gelu": lambda a: a / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (a + 0.044715 * a ** 3)))}[m.act]
    between = act(rows @ e.gate) * (rows @ e.up) if m.gated else act(rows @ e.up)
    found, _ = reference.run(share, own.mlp, x, w)
    close(found, between @ e.down)


@pytest.mark.parametrize("ranks, batch, lnc, columns", [(1, 130, 2, 700), (2, 300, 2, 5000), (1, 129, 1, 2048)])
def test_the_most_likely_tokens_of_many(ranks, batch, lnc, columns):
    share = share_for({"vocab_size": ranks * columns, "hidden_size": 128}, ranks, batch, lnc=lnc)
    rng = np.random.default_rng(columns)
    x, gamma = normal(rng, batch, 1, 128), 1 + normal(rng, 1, 128, scale=0.1)
    weights = normal(rng, 128, ranks * columns)
    group = ncc.ReplicaGroup([list(range(ranks))]) if ranks > 1 else None
    shards = [np.ascontiguousarray(a) for a in np.split(weights, ranks, axis=1)]
    offsets = [np.full((1, 1), r * columns, np.float32) for r in range(ranks)]
    kernel = nki.jit(lambda x, gamma, weights, offset: many.head(x, gamma, weights, offset, group, share))
    each = (nkisim.per_rank(shards), nkisim.per_rank(offsets)) if ranks > 1 else (weights, offsets[0])
    result = nkisim.run(kernel, x, gamma, *each, target="trn2", lnc=lnc, **({"ranks": ranks} if ranks > 1 else {}))
    exact = reference.norm(x[:, 0].astype(np.float64), gamma.astype(np.float64), 1e-6) @ weights.astype(np.float64)
    for found in result.outputs if ranks > 1 else [result.outputs]:
        tokens = np.asarray(found)[:, 0]
        assert (exact[np.arange(batch), tokens] > exact.max(1) - 0.02 * np.abs(exact).max(1)).all()
        assert (tokens == exact.argmax(1)).mean() > 0.95


MIXED = {"model_type": "qwen3_moe", "hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 64, "moe_intermediate_size": 192, "intermediate_size": 512, "num_experts": 16,
         "num_experts_per_tok": 4, "num_hidden_layers": 2, "vocab_size": 1024}


@pytest.mark.parametrize("change, how", [
    ({}, {}), ({}, {"batch": 3}), ({}, {"batch": 3, "lnc": 1}), ({}, {"batch": 6}), ({}, {"batch": 140}),
    ({"num_experts_per_tok": 1}, {"batch": 3}), ({"num_experts_per_tok": 10, "num_experts": 64}, {"batch": 2}),
    ({"num_experts_per_tok": 10, "num_experts": 32}, {"batch": 9}), ({"norm_topk_prob": False}, {}),
    ({"norm_topk_prob": False}, {"batch": 20}), ({"moe_intermediate_size": 40}, {}), ({}, {"target": "trn1"}),
    ({"moe_intermediate_size": 1100}, {}), ({"shared_expert_intermediate_size": 384}, {"batch": 2}),
    ({"shared_expert_intermediate_size": 100}, {"batch": 9, "target": "inf2"})])
def test_experts(change, how):
    share = share_of(of_config({**MIXED, **change}), how.get("target", "trn2"), 1, how.get("batch", 1), 256,
                     lnc=how.get("lnc"))
    if share.batch > 128:  # so that no expert is full, whatever the tokens choose
        share = dataclasses.replace(share, slots=share.batch)
    x, w, e = _mixture(share, len(repr((change, how))))
    expected = _of_experts(x, e, share, share.batch * share.model.top_k)
    if share.model.shared:
        rows, s = reference.norm(x[:, 0].astype(np.float64), e.norm2, share.model.eps), reference.exact(w["shared"])
        gate = rows @ s.gate
        expected += (gate / (1 + np.exp(-gate)) * (rows @ s.up)) @ s.down
    found, _ = reference.run(share, mixture.experts, x, w)
    close(found, expected)


WIDE = {"moe_intermediate_size": 448}


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_experts_whose_rows_do_not_fit_together(target, monkeypatch):
    """The sum over groups of experts is the part: as many of them together as fit."""
    monkeypatch.setattr(mixture, "COLUMNS", 3 * 192)
    test_experts({}, {"target": target, "batch": 40})


@pytest.mark.parametrize("change, how, slots", [
    ({}, {}, 0), ({}, {"batch": 2}, 0), ({}, {"batch": 2}, 8), ({}, {"batch": 3, "lnc": 1}, 7), ({}, {"batch": 9}, 0),
    ({"num_experts": 64}, {"batch": 7, "target": "trn1"}, 15), ({}, {"batch": 140}, 0), (WIDE, {"batch": 140}, 30),
    ({"moe_intermediate_size": 400}, {"batch": 200, "lnc": 1}, 0)])
def test_groups_of_experts(change, how, slots):
    """Each group computes the pairs of its own experts, and no more than it has slots; together they are the part."""
    share = share_of(of_config({**MIXED, **change}), how.get("target", "trn2"), 2, how.get("batch", 1), 256,
                     lnc=how.get("lnc"), ep=2)
    share = dataclasses.replace(share, slots=slots)
    x, w, e = _mixture(share, len(repr((change, how))))
    few = share.batch <= 128 and share.pairs < share.experts
    most = share.rows_of_expert(share.batch) if share.sorts(share.batch) else share.pairs if few else 1 << 20
    for group in (0, 1):
        mine = slice(group * share.experts, (group + 1) * share.experts)
        given = {**w, "gate_up": w["gate_up"][mine], "down": w["down"][mine], "group": np.array([[group]], np.uint32)}
        found, _ = reference.run(share, mixture.experts, x, given)
        close(found, _of_experts(x, e, share, most, group))


def _mixture(share, seed):
    """x, weights of all experts, and these in float64; no token has a last expert that is about as good as the next."""
    m, h, n = share.model, share.hidden, share.inner
    rng = np.random.default_rng(seed)
    x = normal(rng, share.batch, 1, h)
    w = {"norm2": 1 + normal(rng, 1, h, scale=0.1), "router": normal(rng, h, m.experts, scale=0.2),
         "gate_up": normal(rng, m.experts, h, 2, n, scale=h ** -0.5),
         "down": normal(rng, m.experts, n, h, scale=n ** -0.5)}
    e = reference.exact(w)
    if m.shared:
        w["shared"] = {name: normal(rng, *shape, scale=shape[0] ** -0.5) for name, shape in
                       (("gate", (h, m.shared)), ("up", (h, m.shared)), ("down", (m.shared, h)))}
    while (tied := _ties(x, e, m)).any():  # rounding would choose other experts
        x[tied] = normal(rng, tied.sum(), 1, h)
    return x, w, e


def _of_experts(x, e, share, slots, group=None):
    """The sum of the experts that tokens chose, or of those of a group: token by token, the likeliest first, while
    there are slots, of an expert where tokens are sorted, else of the group."""
    m, h, n = share.model, share.hidden, share.inner
    rows, taken = reference.norm(x[:, 0].astype(np.float64), e.norm2, m.eps), {}
    expected = np.zeros((share.batch, h))
    for b, row in enumerate(rows):
        scores = row @ e.router
        chosen = np.argsort(-scores)[:m.top_k]
        power = np.exp(scores - scores.max())
        for number in chosen:
            queue = number if share.sorts(share.batch) else 0
            if group is not None and number // share.experts != group or taken.get(queue, 0) == slots:
                continue
            taken[queue] = taken.get(queue, 0) + 1
            gate, up = np.moveaxis(row @ e.gate_up[number].reshape(h, 2 * n), -1, 0).reshape(2, n)
            part = power[number] / (power[chosen].sum() if m.normalised_top_k else power.sum())
            expected[b] += part * (gate / (1 + np.exp(-gate)) * up) @ e.down[number]
    return expected


def _ties(x, e, m):
    """The rows whose last chosen expert is within 0.05 of the next one."""
    scores = np.sort(reference.norm(x[:, 0].astype(np.float64), e.norm2, m.eps) @ e.router)[:, ::-1]
    return scores[:, m.top_k - 1] - scores[:, m.top_k] < 0.05


LATENT = {"model_type": "deepseek_v3", "hidden_size": 256, "num_attention_heads": 4, "q_lora_rank": 128,
          "kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
          "moe_intermediate_size": 192, "intermediate_size": 512, "n_routed_experts": 16, "num_experts_per_tok": 4,
          "num_hidden_layers": 2, "vocab_size": 1024}


@pytest.mark.parametrize("change, how", [
    ({}, {}), ({}, {"batch": 3}), ({}, {"batch": 2, "lnc": 1}), ({}, {"batch": 130}), ({"q_lora_rank": None}, {}),
    ({}, {"context": 2304}), ({"num_attention_heads": 64}, {}), ({"kv_lora_rank": 512, "qk_rope_head_dim": 64}, {}),
    ({"v_head_dim": 256}, {"batch": 2}), ({}, {"target": "trn1"}), ({"num_attention_heads": 5}, {}),
    ({"qk_nope_head_dim": 192, "v_head_dim": 192, "q_lora_rank": 200}, {}),
    ({"kv_lora_rank": 224, "qk_rope_head_dim": 64}, {"batch": 2}),
    ({}, {"cache_dtype": "float8_e4m3", "batch": 2})])
def test_latent_attention(change, how):
    share = share_of(of_config({**LATENT, **change}), how.get("target", "trn2"), 1, how.get("batch", 1),
                     how.get("context", 256), lnc=how.get("lnc"), cache_dtype=how.get("cache_dtype", ""))
    one, h, heads, cached = share.model.latent, share.hidden, share.heads, share.cached(0)
    rng = np.random.default_rng(len(repr((change, how))))
    width, size = one.plain + one.rotated, one.kv_rank + one.rotated
    x = normal(rng, share.batch, 1, h)
    w = {"norm1": 1 + normal(rng, 1, h, scale=0.1), "kv_a": normal(rng, h, size, scale=h ** -0.5),
         "kv_a_norm": 1 + normal(rng, 1, one.kv_rank, scale=0.1),
         "q_a": normal(rng, h, one.q_rank, scale=h ** -0.5) if one.q_rank else None,
         "q_a_norm": 1 + normal(rng, 1, one.q_rank, scale=0.1) if one.q_rank else None,
         "q_b": normal(rng, one.q_rank or h, heads * width, scale=(one.q_rank or h) ** -0.5),
         "k_b": normal(rng, heads, one.plain, one.kv_rank, scale=one.plain ** -0.5),
         "v_b": normal(rng, heads, one.kv_rank, one.value, scale=one.kv_rank ** -0.5),
         "out": normal(rng, heads * one.value, h, scale=(heads * one.value) ** -0.5),
         "latent": normal(rng, share.batch, cached, size)}
    if share.cache_dtype:
        w["latent"] = w["latent"].astype(ml_dtypes.float8_e4m3)
    positions = [0 if n == 1 else (37 * n + cached - 1) % cached for n in range(share.batch)]
    cos, sin = reference.rotation(share, positions, one.rotated)
    expected, rows = reference.latent(x[:, 0].astype(np.float64), reference.exact(w), share.model, positions, cos, sin)
    found, after = reference.run(share, latent.attention, x, w, cos=cos, sin=sin,
                                 mask=reference.mask(share, cached, positions),
                                 positions=reference.slots(share, cached, positions))
    close(found, expected)
    for b, n in enumerate(positions):
        close(after["latent"][b, n], rows[b], 0.07 if share.cache_dtype else 0.02)


DELTA = {**MIXED, "model_type": "qwen3_next", "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "linear_key_head_dim": 64, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4}
MAMBA = {**DENSE, "model_type": "bamba", "attn_layer_indices": [1], "mamba_n_groups": 2, "mamba_n_heads": 8,
         "mamba_d_state": 128, "mamba_d_head": 32, "mamba_d_conv": 4}


@pytest.mark.parametrize("config, how", [
    (DELTA, {}), (DELTA, {"batch": 3}), (DELTA, {"lnc": 1}), (DELTA, {"batch": 130}), (DELTA, {"target": "trn1"}),
    ({**DELTA, "linear_num_key_heads": 1, "linear_num_value_heads": 3}, {"batch": 2}),
    ({**DELTA, "linear_num_key_heads": 1, "linear_num_value_heads": 1}, {"batch": 3}),
    ({**DELTA, "linear_key_head_dim": 128, "linear_value_head_dim": 128}, {}),
    (MAMBA, {}), (MAMBA, {"batch": 3}), (MAMBA, {"lnc": 1}), ({**MAMBA, "mamba_n_groups": 1}, {"batch": 2}),
    ({**MAMBA, "mamba_d_state": 256}, {"batch": 2}), ({**MAMBA, "mamba_d_state": 192, "mamba_n_groups": 1}, {})])
def test_linear_attention(config, how):
    share = share_of(of_config(config), how.get("target", "trn2"), 1, how.get("batch", 1), 256, lnc=how.get("lnc"))
    one, h, batch = share.model.linear, share.hidden, share.batch
    rng = np.random.default_rng(len(repr((config, how))))
    convolved, columns = one.columns(share.key_heads, share.value_heads)
    group = one.value_dim * (1 if one.delta else share.value_heads // share.key_heads)
    x = normal(rng, batch, 1, h)
    w = {"norm1": 1 + normal(rng, 1, h, scale=0.1), "linear_in": normal(rng, h, columns, scale=h ** -0.5),
         "linear_conv": normal(rng, one.convolution, convolved, scale=0.5),
         "linear_bias": normal(rng, 1, share.value_heads, dtype=np.float32),
         "linear_rate": rng.uniform(0.1, 2, (1, share.value_heads)).astype(np.float32),
         "linear_skip": normal(rng, 1, share.value_heads, dtype=np.float32),
         "linear_norm": 1 + normal(rng, 1, group, scale=0.1),
         "linear_out": normal(rng, share.value_heads * one.value_dim, h, scale=0.06),
         "state": normal(rng, batch, one.key_dim, share.value_heads, one.value_dim, dtype=np.float32),
         "convolved": normal(rng, batch, one.convolution - 1, convolved)}
    expected, state, tokens = reference.linear(x[:, 0].astype(np.float64), reference.exact(w), share)
    before = w["convolved"].copy()
    found, after = reference.run(share, linear.attention, x, w)
    close(found, expected, 0.03)
    close(after["state"], state, 0.03)
    close(after["convolved"][:, -1], tokens)
    assert (after["convolved"][:, :-1] == before[:, 1:]).all()


FORMATS = {"fp8": {"quant_method": "fbgemm_fp8"},
           "fp8 blocks": {"quant_method": "fp8", "weight_block_size": [128, 128]},
           "4 bit": {"quant_method": "gptq", "bits": 4, "group_size": 128},
           "4 bit of 64": {"quant_method": "awq", "bits": 4, "group_size": 64},
           "8 bit": {"quant_method": "gptq", "bits": 8, "group_size": 128}}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("change, how", [
    ({}, {}), ({"hidden_size": 512, "head_dim": 128}, {"batch": 3}), ({"intermediate_size": 3712}, {"lnc": 1}),
    ({"intermediate_size": 448, "hidden_size": 640}, {"batch": 20}),
    ({"num_attention_heads": 2, "intermediate_size": 128}, {})])
def test_quantised_weights(name, change, how):
    """Attention's projections and an MLP, dequantised as they are defined."""
    share = share_for({**change, "quantization_config": FORMATS[name]}, **how)
    m, h, d = share.model, share.hidden, share.model.head_dim
    rng = np.random.default_rng(len(repr((name, change))))
    shapes = step.layer_shapes(share, lambda *shape: nkisim.Shape(shape, share.dtype), 0)
    both = {key: reference.quantised(rng, shapes[key], shapes[key]["data"].shape[0] ** -0.5) for key in
            ("qkv", "out", "gate", "up", "down")}
    w = {key: value for key, (value, _) in both.items()}
    exact = {key: value for key, (_, value) in both.items()}
    assert w["qkv"]["data"].dtype == {"4": np.uint8, "8": np.int8}.get(name[0], ml_dtypes.float8_e4m3)
    x = normal(rng, share.batch, 1, h)
    norms = {"norm1": 1 + normal(rng, 1, h, scale=0.1), "norm2": 1 + normal(rng, 1, h, scale=0.1)}
    cached = share.cached(0)
    caches = {"keys": normal(rng, share.batch, share.kv_heads, d, cached),
              "values": normal(rng, share.batch, share.kv_heads, cached, d)}
    none = dict.fromkeys(("qkv_bias", "q_norm", "k_norm"))
    positions = [(29 * n + 100) % cached for n in range(share.batch)]
    cos, sin = reference.rotation(share, positions, d)
    e = reference.exact({**norms, **caches, **none})
    vars(e).update(exact)
    rows = x[:, 0].astype(np.float64)
    expected, _, _ = reference.attention(rows, e, m, positions, cos, sin, share.heads, share.kv_heads)
    found, _ = reference.run(share, own.attention, x, {**w, **norms, **caches, **none}, cos=cos, sin=sin,
                             mask=reference.mask(share, cached, positions),
                             positions=reference.slots(share, cached, positions))
    close(found, expected, 0.03)
    rows = reference.norm(rows, e.norm2, m.eps)
    gate = rows @ e.gate
    found, _ = reference.run(share, own.mlp, x, {**w, **norms})
    close(found, (gate / (1 + np.exp(-gate)) * (rows @ e.up)) @ e.down, 0.03)
