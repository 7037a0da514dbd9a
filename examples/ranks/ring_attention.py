"""Computes ring attention: queries stay, keys and values go round, and the running softmax adds them up."""

import math

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

from world import Case, main


def attend(state, q, k, v, scale):
    """One block of keys: updates (running maximum, running sum, unnormalised output)."""
    maximum, total, output = state
    queries, keys, d = q.shape[1], k.shape[1], q.shape[0]

    def column():
        return nl.ndarray((queries, 1), dtype=nl.float32, buffer=nl.sbuf)

    scores = nl.ndarray((queries, keys), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=scores, stationary=q, moving=k)
    block_max, new_max, negative, shrink, block_sum = (column() for _ in range(5))
    nisa.tensor_reduce(dst=block_max, op=nl.maximum, data=scores, axis=1)
    nisa.tensor_scalar(dst=new_max, data=block_max, op0=nl.multiply, operand0=scale,
                       op1=nl.maximum, operand1=maximum)
    nisa.tensor_scalar(dst=negative, data=new_max, op0=nl.multiply, operand0=-1.0)
    nisa.activation(dst=shrink, op=nl.exp, data=maximum, bias=negative)
    weights = nl.ndarray((queries, keys), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=weights, op=nl.exp, data=scores, bias=negative, scale=scale,
                           reduce_op=nl.add, reduce_res=block_sum)
    nisa.scalar_tensor_tensor(dst=total, data=total, op0=nl.multiply, operand0=shrink,
                              op1=nl.add, operand1=block_sum)
    turned = nl.ndarray((keys, queries), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=weights)
    turned_sbuf = nl.ndarray((keys, queries), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=turned_sbuf, src=turned)
    product = nl.ndarray((queries, d), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=turned_sbuf, moving=v)
    nisa.scalar_tensor_tensor(dst=output, data=output, op0=nl.multiply, operand0=shrink,
                              op1=nl.add, operand1=product)
    return new_max, total, output


@nki.jit
def ring_attention(q, k, v, group, ranks):
    """softmax(q k^T / sqrt(d)) v over the keys and values of all ranks.

    q, k [d, tokens of this rank], v [tokens of this rank, d]; both at most 128. Result [tokens, d].
    """
    d, tokens = q.shape
    out = nl.ndarray((tokens, d), dtype=nl.float32, buffer=nl.shared_hbm)
    queries = nl.load(q)
    held = nl.load(k), nl.load(v)
    state = (nl.full((tokens, 1), -1e30, dtype=nl.float32), nl.zeros((tokens, 1), dtype=nl.float32),
             nl.zeros((tokens, d), dtype=nl.float32))
    coming = held
    for step in range(ranks):
        if step < ranks - 1:
            coming = tuple(nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf) for t in held)
            for here, there in zip(held, coming):
                ncc.collective_permute_implicit([[here]], [[there]], replica_group=group)
        keys, values = held
        state = attend(state, queries, keys, values, 1.0 / math.sqrt(d))
        if step < ranks - 1:
            held = coming
    _, total, output = state
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=output, data=output, op0=nl.multiply, operand0=total)
    nl.store(out, output)
    return out


def inputs(rng, ranks, tokens=64, d=32):
    def normal(*shape):
        return [rng.standard_normal(shape).astype(np.float32) for _ in range(ranks)]

    return [normal(d, tokens), normal(d, tokens), normal(tokens, d),
            ncc.ReplicaGroup([list(range(ranks))]), ranks]


def reference(q, k, v, group, ranks):
    keys, values = np.concatenate(k, axis=1), np.concatenate(v, axis=0)

    def attention(own):
        scores = own.T.astype(np.float64) @ keys / math.sqrt(own.shape[0])
        weights = np.exp(scores - scores.max(1, keepdims=True))
        return weights / weights.sum(1, keepdims=True) @ values

    return [attention(own) for own in q]


CASE = Case("ring attention", ring_attention, reference, inputs)

if __name__ == "__main__":
    main(CASE)
