"""One decode step of a model as one NKI kernel, its instructions labelled by the parts."""

from __future__ import annotations

from types import SimpleNamespace

from nkisim.record.recorder import state
from nkisim.values.shape import Shape

from . import kernels, library
from .share import Share

#: The parts of a step, in its order: those of a layer stand for all layers.
PARTS = ("embedding", "attention", "attention all-reduce", "attention residual", "mlp", "mlp all-reduce",
         "mlp residual", "head")
OF_A_LAYER = PARTS[1:7]
REPLACEABLE = ("attention", "mlp")


class Step:
    """The state that parts share while a step is recorded: the library and its buffers (None without one), cos and sin
    [head_dim / 2, batch, 1], mask [tokens in the layer's cache, batch, heads, 1] and positions [batch, 1] to write
    there; layer: the number of the layer that is being recorded."""

    def __init__(self, lib, buffers, cos, sin, mask, positions):
        self.library, self.buffers = lib, buffers
        self.cos, self.sin, self.mask, self.positions = cos, sin, mask, positions
        self.layer = 0


def layer_shapes(share: Share, make, layer: int):
    """A layer's weights and caches."""
    m, s = share.model, share
    cached = s.cached(layer)
    columns = m.head_dim * (s.heads + 2 * s.kv_heads)
    w = {"qkv": make(s.hidden, columns), "out": make(s.heads * m.head_dim, s.hidden),
         "norm1": make(1, s.hidden), "norm2": make(1, s.hidden),
         "qkv_bias": make(1, columns) if m.qkv_bias else None,
         "q_norm": make(1, m.head_dim) if m.qk_norm else None,
         "k_norm": make(1, m.head_dim) if m.qk_norm else None,
         "keys": make(s.batch, s.kv_heads, m.head_dim, cached),
         "values": make(s.batch, s.kv_heads, cached, m.head_dim)}
    if m.sinks:
        w |= {"sink": make(s.heads, 1), "out_bias": make(1, s.hidden), "router_bias": make(1, m.experts),
              "gate_up_bias": make(s.experts, 2, s.inner), "down_bias": make(s.experts, s.hidden)}
    if s.ep > 1:
        w["group"] = Shape((1, 1), "uint32")
    if m.experts:
        w |= {"router": make(s.hidden, m.experts), "gate_up": make(s.experts, s.hidden, 2, s.inner),
              "down": make(s.experts, s.inner, s.hidden)}
    else:
        w |= {"gate": make(s.hidden, s.inner), "up": make(s.hidden, s.inner),
              "down": make(s.inner, s.hidden)}
    return w


def arguments(share: Share, layers: int):
    """The arguments of the kernel of `layers` layers: shapes, as time alone is asked."""
    m, s = share.model, share

    def make(*shape):
        return Shape(shape, share.dtype)

    def mask(tokens):
        return Shape((tokens, share.batch, share.heads, 1), "uint8")

    def positions():
        return Shape((share.batch, 1), "uint32")

    windowed = next((n for n in range(layers) if m.has_window(n)), None)
    half = (m.head_dim // 2, share.batch, 1)
    return {"tokens": Shape((share.batch, 1), "int32"),
            "embedding": make(m.vocabulary, s.hidden // share.tp),
            "layers": [layer_shapes(share, make, n) for n in range(layers)],
            "cos": make(*half), "sin": make(*half),
            "mask": mask(share.context), "positions": positions(),
            "window": None if windowed is None else (mask(share.cached(windowed)), positions()),
            "norm": make(1, s.hidden), "head": make(s.hidden, share.vocabulary),
            "rank_offset": Shape((1, 1), "float32")}


def decode(share: Share, lib, replaced):
    """The kernel: a function of arguments(). Its instructions are labelled "LAYER PART"."""
    import nki.collectives as ncc

    group = ncc.ReplicaGroup(share.groups) if share.tp > 1 else None
    attention = replaced.get("attention", library.attention)
    mlp = replaced.get("mlp", library.experts if share.model.experts else library.mlp)

    def step(tokens, embedding, layers, cos, sin, mask, positions, window, norm, head, rank_offset):
        def mark(part, layer=0):
            state.recorder.region = f"{layer} {part}"

        shared = Step(lib, None if lib is None else library.manager(lib, "step"), cos, sin, mask, positions)
        _, count = kernels.cores()
        mark("embedding")
        x = kernels.embedding(tokens, embedding, group)
        for number, weights in enumerate(layers):
            w, shared.layer = SimpleNamespace(**weights), number
            shared.mask, shared.positions = window if share.model.has_window(number) else (mask, positions)
            for part, run in (("attention", attention), ("mlp", mlp)):
                mark(part, number)
                if lib is not None:
                    shared.buffers.set_name_prefix(f"L{number}_{part}_")
                delta = run(x, w, share, shared)
                kernels.meet(delta, count)
                mark(f"{part} all-reduce", number)
                delta = kernels.total(delta, group)
                mark(f"{part} residual", number)
                x = kernels.residual(x, delta)
        mark("head")
        token = kernels.head(x, norm, head, rank_offset, group, share.model.eps)
        state.recorder.region = None
        return (token, *(w[name] for w in layers for name in ("keys", "values")))

    return step
