"""What a model is made of, read from its Hugging Face `config.json`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

from nkisim.values.errors import Error
from nkisim_work.foreign import Fields, Foreign
from nkisim_work.foreign import read as read_json

#: `model_type` of a config: what its layers are. The kinds differ in these facts alone.
KINDS = {
    "llama": {},
    "mistral": {},
    "qwen2": {"qkv_bias": True},
    "qwen3": {"qk_norm": True},
    "qwen3_moe": {"qk_norm": True, "experts": ("num_experts", "moe_intermediate_size")},
    "mixtral": {"experts": ("num_local_experts", "intermediate_size")},
    "gpt_oss": {"experts": ("num_local_experts", "intermediate_size"), "qkv_bias": True, "sinks": True,
                "quantised": "mxfp4", "window_every": 2},
}


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
class Architecture:
    """A decoder: sizes in elements, of the whole model.

    kind: the config's `model_type`. heads, kv_heads: of queries, of keys and values. inner: width of
    the (or of each expert's) MLP. experts, top_k: 0 for a dense MLP. tied: the head is the embedding.
    window: the last tokens to which the layers of `windowed` attend (one entry for each, again from the front where
    there are more layers); 0: all attend to all. sinks: GPT-OSS's layers, whose attention has a sink for each head,
    whose projections, router and experts have biases, and whose SwiGLU is clamped at `clamp`. quantised: the format
    that the config has for weights of experts, "" for none; they are modelled as bfloat16.
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
    quantised: str = ""

    def has_window(self, layer: int) -> bool:
        """Whether a layer attends to the window alone."""
        return bool(self.window) and self.windowed[layer % len(self.windowed)]

    @property
    def weights(self) -> dict[str, int]:
        """Elements of the weights by part: attention and MLP of all layers, head, embedding."""
        return self.weights_of(self.heads, self.kv_heads, self.inner, self.vocabulary, self.hidden, self.experts)

    def weights_of(self, heads: int, kv_heads: int, inner: int, vocabulary: int, hidden: int, experts: int
                   ) -> dict[str, int]:
        """The same of whoever has so many heads, so much of the MLP's width, of the vocabulary and of each token, and
        so many of the experts (0: none), but all of the router."""
        attention = hidden * self.head_dim * (2 * heads + 2 * kv_heads)
        mlp = 3 * hidden * inner * max(1, experts) + hidden * self.experts
        table = vocabulary * hidden
        return {"attention": self.layers * attention, "mlp": self.layers * mlp, "head": table,
                "embedding": 0 if self.tied else table}


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


def _format(config):
    """The format of quantised weights that a config names, "" for none."""
    found = config.get("quantization_config")
    return str(found.get("quant_method", "?") if isinstance(found, dict) else found) if found else ""


def _windowed(fields, facts):
    """Which layers attend to a window alone: `layer_types` says so, else what the kinds have."""
    if not fields.get("sliding_window") or not fields.truth("use_sliding_window", True):
        return (False,)
    if fields.get("layer_types") is not None:
        kinds = fields.texts("layer_types", MOST["num_hidden_layers"])
        return tuple(kind == "sliding_attention" for kind in kinds) or (False,)
    return (True, *[False] * (facts.get("window_every", 1) - 1))
