"""Computes the forward pass of flash attention, without storing the score matrix softmax(q k^T / sqrt(d))."""

import math

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main

QUERIES, KEYS = 128, 512  # queries on partitions, keys along the row


def attend(state, q_tile, k_block, v_block, scale):
    """One block of keys: updates (running maximum, running sum, unnormalised output)."""
    maximum, total, output = state
    d = q_tile.shape[0]
    scores = nl.ndarray((QUERIES, KEYS), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=q_tile, moving=k_block)
    block_max = nl.ndarray((QUERIES, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=block_max, op=nl.maximum, data=scores, axis=1)
    new_max = nl.ndarray((QUERIES, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=new_max, data=block_max, op0=nl.multiply, operand0=scale,
                       op1=nl.maximum, operand1=maximum)
    negative = nl.ndarray((QUERIES, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=negative, data=new_max, op0=nl.multiply, operand0=-1.0)
    # The factor that brings the sums so far to the new maximum.
    shrink = nl.ndarray((QUERIES, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=shrink, op=nl.exp, data=maximum, bias=negative)
    weights = nl.ndarray((QUERIES, KEYS), dtype=nl.bfloat16, buffer=nl.sbuf)
    block_sum = nl.ndarray((QUERIES, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=weights, op=nl.exp, data=scores, bias=negative, scale=scale,
                           reduce_op=nl.add, reduce_res=block_sum)
    nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=shrink,
                              op1=nl.add, operand1=block_sum)
    product = nl.ndarray((QUERIES, d), dtype=nl.float32, buffer=nl.psum)
    for i in nl.static_range(KEYS // 128):
        turned = nl.ndarray((128, QUERIES), dtype=nl.bfloat16, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=weights[:, nl.ds(128 * i, 128)])
        turned_sbuf = nl.ndarray((128, QUERIES), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=turned_sbuf, src=turned)
        nisa.nc_matmul(dst=product, stationary=turned_sbuf, moving=v_block[:, i, :])
    nisa.scalar_tensor_tensor(dst=output, data=output, op0=nl.multiply, operand0=shrink,
                              op1=nl.add, operand1=product)
    return new_max, total, output


@nki.jit
def flash_attention(q, k, v):
    """q, k: [d, length] bf16; v: [length, d] bf16; result [length, d] float32."""
    d, length = q.shape
    scale = 1.0 / math.sqrt(d)
    out = nl.ndarray((length, d), dtype=nl.float32, buffer=nl.shared_hbm)
    keys = [nl.load(k[:, nl.ds(start, KEYS)]) for start in range(0, length, KEYS)]
    values = []
    for start in nl.affine_range(0, length, KEYS):
        block = nl.ndarray((128, KEYS // 128, d), dtype=v.dtype, buffer=nl.sbuf)
        for i in nl.static_range(KEYS // 128):
            nisa.dma_copy(dst=block[:, i, :], src=v[nl.ds(start + 128 * i, 128), :])
        values.append(block)
    for start in nl.affine_range(0, length, QUERIES):
        q_tile = nl.load(q[:, nl.ds(start, QUERIES)])
        state = (nl.full((QUERIES, 1), -1e30, dtype=nl.float32),
                 nl.zeros((QUERIES, 1), dtype=nl.float32),
                 nl.zeros((QUERIES, d), dtype=nl.float32))
        for k_block, v_block in zip(keys, values):
            state = attend(state, q_tile, k_block, v_block, scale)
        _, total, output = state
        nisa.reciprocal(dst=total, data=total)
        nisa.tensor_scalar(dst=output, data=output, op0=nl.multiply, operand0=total)
        nl.store(out[nl.ds(start, QUERIES), :], output)
    return out


def reference(q, k, v):
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = q.T @ k / math.sqrt(q.shape[0])
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True) @ v


def cases():
    def inputs(rng):
        shapes = [(64, 1024), (64, 1024), (1024, 64)]
        return [rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in shapes]

    return [Case("flash_attention", flash_attention, reference, inputs, rtol=2e-2, atol=5e-3)]


if __name__ == "__main__":
    main(cases())
