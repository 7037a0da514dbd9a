"""Lists the model types (such as llama) that a config.json may name, the layers of each, and the
known config fields.
"""

from __future__ import annotations

from typing import Any

from .defaults import DEFAULTS

#: Facts of a model's layers that `model_type` decides, where no other key does. experts: the keys of their number and
#: width; some: of models that have them or not. wide: the MLP is so many times as wide as a token, where no key says
#: it; narrow: so many times narrower than its key says.
#: left: what a kind has that the prediction leaves out, in words. parallel: attention and MLP read the same input.
#: gated: the MLP has a gate; act: its function. window_every: of so many layers the first has the window.
POST = "norms after attention and MLP"
SCALES = "scaling of embedding, residuals and logits"
LAYER_NORM = "means and biases of LayerNorm, which is run as RMSNorm"
POSITIONS, ALIBI = "embedding of positions", "bias of attention by distance"
SEVERAL = "prediction of several tokens"
MAMBA = "low-rank projections of Mamba 1, whose channels are run as Mamba 2's heads of 64"
OLD: dict[str, Any] = {"gated": False, "act": "gelu", "wide": 4}
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
    "falcon": {**OLD, "parallel": True, "left": (LAYER_NORM,)},
    "gpt2": {**OLD, "tied": True, "left": (LAYER_NORM, POSITIONS)},
    "gpt_neo": {**OLD, "tied": True, "left": (LAYER_NORM, POSITIONS)},
    "gpt_bigcode": {**OLD, "tied": True, "left": (LAYER_NORM, POSITIONS)},
    "bloom": {**OLD, "tied": True, "left": (LAYER_NORM, ALIBI)},
    "mpt": {**OLD, "tied": True, "left": (LAYER_NORM, ALIBI)},
    "gptj": {**OLD, "parallel": True, "left": (LAYER_NORM,)},
    "opt": {"gated": False, "act": "relu", "tied": True, "left": (LAYER_NORM, POSITIONS)},
    "persimmon": {"gated": False, "act": "relu2", "qk_norm": True, "left": (LAYER_NORM,)},
    "chatglm": {}, "qwen": {"qkv_bias": True, "narrow": 2}, "bitnet": {"act": "relu2"},
    "mllama_text_model": {"left": ("attention to the image, run as to the text",)},
    "gemma3n_text": {"act": "gelu", "tied": True, "qk_norm": True, "left": (
        POST, SCALES, "embeddings of layers, alternating updates and learned residuals",
        "caches that layers share, of which each has its own here")},
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
    "deepseek": {"experts": ("n_routed_experts", "moe_intermediate_size")},
    "dbrx": {"experts": ("moe_num_experts", "intermediate_size"), "left": (LAYER_NORM,)},
    "grok-1": {"act": "gelu", "tied": True, "experts": ("num_experts", "intermediate_size"), "left": (POST, SCALES)},
    "arctic": {"experts": ("num_local_experts", "intermediate_size"), "next_to": True,
               "left": ("the MLP next to the experts, run with their input",)},
    # latent attention
    "deepseek_v2": {"latent": True, "experts": ("n_routed_experts", "moe_intermediate_size"),
                    "left": ("groups in routing",)},
    "deepseek_v3": {"latent": True, "experts": ("n_routed_experts", "moe_intermediate_size"),
                    "left": ("groups in routing", SEVERAL)},
    "glm4_moe_lite": {"latent": True, "experts": ("n_routed_experts", "moe_intermediate_size"),
                      "left": ("groups in routing", SEVERAL)},
    "deepseek_v32": {"latent": True, "experts": ("n_routed_experts", "moe_intermediate_size"), "left": (
        "groups in routing", SEVERAL, "the indexer that chooses tokens, of which all are read")},
    "minicpm3": {"latent": True, "left": (SCALES,)},
    # linear attention and hybrids
    "qwen3_next": {"qk_norm": True, "out_gate": True, "experts": ("num_experts", "moe_intermediate_size"),
                   "linear": "delta"},
    "qwen3_5_text": {"qk_norm": True, "out_gate": True, "linear": "delta"},
    "qwen3_5_moe_text": {"qk_norm": True, "out_gate": True, "experts": ("num_experts", "moe_intermediate_size"),
                         "linear": "delta"},
    "mamba2": {"linear": "mamba", "mlp": False, "attention": False},
    "bamba": {"linear": "mamba"},
    "granitemoehybrid": {"linear": "mamba", "experts": ("num_local_experts", "intermediate_size"), "some": True,
                         "left": (SCALES,)},
    "nemotron_h": {"linear": "mamba", "single": True, "gated": False, "act": "relu2",
                   "experts": ("n_routed_experts", "moe_intermediate_size"), "some": True},
    "jamba": {"linear": "mamba 1", "experts": ("num_experts", "intermediate_size"), "left": (MAMBA,)},
    "mamba": {"linear": "mamba 1", "mlp": False, "attention": False, "tied": True, "left": (MAMBA,)},
    "falcon_mamba": {"linear": "mamba 1", "mlp": False, "attention": False, "tied": True, "left": (MAMBA,)},
    "kimi_linear": {"latent": True, "linear": "kda", "experts": ("num_experts", "moe_intermediate_size"), "left": (
        "decay of each channel, run as one of each head", "the gate's low rank, run as a whole projection",
        "groups in routing")},
    "minimax_text_01": {"linear": "lightning", "experts": ("num_local_experts", "intermediate_size"), "left": (
        SCALES, "that linear layers have no convolution, run with one over two tokens")},
    "falcon_h1": {"linear": "mamba", "both": True, "left": (SCALES,)},
}
#: Other names of these.
SAME = {"qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2", "qwen2_vl_text": "qwen2", "qwen2_5_vl_text": "qwen2",
        "qwen3_vl": "qwen3", "qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe", "gemma3": "gemma3_text",
        "llama4": "llama4_text", "kimi_k2": "deepseek_v3", "ministral": "mistral", "glm4_moe_text": "glm4_moe",
        "glm4v_text": "glm4", "mixtral_text": "mixtral", "kimi_vl": "deepseek_v3", "qwen3_5": "qwen3_5_text",
        "qwen3_5_moe": "qwen3_5_moe_text", "glm4v_moe_text": "glm4_moe", "granitemoeshared": "granitemoe",
        "hunyuan": "hunyuan_v1_dense", "phi4mm": "phi3", "exaone3": "exaone", "bailing_moe_v2": "bailing_moe",
        "codegen": "gptj", "mimo": "qwen2", "xverse": "llama", "telechat": "llama", "phi3_v": "phi3",
        "minicpmv": "qwen2", "qwen2_5_omni_text": "qwen2", "qwen3_omni_moe_text": "qwen3_moe", "cwm": "llama",
        "qwen2_audio": "qwen2", "glm_moe_dsa": "deepseek_v32", "exaone_moe": "dots1", "ovis": "qwen2"}
#: Decoders that cannot be run here, and why.
REFUSED = {"openelm": "layers of several widths", "nemotron-nas": "layers of several widths",
           "deci": "layers of several widths", "recurrent_gemma": "gated linear recurrent units",
           "rwkv": "the recurrence of RWKV", "rwkv5": "the recurrence of RWKV", "rwkv6": "the recurrence of RWKV",
           "rwkv7": "the recurrence of RWKV", "lfm2": "short gated convolutions",
           "lfm2_moe": "short gated convolutions",
           "zamba": "layers that share their weights", "zamba2": "layers that share their weights",
           "longcat_flash": "layers with two attentions, whose experts run next to the second"}
#: Where a wrapper has the config of its decoder.
TEXT_KEYS = ("text_config", "llm_config", "language_config", "thinker_config")
TOWERS = {"vision_config": "vision", "audio_config": "audio", "img_processor": "vision", "visual": "vision"}
#: Keys by the names that older configs have.
ALIASES = {"hidden_size": ("n_embd", "d_model", "dim"), "num_attention_heads": ("n_head", "n_heads"),
           "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
           "num_key_value_heads": ("num_kv_heads", "multi_query_group_num", "kv_n_heads"),
           "intermediate_size": ("n_inner", "ffn_hidden_size", "ffn_dim", "d_ff"),
           "num_experts_per_tok": ("moe_topk", "moe_k", "num_experts_per_token", "moe_top_k"),
           "moe_layer_freq": ("moe_layer_frequency", "moe_layer_interval"), "vocab_size": ("padded_vocab_size",),
           "head_dim": ("attention_head_dim", "kv_channels"),
           "shared_expert_intermediate_size": ("moe_shared_expert_intermediate_size",), "qkv_bias": ("add_qkv_bias",),
           "rms_norm_eps": ("layer_norm_eps", "norm_epsilon", "layer_norm_epsilon", "layernorm_epsilon", "norm_eps")}
#: Names of one kind alone.
OF_KIND = {"gpt_neo": {"num_heads": "num_attention_heads", "window_size": "sliding_window",
                       "attention_layers": "layer_types"},
           "mamba": {"intermediate_size": "channels"}, "falcon_mamba": {"intermediate_size": "channels"}}
#: Objects whose keys are the config's own.
WITHIN = ("attn_config", "ffn_config")
#: Keys of what not all kinds have.
FEATURES = {"experts": ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
                        "moe_intermediate_size"),
            "latent": ("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim"),
            "linear": ("linear_num_key_heads", "linear_num_value_heads", "mamba_n_heads", "mamba_num_heads",
                       "mamba_d_state", "ssm_state_size", "linear_attn_config", "attn_type_list")}
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
        "attention_in_bias", "multi_query", "new_decoder_architecture", "attn_output_gate", "channels", "mamba_expand",
        "attn_layer_period", "attn_layer_offset", "expert_layer_period", "expert_layer_offset", "linear_attn_config",
        "attn_type_list", "expansion_ratio", "mlp_layer_types", "moe_layers", "is_encoder_decoder", "use_mla",
        "mlp_expansion_factor", "architectures"}
#: Keys that change no cost of a step, or one that is said in `left`.
HARMLESS = set("""
auto_map torch_dtype dtype transformers_version use_cache initializer_range attention_dropout
hidden_dropout resid_pdrop embd_pdrop attn_pdrop residual_dropout residual_dropout_prob embedding_dropout dropout
hidden_dropout_prob max_position_embeddings max_model_len max_length n_positions n_ctx seq_length pretraining_tp
rope_theta rope_scaling rope_parameters rope_pct partial_rotary_factor rotary_dim rotary_emb_base rotary_pct
rope_interleave rope_local_base_freq original_max_position_embeddings no_rope_layers no_rope_layer_interval
nope_layer_interval bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id image_token_id
image_token_index video_token_id vision_start_token_id vision_end_token_id vision_token_id audio_token_id
boi_token_index eoi_token_index vision_config audio_config vision_feature_layer vision_feature_select_strategy
multimodal_projector_bias projector_hidden_act spatial_merge_size mm_tokens_per_image is_decoder
add_cross_attention name_or_path _name_or_path _attn_implementation attn_implementation
_attn_implementation_internal id2label label2id problem_type mlp_bias output_attentions output_hidden_states
output_router_logits return_dict use_return_dict router_aux_loss_coef router_jitter_noise router_z_loss_coef
aux_loss_alpha seq_aux scoring_func topk_method topk_group n_group routed_scaling_factor
moe_router_use_expert_bias_correction moe_use_aux_free norm_expert_weight use_qk_norm qk_norm query_pre_attn_scalar
attn_logit_softcapping final_logit_softcapping logit_scale logits_scaling attention_multiplier embedding_multiplier
residual_multiplier scale_emb scale_depth dim_model_base mup_base_width mup_use_scaling experts_per_token
num_nextn_predict_layers ep_size attn_temperature_tuning attn_scale floor_scale attention_chunk_size
head_dtype use_bias bias use_conv_bias mamba_conv_bias mamba_proj_bias use_mamba_kernels mamba_chunk_size chunk_size
time_step_limit time_step_min time_step_max time_step_floor time_step_rank rescale_prenorm_residual residual_in_fp32
rms_norm norm_before_gate hidden_act_alpha activation_function tokenizer_class for_llm_compressor
use_parallel_residual parallel_attn alibi apply_residual_connection_post_layernorm layer_norm_bias qk_layernorm
clip_qkv mtp_num_hidden_layers mtp_use_dedicated_embeddings attn_output_gate_act mamba_ssm_dtype
num_logits_to_keep mamba_dt_max mamba_dt_min mamba_dt_limit mamba_dt_rank mamba_norm_before_gate
mamba_rms_norm mamba_use_mlp position_embedding_type use_sliding_window_layers lm_head_multiplier key_multiplier
attention_in_multiplier attention_out_multiplier mlp_multipliers ssm_in_multiplier ssm_multipliers
ssm_out_multiplier projectors_bias initial_context_length layer_norm_elementwise_affine
cache_implementation use_bidirectional_attention summary_type summary_use_proj summary_activation
summary_first_dropout summary_proj_to_labels task_specific_params scale_attn_weights scale_attn_by_inverse_layer_idx
reorder_and_upcast_attn gradient_checkpointing moe_layer_end_index moe_capacity moe_gate
moe_use_hard_router moe_aux_loss_coeff use_rope aux_loss_coef swa_rope_theta ffn_config_moe input_jitter_noise
lm_head_bias decoder_start_token_id output_past model_max_length z_loss_weight layer_switch
order_of_interleaved_layers use_embedding_sharing use_gated_activation use_parallel_block use_parallel_embedding
mamba_hidden_act mamba_ssm_cache_dtype num_image_tokens is_llama_config neftune_noise_alpha perceiver_config
pixel_shuffle_factor moe_norm_min prefix layerdrop do_layer_norm_before enable_bias attention_softmax_in_fp32
bias_dropout_fusion masked_softmax_fusion offset_alibi skip_bias_add skip_bias_add_qkv scale_attention_softmax_in_fp32
inference_runner max_batch_size max_sequence_length pad_key_length pre_allocate_kv_cache validate_runner_input rotary
attention_types embed_dropout resid_dropout alibi_bias_max attn_type attn_impl qk_ln softmax_scale attn_uses_sequence_id
prefix_lm emb_pdrop max_seq_len no_bias norm_type learned_pos_emb init_device init_config verbose embedding_fraction
ffn_type logit_softcap add_bias_linear apply_query_key_layer_scaling fp32_residual_connection
multi_query_attention original_rope post_layer_norm rmsnorm attn_dropout_prob emb_dropout_prob bf16
fp16 fp32 onnx_safe use_dynamic_ntk use_logn_attn use_flash_attn softmax_in_fp32
use_cache_kernel moe_jitter_eps moe_loss_weight moe_normalize_expert_weights uniform_expert_assignment ffn_act_fn
attn_output_multiplier embedding_multiplier_scale max_attn_value output_multiplier_scale fused_add_norm
time_step_init_scheme time_step_scale ssm_cfg use_mambapy mixer_rms_eps use_qk_norm mla_use_nope
moe_renormalize moe_router_activation_func num_expert_group use_grouped_topk img_processor embd_layer
batch_vision_input drop_vision_last_layer image_size patch_size query_num slice_config slice_mode use_image_id version
vision_batch_size layernorm_full_attention_alpha layernorm_full_attention_beta layernorm_linear_attention_alpha
layernorm_linear_attention_beta layernorm_mlp_alpha layernorm_mlp_beta postnorm shared_moe_mode unsloth_fixed
unsloth_version embed_layernorm logn training_seqlen base_seqlen flash_attn max_tokenizer_truncation use_pos_enc
enable_expert_tensor_parallelism moe_eval_capacity_factor moe_min_capacity moe_token_dropping
moe_train_capacity_factor parallel_attn_mlp_res rope_freq_constant pool_type add_classification_head class_num
num_media_embeds unused_mm_projector use_rotary_pos_emb position_embedding_xdrope moe_drop_tokens
moe_random_routing_dropped_token group_limited_greedy use_mixed_mlp_moe dense_list cla_share_factor
moe_layer_num_skipped rm_head lm_head
""".split())
#: Keys that change no cost of one kind, or one that is said in its `left`.
OF_KIND_HARMLESS = {
    "arctic": {"use_residual"},
    "mllama_text_model": {"cross_attention_layers"},
    "deepseek_v32": {"index_head_dim", "index_n_heads", "index_topk", "indexer_rope_interleave"},
    "gemma3n_text": {"activation_sparsity_pattern", "altup_active_idx", "altup_coef_clip", "altup_correct_scale",
                     "altup_lr_multiplier", "altup_num_inputs", "hidden_size_per_layer_input", "laurel_rank",
                     "num_kv_shared_layers", "vocab_size_per_layer_input"}}


#: Keys that change no cost where they are as another.
AS_ANOTHER = {"word_embed_proj_dim": "hidden_size", "d_inner": "channels", "conv_dim": "hidden_size"}


def text_of(config: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The config of the decoder, which a wrapper has within; and what else the wrapper has, in words."""
    left: list[str] = []
    while True:
        left += [f"the {name} tower" for key, name in TOWERS.items() if config.get(key)]
        inner = next((config[key] for key in TEXT_KEYS if isinstance(config.get(key), dict)), None)
        if inner is None:
            return config, list(dict.fromkeys(left))
        outer = ("model_type", "architectures", "tie_word_embeddings", "quantization_config", "quantization",
                 "compression_config")
        found = {**{key: config[key] for key in outer if key in config}, **inner}
        if found.get("model_type") not in KNOWN and config.get("model_type") in KNOWN:
            found["model_type"] = config["model_type"]
        config = found


def kind_of(config: dict[str, Any]) -> tuple[str, dict[str, Any], tuple[str, str] | None]:
    """The kind of a decoder's config, its facts, and None. Where it is none, or cannot be run, the last says what it is
    and what is required."""
    given = config.get("model_type")
    kind = SAME.get(given, given) if isinstance(given, str) else ""
    if kind in KINDS:
        return kind, KINDS[kind], None
    classes = config.get("architectures")
    names = [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
    if config.get("is_encoder_decoder") is True or "encoder_layers" in config:
        return kind, {}, (f"model_type {given!r}, an encoder with a decoder", "a decoder alone")
    if kind in REFUSED:
        return kind, {}, (f"model_type {given!r}, with {REFUSED[kind]}", "parts that have a kernel here")
    if names and not any("CausalLM" in name or "LMHead" in name for name in names):
        return kind, {}, (f"model_type {given!r}, as {', '.join(names)[:80]}", "a decoder (...ForCausalLM)")
    if not names or not kind:
        return kind, {}, (f"model_type {given!r}",
                          f"architectures of a decoder (...ForCausalLM), or one of {', '.join(sorted(KNOWN))}")
    return kind, by_keys(config), None


def by_keys(config: dict[str, Any]) -> dict[str, Any]:
    """The facts of a kind that is not known, as its keys have them."""
    found: dict[str, Any] = {"left": ("whatever sets this kind apart: it is read by its keys alone",)}
    number = next((key for key in FEATURES["experts"][:4] if config.get(key)), None)
    if number:
        wide = "moe_intermediate_size" if config.get("moe_intermediate_size") else "intermediate_size"
        found["experts"] = (number, wide)
    if config.get("kv_lora_rank") and config.get("qk_nope_head_dim"):
        found["latent"] = True
    if config.get("linear_num_key_heads"):
        found["linear"] = "delta"
    act = config.get("hidden_act", config.get("activation_function"))
    if act in ("gelu", "gelu_new", "gelu_fast", "relu", "relu2"):
        found |= {"gated": False, "act": act if act.startswith("relu") else "gelu"}
    elif act == "gelu_pytorch_tanh":
        found["act"] = "gelu"
    return found


def renamed(config: dict[str, Any], kind: str = "") -> tuple[dict[str, Any], tuple[str, ...]]:
    """The config with today's names for its keys and with the kind's defaults for those that it lacks, and these in
    words."""
    found = dict(config)
    for name in WITHIN:
        if isinstance(found.get(name), dict):
            found = {**found.pop(name), **found}
    for old, new in OF_KIND.get(kind, {}).items():
        if old in found:
            found.setdefault(new, found.pop(old))
    for name, others in ALIASES.items():
        for other in others:
            if other in found:
                value = found.pop(other)
                found.setdefault(name, value)
    lacking = {key: value for key, value in DEFAULTS.get(kind, {}).items() if key not in found}
    return found | lacking, tuple(f"{key} {value}" for key, value in lacking.items())


def unknown_keys(config: dict[str, Any], kind: str, facts: dict[str, Any]) -> tuple[str, ...]:
    """The keys of a config that are not looked at, and whether they change the cost is not known: those that no kind
    has, and those of what this kind has not. A kind that is not known is one as well."""
    known = READ | HARMLESS | OF_KIND_HARMLESS.get(kind, set()) | {*TEXT_KEYS, *TOWERS}
    known -= {key for feature, keys in FEATURES.items() if feature not in facts for key in keys}
    odd = {key for key, value in config.items() if key not in known and value is not None and value is not False
           and value not in (0, [], {}) and (key not in AS_ANOTHER or value != config.get(AS_ANOTHER[key]))}
    return tuple(sorted(odd | ({"model_type"} if kind not in KINDS else set())))


KNOWN = (*KINDS, *SAME)
