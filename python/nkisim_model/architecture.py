"""The architecture of a model, read from its Hugging Face `config.json`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import NamedTuple

from nkisim.values.errors import Error
from nkisim_work.foreign import Fields, Foreign
from nkisim_work.foreign import read as read_json

from .formats import Format, FormatError, format_of
from .kinds import KINDS, SAME, renamed, text_of, unknown_keys


#: At most: every layer is recorded, and sizes that are no model's take memory before anything is refused.
MOST = {"num_hidden_layers": 4096, "num_attention_heads": 1 << 16, "num_key_value_heads": 1 << 16}
MOST_SIZE = 1 << 24


class ModelError(Error):
    """A model, or a way to run it, that cannot be predicted; the message says what it lacks."""

    def __init__(self, found, required, operand=""):
        where = f"{operand}: " if operand else ""
        super().__init__(f"{where}{found}; required: {required}", rule="model", operand=operand, found=found,
                         required=required)


@dataclasses.dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: ranks of the projections of keys and values, and of queries (0: none), and a head's
    elements without and with rotation, and of its values."""

    kv_rank: int
    q_rank: int
    plain: int
    rotated: int
    value: int


@dataclasses.dataclass(frozen=True)
class Linear:
    """Layers whose state is a matrix for each head: heads and elements of keys and of values, tokens of the
    convolution. delta: the state's own value for a key is taken from it first (gated delta rule), else it decays alone
    (Mamba 2)."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    convolution: int
    delta: bool

    def columns(self, key_heads: int, value_heads: int) -> tuple[int, int]:
        """Of the projection in, of whoever has so many heads: what the convolution takes, and all. The rest is the
        gate, and one number or two for each head."""
        convolved = 2 * key_heads * self.key_dim + value_heads * self.value_dim
        return convolved, convolved + value_heads * (self.value_dim + (2 if self.delta else 1))


class Notes(NamedTuple):
    """What of a model is not predicted, in words; keys of its config that are not known here."""

    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What someone has of a model: heads, widths, rows of the vocabulary, elements of a token, experts."""

    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    hidden: int
    experts: int
    dense: int
    shared: int
    key_heads: int = 0
    value_heads: int = 0


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A decoder: sizes in elements, of the whole model.

    kind: the config's `model_type`. heads, kv_heads: of queries, of keys and values. inner: width of
    the (or of each expert's) MLP. experts, top_k: 0 for a dense MLP. tied: the head is the embedding.
    window: the last tokens to which the layers of `windowed` attend (one entry for each, again from the front where
    there are more layers); 0: all attend to all. sinks: GPT-OSS's layers, whose attention has a sink for each head,
    whose projections, router and experts have biases, and whose SwiGLU is clamped at `clamp`. quantised: the format
    that the config has for weights, None for none. mixers, mlps: what the layers have, again from the front:
    "attention", "linear" or both ("attention+linear"); "dense", "experts" or "". dense: width of the dense MLP of a
    model with experts. shared: of experts that all tokens take. notes: what is not predicted.
    """

    kind: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    experts: int = 0
    top_k: int = 0
    eps: float = 1e-6
    qk_norm: bool = False
    qkv_bias: bool = False
    normalised_top_k: bool = True
    tied: bool = False
    window: int = 0
    windowed: tuple[bool, ...] = ()
    sinks: bool = False
    clamp: float = 0.0
    quantised: Format | None = None
    gated: bool = True
    act: str = "silu"
    out_gate: bool = False
    dense: int = 0
    shared: int = 0
    mixers: tuple[str, ...] = ("attention",)
    mlps: tuple[str, ...] = ()
    latent: Latent | None = None
    linear: Linear | None = None
    notes: Notes = Notes()

    @property
    def left_out(self) -> tuple[str, ...]:
        return self.notes.left_out

    @property
    def unknown(self) -> tuple[str, ...]:
        return self.notes.unknown

    def has_window(self, layer: int) -> bool:
        """True if a layer attends to the window alone."""
        return bool(self.window) and self.windowed[layer % len(self.windowed)]

    def mixer(self, layer: int) -> str:
        """What mixes the tokens of a layer: "attention", "linear", both with a plus, or ""."""
        return self.mixers[layer % len(self.mixers)]

    def mlp(self, layer: int) -> str:
        """"dense", "experts" or ""."""
        return self.mlps[layer % len(self.mlps)] if self.mlps else "experts" if self.experts else "dense"

    @property
    def sizes(self) -> Sizes:
        """Of the whole model."""
        linear = (self.linear.key_heads, self.linear.value_heads) if self.linear else (0, 0)
        return Sizes(self.heads, self.kv_heads, self.inner, self.vocabulary, self.hidden, self.experts, self.dense,
                     self.shared, *linear)

    @property
    def weights(self) -> dict[str, int]:
        """Elements of the weights by part: attention and MLP of all layers, head, embedding."""
        return self.weights_of(self.sizes)

    def weights_of(self, sizes: Sizes) -> dict[str, int]:
        """The same of whoever has these, but all of the router."""
        table = sizes.vocabulary * sizes.hidden
        layers = range(self.layers)
        return {"attention": sum(self.mixer_weights(n, sizes) for n in layers),
                "mlp": sum(sum(self.mlp_weights(n, sizes).values()) for n in layers), "head": table,
                "embedding": 0 if self.tied else table}

    def mixer_weights(self, layer: int, sizes: Sizes) -> int:
        """Elements of the projections of what mixes a layer's tokens."""
        mixer, h = self.mixer(layer), sizes.hidden
        found = 0
        if "linear" in mixer and self.linear:
            found += h * (self.linear.columns(sizes.key_heads, sizes.value_heads)[1]
                          + sizes.value_heads * self.linear.value_dim)
        if "attention" in mixer:
            found += self._latent_weights(sizes) if self.latent else \
                h * self.head_dim * ((3 if self.out_gate else 2) * sizes.heads + 2 * sizes.kv_heads)
        return found

    def _latent_weights(self, sizes):
        one, h, heads = self.latent, sizes.hidden, sizes.heads
        queries = heads * (one.plain + one.rotated)
        return (h * (one.kv_rank + one.rotated) + (h * one.q_rank + one.q_rank * queries if one.q_rank else h * queries)
                + one.kv_rank * heads * (one.plain + one.value) + heads * one.value * h)

    def mlp_weights(self, layer: int, sizes: Sizes) -> dict[str, int]:
        """Elements of a layer's MLP: of experts, and of what all tokens take (with the router)."""
        kind, h, matrices = self.mlp(layer), sizes.hidden, 3 if self.gated else 2
        if kind == "experts":
            return {"experts": matrices * h * sizes.inner * sizes.experts,
                    "mlp": matrices * h * sizes.shared + h * self.experts}
        return {"mlp": matrices * h * (sizes.dense if self.experts else sizes.inner) if kind else 0}


def read(path: str | os.PathLike) -> Architecture:
    """The Architecture of a config.json (or of the folder that holds one)."""
    path = Path(path)
    path = path / "config.json" if path.is_dir() else path
    try:
        config = read_json(path)
    except Foreign as problem:
        raise ModelError(f"{path} has {problem.found}", problem.required) from None
    except (OSError, ValueError) as problem:
        raise ModelError(f"{path}: {problem}", "a model's config.json") from None
    return of_config(config, str(path))


def of_config(config: dict, name: str = "config") -> Architecture:
    """The Architecture of a config as a dictionary."""
    fields = Fields(config, lambda found, required: ModelError(found, required, name), name)
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ModelError(f"model_type {kind!r}", f"one of {', '.join(KINDS)}", name)
    facts = KINDS[kind]
    quantised = _format(config)
    if quantised not in ("", facts.get("quantised")):
        raise ModelError(f"{name} has a quantization_config",
                         "weights of bfloat16 (quantised ones are not modelled)")

    def number(key, default=None):
        return fields.integer(key, default, 1, MOST.get(key, MOST_SIZE))

    hidden, heads = number("hidden_size"), number("num_attention_heads")
    experts, inner = facts.get("experts", (None, "intermediate_size"))
    head_dim = hidden // heads if config.get("head_dim") is None else number("head_dim")
    if not head_dim:
        raise ModelError(f"hidden_size {hidden} for {heads} heads", "an element at least for each", name)
    found = Architecture(
        kind, number("num_hidden_layers"), hidden, heads, number("num_key_value_heads", heads),
        head_dim, number(inner),
        number("vocab_size"), number(experts) if experts else 0,
        number("num_experts_per_tok") if experts else 0, fields.real("rms_norm_eps", 1e-6, 0, 1),
        facts.get("qk_norm", False), facts.get("qkv_bias", False) or fields.truth("attention_bias"),
        fields.truth("norm_topk_prob", True), fields.truth("tie_word_embeddings"),
        number("sliding_window") if any(windowed := _windowed(fields, facts)) else 0, windowed,
        facts.get("sinks", False), fields.real("swiglu_limit", 7.0, 0) if facts.get("sinks") else 0.0, quantised)
    if found.heads % found.kv_heads:
        raise ModelError(f"{heads} query heads and {found.kv_heads} of keys and values",
                         "a multiple", name)
    if experts and (config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1):
        raise ModelError("layers of which some are dense", "experts in every layer", name)
    return found

    def _left_out(self, towers):
        more = ("attention and MLP side by side, run one after the other",) if self.facts.get("parallel") else ()
        caps = self.config.get("attn_logit_softcapping") and "soft caps of attention" not in self.facts.get("left", ())
        return (*towers, *self.facts.get("left", ()), *more, *(("soft caps of attention",) if caps else ()))

    def _kv_heads(self, heads):
        if self.config.get("multi_query") and not self.config.get("new_decoder_architecture"):
            return 1
        return heads if self.facts.get("latent") else self.number("num_key_value_heads", heads)

    def _inner(self, hidden):
        key = self.facts.get("experts", (None, "intermediate_size"))[1]
        if not self.facts.get("mlp", True):
            return 0
        if "experts" in self.facts and not self._experts():
            key = "intermediate_size"
        value = self.config.get(key)
        if isinstance(value, list) and value:  # one for each layer, or for each expert, and alike
            if len(set(value)) > 1:
                raise ModelError(f"{key} has {len(set(value))} widths", "one width", self.name)
            self.config[key] = value[0]
        ungated = 4 * hidden if self.kind in ("gpt2", "falcon") else None
        return self.number(key, ungated)

def _windowed(fields, facts):
    """Which layers attend to a window alone: `layer_types` says so, else what the kinds have."""
    if not fields.get("sliding_window") or not fields.truth("use_sliding_window", True):
        return (False,)
    if fields.get("layer_types") is not None:
        kinds = fields.texts("layer_types", MOST["num_hidden_layers"])
        return tuple(kind == "sliding_attention" for kind in kinds) or (False,)
    return (True, *[False] * (facts.get("window_every", 1) - 1))
