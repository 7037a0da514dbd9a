"""Implements RMSNorm and the projection to queries, keys and values as one kernel."""

import nki.isa as nisa
import nki.language as nl
import numpy as np

from nkisim.api.jit import legacy_jit

from .forms import ROWS, cast, column, load, require, transposed

COLUMNS = 512  # of the weights per matrix product: a bank of PSUM


def _normalised(hidden, dtype, eps):
    """hidden / sqrt(mean(hidden^2) + eps) of 128 rows, computed in `dtype`."""
    squares, total, scale = nl.ndarray(hidden.shape, dtype=dtype, buffer=nl.sbuf), column(), column()
    nisa.activation_reduce(dst=squares, op=nl.square, data=hidden, reduce_op=nl.add,
                           reduce_res=total)
    nisa.tensor_scalar(dst=scale, data=total, op0=nl.multiply, operand0=1.0 / hidden.shape[1],
                       op1=nl.add, operand1=eps)
    nisa.activation(dst=scale, op=nl.rsqrt, data=scale)
    out = nl.ndarray(hidden.shape, dtype=hidden.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=out, data=hidden, op0=nl.multiply, operand0=scale)
    return out


@legacy_jit
def allocated_fused_rms_norm_qkv(hidden, weights, norm_dtype=np.float32, eps=1e-06):
    """RMSNorm(hidden) @ weights.

    hidden: (bs, seq, dim), fp16 or bf16; weights: (dim, columns), multiplied by the norm's gamma
    beforehand; gives (bs, seq, columns) in hidden's type. seq and dim are multiples of 128.
    norm_dtype: in which the squares are kept.
    """
    batches, length, dim = hidden.shape
    columns = weights.shape[1]
    require(length % ROWS == 0 and dim % ROWS == 0,
            f"hidden is {list(hidden.shape)}; multiples of 128 are required in its last two "
            "dimensions")
    out = nl.ndarray((batches, length, columns), dtype=hidden.dtype, buffer=nl.shared_hbm)
    rows = [load(weights[nl.ds(i, ROWS), :], hidden.dtype) for i in range(0, dim, ROWS)]
    for batch in range(batches):
        for first in range(0, length, ROWS):
            tile = _normalised(load(hidden[batch, nl.ds(first, ROWS), :], hidden.dtype), norm_dtype,
                               eps)
            parts = [transposed(tile[:, nl.ds(i, ROWS)]) for i in range(0, dim, ROWS)]
            for c in range(0, columns, COLUMNS):
                width = min(COLUMNS, columns - c)
                total = nl.ndarray((ROWS, width), dtype=nl.float32, buffer=nl.psum)
                for part, weight in zip(parts, rows):
                    nisa.nc_matmul(dst=total, stationary=part, moving=weight[:, nl.ds(c, width)])
                nisa.dma_copy(dst=out[batch, nl.ds(first, ROWS), nl.ds(c, width)],
                              src=cast_from_psum(total, out.dtype))
    return out


def cast_from_psum(psum, dtype):
    tile = nl.ndarray(psum.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=psum)
    return cast(tile, dtype)
