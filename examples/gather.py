"""Gathers rows of a table by index with an indirect DMA, whose addresses come from a tile."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def gather(table, indices):
    """table [entries, width]; indices [n, 1] int32; result [n, width]."""
    width = table.shape[1]
    n = indices.shape[0]
    out = nl.ndarray((n, width), dtype=table.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, n, 128):
        part = nl.ds(start, min(128, n - start))
        wanted = nl.load(indices[part, :])
        rows = nl.ndarray((part.size, width), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=table.ap([[width, part.size], [1, width]],
                                             vector_offset=wanted, indirect_dim=0))
        nl.store(out[part, :], rows)
    return out


def cases():
    def inputs(rng):
        return [rng.random((1000, 96), np.float32),
                rng.integers(0, 1000, (200, 1)).astype(np.int32)]

    return [Case("gather", gather, lambda table, indices: table[indices[:, 0]], inputs,
                 rtol=0, atol=0, targets=("trn2", "trn3"))]


if __name__ == "__main__":
    main(cases())
