"""Computes a tensor-parallel MLP: every rank has some of the hidden units, and an all-reduce adds up."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

from world import Case, main


@nki.jit
def tensor_parallel_mlp(x, w1, w2, group):
    """relu(x^T w1) w2 summed over the ranks of a group.

    x [model, tokens], the same on every rank; w1 [model, hidden of this rank], w2 [hidden of this
    rank, model]; model and hidden multiples of 128, tokens at most 128. Result [tokens, model].
    """
    model, tokens = x.shape
    hidden = w1.shape[1]
    x_tiles = [nl.load(x[nl.ds(k, 128), :]) for k in range(0, model, 128)]
    activations = []  # [128 hidden units, tokens] each
    for first in range(0, hidden, 128):
        sums = nl.ndarray((128, tokens), dtype=nl.float32, buffer=nl.psum)
        for k, x_tile in enumerate(x_tiles):
            weights = nl.load(w1[nl.ds(128 * k, 128), nl.ds(first, 128)])
            nisa.nc_matmul(dst=sums, stationary=weights, moving=x_tile)
        active = nl.ndarray((128, tokens), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=active, op=nl.relu, data=sums)
        activations.append(active)
    partial = nl.ndarray((tokens, model), dtype=nl.float32, buffer=nl.sbuf)
    width = min(model, 512)
    for first in range(0, model, width):
        sums = nl.ndarray((tokens, width), dtype=nl.float32, buffer=nl.psum)
        for k, active in enumerate(activations):
            weights = nl.load(w2[nl.ds(128 * k, 128), nl.ds(first, width)])
            nisa.nc_matmul(dst=sums, stationary=active, moving=weights)
        nisa.tensor_copy(dst=partial[:, nl.ds(first, width)], src=sums)
    total = nl.ndarray((tokens, model), dtype=nl.float32, buffer=nl.sbuf)
    ncc.all_reduce([partial], [total], replica_group=group, op=nl.add)
    out = nl.ndarray((tokens, model), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, total)
    return out


def inputs(rng, ranks, model=256, hidden=128, tokens=64):
    def normal(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)

    return [normal(model, tokens), [normal(model, hidden) for _ in range(ranks)],
            [normal(hidden, model) for _ in range(ranks)],
            ncc.ReplicaGroup([list(range(ranks))])]


def reference(x, w1, w2, group):
    total = np.maximum(x.T @ np.concatenate(w1, axis=1), 0) @ np.concatenate(w2, axis=0)
    return [total] * len(w1)


CASE = Case("tensor-parallel MLP", tensor_parallel_mlp, reference, inputs)

if __name__ == "__main__":
    main(CASE)
