"""Kernels of x (float32, 128 rows, 64 columns) that break one rule of nki.isa each when run, and
`plain`, which breaks none.
"""

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402


def sbuf(shape=(128, 64), dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def onto_a_copy(x):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t, r = sbuf(), sbuf((64, 64))
    p = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=t, src=x)
    nisa.tensor_copy(dst=p, src=t[0:64, 0:64], engine=nisa.vector_engine)
    nisa.nc_matmul(dst=p, stationary=t, moving=t, accumulate=True)
    nisa.tensor_copy(dst=r, src=p)
    nisa.dma_copy(dst=out, src=r)
    return out


def half_written(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t = sbuf()
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=out[0:128, 0:32], src=t[0:128, 0:32])
    return out


def never_loaded(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t = sbuf()
    nisa.dma_copy(dst=t[0:64, 0:64], src=x[0:64, 0:64])
    nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=t)
    return out


def plain(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t = sbuf()
    nisa.dma_copy(dst=t, src=x)
    nisa.dma_copy(dst=out, src=t)
    return out
