"""Uses the kernels of an aws-neuron/nki-library checkout as the parts of a model's decode step.

A part is a function of (x, weights, share, step): x [batch, 1, hidden] in HBM; what it returns is one
rank's summand of the layer's next value, in the same shape. `--kernel PART=FILE.py:FUNCTION` puts a
user's function in its place.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

from . import kernels
from .architecture import ModelError

#: Names that the parts import; a checkout without one of these is another version.
NAMES = {
    "experimental.transformer.attention_block_tkg": ("attention_block_tkg",),
    "core.mlp.mlp_tkg.mlp_tkg": ("mlp_tkg",),
    "core.mlp.mlp_parameters": ("MLPParameters",),
    "core.moe_block.moe_block_tkg": ("moe_block_tkg",),
    "core.qkv.qkv": ("qkv",),
    "core.attention.attention_cte": ("attention_cte",),
    "core.output_projection.output_projection_cte.output_projection_cte": ("output_projection_cte",),
    "core.mlp.mlp_cte.mlp_cte": ("mlp_cte",),
    "core.utils.allocator": ("BufferManager",),
    "core.utils.common_types": ("NormType", "QuantizationType", "ActFnType", "RouterActFnType",
                                "ExpertAffinityScaleMode",
                                "QKVOutputLayout"),
    "core.utils.logging": ("Logger",),
}
SBUF_BYTES = 200 * 1024  # what the library's own transformer gives to its buffer manager


def load(root) -> SimpleNamespace:
    """The library's names that the parts need."""
    root = Path(root)
    folder = root / "src" / "nkilib_src"
    if not (folder / "nkilib").is_dir():
        raise ModelError(f"--library {root}", "a checkout of aws-neuron/nki-library (src/nkilib_src)")
    for path in (folder, root / "src"):
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))
    found = SimpleNamespace(root=root)
    with _without_references(folder / "nkilib"):
        for module, names in NAMES.items():
            try:
                loaded = importlib.import_module(f"nkilib.{module}")
                for name in names:
                    setattr(found, name, getattr(loaded, name))
            except (ImportError, AttributeError, SyntaxError) as problem:
                raise ModelError(f"nkilib.{module}: {problem}",
                                 "nki-library of April 2026 (commit d2ad3a5) or one that has the same names"
                                 ) from None
    return found


@contextlib.contextmanager
def _without_references(package):
    """Within, the folder of the transformer's kernels imports none of them by itself: with its references in
    torch that would take 500 MiB, and torch need not be installed."""
    name = "nkilib.experimental.transformer"
    if name in sys.modules:
        yield
        return
    bare = ModuleType(name)
    bare.__path__ = [str(package / "experimental" / "transformer")]
    sys.modules[name] = bare
    try:
        yield
    finally:
        sys.modules.pop(name, None)


def manager(library, name):
    """A buffer manager of the library's for one step."""
    return library.BufferManager(0, SBUF_BYTES, library.Logger(name))


def attention(x, w, share, step):
    """RMSNorm, the projections, rotation, attention over the cache and its update, output."""
    lib, m = step.library, share.model
    step.buffers.set_auto_alloc(True)
    none = lib.QuantizationType.NONE
    out = lib.attention_block_tkg(
        X=x, X_hidden_dim_actual=m.hidden, rmsnorm_X_enabled=True, rmsnorm_X_eps=m.eps,
        rmsnorm_X_gamma=w.norm1, W_qkv=w.qkv, bias_qkv=w.qkv_bias, quantization_type_qkv=none,
        weight_dequant_scale_qkv=None, input_dequant_scale_qkv=None,
        rmsnorm_QK_pre_rope_enabled=m.qk_norm, rmsnorm_QK_pre_rope_eps=m.eps,
        rmsnorm_QK_pre_rope_W_Q=w.q_norm, rmsnorm_QK_pre_rope_W_K=w.k_norm,
        cos=step.cos, sin=step.sin, rope_contiguous_layout=True, rmsnorm_QK_post_rope_enabled=False,
        rmsnorm_QK_post_rope_eps=m.eps, rmsnorm_QK_post_rope_W_Q=None, rmsnorm_QK_post_rope_W_K=None,
        K_cache_transposed=True, active_blocks_table=None, K_cache=w.keys, V_cache=w.values,
        attention_mask=step.mask, sink=w.sink if m.sinks else None, update_cache=True,
        kv_cache_update_idx=step.positions, W_out=w.out, bias_out=w.out_bias if m.sinks else None,
        quantization_type_out=none, weight_dequant_scale_out=None, input_dequant_scale_out=None,
        transposed_out=False, out_in_sb=False, sbm=step.buffers)[0]
    while step.buffers.heap:
        step.buffers.pop_heap()
    return out


def mlp(x, w, share, step):
    """RMSNorm, gate, up, SiLU, down."""
    import nki.language as nl

    lib = step.library
    step.buffers.set_auto_alloc(False)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    parameters = lib.MLPParameters(x, w.gate, w.up, w.down, w.norm2, eps=share.model.eps,
                                   normalization_type=lib.NormType.RMS_NORM)
    lib.mlp_tkg(parameters, out, None, sbm=step.buffers)
    return out


def experts(x, w, share, step):
    """RMSNorm, router, the chosen experts of every token; where groups of ranks have experts of their own, all of
    these, with a weight of 0 for tokens that chose others."""
    lib, m = step.library, share.model
    act = lib.ActFnType.SiLU
    more = {"is_all_expert": True, "rank_id": w.group} if share.ep > 1 else {}
    if m.sinks:  # top-k before the softmax, and SiLU with a factor of 1.702 within
        act = lib.ActFnType.Swish
        more |= {"router_bias": w.router_bias, "expert_gate_up_bias": w.gate_up_bias, "expert_down_bias": w.down_bias,
                 "gate_clamp_upper_limit": m.clamp, "up_clamp_upper_limit": m.clamp, "up_clamp_lower_limit": -m.clamp}
    return lib.moe_block_tkg(
        inp=x, gamma=w.norm2, router_weights=w.router, expert_gate_up_weights=w.gate_up,
        expert_down_weights=w.down, eps=m.eps, top_k=m.top_k,
        router_act_fn=lib.RouterActFnType.SOFTMAX, router_pre_norm=not m.sinks, hidden_actual=m.hidden,
        norm_topk_prob=m.normalised_top_k,
        expert_affinities_scaling_mode=lib.ExpertAffinityScaleMode.POST_SCALE,
        hidden_act_fn=act, skip_router_logits=False, **more)[0]


def attention_of_prompt(x, w, share, step):
    """The same as attention(), of all tokens of a prompt: projection with norm and rotation, attention of each to
    those before it, output projection; keys and values go to the cache."""
    lib, m = step.library, share.model
    heads = lib.qkv(x, w.qkv, output_layout=lib.QKVOutputLayout.NBSd, bias=w.qkv_bias,
                    fused_norm_type=lib.NormType.RMS_NORM, gamma_norm_weights=w.norm1, norm_eps=m.eps, fused_rope=True,
                    cos_cache=step.cos, sin_cache=step.sin, d_head=m.head_dim, num_q_heads=share.heads,
                    num_kv_heads=share.kv_heads)
    tokens = x.shape[1]
    heads = heads.reshape((share.heads + 2 * share.kv_heads, tokens, m.head_dim))
    queries, keys, values = (heads[a:b, :, :] for a, b in (
        (0, share.heads), (share.heads, share.heads + 1), (share.heads + 1, share.heads + 2)))
    kernels.meet(heads, kernels.cores()[1])
    kernels.keep(heads[share.heads, :, :], heads[share.heads + 1, :, :], w.keys[0, 0, :, :], w.values[0, 0, :, :])
    found = lib.attention_cte(queries, keys, values, scale=m.head_dim ** -0.5, tp_q=True, tp_k=True, tp_out=True)
    kernels.meet(found, kernels.cores()[1])
    return lib.output_projection_cte(found.reshape((1, share.heads, m.head_dim, tokens)), w.out)


def mlp_of_prompt(x, w, share, step):
    """The same as mlp(), of all tokens of a prompt."""
    import nki.language as nl

    lib = step.library
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    lib.mlp_cte(lib.MLPParameters(x, w.gate, w.up, w.down, w.norm2, eps=share.model.eps,
                                  normalization_type=lib.NormType.RMS_NORM), out, None)
    return out
