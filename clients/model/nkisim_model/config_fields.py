"""Checks the types of the fields of a model's config.json before any is used, as the file is
untrusted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nkisim_work.foreign import Fields

#: The most layers: each may be recorded. Other sizes beyond theirs are no model's.
MOST = {"num_hidden_layers": 4096, "num_attention_heads": 1 << 16, "num_key_value_heads": 1 << 16}
MOST_SIZE = 1 << 24
_FLAGS = ("attention_bias", "qkv_bias", "norm_topk_prob", "tie_word_embeddings", "attn_output_gate", "multi_query",
          "new_decoder_architecture", "use_sliding_window")
_REALS = {"rms_norm_eps": 1.0, "swiglu_limit": 1e6}
#: Numbers, or one for each layer.
_MANY = ("mlp_only_layers", "attn_layer_indices", "n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
         "num_shared_expert", "intermediate_size", "moe_intermediate_size", "moe_layer_start_index")


def checked(config: dict[str, Any], refuse: Callable[[str, str], Exception], name: str) -> Fields:
    """The Fields of a config, each of its kind where it is there. `refuse(found, required)` makes the exception."""
    fields = Fields(config, refuse, name)
    for key in _FLAGS:
        fields.truth(key)
    for key, most in _REALS.items():
        if key in fields:
            fields.real(key, None, 0, most)
    if fields.get("hybrid_override_pattern") is not None:
        fields.text("hybrid_override_pattern", None, MOST["num_hidden_layers"])
    for key in _MANY:
        value = fields.get(key)
        items = value if isinstance(value, list) else [] if value is None else [value]
        if len(items) > MOST["num_hidden_layers"] or not all(type(n) is int and 0 <= n <= MOST_SIZE for n in items):
            raise refuse(f"{key} is {value!r:.80}", f"integers from 0 to {MOST_SIZE}")
    return fields
