"""Reads the architecture of a model from its Hugging Face `config.json`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import NamedTuple

from nkisim.values.errors import Error
from nkisim_work.foreign import Fields, Foreign
from nkisim_work.foreign import read as read_json

from .config_fields import MOST, MOST_SIZE, checked
from .formats import QUANTISED, Format, FormatError, format_of
from .kinds import kind_of, renamed, text_of, unknown_keys


OF_MAMBA = 64  # channels of Mamba 1 that are run as one head


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
        """Columns of the projection in, for so many heads: those that the convolution takes, and all. The rest is the
        gate, and one number or two for each head."""
        convolved = 2 * key_heads * self.key_dim + value_heads * self.value_dim
        return convolved, convolved + value_heads * (self.value_dim + (2 if self.delta else 1))


class Notes(NamedTuple):
    """The things that a model has and a prediction has not, in words; keys of its config that are not known; those that
    it lacks, with the values taken."""

    left_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of a model, or of a share in it: heads, widths, rows of the vocabulary, experts."""

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
        """The mixer of a layer's tokens: "attention", "linear", both with a plus, or ""."""
        return self.mixers[layer % len(self.mixers)]

    def mlp(self, layer: int) -> str:
        """"dense", "experts" or ""."""
        return self.mlps[layer % len(self.mlps)] if self.mlps else "experts" if self.experts else "dense"

    @property
    def sizes(self) -> Sizes:
        """The sizes of the whole model."""
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
    Fields(config, lambda found, required: ModelError(found, required, name), name)
    config, towers = text_of(config)
    kind, facts, why = kind_of(config)
    if why:
        raise ModelError(*why, name)
    return _Reading(kind, facts, renamed(config, kind), name).architecture(config.get("model_type"), towers)


class _Reading:
    """A config's decoder, of a kind."""

    def __init__(self, kind, facts, config, name):
        config, self.assumed = config
        if facts.get("latent") and not config.get("kv_lora_rank"):  # a small model of a kind that mostly has it
            facts = {key: value for key, value in facts.items() if key != "latent"}
        self.kind, self.facts, self.config, self.name = kind, facts, config, name
        self.fields = checked(config, lambda found, required: ModelError(found, required, name), name)

    def number(self, key, default=None, least=1):
        value = self.config.get(key)
        if value is None and default is not None:  # null is as if it were not there
            return default
        fields = self.fields
        if isinstance(value, list) and value:  # one for each layer, or for each expert, and alike
            if any(each != value[0] for each in value):
                raise ModelError(f"{key} has several values", "the same in all layers", self.name)
            fields = Fields({key: value[0]}, lambda f, r: ModelError(f, r, self.name))
        return fields.integer(key, None, least, MOST.get(key, MOST_SIZE))

    def architecture(self, given, towers) -> Architecture:
        facts, config, number = self.facts, self.config, self.number
        hidden, truth = number("hidden_size"), self.fields.truth
        layers, linear = self._layers(), self._linear(hidden)
        heads = number("num_attention_heads") if facts.get("attention", True) else 1
        experts = self._experts()
        latent = Latent(number("kv_lora_rank"), number("q_lora_rank", 0, 0), number("qk_nope_head_dim"),
                        number("qk_rope_head_dim"), number("v_head_dim")) if facts.get("latent") else None
        windowed = self._windowed(layers)
        mixers, mlps = self._mixers(layers, linear), self._mlps(layers, experts)
        found = Architecture(
            given, layers, hidden, heads, self._kv_heads(heads),
            self._head_dim(hidden, heads), self._inner(hidden),
            number("vocab_size"), experts, number("num_experts_per_tok") if experts else 0,
            self.fields.real("rms_norm_eps", 1e-6, 0, 1) if config.get("rms_norm_eps") is not None else 1e-6,
            facts.get("qk_norm", False), facts.get("qkv_bias", False) or truth("attention_bias") or truth("qkv_bias"),
            truth("norm_topk_prob", True), truth("tie_word_embeddings", facts.get("tied", False)),
            number("sliding_window") if any(windowed) else 0, windowed, facts.get("sinks", False),
            self.fields.real("swiglu_limit", 7.0, 0) if facts.get("sinks") else 0.0, self._format(),
            facts.get("gated", True), facts.get("act", "silu"),
            truth("attn_output_gate", facts.get("out_gate", False)),
            number(facts.get("dense", "intermediate_size"), 0, 0) if experts and "dense" in mlps else 0,
            self._shared(experts), mixers, mlps, latent, linear, Notes(
                self._left_out(towers), unknown_keys(config, self.kind, facts), self.assumed))
        if found.heads % found.kv_heads:
            raise ModelError(f"{heads} query heads and {found.kv_heads} of keys and values", "a multiple", self.name)
        rotated = latent.rotated if latent else found.head_dim
        if rotated % 2 and facts.get("attention", True):
            raise ModelError(f"heads of {rotated} elements", "an even number, as halves are rotated", self.name)
        if found.top_k > found.experts:
            raise ModelError(f"{found.top_k} experts a token of {found.experts}", "no more than there are", self.name)
        return found

    def _head_dim(self, hidden, heads):
        found = self.number("head_dim", hidden // heads)
        if not found:
            raise ModelError(f"hidden_size {hidden} for {heads} heads", "an element at least for each", self.name)
        return found

    def _left_out(self, towers):
        more = ("attention and MLP side by side, run one after the other",) if self.facts.get("parallel") else ()
        caps = self.config.get("attn_logit_softcapping") and "soft caps of attention" not in self.facts.get("left", ())
        format_ = next((self.config[key] for key in QUANTISED if isinstance(self.config.get(key), dict)), {})
        cache = ("its cache in fp8, which --cache-dtype float8_e4m3 runs",) if format_.get("kv_cache_scheme") else ()
        return (*towers, *self.facts.get("left", ()), *more, *(("soft caps of attention",) if caps else ()), *cache)

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
        wide = self.facts.get("wide")
        times = self.config.get("expansion_ratio")
        if isinstance(times, int) and times > 0:
            wide = times
        return self.number(key, wide and wide * hidden) // self.facts.get("narrow", 1)

    def _experts(self):
        key = self.facts.get("experts", (None,))[0]
        return 0 if key is None else self.number(key, 0 if self.facts.get("some") else None, 0)

    def _shared(self, experts):
        """The width of experts that all tokens take."""
        if not experts:
            return 0
        if self.facts.get("next_to"):
            return self.number("hidden_size")
        for key in ("shared_expert_intermediate_size", "shared_intermediate_size"):
            if self.config.get(key):
                return self.number(key)
        each = self.number(self.facts["experts"][1])
        for key in ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"):
            count = self.config.get(key)
            if count:
                return each * self.number(key)
        return each if self.facts.get("shared_always") else 0

    def _format(self):
        try:
            return format_of(self.config)
        except FormatError as problem:
            raise ModelError(problem.found, problem.required, self.name) from None

    # ---- layer by layer ----
    def _layers(self):
        pattern = self.config.get("hybrid_override_pattern")
        if isinstance(pattern, str) and pattern and "num_hidden_layers" not in self.config:
            return len(pattern)
        return self.number("num_hidden_layers")

    def _kinds(self, layers, key="layer_types"):
        """The entries of layer_types, one for each layer; None where the config has none."""
        found = self.config.get(key)
        if found is None:
            return None
        if not isinstance(found, list) or len(found) != layers or not all(isinstance(k, str) for k in found):
            count = len(found) if isinstance(found, list) else repr(found)
            raise ModelError(f"{key} of {count} layers", f"one word for each of the {layers} layers", self.name)
        return found

    def _windowed(self, layers):
        """True for each layer that attends to a window alone: `layer_types` says so, else what the kinds have."""
        config = self.config
        if not config.get("sliding_window") or not self.fields.truth("use_sliding_window", True):
            return (False,)
        kinds = self._kinds(layers)
        if kinds is not None:
            return tuple(kind in ("sliding_attention", "sliding", "local") for kind in kinds)
        if "max_window_layers" in config:  # those from that number on
            first = self.number("max_window_layers", 0, 0)
            return tuple(n >= first for n in range(layers))
        pattern = self.number("sliding_window_pattern", self.facts.get("window_pattern", 0), 0)
        if pattern:  # all but the last of so many
            return (*[True] * (pattern - 1), False)
        return (True, *[False] * (self.facts.get("window_every", 1) - 1))

    def _mixers(self, layers, linear):
        if linear is None:
            kinds = self._kinds(layers)
            if kinds and any("linear" in k or "mamba" in k or "conv" in k for k in kinds):
                raise ModelError("layers of linear attention", "the sizes of their heads, which this kind has not",
                                 self.name)
            return ("attention",)
        if not self.facts.get("attention", True):
            return ("linear",)
        if self.facts.get("both"):
            return ("attention+linear",)
        pattern = self.config.get("hybrid_override_pattern")
        if isinstance(pattern, str):
            return tuple({"M": "linear", "*": "attention"}.get(letter, "") for letter in pattern[:layers])
        kinds = self._kinds(layers) or self._kinds(layers, "layers_block_type")
        if kinds:
            return tuple("linear" if "linear" in k or "mamba" in k else "attention" for k in kinds)
        return self._other_mixers(layers)

    def _other_mixers(self, layers):
        """Mixers where no list of words says them."""
        if "attn_layer_period" in self.config:
            every, first = self.number("attn_layer_period"), self.number("attn_layer_offset", 0, 0)
            return tuple("attention" if n % every == first else "linear" for n in range(layers))
        if self.facts["linear"] == "kda":
            listed = self._of_kda("full_attn_layers")
            return tuple("attention" if n + 1 in listed else "linear" for n in range(layers))
        listed = self.config.get("attn_type_list")
        if isinstance(listed, list) and len(listed) == layers:
            return tuple("attention" if each else "linear" for each in listed)
        chosen = self.config.get("attn_layer_indices")
        if isinstance(chosen, list):
            return tuple("attention" if n in chosen else "linear" for n in range(layers))
        every = self.number("full_attention_interval", 4)
        return (*["linear"] * (every - 1), "attention")

    def _mlps(self, layers, experts):
        if not self.facts.get("mlp", True):
            return ("",)
        pattern = self.config.get("hybrid_override_pattern")
        if isinstance(pattern, str):
            return tuple({"-": "dense", "E": "experts"}.get(letter, "") for letter in pattern[:layers])
        if not experts:
            return ("dense",)
        config = self.config
        listed = self._listed_mlps(layers)
        if listed:
            return listed
        first = self.number("first_k_dense_replace", self.number("moe_layer_start_index", 0, 0), 0)
        step = next((self.number(k) for k in ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq")
                     if isinstance(config.get(k), int) and config.get(k)), 1)
        dense = config.get("mlp_only_layers") or ()
        dense = dense if isinstance(dense, list) else (dense,)
        found = tuple("dense" if n < first or n in dense or (n + 1) % step else "experts" for n in range(layers))
        return ("experts",) if set(found) == {"experts"} else found

    def _listed_mlps(self, layers):
        """The MLPs where a list or a period of layers with experts says them; else None."""
        config = self.config
        kinds = self._kinds(layers, "mlp_layer_types")
        if kinds:
            return tuple("dense" if kind == "dense" else "experts" for kind in kinds)
        flags = config.get("moe_layer_freq")
        if isinstance(flags, list) and len(flags) == layers:
            return tuple("experts" if flag else "dense" for flag in flags)
        if isinstance(config.get("moe_layers"), list):
            return tuple("experts" if n in config["moe_layers"] else "dense" for n in range(layers))
        if "expert_layer_period" in config:
            every, first = self.number("expert_layer_period"), self.number("expert_layer_offset", 0, 0)
            return tuple("experts" if n % every == first else "dense" for n in range(layers))
        return None

    def _linear(self, hidden):
        kind, number = self.facts.get("linear"), self.number
        if kind == "delta":
            return Linear(number("linear_num_key_heads"), number("linear_num_value_heads"),
                          number("linear_key_head_dim"), number("linear_value_head_dim"),
                          number("linear_conv_kernel_dim", 4), True)
        if kind == "mamba 1":
            channels = number("channels", number("mamba_expand", 2) * hidden)
            if channels % OF_MAMBA:
                raise ModelError(f"{channels} channels of Mamba", f"a multiple of {OF_MAMBA}", self.name)
            return Linear(1, channels // OF_MAMBA, number("mamba_d_state", number("state_size", 16)), OF_MAMBA,
                          number("mamba_d_conv", number("conv_kernel", 4)), False)
        if kind == "kda":
            heads, dim = self._of_kda("num_heads"), self._of_kda("head_dim")
            return Linear(heads, heads, dim, dim, self._of_kda("short_conv_kernel_size"), True)
        if kind == "lightning":
            heads, dim = number("num_attention_heads"), number("head_dim")
            return Linear(heads, heads, dim, dim, 2, False)
        if kind == "mamba":
            def first(*keys):
                return number(next((k for k in keys if self.config.get(k)), keys[0]))

            return Linear(first("mamba_n_groups", "n_groups"), first("mamba_n_heads", "mamba_num_heads", "num_heads"),
                          first("mamba_d_state", "ssm_state_size", "state_size"),
                          first("mamba_d_head", "mamba_head_dim", "head_dim"), first("mamba_d_conv", "conv_kernel"),
                          False)
        return None

    def _of_kda(self, key):
        """A field of linear_attn_config."""
        fields = Fields(self.config.get("linear_attn_config"), lambda f, r: ModelError(f, r, self.name),
                        "linear_attn_config")
        if not key.endswith("layers"):
            return fields.integer(key, None, 1, MOST_SIZE)
        found = fields.get(key)
        if not isinstance(found, list) or not all(type(n) is int for n in found):
            raise ModelError(f"linear_attn_config.{key} is {found!r:.80}", "numbers of layers, from 1", self.name)
        return found
