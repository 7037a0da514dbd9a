"""Computes softmax over the last dimension, one row per partition."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def softmax(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, rows, 128):
        part = nl.ds(start, min(128, rows - start))
        tile = nl.load(x[part, :])
        negative_max = nl.ndarray((part.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((part.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        powers = nl.ndarray((part.size, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=negative_max, op=nl.maximum, data=tile, axis=1, negate=True)
        # One pass of the scalar engine: exp(x - max), and its sum along the row.
        nisa.activation_reduce(dst=powers, op=nl.exp, data=tile, bias=negative_max,
                               reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        result = nl.ndarray((part.size, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=powers, op0=nl.multiply, operand0=total)
        nl.store(out[part, :], result)
    return out


def reference(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def cases():
    return [Case("softmax", softmax, reference,
                 lambda rng: [rng.standard_normal((200, 384)).astype(np.float32)])]


if __name__ == "__main__":
    main(cases())
