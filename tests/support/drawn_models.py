"""Draws config.json files of models that do not exist, by the schemas of public families, and ways to run them: what a
user may ask for, whose every question has an answer or one refusal with its reason."""

import random

HIDDEN = (896, 1024, 1152, 1536, 2048, 2304, 2560, 2880, 3072, 3584, 4096, 4544, 5120, 6144, 7168, 8192)
HEADS = (4, 7, 8, 9, 12, 14, 15, 16, 20, 24, 25, 28, 32, 36, 40, 48, 56, 64, 71, 96, 128)
HEAD_DIM = (64, 80, 96, 112, 128, 192, 256)
LAYERS = (2, 3, 7, 16, 24, 28, 32, 40, 48, 61, 80)
VOCABULARY = (32000, 32001, 49155, 50257, 51865, 65024, 102400, 128256, 129280, 151936, 152064, 200019, 262144)
INNER = (2720, 4864, 5504, 8192, 8960, 10944, 11008, 13824, 14336, 18944, 27648, 29568)
OF_EXPERT = (352, 512, 704, 768, 1024, 1408, 1536, 1856, 2048, 2560, 2880)
EXPERTS = (8, 16, 60, 62, 64, 72, 100, 128, 160, 256, 384, 512)
TOP_K = (1, 2, 4, 6, 8, 10)
TARGETS = ("trn1", "inf2", "trn2", "trn2", "trn3")
TP = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
BATCH = (1, 1, 1, 2, 3, 7, 16, 33, 64, 128, 256)
CONTEXT = (1024, 2048, 5000, 8192, 32768, 131072)
NUMBERS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
FAMILIES = ("dense", "window", "other_mlp", "wrapper", "experts", "shared", "latent", "delta", "mamba", "both")
#: Most sizes of a drawn model that a fast test runs.
SMALL = {"HIDDEN": HIDDEN[:4], "HEADS": HEADS[:9], "LAYERS": LAYERS[:2], "INNER": INNER[:2],
         "OF_EXPERT": OF_EXPERT[:3], "EXPERTS": EXPERTS[:6], "VOCABULARY": VOCABULARY[:3], "TP": TP[:6],
         "BATCH": BATCH[:7], "CONTEXT": CONTEXT[:2]}


class _Draw:
    """A model and a way to run it, of a seed."""

    def __init__(self, seed, small):
        self.rng = random.Random(seed)
        self.sizes = SMALL if small else {}

    def one(self, name):
        return self.rng.choice(self.sizes.get(name, globals()[name]))

    def maybe(self, chance=0.5):
        return self.rng.random() < chance

    def attention(self):
        heads = self.one("HEADS")
        group = self.rng.choice([n for n in range(1, heads + 1) if heads % n == 0])
        found = {"hidden_size": self.one("HIDDEN"), "num_attention_heads": heads, "num_key_value_heads": heads // group,
                 "head_dim": self.one("HEAD_DIM"), "num_hidden_layers": self.one("LAYERS"),
                 "vocab_size": self.one("VOCABULARY"), "rms_norm_eps": 1e-5, "intermediate_size": self.one("INNER"),
                 "tie_word_embeddings": self.maybe(), "rope_theta": 1e6}
        return found | ({"attention_bias": True} if self.maybe(0.3) else {})

    def experts(self, number="num_experts", width="moe_intermediate_size"):
        count = self.one("EXPERTS")
        return {number: count, width: self.one("OF_EXPERT"),
                "num_experts_per_tok": min(count, self.one("TOP_K")), "norm_topk_prob": self.maybe()}

    # ---- families ----
    def dense(self):
        kind = self.rng.choice(("llama", "mistral", "qwen2", "qwen3", "phi3", "granite", "olmo2", "glm4", "smollm3"))
        return {"model_type": kind, **self.attention()}

    def window(self):
        kind = self.rng.choice(("gemma2", "gemma3_text", "cohere2", "mistral"))
        caps = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0} if kind == "gemma2" else {}
        return {"model_type": kind, **self.attention(), **caps,
                "sliding_window": self.rng.choice((128, 512, 1000, 4096))}

    def other_mlp(self):
        kind = self.rng.choice(("starcoder2", "nemotron", "arcee", "phi", "gpt_neox", "falcon", "gpt2"))
        return {"model_type": kind, **self.attention()} | ({"multi_query": True} if kind == "falcon" else {})

    def wrapper(self):
        kind, inner = self.rng.choice((("mistral3", "mistral"), ("gemma3", "gemma3_text"),
                                       ("qwen3_vl", "qwen3_vl_text"), ("qwen2_5_vl", "qwen2_5_vl_text")))
        return {"model_type": kind, "vision_config": {"depth": 2},
                "text_config": {"model_type": inner, **self.attention()}}

    def mixture(self):
        kind = self.rng.choice(("qwen3_moe", "mixtral", "gpt_oss", "olmoe", "phimoe"))
        keys = {"qwen3_moe": (), "olmoe": ("num_experts", "intermediate_size")}.get(
            kind, ("num_local_experts", "intermediate_size"))
        more = {"sliding_window": 128} if kind == "gpt_oss" else {}
        return {"model_type": kind, **self.attention(), **self.experts(*keys), **more}

    def shared(self):
        kind = self.rng.choice(("glm4_moe", "dots1", "qwen2_moe", "llama4", "ernie4_5_moe"))
        base = self.attention()
        if kind in ("glm4_moe", "dots1"):
            more = {**self.experts("n_routed_experts"), "n_shared_experts": self.rng.choice((1, 2)),
                    "first_k_dense_replace": self.rng.choice((0, 1, 3))}
        elif kind == "qwen2_moe":
            more = {**self.experts(), "shared_expert_intermediate_size": self.one("OF_EXPERT")}
        elif kind == "ernie4_5_moe":
            more = {**self.experts("moe_num_experts"), "moe_num_shared_experts": 2, "moe_layer_start_index": 1}
        else:
            text = {"model_type": "llama4_text", **base, **self.experts("num_local_experts", "intermediate_size"),
                    "intermediate_size_mlp": self.one("INNER"), "interleave_moe_layer_step": self.rng.choice((1, 2))}
            return {"model_type": "llama4", "text_config": text}
        return {"model_type": kind, **base, **more}

    def latent(self):
        kind = self.rng.choice(("deepseek_v2", "deepseek_v3", "kimi_k2", "minicpm3", "glm4_moe_lite"))
        base = self.attention()
        base |= {"kv_lora_rank": self.rng.choice((128, 256, 512)), "qk_nope_head_dim": self.rng.choice((64, 128, 192)),
                 "q_lora_rank": self.rng.choice((None, 768, 1536)), "qk_rope_head_dim": self.rng.choice((32, 64)),
                 "v_head_dim": self.rng.choice((64, 128, 192, 256))}
        del base["head_dim"]
        if kind != "minicpm3":
            base |= {**self.experts("n_routed_experts"), "n_shared_experts": self.rng.choice((1, 2)),
                     "first_k_dense_replace": 1, "n_group": 8, "topk_group": 4}
        return {"model_type": kind, **base}

    def delta(self):
        keys = self.rng.choice((4, 8, 16))
        more = {"linear_num_key_heads": keys, "linear_num_value_heads": keys * self.rng.choice((1, 2, 4)),
                "linear_key_head_dim": self.rng.choice((64, 128)), "linear_value_head_dim": self.rng.choice((64, 128)),
                "linear_conv_kernel_dim": 4, "full_attention_interval": 4}
        if self.maybe():
            return {"model_type": "qwen3_5_text", **self.attention(), **more}
        return {"model_type": "qwen3_next", **self.attention(), **more, **self.experts(),
                "shared_expert_intermediate_size": self.one("OF_EXPERT")}

    def _mamba(self, heads="mamba_n_heads", d="mamba_d_head", state="mamba_d_state", groups="mamba_n_groups"):
        group = self.rng.choice((1, 1, 2, 8))
        return {heads: group * self.rng.choice((3, 8, 12, 16)), d: self.rng.choice((32, 64)),
                state: self.rng.choice((64, 128, 256)), groups: group}

    def mamba(self):
        kind = self.rng.choice(("mamba2", "bamba", "granitemoehybrid", "nemotron_h"))
        base = self.attention()
        if kind == "mamba2":
            keep = ("hidden_size", "num_hidden_layers", "vocab_size")
            return {"model_type": kind, **{k: base[k] for k in keep},
                    **self._mamba("num_heads", "head_dim", "state_size", "n_groups"), "conv_kernel": 4}
        if kind == "nemotron_h":
            pattern = "".join(self.rng.choice("M-M-M*-") for _ in range(base["num_hidden_layers"]))
            return {"model_type": kind, **base, "hybrid_override_pattern": pattern, "conv_kernel": 4,
                    **self._mamba("mamba_num_heads", "mamba_head_dim", "ssm_state_size", "n_groups")}
        layers = [self.rng.choice(("mamba", "mamba", "attention")) for _ in range(base["num_hidden_layers"])]
        experts = {**self.experts("num_local_experts", "intermediate_size"),
                   "shared_intermediate_size": 1024} if kind == "granitemoehybrid" else {}
        return {"model_type": kind, **base, **self._mamba(), **experts, "mamba_d_conv": 4, "layers_block_type": layers}

    def both(self):
        return {"model_type": "falcon_h1", **self.attention(), **self._mamba(), "mamba_d_conv": 4}

    # ---- weights, and how it is run ----
    def packed(self):
        group = self.rng.choice((32, 64, 128))
        return self.rng.choice((
            {}, {}, {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
            {"quantization_config": {"quant_method": "fp8"}}, {"quantization_config": {"quant_method": "mxfp4"}},
            {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": group}},
            {"quantization_config": {"quant_method": "gptq", "bits": self.rng.choice((3, 4, 8)), "group_size": group}},
            {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": {
                "weights": {"num_bits": self.rng.choice((4, 8)), "type": self.rng.choice(("int", "float")),
                            "group_size": self.rng.choice((None, group))}}}}},
            {"quantization": {"bits": self.rng.choice((4, 6, 8)), "group_size": group}}))

    def run(self):
        target = self.rng.choice(TARGETS)
        lnc = 1 if target in ("trn1", "inf2") else self.rng.choice((1, 2))
        return {"target": target, "tp": self.one("TP"), "lnc": lnc, "batch": self.one("BATCH"),
                "context": self.one("CONTEXT"), "cache_dtype": "float8_e4m3" if self.maybe(0.2) else ""}

    def groups(self, config, tp):
        """Groups of ranks with experts of their own, where there are experts."""
        experts = next((config[key] for key in NUMBERS if key in config), 0)
        fit = [n for n in (1, 2, 4, 8, 16) if tp % n == 0 and experts % n == 0]
        return {"ep": self.rng.choice(fit)} if experts else {}


def drawn(seed, small=False):
    """(config, arguments of share_of()) of a seed; families come one after another."""
    draw = _Draw(seed, small)
    family = FAMILIES[seed % len(FAMILIES)]
    config = getattr(draw, "mixture" if family == "experts" else family)()
    config, how = config | draw.packed(), draw.run()
    return config, how | draw.groups(config.get("text_config", config), how["tp"])
