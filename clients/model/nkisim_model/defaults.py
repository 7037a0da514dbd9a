"""Lists the values of keys that a config.json may lack, by kind: those of the classes of transformers."""

from typing import Any

_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
_KV, _DIM, _WINDOW = "num_key_value_heads", "head_dim", "sliding_window"


def _of(*sizes: int, **more: Any) -> dict[str, Any]:
    return {**dict(zip(_SIZES, sizes)), **more}


#: Source: the configuration classes of transformers, as known; of keys that public configs are seen to lack.
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": _of(32000, 4096, 11008, 32, 32), "mistral": _of(32000, 4096, 14336, 32, 32, **{_KV: 8}),
    "mixtral": _of(32000, 4096, 14336, 32, 32, **{_KV: 8}, num_local_experts=8, num_experts_per_tok=2),
    "qwen2": _of(151936, 4096, 22016, 32, 32, **{_KV: 32}),
    "qwen3": _of(151936, 4096, 22016, 32, 32, **{_KV: 32, _DIM: 128}),
    "phi3": _of(32064, 3072, 8192, 32, 32), "phi": _of(51200, 2048, 8192, 24, 32),
    "gemma": _of(256000, 3072, 24576, 28, 16, **{_KV: 16, _DIM: 256}),
    "gemma2": _of(256000, 2304, 9216, 26, 8, **{_KV: 4, _DIM: 256, _WINDOW: 4096}),
    "gemma3_text": _of(262208, 2304, 9216, 26, 8, **{_KV: 4, _DIM: 256, _WINDOW: 4096}),
    "llama4_text": _of(202048, 5120, 8192, 48, 40, **{_KV: 8, _DIM: 128}, intermediate_size_mlp=16384,
                       num_local_experts=16, num_experts_per_tok=1),
    "mllama_text_model": _of(128256, 4096, 14336, 40, 32, **{_KV: 8}),
    "gpt2": {"vocab_size": 50257, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12},
    "gpt_bigcode": {"multi_query": True}, "falcon": {"multi_query": True},
    "starcoder2": {_KV: 2},
}
