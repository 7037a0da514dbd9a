"""Computes layer normalisation over the last dimension with a gain and an offset."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main

EPSILON = 1e-5


def on_all_partitions(vector, rows):
    """A vector in HBM, copied to every partition of a tile by one DMA with a zero stride."""
    n = vector.shape[0]
    tile = nl.ndarray((rows, n), dtype=vector.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=vector.ap([[0, rows], [1, n]]))
    return tile


@nki.jit
def layer_norm(x, gain, offset):
    rows, columns = x.shape
    chunk = nl.tile_size.bn_stats_fmax
    chunks = (columns + chunk - 1) // chunk
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gain_tile = on_all_partitions(gain, min(128, rows))
    offset_tile = on_all_partitions(offset, min(128, rows))
    epsilon = nl.full((min(128, rows), 1), EPSILON, dtype=nl.float32)
    for start in nl.affine_range(0, rows, 128):
        part = nl.ds(start, min(128, rows - start))
        tile = nl.load(x[part, :])
        stats = nl.ndarray((part.size, 6 * chunks), dtype=nl.float32, buffer=nl.sbuf)
        for c in nl.static_range(chunks):
            nisa.bn_stats(dst=stats[:, nl.ds(6 * c, 6)],
                          data=tile[:, c * chunk:min(columns, (c + 1) * chunk)])
        moments = nl.ndarray((part.size, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(dst=moments, data=stats)
        scale = nl.ndarray((part.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=moments[:, 1:2],
                        bias=epsilon[0:part.size, :])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=moments[:, 0:1],
                           op1=nl.multiply, operand1=scale)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=gain_tile[0:part.size, :], op=nl.multiply)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=offset_tile[0:part.size, :], op=nl.add)
        nl.store(out[part, :], tile)
    return out


def reference(x, gain, offset):
    x = x.astype(np.float64)
    mean, variance = x.mean(1, keepdims=True), x.var(1, keepdims=True)
    return (x - mean) / np.sqrt(variance + EPSILON) * gain + offset


def cases():
    def inputs(rng):
        x = rng.standard_normal((160, 768)).astype(np.float32)
        return [x, rng.random(768, np.float32), rng.random(768, np.float32)]

    return [Case("layer_norm", layer_norm, reference, inputs, rtol=1e-4, atol=1e-4)]


if __name__ == "__main__":
    main(cases())
