"""Shows a loop whose number of iterations the device reads from memory at run time."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def double_first(x, count):
    """The first count[0, 0] blocks of 128 rows doubled, the others copied. x: [blocks, 128, n]."""
    blocks, rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    limit = nisa.register_alloc()
    nisa.register_load(dst=limit, src=nl.load(count))

    def block(i, factor):
        tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.select(0, i))
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=out.select(0, i), src=tile)

    for i in nl.dynamic_range(0, limit):
        block(i, 2.0)
    for i in nl.dynamic_range(limit, blocks):
        block(i, 1.0)
    return out


def reference(x, count):
    out = x.copy()
    out[:count[0, 0]] *= 2
    return out


def cases():
    def inputs(rng):
        return [rng.random((6, 128, 64), np.float32), np.array([[4]], np.int32)]

    return [Case("dynamic_loop", double_first, reference, inputs, rtol=0, atol=0)]


if __name__ == "__main__":
    main(cases())
