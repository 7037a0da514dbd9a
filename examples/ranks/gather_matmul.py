"""Overlaps an all-gather with a matrix product: multiplies the present part while the next one arrives."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

from world import Case, main


@nki.jit
def gather_matmul(x, w, group, ranks):
    """x of all ranks, one behind the other, times this rank's w.

    x [128, rows of this rank], transposed; w [128, columns of this rank]; rows at most 128, columns
    at most 512. Result [ranks, rows, columns].
    """
    rows, columns = x.shape[1], w.shape[1]
    out = nl.ndarray((ranks, rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    weights = nl.load(w)
    held = nl.load(x)
    coming = held
    for step in range(ranks):
        # Only the runtime knows whose rows these are: it chose the ring.
        rank = ncc.collective_permute_implicit_current_processing_rank_id(
            iteration_id=step, replica_group=group)
        if step < ranks - 1:
            coming = nl.ndarray(held.shape, dtype=x.dtype, buffer=nl.sbuf)
            ncc.collective_permute_implicit([[held]], [[coming]], replica_group=group)
        product = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=held, moving=weights)
        tile = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=tile, src=product)
        nisa.dma_copy(dst=out.ap([[columns, rows], [1, columns]], scalar_offset=rank,
                                 indirect_dim=0), src=tile)
        if step < ranks - 1:
            held = coming
    return out


def inputs(rng, ranks, rows=32, columns=64):
    return [[rng.standard_normal((128, rows)).astype(np.float32) for _ in range(ranks)],
            [rng.standard_normal((128, columns)).astype(np.float32) for _ in range(ranks)],
            ncc.ReplicaGroup([list(range(ranks))]), ranks]


def reference(x, w, group, ranks):
    return [np.stack([part.T @ own for part in x]) for own in w]


CASE = Case("gather overlapped with matmul", gather_matmul, reference, inputs)

if __name__ == "__main__":
    main(CASE)
