"""Computes RMS normalisation and quantises its result to fp8 with one scale per row."""

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main

EPSILON = 1e-6
FP8_MAX = 240.0  # of float8_e4m3


@nki.jit
def rms_norm_fp8(x, gain):
    """(float8_e4m3 values, float32 scale per row): values * scale is the normalised row."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=nl.float8_e4m3, buffer=nl.shared_hbm)
    scales = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    most = min(128, rows)
    gain_tile = nl.ndarray((most, columns), dtype=gain.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=gain_tile, src=gain.ap([[0, most], [1, columns]]))
    epsilon = nl.full((most, 1), EPSILON, dtype=nl.float32)
    for start in nl.affine_range(0, rows, 128):
        part = nl.ds(start, min(128, rows - start))
        n = part.size
        tile = nl.load(x[part, :])
        squares = nl.ndarray((n, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=squares, op=nl.square, data=tile, reduce_op=nl.add,
                               reduce_res=total)
        nisa.activation(dst=total, op=nl.rsqrt, data=total, scale=1.0 / columns,
                        bias=epsilon[0:n, :])
        normal = nl.ndarray((n, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(dst=normal, data=tile, op0=nl.multiply, operand0=total,
                                  op1=nl.multiply, operand1=gain_tile[0:n, :])
        # scale = max |row| / 240; the quantised row is row / scale.
        nisa.activation(dst=squares, op=nl.abs, data=normal)
        scale = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=scale, op=nl.maximum, data=squares, axis=1)
        nisa.tensor_scalar(dst=scale, data=scale, op0=nl.multiply, operand0=1.0 / FP8_MAX)
        inverse = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=scale)
        quantised = nl.ndarray((n, columns), dtype=nl.float8_e4m3, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=quantised, data=normal, op0=nl.multiply, operand0=inverse,
                           op1=nl.minimum, operand1=FP8_MAX)
        nl.store(out[part, :], quantised)
        nl.store(scales[part, :], scale)
    return out, scales


def reference(x, gain):
    x = x.astype(np.float64)
    normal = x / np.sqrt((x * x).mean(1, keepdims=True) + EPSILON) * gain
    scale = np.abs(normal).max(1, keepdims=True) / FP8_MAX
    return (normal / scale).astype(ml_dtypes.float8_e4m3), scale


def cases():
    def inputs(rng):
        return [rng.standard_normal((160, 512)).astype(np.float32),
                rng.random(512, np.float32) + np.float32(0.5)]

    # Rounding to 3 bits of mantissa: float32 and float64 may round to neighbours.
    return [Case("rms_norm_fp8", rms_norm_fp8, reference, inputs, rtol=0.13, atol=1e-2)]


if __name__ == "__main__":
    main(cases())
