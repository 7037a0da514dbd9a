"""Lists the model types (such as llama) that a config.json may name, the layers of each, and the
known config fields.
"""

from __future__ import annotations

from typing import Any

#: Facts of a model's layers that `model_type` decides, where no other key does. experts: the keys of their number and
#: width.
#: left: what a kind has that the prediction leaves out, in words. parallel: attention and MLP read the same input.
#: gated: the MLP has a gate; act: its function. window_every: of so many layers the first has the window.
POST = "norms after attention and MLP"
SCALES = "scaling of embedding, residuals and logits"
LAYER_NORM = "means and biases of LayerNorm, which is run as RMSNorm"
KINDS: dict[str, dict[str, Any]] = {
    "llama": {}, "mistral": {}, "ministral3": {}, "qwen2": {"qkv_bias": True}, "qwen3": {"qk_norm": True},
    "qwen3_moe": {"qk_norm": True, "experts": ("num_experts", "moe_intermediate_size")},
    "mixtral": {"experts": ("num_local_experts", "intermediate_size")},
    "gpt_oss": {"experts": ("num_local_experts", "intermediate_size"), "qkv_bias": True, "sinks": True,
                "window_every": 2},
    # dense, as Llama under other names
    "phi3": {}, "smollm3": {}, "seed_oss": {}, "internlm2": {}, "internlm3": {}, "ernie4_5": {}, "exaone": {},
    "minicpm": {"left": (SCALES,)}, "granite": {"left": (SCALES,)}, "helium": {}, "mistral_nemo": {},
    "baichuan": {}, "orion": {"left": (LAYER_NORM,)}, "hunyuan_v1_dense": {"qk_norm": True}, "yi": {},
    "olmo": {"left": (LAYER_NORM,)}, "olmo2": {"qk_norm": True, "left": ("norms after, not before, the parts",)},
    "olmo3": {"qk_norm": True, "left": ("norms after, not before, the parts",)},
    "glm": {}, "glm4": {"left": (POST,)}, "exaone4": {"qk_norm": True, "left": ("norms after, not before, the parts",)},
    "gemma": {"act": "gelu", "tied": True, "left": (SCALES,)},
    "gemma2": {"act": "gelu", "tied": True, "window_every": 2, "left": (POST, SCALES, "soft caps of attention")},
    "gemma3_text": {"act": "gelu", "tied": True, "qk_norm": True, "window_pattern": 6, "left": (POST, SCALES)},
    "apertus": {"gated": False, "act": "relu2", "qk_norm": True}, "arcee": {"gated": False, "act": "relu2"},
    "nemotron": {"gated": False, "act": "relu2", "left": (LAYER_NORM,)},
    "stablelm": {"left": (LAYER_NORM,)}, "starcoder2": {"gated": False, "act": "gelu", "left": (LAYER_NORM,)},
    "cohere": {"parallel": True, "tied": True, "left": (LAYER_NORM,)},
    "cohere2": {"parallel": True, "tied": True, "left": (LAYER_NORM,), "window_pattern": 4},
    "phi": {"gated": False, "act": "gelu", "parallel": True, "left": (LAYER_NORM,)},
    "gpt_neox": {"gated": False, "act": "gelu", "parallel": True, "left": (LAYER_NORM,)},
    "falcon": {"gated": False, "act": "gelu", "parallel": True, "left": (LAYER_NORM,)},
    "gpt2": {"gated": False, "act": "gelu", "tied": True, "left": (LAYER_NORM, "embedding of positions")},
    # experts
    "qwen2_moe": {"qkv_bias": True, "experts": ("num_experts", "moe_intermediate_size")},
    "olmoe": {"qk_norm": True, "experts": ("num_experts", "intermediate_size")},
    "phimoe": {"experts": ("num_local_experts", "intermediate_size"), "left": (LAYER_NORM,)},
    "granitemoe": {"experts": ("num_local_experts", "intermediate_size"), "left": (SCALES,)},
    "llama4_text": {"experts": ("num_local_experts", "intermediate_size"), "dense": "intermediate_size_mlp",
                    "left": ("attention in chunks, taken as full",), "shared_always": True},
    "glm4_moe": {"experts": ("n_routed_experts", "moe_intermediate_size"), "left": ("groups in routing",)},
    "ernie4_5_moe": {"experts": ("moe_num_experts", "moe_intermediate_size")},
    "hunyuan_v1_moe": {"qk_norm": True, "experts": ("num_experts", "moe_intermediate_size")},
    "dots1": {"qk_norm": True, "experts": ("n_routed_experts", "moe_intermediate_size"),
              "left": ("groups in routing",)},
    "bailing_moe": {"experts": ("num_experts", "moe_intermediate_size")},
    "minimax_m2": {"qk_norm": True, "experts": ("num_local_experts", "intermediate_size")},
    # latent attention
    "deepseek_v2": {"latent": True, "experts": ("n_routed_experts", "moe_intermediate_size"),
                    "left": ("groups in routing",)},
    "deepseek_v3": {"latent": True, "experts": ("n_routed_experts", "moe_intermediate_size"),
                    "left": ("groups in routing", "prediction of several tokens")},
    "glm4_moe_lite": {"latent": True, "experts": ("n_routed_experts", "moe_intermediate_size"),
                      "left": ("groups in routing", "prediction of several tokens")},
    "minicpm3": {"latent": True, "left": (SCALES,)},
    # linear attention and hybrids
    "qwen3_next": {"qk_norm": True, "out_gate": True, "experts": ("num_experts", "moe_intermediate_size"),
                   "linear": "delta"},
    "qwen3_5_text": {"qk_norm": True, "out_gate": True, "linear": "delta"},
    "qwen3_5_moe_text": {"qk_norm": True, "out_gate": True, "experts": ("num_experts", "moe_intermediate_size"),
                         "linear": "delta"},
    "mamba2": {"linear": "mamba", "mlp": False, "attention": False},
    "bamba": {"linear": "mamba"},
    "granitemoehybrid": {"linear": "mamba", "experts": ("num_local_experts", "intermediate_size"),
                         "left": (SCALES,)},
    "nemotron_h": {"linear": "mamba", "single": True, "gated": False, "act": "relu2"},
    "falcon_h1": {"linear": "mamba", "both": True, "left": (SCALES,)},
}
#: Other names of these.
SAME = {"qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2",
        "qwen3_vl": "qwen3", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe", "gemma3": "gemma3_text",
        "llama4": "llama4_text", "kimi_k2": "deepseek_v3", "ministral": "mistral", "glm4_moe_text": "glm4_moe",
        "glm4v_text": "glm4", "mixtral_text": "mixtral", "kimi_vl": "deepseek_v3", "qwen3_5": "qwen3_5_text",
        "qwen3_5_moe": "qwen3_5_moe_text", "glm4v_moe_text": "glm4_moe", "granitemoeshared": "granitemoe",
        "hunyuan": "hunyuan_v1_dense", "phi4mm": "phi3", "exaone3": "exaone", "bailing_moe_v2": "bailing_moe"}
#: Where a wrapper has the config of its decoder.
TEXT_KEYS = ("text_config", "llm_config", "language_config")
#: Keys by the names that older configs have.
ALIASES = {"hidden_size": ("n_embd", "d_model", "dim"), "num_attention_heads": ("n_head", "n_heads"),
           "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
           "num_key_value_heads": ("num_kv_heads", "multi_query_group_num"),
           "intermediate_size": ("n_inner", "ffn_hidden_size", "ffn_dim", "d_ff"),
           "num_experts_per_tok": ("moe_topk", "moe_k", "num_experts_per_token"),
           "rms_norm_eps": ("layer_norm_eps", "norm_epsilon", "layer_norm_epsilon", "layernorm_epsilon", "norm_eps")}
#: Keys that decide the cost and are read here.
READ = {"model_type", "hidden_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "head_dim",
        "intermediate_size", "vocab_size", "rms_norm_eps", "num_experts_per_tok", "attention_bias", "norm_topk_prob",
        "tie_word_embeddings", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types",
        "sliding_window_pattern", "swiglu_limit", "quantization_config", "quantization", "compression_config",
        "num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts", "moe_intermediate_size",
        "intermediate_size_mlp", "shared_expert_intermediate_size", "shared_intermediate_size", "n_shared_experts",
        "num_shared_experts", "moe_num_shared_experts", "num_shared_expert", "first_k_dense_replace",
        "moe_layer_start_index", "interleave_moe_layer_step", "mlp_only_layers", "decoder_sparse_step",
        "moe_layer_freq", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "qk_head_dim",
        "v_head_dim", "linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim",
        "linear_value_head_dim", "linear_conv_kernel_dim", "full_attention_interval", "layers_block_type",
        "hybrid_override_pattern", "attn_layer_indices", "mamba_n_heads", "mamba_num_heads", "mamba_d_head",
        "mamba_head_dim", "mamba_d_state", "ssm_state_size", "mamba_n_groups", "n_groups", "state_size", "num_heads",
        "expand", "mamba_d_conv", "conv_kernel", "mlp_hidden_act", "hidden_act", "hidden_activation",
        "use_qkv_bias", "qkv_bias",
        "attention_in_bias", "multi_query", "new_decoder_architecture", "attn_output_gate"}
#: Keys that change no cost of a step, or one that is said in `left`.
HARMLESS = set("""
architectures auto_map torch_dtype dtype transformers_version use_cache initializer_range attention_dropout
hidden_dropout resid_pdrop embd_pdrop attn_pdrop residual_dropout residual_dropout_prob embedding_dropout dropout
hidden_dropout_prob max_position_embeddings max_model_len max_length n_positions n_ctx seq_length pretraining_tp
rope_theta rope_scaling rope_parameters rope_pct partial_rotary_factor rotary_dim rotary_emb_base rotary_pct
rope_interleave rope_local_base_freq original_max_position_embeddings no_rope_layers no_rope_layer_interval
nope_layer_interval bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id image_token_id
image_token_index video_token_id vision_start_token_id vision_end_token_id vision_token_id audio_token_id
boi_token_index eoi_token_index vision_config audio_config vision_feature_layer vision_feature_select_strategy
multimodal_projector_bias projector_hidden_act spatial_merge_size mm_tokens_per_image is_encoder_decoder is_decoder
add_cross_attention name_or_path _name_or_path _attn_implementation attn_implementation
_attn_implementation_internal id2label label2id problem_type mlp_bias output_attentions output_hidden_states
output_router_logits return_dict use_return_dict router_aux_loss_coef router_jitter_noise router_z_loss_coef
aux_loss_alpha seq_aux scoring_func topk_method topk_group n_group routed_scaling_factor
moe_router_use_expert_bias_correction moe_use_aux_free norm_expert_weight use_qk_norm qk_norm query_pre_attn_scalar
attn_logit_softcapping final_logit_softcapping logit_scale logits_scaling attention_multiplier embedding_multiplier
residual_multiplier scale_emb scale_depth dim_model_base mup_base_width mup_use_scaling experts_per_token
num_nextn_predict_layers ep_size attn_temperature_tuning attn_scale floor_scale attention_chunk_size moe_layers
head_dtype use_bias bias use_conv_bias mamba_conv_bias mamba_proj_bias use_mamba_kernels mamba_chunk_size chunk_size
time_step_limit time_step_min time_step_max time_step_floor time_step_rank rescale_prenorm_residual residual_in_fp32
rms_norm norm_before_gate hidden_act_alpha activation_function tokenizer_class for_llm_compressor
use_parallel_residual parallel_attn alibi apply_residual_connection_post_layernorm layer_norm_bias qk_layernorm
clip_qkv mtp_num_hidden_layers mtp_use_dedicated_embeddings mlp_layer_types attn_output_gate_act mamba_ssm_dtype
num_logits_to_keep mamba_dt_max mamba_dt_min mamba_dt_limit mamba_dt_rank mamba_expand mamba_norm_before_gate
mamba_rms_norm mamba_use_mlp position_embedding_type use_sliding_window_layers lm_head_multiplier key_multiplier
attention_in_multiplier attention_out_multiplier mlp_multipliers ssm_in_multiplier ssm_multipliers
ssm_out_multiplier projectors_bias mlp_expansion_factor initial_context_length layer_norm_elementwise_affine
cache_implementation use_bidirectional_attention summary_type summary_use_proj summary_activation
summary_first_dropout summary_proj_to_labels task_specific_params scale_attn_weights scale_attn_by_inverse_layer_idx
reorder_and_upcast_attn gradient_checkpointing moe_layer_end_index moe_layer_interval moe_capacity moe_gate
moe_use_hard_router moe_aux_loss_coeff use_rope aux_loss_coef swa_rope_theta ffn_config_moe input_jitter_noise
lm_head_bias decoder_start_token_id
""".split())


def text_of(config: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The config of the decoder, which a wrapper has within; and what else the wrapper has, in words."""
    inner = next((config[key] for key in TEXT_KEYS if isinstance(config.get(key), dict)), None)
    towers = [key.removesuffix("_config") for key in ("vision_config", "audio_config") if config.get(key)]
    left = [f"the {name} tower" for name in towers]
    if inner is None:
        return config, left
    outer = ("model_type", "tie_word_embeddings", "quantization_config", "quantization", "compression_config")
    found = {**{key: config[key] for key in outer if key in config}, **inner}
    if found.get("model_type") not in (*KINDS, *SAME) and config.get("model_type") in (*KINDS, *SAME):
        found["model_type"] = config["model_type"]
    return found, left


def renamed(config: dict[str, Any]) -> dict[str, Any]:
    """The config with today's names for its keys."""
    found = dict(config)
    for name, others in ALIASES.items():
        for other in others:
            if other in found:
                value = found.pop(other)
                found.setdefault(name, value)
    return found


def unknown_keys(config: dict[str, Any]) -> tuple[str, ...]:
    """The keys of a config that are not known here: whether they change the cost is not known."""
    return tuple(sorted(key for key, value in config.items()
                        if key not in {*READ, *HARMLESS, *TEXT_KEYS} and value is not None and value is not False))
