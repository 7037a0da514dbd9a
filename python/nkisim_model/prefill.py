"""A prompt's way through a model as one NKI kernel: nki-library's kernels for context encoding, in the parts of a
decode step. One prompt at a time, whose tokens are rows: x is [1, tokens, hidden] in HBM."""

from __future__ import annotations

from types import SimpleNamespace

from nkisim.record.recorder import state
from nkisim.values.shape import Shape

from . import kernels, library
from .architecture import ModelError
from .share import ROUND, Share
from .step import layer_shapes

HEAD_DIM = 128  # which the library's projection of a prompt needs to give heads apart


def check(share: Share, tokens: int) -> None:
    """Raises a ModelError where the kernels do not take such a prompt."""
    m = share.model
    if tokens < 4 * ROUND or tokens % (4 * ROUND):
        raise ModelError(f"a prompt of {tokens} tokens", f"a multiple of {4 * ROUND}")
    if tokens > share.context:
        raise ModelError(f"a prompt of {tokens} tokens and a context of {share.context}",
                         "no more tokens than the context has")
    if m.window and tokens > m.window:
        raise ModelError(f"a prompt of {tokens} tokens for layers that attend to a window of {m.window}",
                         f"at most {m.window}: the kernels here attend to all tokens before one")
    lacking = ("experts, whose tokens it wants sorted by the chosen ones" if m.experts else
               "a norm of queries and keys" if m.qk_norm else
               f"heads of {m.head_dim} elements" if m.head_dim != HEAD_DIM else "")
    if lacking:
        raise ModelError(f"a prompt for {m.kind}, with {lacking}",
                         f"a dense MLP, no norm of queries and keys, and heads of {HEAD_DIM} elements: nki-library's "
                         "kernels for context encoding have no more in one call")


def arguments(share: Share, tokens: int, layers: int):
    """The arguments of the kernel of `layers` layers: shapes, as time alone is asked."""
    m = share.model

    def make(*shape):
        return Shape(shape, share.dtype)

    return {"tokens": Shape((tokens, 1), "int32"), "embedding": make(m.vocabulary, share.hidden // share.tp),
            "layers": [layer_shapes(share, make, n) for n in range(layers)],
            "cos": make(1, tokens, m.head_dim), "sin": make(1, tokens, m.head_dim),
            "norm": make(1, share.hidden), "head": make(share.hidden, share.vocabulary),
            "rank_offset": Shape((1, 1), "float32")}


def prefill(share: Share, lib):
    """The kernel: a function of arguments(). The regions of its instructions are "LAYER/PART"."""
    import nki.collectives as ncc

    group = ncc.ReplicaGroup(share.groups) if share.tp > 1 else None

    def run(tokens, embedding, layers, cos, sin, norm, head, rank_offset):
        def mark(part, layer=0):
            state.recorder.program.region = f"{layer}/{part}"

        step = SimpleNamespace(library=lib, cos=cos, sin=sin)
        _, count = kernels.cores()
        mark("embedding")
        x = kernels.embedding(tokens, embedding, group).reshape((1, tokens.shape[0], share.hidden))
        for number, weights in enumerate(layers):
            w = SimpleNamespace(**weights)
            for part, run in (("attention", library.attention_of_prompt), ("mlp", library.mlp_of_prompt)):
                mark(part, number)
                delta = run(x, w, share, step)
                kernels.meet(delta, count)
                mark(f"{part} all-reduce", number)
                delta = kernels.total(delta, group)
                mark(f"{part} residual", number)
                x = kernels.residual(x, delta)
        mark("head")
        token = kernels.head(kernels.last_row(x), norm, head, rank_offset, group, share.model.eps)
        state.recorder.program.region = ""
        return (token, *(w[name] for w in layers for name in ("keys", "values")))

    return run
