"""Computes Mamba's selective scan: h[t] = exp(delta[t] A) h[t-1] + delta[t] u[t] B[t], y[t] = C[t] h[t]."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def mamba_scan(u, delta, A, B, C):
    """u, delta: [channels, length]; A: [channels, states]; B, C: [states, length]."""
    channels, length = u.shape
    states = A.shape[1]
    out = nl.ndarray(u.shape, dtype=u.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, channels, 128):
        part = nl.ds(start, min(128, channels - start))
        n = part.size
        u_tile, delta_tile, a_tile = nl.load(u[part, :]), nl.load(delta[part, :]), nl.load(A[part, :])
        delta_u = nl.multiply(delta_tile, u_tile)
        total = nl.zeros((n, length), dtype=nl.float32)
        for s in nl.static_range(states):
            # Row s of B and of C, on every partition.
            b = nl.ndarray((n, length), dtype=nl.float32, buffer=nl.sbuf)
            c = nl.ndarray((n, length), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=b, src=B.ap([[0, n], [1, length]], offset=s * length))
            nisa.dma_copy(dst=c, src=C.ap([[0, n], [1, length]], offset=s * length))
            decay = nl.ndarray((n, length), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=decay, op=nl.exp, data=delta_tile, scale=a_tile[:, s:s + 1])
            nisa.tensor_tensor(dst=b, data1=b, data2=delta_u, op=nl.multiply)
            state = nl.ndarray((n, length), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor_scan(dst=state, data0=decay, data1=b, initial=0.0,
                                    op0=nl.multiply, op1=nl.add)
            nisa.tensor_tensor(dst=state, data1=state, data2=c, op=nl.multiply)
            nisa.tensor_tensor(dst=total, data1=total, data2=state, op=nl.add)
        nl.store(out[part, :], total)
    return out


def reference(u, delta, A, B, C):
    h = np.zeros(A.shape)
    out = np.zeros(u.shape)
    for t in range(u.shape[1]):
        h = np.exp(delta[:, t:t + 1] * A) * h + (delta[:, t] * u[:, t])[:, None] * B[:, t]
        out[:, t] = h @ C[:, t]
    return out


def cases():
    def inputs(rng):
        shapes = [(160, 256), (160, 256), (160, 4), (4, 256), (4, 256)]
        u, delta, A, B, C = (rng.random(s, np.float32) for s in shapes)
        return [u, delta, -A, B, C]

    return [Case("mamba_scan", mamba_scan, reference, inputs, rtol=1e-4, atol=1e-4)]


if __name__ == "__main__":
    main(cases())
