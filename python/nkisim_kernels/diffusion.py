"""Implements the attention of Stable Diffusion: small heads, long sequences, one batch per program instance."""

import nki.language as nl

from nkisim.api.jit import legacy_jit

from .attention import KEYS, SD_SCALE, _attend, _key_tiles, _value_tiles
from .forms import ROWS, is_tensor, load, require, store, transposed, two_forms

TILE_KEYS = 2048  # keys between two corrections of the running softmax


def _self_attention(q, k, v, out, causal, mixed_precision, across):
    """across: k is d x seq and out d x seq, else seq x d."""
    batch = nl.program_id(0)
    _, d, length = q.shape
    require(d <= ROWS, f"the head's size is {d}; at most 128 is required")
    require(length % KEYS == 0, f"the sequence has {length} elements; a multiple of 512 is required")
    dtype = nl.bfloat16 if mixed_precision else q.dtype
    if across:
        keys = _key_tiles(k[batch], dtype)
    else:
        keys = []
        for first in range(0, length, KEYS):
            tile = nl.ndarray((d, KEYS), dtype=dtype, buffer=nl.sbuf)
            for i in range(0, KEYS, ROWS):
                rows = load(k[batch, nl.ds(first + i, ROWS), :], dtype)
                tile[:, nl.ds(i, ROWS)] = transposed(rows)
            keys.append(tile)
    values = _value_tiles(v[batch], dtype)
    for query in range(0, length, ROWS):
        state = _attend(load(q[batch, :, nl.ds(query, ROWS)], dtype), keys, values, query, SD_SCALE,
                        causal, None, TILE_KEYS, dtype)
        if across:
            store(out[batch, :, nl.ds(query, ROWS)], transposed(state.finish()))
        else:
            store(out[batch, nl.ds(query, ROWS), :], state.finish())


def _returning(q_ref, k_ref, v_ref, use_causal_mask=False, mixed_precision=True):
    """softmax(0.125 q^T k^T) v of one head per batch.

    q_ref: (bs, d, seq); k_ref, v_ref: (bs, seq, d); gives (bs, seq, d). d is at most 128, seq a
    multiple of 512. Launch grid [bs]. mixed_precision: products in bfloat16, else in q's type. 2.20
    took the output after v_ref and spelled the last parameter mixed_percision.
    """
    out = nl.ndarray(v_ref.shape, dtype=q_ref.dtype, buffer=nl.shared_hbm)
    _self_attention(q_ref, k_ref, v_ref, out, use_causal_mask, mixed_precision, False)
    return out


def _writing(q_ref, k_ref, v_ref, out_ref, use_causal_mask=False, mixed_percision=True):
    _self_attention(q_ref, k_ref, v_ref, out_ref, use_causal_mask, mixed_percision, False)


_returning.__name__ = "fused_self_attn_for_SD_small_head_size"
fused_self_attn_for_SD_small_head_size = two_forms(
    _returning, _writing,
    lambda args, kwargs: "out_ref" in kwargs or len(args) > 3 and is_tensor(args[3]))


@legacy_jit
def allocated_fused_self_attn_for_SD_small_head_size(q_ref, k_ref, v_ref, use_causal_mask=False,
                                                     mixed_precision=True):
    """The same with k_ref (bs, d, seq) and the output (bs, d, seq). The original gave each tile its
    address and took d = 128 and multiples of 1024 up to 5120; here the compiler places them."""
    out = nl.ndarray(q_ref.shape, dtype=q_ref.dtype, buffer=nl.shared_hbm)
    _self_attention(q_ref, k_ref, v_ref, out, use_causal_mask, mixed_precision, True)
    return out
