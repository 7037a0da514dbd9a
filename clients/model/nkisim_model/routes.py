"""Chooses a kernel for each part of a model, with the reason: nki-library's where it supports the
rank's share of the model, else nkisim's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from . import latent, library, linear, mixture, own
from .architecture import ModelError
from .share import ROUND, Share

#: A part by what a layer has: the mixers "attention" and "linear", the MLPs "dense" and "experts".
WITH_LIBRARY = ("trn2", "trn3")
HEAD_DIMS = (64, 128)  # of a head that attention_block_tkg rotates


class Route(NamedTuple):
    """A function as library.py has them; whose it is: "nki-library", "nkisim" or "yours"; and why not the first one."""

    run: Callable
    whose: str
    why: str = ""

    @property
    def said(self) -> str:
        return f"{self.whose} ({self.why})" if self.why else self.whose


class Refused(Exception):
    """A part that nki-library does not take, whatever exception said so."""

    def __init__(self, part: str, problem: Exception) -> None:
        super().__init__(part)
        self.part, self.why = part, said_of(problem)


def said_of(problem: Exception) -> str:
    """The reason that the library gave, in one line."""
    lines = str(problem).strip().splitlines()
    kind = "" if isinstance(problem, AssertionError) else f"{type(problem).__name__}: "
    return f"nki-library refuses it: {kind}{lines[0] if lines else 'an assertion'}"


def of_library(part: str, run: Callable) -> Callable:
    """A part of nki-library, whose exceptions are Refused."""
    @functools.wraps(run)
    def guarded(*given):
        try:
            return run(*given)
        except Exception as problem:
            raise Refused(part, problem) from problem

    return guarded


def routes(share: Share, lib, replaced: dict[str, Callable], refused: dict[str, str] | None = None) -> dict[str, Route]:
    """The Route of each part that the model's layers have. refused: what the library said of a part, or of all (""):
    these are nkisim's."""
    refused = refused or {}
    m, found = share.model, {}
    layers = range(m.layers)
    mixers = {word for n in layers for word in m.mixer(n).split("+") if word}
    mlps = {m.mlp(n) for n in layers} - {""}
    own_parts = {"attention": latent.attention if m.latent else own.attention, "dense": own.mlp,
                 "experts": mixture.experts, "linear": linear.attention}
    its = {"attention": library.attention, "dense": library.mlp, "experts": library.experts}
    for part in (*sorted(mixers), *sorted(mlps)):
        name = "mlp" if part in ("dense", "experts") else "attention"
        why = refused.get("") or refused.get(part) or _why_own(share, lib, part)
        if name in replaced:
            found[part] = Route(replaced[name], "yours")
        elif why:
            if own_parts.get(part) is None:
                raise ModelError(f"{part} of {m.kind}: {why}", "a kernel, which nkisim has not got either")
            less = ", without biases and clamp" if part == "experts" and m.sinks else ""
            found[part] = Route(own_parts[part], "nkisim", why + less)
        else:
            found[part] = Route(of_library(part, its[part]), "nki-library")
    return found


def _why_own(share, lib, part):
    """The reason why nki-library's kernel does not take the share; "" where it does."""
    m = share.model
    if share.own:
        return "as asked"
    if lib is None:
        return "no checkout of nki-library is given"
    if share.target not in WITH_LIBRARY:
        return f"nki-library's decode kernels are not for {share.target}"
    if share.lnc == 1:
        return "the library's parts are run with logical cores of two"
    if share.hidden % (ROUND * share.lnc):
        return f"{share.hidden} elements of a token are no whole tiles of both cores"
    return _OF_PART[part](share, m)


def _attention(share, m):
    if m.latent:
        return "nki-library has no latent attention"
    if share.kv_heads > 1:
        return f"{share.kv_heads} heads of keys and values a rank; attention_block_tkg has one"
    if share.batch * share.heads > ROUND:
        return f"{share.batch} sequences of {share.heads} heads a rank; attention_block_tkg takes {ROUND} together"
    if m.head_dim not in HEAD_DIMS:
        return f"heads of {m.head_dim} elements; attention_block_tkg has {' or '.join(map(str, HEAD_DIMS))}"
    if m.out_gate:
        return "a gate of the heads"
    if share.cache_dtype not in ("", share.dtype):
        return f"a cache of {share.cache_dtype}"
    return _weights(share, "attention")


def _weights(share, part):
    found = share.format_of(part)
    return f"weights of {found.name}" if found else ""


def _dense(share, m):
    if not m.gated or m.act != "silu":
        return f"an MLP with {m.act}" + ("" if m.gated else " and no gate")
    return _weights(share, "mlp") or _batch(share, "mlp_tkg")


def _batch(share, kernel):
    return f"{share.batch} sequences; {kernel} takes {ROUND}" if share.batch > ROUND else ""


def _experts(share, m):
    if m.shared:
        return "experts that all tokens take"
    if not m.gated or m.act != "silu":
        return f"experts with {m.act}"
    if share.ep > 1 and share.pairs < share.experts:
        return (f"of the {share.experts} experts of a group tokens choose {share.pairs} where they choose most; "
                "moe_block_tkg computes all")
    if share.ep == 1 and share.batch * m.top_k >= m.experts:
        return (f"{share.batch} sequences choose {share.batch * m.top_k} of {m.experts} experts; moe_block_tkg reads "
                "each one's again")
    return _weights(share, "experts") or _batch(share, "moe_block_tkg")


def _linear(share, m):
    return "nki-library has no step of linear attention here"


_OF_PART = {"attention": _attention, "dense": _dense, "experts": _experts, "linear": _linear}


def check(replaced, names) -> None:
    """Raises a ModelError where there is no such part to replace."""
    if unknown := sorted(set(replaced) - set(names)):
        raise ModelError(f"part {unknown[0]!r}", f"one of {', '.join(names)}", "--kernel")
