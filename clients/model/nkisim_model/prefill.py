"""Builds one NKI kernel that takes a prompt through a model, from nki-library's kernels for context
encoding or nkisim's own. It takes one prompt at a time, whose tokens are rows: x is [1, tokens,
hidden] in HBM.
"""

from __future__ import annotations

from types import SimpleNamespace

from nkisim.record.recorder import state
from nkisim.values.shape import Shape

from . import kernels, latent_prompt, library, linear_prompt, many, own_prompt
from .architecture import ModelError
from .routes import WITH_LIBRARY, Route, of_library
from .share import ROUND, Share
from .step import CACHES, layer_shapes

HEAD_DIM = 128  # which the library's projection of a prompt needs to give heads apart


def check(share: Share, tokens: int) -> None:
    """Raises a ModelError where no kernels take such a prompt."""
    if tokens < 1:
        raise ModelError(f"a prompt of {tokens} tokens", "at least 1")
    if tokens > share.context:
        raise ModelError(f"a prompt of {tokens} tokens and a context of {share.context}",
                         "no more tokens than the context has")


def padded(tokens: int, own: bool) -> int:
    """The tokens that a prompt is run as: whole tiles of nkisim's own kernels, or of nki-library's."""
    tile = ROUND if own else 4 * ROUND
    return -(-tokens // tile) * tile


def routes(share: Share, lib, tokens: int, refused: dict[str, str] | None = None) -> dict[str, Route]:
    """The Route of each part of a prompt: all of nki-library where it takes them, as its parts share a layout, else
    nkisim's own. refused: what the library said of parts."""
    m = share.model
    layers = range(m.layers)
    why = next(iter((refused or {}).values()), "") or _why_own(share, lib, padded(tokens, False))
    if why and padded(tokens, True) > own_prompt.MOST_TOKENS:
        raise ModelError(f"a prompt of {tokens} tokens for nkisim's kernels ({why})",
                         f"at most {own_prompt.MOST_TOKENS} tokens")
    kinds = {word for n in layers for word in (*m.mixer(n).split("+"), m.mlp(n)) if word}
    own = {"attention": latent_prompt.attention if m.latent else own_prompt.attention, "dense": own_prompt.mlp,
           "experts": own_prompt.experts, "linear": linear_prompt.attention}
    its = {"attention": library.attention_of_prompt, "dense": library.mlp_of_prompt}
    return {kind: Route(own[kind], "nkisim", why) if why else Route(of_library(kind, its[kind]), "nki-library")
            for kind in sorted(kinds)}


def _why_own(share, lib, tokens):
    """The reason why nki-library's kernels for context encoding do not take the share; "" where they do."""
    m = share.model
    if share.own:
        return "as asked"
    if lib is None:
        return "no checkout of nki-library is given"
    if share.target not in WITH_LIBRARY or share.lnc == 1:
        return "nki-library's kernels are run on trn2 and trn3 with logical cores of two"
    packed = share.format_of("attention") or share.format_of("mlp")
    for lacking, words in ((m.latent, "latent attention"), (m.linear, "linear attention"),
                           (packed, f"weights of {packed.name}" if packed else ""),
                           (m.experts, "experts, whose tokens it wants sorted"),
                           (m.qk_norm, "a norm of queries and keys"),
                           (m.head_dim != HEAD_DIM, f"heads of {m.head_dim} elements"),
                           (share.kv_heads > 1, f"{share.kv_heads} heads of keys and values a rank"),
                           (not m.gated or m.act != "silu", f"an MLP with {m.act}"),
                           (m.sinks or m.out_gate, "sinks or gates of the heads"),
                           (m.window and tokens > m.window, f"a window of {m.window} tokens"),
                           (share.hidden % (ROUND * share.lnc) or share.hidden != m.hidden,
                            "padded elements of a token")):
        if lacking:
            return words
    return ""


def arguments(share: Share, tokens: int, layers: int, whose: str):
    """The arguments of the kernel of `layers` layers: shapes, as time alone is asked."""
    m = share.model

    def make(*shape):
        return Shape(shape, share.dtype)

    rotated = m.latent.rotated if m.latent else m.head_dim
    table = (rotated // 2, tokens, 1) if whose == "nkisim" else (1, tokens, m.head_dim)
    return {"tokens": Shape((tokens, 1), "int32"), "embedding": make(m.vocabulary, -(-share.hidden // share.tp)),
            "layers": [layer_shapes(share, make, n) for n in range(layers)],
            "cos": make(*table), "sin": make(*table),
            "norm": make(1, share.hidden), "head": make(share.hidden, share.vocabulary),
            "rank_offset": Shape((1, 1), "float32")}


def prefill(share: Share, lib, routes: dict[str, Route]):
    """The kernel: a function of arguments(). The regions of its instructions are "LAYER/PART"."""
    import nki.collectives as ncc

    group = ncc.ReplicaGroup(share.groups) if share.tp > 1 else None
    m = share.model

    def run(tokens, embedding, layers, cos, sin, norm, head, rank_offset):
        def mark(part, layer=0):
            state.recorder.program.region = f"{layer}/{part}"

        step = SimpleNamespace(library=lib, cos=cos, sin=sin, layer=0)
        _, count = kernels.cores()
        mark("embedding")
        x = kernels.embedding(tokens, embedding, group, share.hidden).reshape((1, tokens.shape[0], share.hidden))
        for number, weights in enumerate(layers):
            w, step.layer = SimpleNamespace(**weights), number
            for part, kinds in (("attention", m.mixer(number)), ("mlp", m.mlp(number))):
                found = [routes[kind] for kind in kinds.split("+") if kind]
                if not found:
                    continue
                mark(part, number)
                delta = found[0].run(x, w, share, step)
                kernels.meet(delta, count)
                for more in found[1:]:
                    other = more.run(x, w, share, step)
                    kernels.meet(other, count)
                    delta = kernels.residual(delta.reshape(x.shape), other.reshape(x.shape))
                mark(f"{part} all-reduce", number)
                delta = kernels.total(delta, group)
                mark(f"{part} residual", number)
                x = kernels.residual(x, delta)
        mark("head")
        last = kernels.last_row(x)
        token = many.head(last, norm, head, rank_offset, group, share) if many.needed(share) else \
            kernels.head(last, norm, head, rank_offset, group, m.eps, m.hidden)
        state.recorder.program.region = ""
        return (token, *(w[name] for w in layers for name in CACHES if name in w))

    return run
