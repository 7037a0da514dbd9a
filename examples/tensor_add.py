"""Computes c = a + b, tile by tile."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def tensor_add(a, b):
    rows, columns = a.shape
    c = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, rows, nl.tile_size.pmax):
        tile = nl.ds(start, min(nl.tile_size.pmax, rows - start))
        a_tile = nl.ndarray((tile.size, columns), dtype=a.dtype, buffer=nl.sbuf)
        b_tile = nl.ndarray((tile.size, columns), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a_tile, src=a[tile, :])
        nisa.dma_copy(dst=b_tile, src=b[tile, :])
        nisa.tensor_tensor(dst=a_tile, data1=a_tile, data2=b_tile, op=nl.add)
        nisa.dma_copy(dst=c[tile, :], src=a_tile)
    return c


def cases():
    def inputs(rng):
        return [rng.random((320, 512), np.float32) for _ in range(2)]

    return [Case("tensor_add", tensor_add, np.add, inputs, rtol=0, atol=0)]


if __name__ == "__main__":
    main(cases())
