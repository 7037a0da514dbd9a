"""A decoder of any kind in plain torch, in float64: one token of each sequence at a time, every layer as its paper
defines it. Weights have the names and shapes of nkisim_model.step.layer_shapes(), of one rank that has all."""

import torch
import torch.nn.functional as F


class Decoder:
    """A model with the state of its layers. gaps: the lead of each router's last chosen expert on the next one."""

    def __init__(self, model, weights):
        self.m, self.w = model, weights
        self.states = [{} for _ in weights["layers"]]
        self.gaps = []

    def step(self, tokens, position):
        """The logits [batch, vocabulary] after the tokens at a position."""
        x = self.w["embedding"][tokens]
        for number, (w, state) in enumerate(zip(self.w["layers"], self.states)):
            mixers = {"attention": self._latent if self.m.latent else self._attention, "linear": self._linear}
            rows = norm(x, w["norm1"], self.m.eps)
            x = x + sum(mixers[name](rows, w, state, position) for name in self.m.mixer(number).split("+") if name)
            mlp = self.m.mlp(number)
            if mlp:
                rows = norm(x, w["norm2"], self.m.eps)
                x = x + (self._experts(rows, w) if mlp == "experts" else self._dense(rows, w))
        return norm(x, self.w["norm"], self.m.eps) @ self.w["head"]

    # ---- attention ----
    def _attention(self, rows, w, state, position):
        m, batch = self.m, rows.shape[0]
        heads, kvs, d = m.heads, m.kv_heads, m.head_dim
        qkv = rows @ w["qkv"] + (w["qkv_bias"] if m.qkv_bias else 0)
        sizes = [heads * d, kvs * d, kvs * d] + ([heads * d] if m.out_gate else [])
        q, k, v, *gate = (part.reshape(batch, -1, d) for part in qkv.split(sizes, 1))
        if m.qk_norm:
            q, k = norm(q, w["q_norm"], m.eps), norm(k, w["k_norm"], m.eps)
        found = self._attended(rotated(q, position), rotated(k, position), v, state)
        if gate:
            found = found * torch.sigmoid(gate[0])
        return found.reshape(batch, -1) @ w["out"]

    def _attended(self, q, k, v, state):
        """Attention of q [batch, heads, d] to all keys and values so far."""
        for name, new in (("k", k), ("v", v)):
            state[name] = torch.cat([state[name], new[:, :, None]], 2) if name in state else new[:, :, None]
        return F.scaled_dot_product_attention(q[:, :, None], state["k"], state["v"], enable_gqa=True)[:, :, 0]

    def _latent(self, rows, w, state, position):
        one, batch = self.m.latent, rows.shape[0]
        small = norm(rows @ w["q_a"], w["q_a_norm"], self.m.eps) if one.q_rank else rows
        q = (small @ w["q_b"]).reshape(batch, -1, one.plain + one.rotated)
        row = rows @ w["kv_a"]
        packed = norm(row[:, :one.kv_rank], w["kv_a_norm"], self.m.eps)
        turned = rotated(row[:, None, one.kv_rank:], position).expand(-1, q.shape[1], -1)
        q = torch.cat([q[..., :one.plain], rotated(q[..., one.plain:], position)], 2)
        k = torch.cat([torch.einsum("br,hpr->bhp", packed, w["k_b"]), turned], 2)
        v = torch.einsum("br,hrv->bhv", packed, w["v_b"])
        return self._attended(q, k, v, state).reshape(batch, -1) @ w["out"]

    # ---- linear attention ----
    def _linear(self, rows, w, state, position):
        one, batch = self.m.linear, rows.shape[0]
        convolved = one.columns(one.key_heads, one.value_heads)[0]
        gated = one.value_heads * one.value_dim
        tokens, gate, rest = (rows @ w["linear_in"]).split(
            [convolved, gated, one.value_heads * (2 if one.delta else 1)], 1)
        past = state.get("tokens", tokens.new_zeros(batch, one.convolution - 1, convolved))
        window = torch.cat([past, tokens[:, None]], 1)
        state["tokens"] = window[:, 1:]
        mixed = F.silu((window * w["linear_conv"]).sum(1))
        width = one.key_heads * one.key_dim
        q, k, v = (part.reshape(batch, -1, d) for part, d in zip(
            mixed.split([width, width, gated], 1), (one.key_dim, one.key_dim, one.value_dim)))
        each = one.value_heads // one.key_heads
        q, k = q.repeat_interleave(each, 1), k.repeat_interleave(each, 1)
        time = F.softplus(rest[:, -one.value_heads:] + w["linear_bias"])
        decay = torch.exp(-w["linear_rate"] * time)[:, :, None, None]
        s = state.get("s", rows.new_zeros(batch, one.value_heads, one.key_dim, one.value_dim)) * decay
        if one.delta:
            q, k = unit(q) * one.key_dim ** -0.5, unit(k)
            new = (v - torch.einsum("bhkv,bhk->bhv", s, k)) * torch.sigmoid(rest[:, :one.value_heads])[..., None]
        else:
            new = v * time[..., None]
        state["s"] = s = s + k[..., None] * new[:, :, None]
        found = torch.einsum("bhkv,bhk->bhv", s, q)
        gate = F.silu(gate)
        if one.delta:
            found = norm(found, w["linear_norm"], self.m.eps).reshape(batch, -1) * gate
        else:
            found = (found + w["linear_skip"][..., None] * v).reshape(batch, -1) * gate
            found = norm(found.reshape(batch, one.key_heads, -1), w["linear_norm"], self.m.eps).reshape(batch, -1)
        return found @ w["linear_out"]

    # ---- MLP ----
    def _dense(self, rows, w):
        act = {"silu": F.silu, "gelu": lambda a: F.gelu(a, approximate="tanh"), "relu2": lambda a: F.relu(a) ** 2}[
            self.m.act]
        return (act(rows @ w["gate"]) * (rows @ w["up"]) if self.m.gated else act(rows @ w["up"])) @ w["down"]

    def _experts(self, rows, w):
        m, out = self.m, torch.zeros_like(rows)
        chances = torch.softmax(rows @ w["router"], 1)
        best = torch.topk(rows @ w["router"], m.top_k + 1)
        self.gaps.append(float((best.values[:, -2] - best.values[:, -1]).min()))
        weights, numbers = torch.topk(chances, m.top_k)
        if m.normalised_top_k:
            weights = weights / weights.sum(1, keepdim=True)
        for b, row in enumerate(rows):
            for weight, number in zip(weights[b], numbers[b]):
                gate, up = torch.einsum("h,hgi->gi", row, w["gate_up"][number])
                out[b] += weight * (F.silu(gate) * up) @ w["down"][number]
        return out + (self._dense(rows, w["shared"]) if m.shared else 0)


def norm(x, gamma, eps):
    return F.rms_norm(x, x.shape[-1:], eps=eps) * gamma[0]


def unit(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def rotated(heads, position):
    """heads [batch, n, d], whose halves are pairs."""
    half = heads.shape[-1] // 2
    angle = position * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    a, b = heads[..., :half], heads[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)
