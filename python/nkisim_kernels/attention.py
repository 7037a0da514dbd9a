"""Implements flash attention, forward and backward, as kernels."""

from dataclasses import dataclass

import nki.isa as nisa
import nki.language as nl

from .forms import (ROWS, cast, column, is_tensor, load, product, require, store, transposed, two_forms)

KEYS = 512         # keys per matrix product: a bank of PSUM
_MASKED = -1e30    # exp of it, and of its sum with any score, is 0
SD_SCALE = 0.125   # of the Stable Diffusion kernels, whatever the head's size


@dataclass(frozen=True)
class FlashConfig:
    """seq_tile_size: keys between two corrections of the running softmax. training: gives lse as
    well. should_transpose_v: v is (bs, heads, d, seq)."""

    seq_tile_size: int = 2048
    training: bool = True
    should_transpose_v: bool = False


class _Softmax:
    """The running softmax of 128 queries: maximum, sum of exponentials, sum of weighted values."""

    def __init__(self, d):
        self.maximum = nl.full((ROWS, 1), _MASKED, dtype=nl.float32)
        self.total = nl.zeros((ROWS, 1), dtype=nl.float32)
        self.output = nl.zeros((ROWS, d), dtype=nl.float32)

    def add(self, scores, scale, values, dtype):
        """Takes in scores (tiles of 128 x 512 in PSUM or SBUF, to be multiplied by `scale`) and
        the values of their keys (tiles of 128 x d, four for each of the scores)."""
        peaks = nl.ndarray((ROWS, len(scores)), dtype=nl.float32, buffer=nl.sbuf)
        for i, tile in enumerate(scores):
            nisa.tensor_reduce(dst=peaks[:, i:i + 1], op=nl.maximum, data=tile, axis=1)
        peak, latest, negative, shrink = column(), column(), column(), column()
        nisa.tensor_reduce(dst=peak, op=nl.maximum, data=peaks, axis=1)
        nisa.tensor_scalar(dst=latest, data=peak, op0=nl.multiply, operand0=scale, op1=nl.maximum,
                           operand1=self.maximum)
        nisa.tensor_scalar(dst=negative, data=latest, op0=nl.multiply, operand0=-1.0)
        nisa.activation(dst=shrink, op=nl.exp, data=self.maximum, bias=negative)
        self.maximum = latest
        weighted = nl.ndarray(self.output.shape, dtype=nl.float32, buffer=nl.psum)
        sums = nl.ndarray((ROWS, len(scores)), dtype=nl.float32, buffer=nl.sbuf)
        for i, tile in enumerate(scores):
            weights = nl.ndarray((ROWS, KEYS), dtype=dtype, buffer=nl.sbuf)
            nisa.activation_reduce(dst=weights, op=nl.exp, data=tile, bias=negative, scale=scale,
                                   reduce_op=nl.add, reduce_res=sums[:, i:i + 1])
            for j in range(KEYS // ROWS):
                nisa.nc_matmul(dst=weighted, stationary=transposed(weights[:, nl.ds(j * ROWS, ROWS)]),
                               moving=values[i * (KEYS // ROWS) + j])
        total = column()
        nisa.tensor_reduce(dst=total, op=nl.add, data=sums, axis=1)
        nisa.scalar_tensor_tensor(dst=self.total, data=self.total, op0=nl.multiply, operand0=shrink,
                                  op1=nl.add, operand1=total)
        nisa.scalar_tensor_tensor(dst=self.output, data=self.output, op0=nl.multiply,
                                  operand0=shrink, op1=nl.add, operand1=weighted)

    def finish(self):
        """The attention of the 128 queries."""
        share, out = column(), nl.ndarray(self.output.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=share, data=self.total)
        nisa.tensor_scalar(dst=out, data=self.output, op0=nl.multiply, operand0=share)
        return out

    def log_sum(self, target):
        """Writes log(sum(exp(scores))) to a column."""
        log = column()
        nisa.activation(dst=log, op=nl.log, data=self.total)
        nisa.tensor_tensor(dst=target, data1=log, data2=self.maximum, op=nl.add)


def _only_past(tile, query, key, value):
    """The scores of queries from `query` on and keys from `key` on, `value` where the key is later."""
    held, out = (nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.tensor_copy(dst=held, src=tile)  # GpSimd, which selects, does not read PSUM
    nisa.affine_select(dst=out, pattern=[[-1, tile.shape[1]]], offset=query - key,
                       channel_multiplier=1, on_true_tile=held, on_false_value=value,
                       cmp_op=nl.greater_equal)
    return out


def _attend(q_tile, keys, values, query, scale, causal, bias, tile_keys, dtype):
    """The running softmax of the 128 queries from `query` on over all keys that they see. keys:
    tiles of d x 512. bias: HBM, 128 x keys, or None."""
    state = _Softmax(values[0].shape[1])
    for first in range(0, len(keys), tile_keys // KEYS):
        scores = []
        for i in range(first, min(first + tile_keys // KEYS, len(keys))):
            if causal and i * KEYS > query + ROWS - 1:
                break
            tile = product(q_tile, keys[i])
            if bias is not None:
                added = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
                nisa.scalar_tensor_tensor(
                    dst=added, data=tile, op0=nl.multiply, operand0=scale, op1=nl.add,
                    operand1=load(bias[:, nl.ds(i * KEYS, KEYS)], nl.float32))
                tile = added
            if causal and (i + 1) * KEYS - 1 > query:
                tile = _only_past(tile, query, i * KEYS, _MASKED)
            scores.append(tile)
        if scores:
            state.add(scores, scale if bias is None else 1.0,
                      values[first * (KEYS // ROWS):], dtype)
    return state


def _key_tiles(k, dtype):
    return [load(k[:, nl.ds(i, KEYS)], dtype) for i in range(0, k.shape[1], KEYS)]


def _value_tiles(v, dtype, across=False):
    """v in tiles of 128 x d; across: v is d x seq."""
    if not across:
        return [load(v[nl.ds(i, ROWS), :], dtype) for i in range(0, v.shape[0], ROWS)]
    return [transposed(load(v[:, nl.ds(i, ROWS)], dtype)) for i in range(0, v.shape[1], ROWS)]


def _no_dropout(dropout_p):
    require(not dropout_p, f"dropout_p is {dropout_p}; 0 is required, as which numbers the chip's "
            "generator draws is not public")


def _instance():
    """(batch, head of keys and values) of the launch grid; without one (0, 0)."""
    return nl.program_id(0), nl.program_id(1)


def _forward(q, k, v, o, lse, logit_bias, softmax_scale, causal, mixed_precision, config):
    batch, kv_head = _instance()
    _, heads, d, queries = q.shape
    group = heads // k.shape[1]
    require(d <= ROWS, f"the head's size is {d}; at most 128 is required")
    require(queries % ROWS == 0 and k.shape[3] % config.seq_tile_size == 0 and
            config.seq_tile_size % KEYS == 0,
            f"{queries} queries and {k.shape[3]} keys; multiples of 128 and of seq_tile_size "
            f"({config.seq_tile_size}, itself a multiple of 512) are required")
    dtype = nl.bfloat16 if mixed_precision else q.dtype
    scale = softmax_scale or d ** -0.5
    keys = _key_tiles(k[batch, kv_head], dtype)
    values = _value_tiles(v[batch, kv_head], dtype, config.should_transpose_v)
    for head in range(kv_head * group, (kv_head + 1) * group):
        logs = nl.ndarray((ROWS, queries // ROWS), dtype=nl.float32, buffer=nl.sbuf)
        for query in range(0, queries, ROWS):
            bias = None if logit_bias is None else logit_bias[batch, head, nl.ds(query, ROWS)]
            state = _attend(load(q[batch, head, :, nl.ds(query, ROWS)], dtype), keys, values, query,
                            scale, causal, bias, config.seq_tile_size, dtype)
            store(o[batch, head, nl.ds(query, ROWS), :], state.finish())
            if lse is not None:
                state.log_sum(logs[:, query // ROWS:query // ROWS + 1])
        if lse is not None:
            store(lse[batch, head], logs)


def _fwd_returning(q, k, v, seed, logit_bias=None, softmax_scale=None, use_causal_mask=True,
                   mixed_precision=True, dropout_p=0.0, config=None):
    """Flash attention, forward: softmax(q^T k softmax_scale + logit_bias) v.

    q: (bs, heads, d, seq_q); k: (bs, kv_heads, d, seq_k); v: (bs, kv_heads, seq_k, d), or
    (bs, kv_heads, d, seq_k) with config.should_transpose_v; seed: not used; logit_bias:
    (bs, heads, seq_q, seq_k). Launch grid [bs, kv_heads]. Gives o (bs, heads, seq_q, d) and, if
    config.training, lse (bs, heads, 128, seq_q // 128), the logarithm of each query's sum of
    exponentials, query 128 j + i at [i, j]. mixed_precision: products in bfloat16, the rest in
    float32; else products in q's type. 2.20 took o and lse after seed.
    """
    _no_dropout(dropout_p)
    config = config or FlashConfig()
    batches, heads, d, queries = q.shape
    o = nl.ndarray((batches, heads, queries, d), dtype=q.dtype, buffer=nl.shared_hbm)
    lse = None
    if config.training:
        lse = nl.ndarray((batches, heads, ROWS, queries // ROWS), buffer=nl.shared_hbm,
                         dtype=nl.float32 if mixed_precision else q.dtype)
    _forward(q, k, v, o, lse, logit_bias, softmax_scale, use_causal_mask, mixed_precision, config)
    return (o, lse) if config.training else o


def _fwd_writing(q, k, v, seed, o, lse=None, softmax_scale=None, use_causal_mask=True,
                 mixed_precision=True, dropout_p=0.0, config=None):
    _no_dropout(dropout_p)
    _forward(q, k, v, o, lse, None, softmax_scale, use_causal_mask, mixed_precision,
             config or FlashConfig())


def _fwd_writes(args, kwargs):
    """2.20 gives o where 2.21 has logit_bias: by its shape, as one is seq x d, the other seq x seq."""
    if "o" in kwargs or len(args) < 5 or not is_tensor(args[4]):
        return "o" in kwargs
    return args[4].shape[3] == args[0].shape[2]


_fwd_returning.__name__ = "flash_fwd"
flash_fwd = two_forms(_fwd_returning, _fwd_writing, _fwd_writes)


class _Gradients:
    """The backward pass of one head of keys and values."""

    def __init__(self, inputs, lse, bias, scale, causal, dtype):
        self.q, self.k, self.v, self.o, self.dy = inputs  # HBM; q, o, dy: (heads, d, seq)
        self.lse, self.bias, self.scale, self.causal, self.dtype = lse, bias, scale, causal, dtype
        heads, d, queries = self.q.shape
        self.tiles = [self._queries(head, query) for head in range(heads)
                      for query in range(0, queries, ROWS)]
        self.dq = [nl.zeros((d, ROWS), dtype=nl.float32) for _ in self.tiles]

    def _queries(self, head, query):
        """The parts of 128 queries that each block of keys needs."""
        place = (head, slice(None), nl.ds(query, ROWS))
        q, dy, o = (load(t[place], nl.float32) for t in (self.q, self.dy, self.o))
        dot = nl.ndarray(q.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=dot, data1=dy, data2=o, op=nl.multiply)
        both = column()  # rowsum(dy * o), which the softmax's gradient subtracts
        nisa.tensor_reduce(dst=both, op=nl.add, data=transposed(dot), axis=1)
        log = load(self.lse[head, :, query // ROWS:query // ROWS + 1], nl.float32)
        negative = column()
        nisa.tensor_scalar(dst=negative, data=log, op0=nl.multiply, operand0=-1.0)
        q, dy = cast(q, self.dtype), cast(dy, self.dtype)
        return head, query, q, dy, transposed(q), transposed(dy), negative, both

    def keys(self, key):
        """(dk, dv) of 512 keys from `key` on, d x 512 in PSUM; adds to dq."""
        k, v = (load(t[:, nl.ds(key, KEYS)], self.dtype) for t in (self.k, self.v))
        k_rows = [transposed(k[:, nl.ds(j, ROWS)]) for j in range(0, KEYS, ROWS)]
        dk, dv = (nl.ndarray(k.shape, dtype=nl.float32, buffer=nl.psum) for _ in range(2))
        for place, (head, query, q, dy, q_rows, dy_rows, negative, both) in enumerate(self.tiles):
            if self.causal and key > query + ROWS - 1:
                continue
            weights = self._weights(head, query, key, product(q, k), negative)
            nisa.nc_matmul(dst=dv, stationary=dy_rows, moving=cast(weights, self.dtype))
            slope = nl.ndarray(weights.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(dst=slope, data=product(dy, v), op0=nl.subtract,
                                      operand0=both, op1=nl.multiply, operand1=weights)
            narrow = nl.ndarray(weights.shape, dtype=self.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=narrow, data=slope, op0=nl.multiply, operand0=self.scale)
            nisa.nc_matmul(dst=dk, stationary=q_rows, moving=narrow)
            part = nl.ndarray(q.shape, dtype=nl.float32, buffer=nl.psum)
            for j in range(KEYS // ROWS):
                nisa.nc_matmul(dst=part, stationary=k_rows[j],
                               moving=transposed(narrow[:, nl.ds(j * ROWS, ROWS)]))
            nisa.tensor_tensor(dst=self.dq[place], data1=self.dq[place], data2=part, op=nl.add)
        return dk, dv

    def _weights(self, head, query, key, scores, negative):
        """softmax(scores), from the logarithm of its sum."""
        scale = self.scale
        if self.bias is not None:
            added = nl.ndarray(scores.shape, dtype=nl.float32, buffer=nl.sbuf)
            bias = load(self.bias[head, nl.ds(query, ROWS), nl.ds(key, KEYS)], nl.float32)
            nisa.scalar_tensor_tensor(dst=added, data=scores, op0=nl.multiply, operand0=scale,
                                      op1=nl.add, operand1=bias)
            scores, scale = added, 1.0
        weights = nl.ndarray(scores.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=weights, op=nl.exp, data=scores, bias=negative, scale=scale)
        if self.causal and key + KEYS - 1 > query:
            weights = _only_past(weights, query, key, 0.0)
        return weights


def _backward(tensors, lse, bias, outs, causal, mixed_precision, softmax_scale):
    batch, kv_head = _instance()
    q, k = tensors[:2]
    _, heads, d, queries = q.shape
    group = heads // k.shape[1]
    require(d <= ROWS and queries % KEYS == 0, f"{queries} queries of size {d}; a multiple of 512 "
            "and at most 128 are required")
    mine = slice(kv_head * group, (kv_head + 1) * group)
    inputs = [t[batch, kv_head] if i in (1, 2) else t[batch, mine] for i, t in enumerate(tensors)]
    work = _Gradients(inputs, lse[batch, mine], None if bias is None else bias[batch, mine],
                      softmax_scale or d ** -0.5, causal, nl.bfloat16 if mixed_precision else q.dtype)
    for key in range(0, k.shape[3], KEYS):
        for out, psum in zip(outs[1:], work.keys(key)):
            tile = nl.ndarray(psum.shape, dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=tile, src=psum)
            nisa.dma_copy(dst=out[batch, kv_head, :, nl.ds(key, KEYS)], src=tile)
    for (head, query, *_), dq in zip(work.tiles, work.dq):
        store(outs[0][batch, mine.start + head, :, nl.ds(query, ROWS)], dq)


def _bwd_returning(q_ref, k_ref, v_ref, o_ref, dy_ref, lse_ref, seed_ref, logit_bias_ref=None,
                   use_causal_mask=False, mixed_precision=False, dropout_p=0.0, softmax_scale=None):
    """Flash attention, backward: (dq, dk, dv) of flash_fwd for the gradient dy of its output.

    q_ref, o_ref, dy_ref: (bs, heads, d, seq); k_ref, v_ref: (bs, kv_heads, d, seq); lse_ref:
    (bs, heads, 128, seq // 128) as flash_fwd gives it; seed_ref: not used; logit_bias_ref:
    (bs, heads, seq, seq), which gets no gradient. Launch grid [bs, kv_heads]. The gradients have
    their tensors' shapes. 2.20 took them after seed_ref and had no bias.
    """
    _no_dropout(dropout_p)
    outs = [nl.ndarray(t.shape, dtype=q_ref.dtype, buffer=nl.shared_hbm)
            for t in (q_ref, k_ref, v_ref)]
    _backward((q_ref, k_ref, v_ref, o_ref, dy_ref), lse_ref, logit_bias_ref, outs, use_causal_mask,
              mixed_precision, softmax_scale)
    return tuple(outs)


def _bwd_writing(q_ref, k_ref, v_ref, o_ref, dy_ref, lse_ref, seed_ref, out_dq_ref, out_dk_ref,
                 out_dv_ref, use_causal_mask=False, mixed_precision=False, dropout_p=0.0,
                 softmax_scale=None):
    _no_dropout(dropout_p)
    _backward((q_ref, k_ref, v_ref, o_ref, dy_ref), lse_ref, None,
              (out_dq_ref, out_dk_ref, out_dv_ref), use_causal_mask, mixed_precision, softmax_scale)


_bwd_returning.__name__ = "flash_attn_bwd"
flash_attn_bwd = two_forms(
    _bwd_returning, _bwd_writing,
    lambda args, kwargs: "out_dq_ref" in kwargs or len(args) > 9 and is_tensor(args[8]))
