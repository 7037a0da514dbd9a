"""Computes parts of a model's decode step in NumPy (float64), and runs one part of nkisim_model
alone.
"""

from types import SimpleNamespace

import ml_dtypes
import numpy as np

import nkisim
from nkisim_model import places

BF16 = ml_dtypes.bfloat16


def normal(rng, *shape, scale=1.0, dtype=BF16):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def quantised(rng, shape, scale, dtype=BF16):
    """Weights as layer_shapes has them, and what they stand for, in float64. scale: of the values; dtype: of
    the scales."""
    if not isinstance(shape, dict):
        exact = normal(rng, *shape.shape, scale=scale, dtype=dtype)
        return exact, exact.astype(np.float64)
    rows, columns = shape["data"].shape[0], shape["scale"].shape[1]
    groups = shape["scale"].shape[0]
    factors = (rng.uniform(0.5, 1.5, (groups, columns)) * scale / 4).astype(dtype)
    if shape["data"].dtype == "uint8":
        values = rng.integers(-8, 8, (rows, columns))
        data = (values[:, 0::2] + 8 + 16 * (values[:, 1::2] + 8)).astype(np.uint8)
    elif shape["data"].dtype == "int8":
        values = data = rng.integers(-8, 8, (rows, columns)).astype(np.int8)
    else:
        values = data = normal(rng, rows, columns, scale=4, dtype=ml_dtypes.float8_e4m3)
    return {"data": data, "scale": factors}, values.astype(np.float64) * np.repeat(factors.astype(np.float64),
                                                                                   rows // groups, 0)


def close(found, expected, part=0.02):
    """Within a part of the largest value: bfloat16 has eight bits."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.abs(expected).max())


def exact(w):
    """Weights by name, in float64."""
    return SimpleNamespace(**{k: None if v is None else np.asarray(v, np.float64) for k, v in w.items()})


def run(share, part, x, w, **step):
    """The result of a part [batch, hidden], and its weights after it (the caches are written in place)."""
    given = {k: v for k, v in w.items() if v is not None}
    none = [k for k, v in w.items() if v is None]

    def kernel(x, w, step):
        return part(x, SimpleNamespace(**w, **dict.fromkeys(none)), share,
                    SimpleNamespace(library=None, layer=0, **step))

    result = nkisim.run(kernel, x, given, step, target=share.target, lnc=share.lnc)
    found = result.outputs[0] if isinstance(result.outputs, (list, tuple)) else result.outputs
    return np.asarray(found, np.float64).reshape(share.batch, -1), given


def norm(x, gamma, eps, count=None):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) / (count or x.shape[-1]) + eps) * gamma


def rotated(heads, cos, sin):
    """heads [batch, n, d]; cos, sin [batch, d / 2]."""
    half = heads.shape[2] // 2
    a, b, c, s = heads[..., :half], heads[..., half:], cos[:, None], sin[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def rotation(share, positions, d):
    """cos and sin [d / 2, batch, 1] of each sequence's position."""
    angle = np.asarray(positions)[None] * 10000.0 ** (-np.arange(d // 2) / (d // 2))[:, None]
    return np.cos(angle)[:, :, None].astype(BF16), np.sin(angle)[:, :, None].astype(BF16)


def attention(x, w, m, positions, cos, sin, heads, kv_heads):
    """The part, with the cache of each sequence up to its position; keys and values of the new token."""
    batch, d = x.shape[0], m.head_dim
    qkv = norm(x, w.norm1, m.eps, m.hidden) @ w.qkv + (0 if w.qkv_bias is None else w.qkv_bias)
    q, k, v, gate = (part.reshape(batch, -1, d) for part in np.split(
        qkv, [heads * d, (heads + kv_heads) * d, (heads + 2 * kv_heads) * d], axis=1))
    if m.qk_norm:
        q, k = norm(q, w.q_norm, m.eps), norm(k, w.k_norm, m.eps)
    c, s = (np.asarray(t, np.float64)[:, :, 0].T for t in (cos, sin))
    q, k = rotated(q, c, s), rotated(k, c, s)
    found = np.zeros((batch, heads, d))
    for b, n in enumerate(positions):
        for h in range(heads):
            kv = h // (heads // kv_heads)
            keys = np.concatenate([w.keys[b, kv, :, :n].T, k[b, kv][None]])
            values = np.concatenate([w.values[b, kv, :n], v[b, kv][None]])
            scores = keys @ q[b, h] * d ** -0.5
            top = max(scores.max(), w.sink[h, 0]) if m.sinks else scores.max()
            share = np.exp(scores - top)
            found[b, h] = share @ values / (share.sum() + (np.exp(w.sink[h, 0] - top) if m.sinks else 0))
    if m.out_gate:
        found /= 1 + np.exp(-gate)
    return found.reshape(batch, -1) @ w.out + (w.out_bias if m.sinks else 0), k, v


def mask(share, cached, positions):
    """0 where a sequence attends to the cache, -30000 elsewhere, as nkisim's attention has it: [128, batch, tiles]."""
    out = np.full((128, share.batch, cached // 128), -30000.0)
    for at, k in places.chunks(cached, places.depth(share.heads // share.kv_heads)):
        tokens = at * 128 + np.arange(128)[:, None] * k + np.arange(k)
        for b, n in enumerate(positions):
            out[:, b, at:at + k][tokens < n] = 0
    return out.astype(BF16)


def slots(share, cached, positions):
    """Numbers of the places in the flat caches of keys (elements) and of values (rows): [heads, batch, 1] each."""
    head = np.arange(share.batch)[None] * share.kv_heads + np.arange(share.kv_heads)[:, None]
    at = np.asarray(positions)[None]
    return tuple(a.astype(np.uint32)[:, :, None] for a in
                 (head * share.model.head_dim * cached + at, head * cached + at))


def latent(x, w, m, positions, cos, sin):
    """Latent attention as it is defined: keys and values of each head are expanded from the compressed ones."""
    one, batch, eps = m.latent, x.shape[0], m.eps
    rows = norm(x, w.norm1, eps)
    small = norm(rows @ w.q_a, w.q_a_norm, eps) if one.q_rank else rows
    queries = (small @ w.q_b).reshape(batch, -1, one.plain + one.rotated)
    new = rows @ w.kv_a
    c, s = (np.asarray(t, np.float64)[:, :, 0].T for t in (cos, sin))
    turned = rotated(np.concatenate([queries[..., one.plain:], new[:, None, one.kv_rank:]], 1), c, s)
    new = np.concatenate([norm(new[:, :one.kv_rank], w.kv_a_norm, eps), turned[:, -1]], 1)
    queries = np.concatenate([queries[..., :one.plain], turned[:, :-1]], -1)
    heads = queries.shape[1]
    found = np.zeros((batch, heads, one.value))
    for b, n in enumerate(positions):
        cache = np.concatenate([w.latent[b, :n], new[b][None]])
        for h in range(heads):
            keys = np.concatenate([cache[:, :one.kv_rank] @ w.k_b[h].T, cache[:, one.kv_rank:]], 1)
            scores = keys @ queries[b, h] * (one.plain + one.rotated) ** -0.5
            share = np.exp(scores - scores.max())
            found[b, h] = share @ (cache[:, :one.kv_rank] @ w.v_b[h]) / share.sum()
    return found.reshape(batch, -1) @ w.out, new


def linear(x, w, share):
    """A step of linear attention head by head: the output, the state, and what the convolution keeps of this token."""
    m, batch = share.model, x.shape[0]
    one, keys, values = m.linear, share.key_heads, share.value_heads
    rows = norm(x, w.norm1, m.eps) @ w.linear_in
    convolved = one.columns(keys, values)[0]
    tokens, gate, rest = np.split(rows, [convolved, convolved + values * one.value_dim], 1)
    mixed = (np.concatenate([w.convolved, tokens[:, None]], 1) * w.linear_conv).sum(1)
    mixed = mixed / (1 + np.exp(-mixed))
    q, k, v = np.split(mixed, [keys * one.key_dim, 2 * keys * one.key_dim], 1)
    q, k, v = (part.reshape(batch, -1, d) for part, d in ((q, one.key_dim), (k, one.key_dim), (v, one.value_dim)))
    if one.delta:
        q, k = (part / np.sqrt((part * part).sum(-1, keepdims=True) + 1e-6) for part in (q, k))
        q = q * one.key_dim ** -0.5
    time = np.log1p(np.exp(rest[:, -values:] + w.linear_bias))
    weight = 1 / (1 + np.exp(-rest[:, :values])) if one.delta else time
    state, found = w.state.copy(), np.zeros((batch, values, one.value_dim))
    for b in range(batch):
        for h in range(values):
            key = h // (values // keys)
            s = state[b, :, h] * np.exp(-w.linear_rate[0, h] * time[b, h])
            new = (v[b, h] - (s.T @ k[b, key] if one.delta else 0)) * weight[b, h]
            state[b, :, h] = s + np.outer(k[b, key], new)
            found[b, h] = state[b, :, h].T @ q[b, key] + (0 if one.delta else w.linear_skip[0, h] * v[b, h])
    factor = (gate / (1 + np.exp(-gate))).reshape(batch, values, one.value_dim)
    if one.delta:
        found = norm(found, w.linear_norm, m.eps) * factor
    else:
        found = norm((found * factor).reshape(batch, keys, -1), w.linear_norm, m.eps)
    return found.reshape(batch, -1) @ w.linear_out, state, tokens
