"""Builds one NKI kernel of a model's whole decode step; each instruction has its part of the model
as label.
"""

from __future__ import annotations

from types import SimpleNamespace

from nkisim.record.recorder import state
from nkisim.values.shape import Shape

from . import formats_on_chip, kernels, library, many
from .routes import Route
from .share import Share

#: The parts of a step, in its order: those of a layer stand for all layers.
PARTS = ("embedding", "attention", "attention all-reduce", "attention residual", "mlp", "mlp all-reduce",
         "mlp residual", "head")
OF_A_LAYER = PARTS[1:7]
REPLACEABLE = ("attention", "mlp")


class Step:
    """The objects that the parts share while a step is recorded: the library and its buffers (None without one),
    cos and sin [rotated elements of a head / 2, batch, 1], mask [tokens in the layer's cache, batch, heads, 1] and
    positions [batch, 1] to write there; layer: the number of the layer that is being recorded. nkisim's own attention
    has the mask and the positions as places.py has them."""

    def __init__(self, lib, buffers, cos, sin, mask, positions):
        self.library, self.buffers = lib, buffers
        self.cos, self.sin, self.mask, self.positions = cos, sin, mask, positions
        self.layer = 0


def layer_shapes(share: Share, make, layer: int):
    """A layer's weights and caches."""
    m, s = share.model, share
    mixer, mlp = m.mixer(layer), m.mlp(layer)
    w = {"norm1": make(1, s.hidden), "norm2": make(1, s.hidden)}
    if "attention" in mixer:
        w |= _latent_shapes(s, make, layer) if m.latent else _attention_shapes(s, make, layer)
    if "linear" in mixer:
        w |= _linear_shapes(s, make)
    if s.ep > 1:
        w["group"] = Shape((1, 1), "uint32")
    if mlp == "experts":
        w |= _expert_shapes(s, make)
    elif mlp:
        w |= _dense_shapes(s, make, s.dense if m.experts else s.inner)
    return w


def _projection(s, part, rows, columns):
    """The weights of a projection, in the format of the part: a shape, or data and scales."""
    found = s.format_of(part)
    if found is None:
        return Shape((rows, columns), s.dtype)
    columns += columns % 2
    data = Shape((rows, columns), found.dtype) if found.dtype else Shape((rows, columns // 2), "uint8")
    groups = rows // formats_on_chip.group_of(rows, found.group) if found.group else 1
    return {"data": data, "scale": Shape((max(1, groups), columns), s.dtype)}


def _attention_shapes(s, make, layer):
    m = s.model
    cached, cache = s.cached(layer), s.cache_dtype or s.dtype
    columns = m.head_dim * (s.heads * (2 if m.out_gate else 1) + 2 * s.kv_heads)
    w = {"qkv": _projection(s, "attention", s.hidden, columns),
         "out": _projection(s, "attention", s.heads * m.head_dim, s.hidden),
         "qkv_bias": make(1, columns) if m.qkv_bias else None,
         "q_norm": make(1, m.head_dim) if m.qk_norm else None,
         "k_norm": make(1, m.head_dim) if m.qk_norm else None,
         "keys": Shape((s.batch, s.kv_heads, m.head_dim, cached), cache),
         "values": Shape((s.batch, s.kv_heads, cached, m.head_dim), cache)}
    return w | ({"sink": make(s.heads, 1), "out_bias": make(1, s.hidden)} if m.sinks else {})


def _latent_shapes(s, make, layer):
    one, queries = s.model.latent, s.heads * (s.model.latent.plain + s.model.latent.rotated)
    size = one.kv_rank + one.rotated
    return {"kv_a": make(s.hidden, size), "kv_a_norm": make(1, one.kv_rank),
            "q_a": make(s.hidden, one.q_rank) if one.q_rank else None,
            "q_a_norm": make(1, one.q_rank) if one.q_rank else None,
            "q_b": make(one.q_rank or s.hidden, queries), "k_b": make(s.heads, one.plain, one.kv_rank),
            "v_b": make(s.heads, one.kv_rank, one.value), "out": make(s.heads * one.value, s.hidden),
            "latent": Shape((s.batch, s.cached(layer), size), s.cache_dtype or s.dtype)}


def _linear_shapes(s, make):
    one = s.model.linear
    convolved, columns = one.columns(s.key_heads, s.value_heads)
    each = one.value_dim * (1 if one.delta else s.value_heads // s.key_heads)

    def exact(*shape):
        return Shape(shape, "float32")

    return {"linear_in": make(s.hidden, columns), "linear_conv": make(one.convolution, convolved),
            "linear_bias": exact(1, s.value_heads), "linear_rate": exact(1, s.value_heads),
            "linear_skip": exact(1, s.value_heads), "linear_norm": make(1, each),
            "linear_out": make(s.value_heads * one.value_dim, s.hidden),
            "state": exact(s.batch, one.key_dim, s.value_heads, one.value_dim),
            "convolved": make(s.batch, one.convolution - 1, convolved)}


def _dense_shapes(s, make, width):
    width += width % 2 if s.format_of("mlp") else 0
    return {"gate": _projection(s, "mlp", s.hidden, width) if s.model.gated else None,
            "up": _projection(s, "mlp", s.hidden, width), "down": _projection(s, "mlp", width, s.hidden)}


def _expert_shapes(s, make):
    m = s.model
    gates = 2 if m.gated else 1
    w = {"router": make(s.hidden, m.experts), "gate_up": make(s.experts, s.hidden, gates, s.inner),
         "down": make(s.experts, s.inner, s.hidden)}
    if m.sinks:
        w |= {"router_bias": make(1, m.experts), "gate_up_bias": make(s.experts, 2, s.inner),
              "down_bias": make(s.experts, s.hidden)}
    if m.shared:
        w["shared"] = _dense_shapes(s, make, s.shared)
    return w


def arguments(share: Share, layers: int, routes: dict[str, Route] | None = None):
    """The arguments of the kernel of `layers` layers: shapes, as time alone is asked."""
    m, s = share.model, share
    own = bool(routes) and routes.get("attention", Route(None, "")).whose == "nkisim"

    def make(*shape):
        return Shape(shape, share.dtype)

    def mask(tokens):
        return Shape((128, s.batch, tokens // 128), s.dtype) if own else Shape((tokens, s.batch, s.heads, 1), "uint8")

    def positions():
        slots = Shape((s.kv_heads, s.batch, 1), "uint32")
        return (slots, slots) if own else Shape((s.batch, 1), "uint32")

    windowed = next((n for n in range(layers) if m.has_window(n)), None)
    half = ((m.latent.rotated if m.latent else m.head_dim) // 2, share.batch, 1)
    return {"tokens": Shape((share.batch, 1), "int32"),
            "embedding": make(m.vocabulary, -(-s.hidden // share.tp)),
            "layers": [layer_shapes(share, make, n) for n in range(layers)],
            "cos": make(*half), "sin": make(*half),
            "mask": mask(s.tokens(False)), "positions": positions(),
            "window": None if windowed is None else (mask(s.tokens(True)), positions()),
            "norm": make(1, s.hidden), "head": make(s.hidden, share.vocabulary),
            "rank_offset": Shape((1, 1), "float32")}


def decode(share: Share, lib, routes: dict[str, Route]):
    """The kernel: a function of arguments(). The regions of its instructions are "LAYER/PART"."""
    import nki.collectives as ncc

    group = ncc.ReplicaGroup(share.groups) if share.tp > 1 else None
    m = share.model

    def step(tokens, embedding, layers, cos, sin, mask, positions, window, norm, head, rank_offset):
        def mark(part, layer=0):
            state.recorder.program.region = f"{layer}/{part}"

        shared = Step(lib, None if lib is None else library.manager(lib, "step"), cos, sin, mask, positions)
        _, count = kernels.cores()
        mark("embedding")
        x = kernels.embedding(tokens, embedding, group, share.hidden)
        for number, weights in enumerate(layers):
            w, shared.layer = SimpleNamespace(**weights), number
            shared.mask, shared.positions = window if m.has_window(number) else (mask, positions)
            for part, kinds in (("attention", m.mixer(number)), ("mlp", m.mlp(number))):
                found = [routes[kind] for kind in kinds.split("+") if kind]
                if not found:
                    continue
                mark(part, number)
                if lib is not None:
                    shared.buffers.set_name_prefix(f"L{number}_{part}_")
                delta = found[0].run(x, w, share, shared)
                kernels.meet(delta, count)
                for more in found[1:]:
                    other = more.run(x, w, share, shared)
                    kernels.meet(other, count)
                    delta = kernels.residual(delta.reshape(x.shape), other.reshape(x.shape))
                mark(f"{part} all-reduce", number)
                delta = kernels.total(delta, group)
                mark(f"{part} residual", number)
                x = kernels.residual(x, delta)
        mark("head")
        token = many.head(x, norm, head, rank_offset, group, share) if many.needed(share) else \
            kernels.head(x, norm, head, rank_offset, group, m.eps, m.hidden)
        state.recorder.program.region = ""
        return (token, *(w[name] for w in layers for name in CACHES if name in w))

    return step


#: Tensors that a step leaves for the next, by the names of a layer's weights.
CACHES = ("keys", "values", "latent", "state", "convolved")
