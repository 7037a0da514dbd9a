"""Computes a 3x3 convolution with bias and ReLU, then 2x2 max-pooling."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def conv2d_maxpool(image, weights, bias):
    """image [in, height, width]; weights [in, 3, 3, out]; bias [out, 1]."""
    channels, height, width = image.shape
    filters = weights.shape[3]
    rows, columns = height - 2, width - 2
    out = nl.ndarray((filters, rows // 2, columns // 2), dtype=image.dtype, buffer=nl.shared_hbm)
    picture = nl.load(image)
    kernel = nl.load(weights)
    offset = nl.load(bias)
    # As many rows of the result as one PSUM bank holds, an even number for the pooling.
    step = nl.tile_size.psum_fmax // columns // 2 * 2
    for top in nl.affine_range(0, rows, step):
        n = min(step, rows - top)
        # The convolution is nine matmuls that accumulate: shifted views of the same tile.
        total = nl.ndarray((filters, n, columns), dtype=nl.float32, buffer=nl.psum)
        for y in nl.static_range(3):
            for x in nl.static_range(3):
                nisa.nc_matmul(dst=total, stationary=kernel[:, y, x, :],
                               moving=picture[:, nl.ds(top + y, n), nl.ds(x, columns)])
        active = nl.ndarray((filters, n, columns), dtype=image.dtype, buffer=nl.sbuf)
        nisa.activation(dst=active, op=nl.relu, data=total, bias=offset)
        pooled = nl.ndarray((filters, n // 2, columns // 2), dtype=image.dtype, buffer=nl.sbuf)
        windows = active.reshape((filters, n // 2, 2, columns // 2, 2)).permute((0, 1, 3, 2, 4))
        nisa.tensor_reduce(dst=pooled, op=nl.maximum, data=windows, axis=(3, 4))
        nl.store(out[:, nl.ds(top // 2, n // 2), :], pooled)
    return out


def reference(image, weights, bias):
    rows, columns = image.shape[1] - 2, image.shape[2] - 2
    total = bias[:, :, None].astype(np.float64)
    for y in range(3):
        for x in range(3):
            window = image[:, y:y + rows, x:x + columns]
            total = total + np.einsum("ihw,io->ohw", window, weights[:, y, x])
    active = np.maximum(total, 0)
    return active.reshape(-1, rows // 2, 2, columns // 2, 2).max(axis=(2, 4))


def cases():
    def inputs(rng):
        shapes = [(16, 34, 34), (16, 3, 3, 32), (32, 1)]
        return [rng.standard_normal(s).astype(np.float32) for s in shapes]

    return [Case("conv2d_maxpool", conv2d_maxpool, reference, inputs, rtol=1e-4, atol=1e-3)]


if __name__ == "__main__":
    main(cases())
