"""Instructions per second that the Python front end records (targets: 100,000, and 40,000 for legacy
kernels that address by index tiles).

    PYTHONPATH=build/release/python python bench/recording.py
"""

import sys
import time

import numpy as np

import nkisim

nkisim.install()

import neuronxcc.nki.isa as oisa  # noqa: E402
import neuronxcc.nki.language as onl  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from nkisim.record.dialect import NEURONXCC, NKI  # noqa: E402
from nkisim.run.recording import record  # noqa: E402

COUNT = 50_000


def vector(x):
    """Three fresh slices per instruction."""
    t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(t, x)
    for _ in range(COUNT):
        nisa.tensor_tensor(t[:, 0:4], t[:, 4:8], t[:, 8:12], nl.add)


def matmul(x):
    """Accumulation into one PSUM tile."""
    t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    p = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(t, x)
    for _ in range(COUNT):
        nisa.nc_matmul(p, t[:, 0:128], t[:, 0:512])


def index_tiles(a, b):
    """A legacy matmul as the tutorials of 2.20 write it: every address by index tiles."""
    (k, m), n = a.shape, b.shape[1]
    out = onl.ndarray((m, n), dtype=a.dtype, buffer=onl.shared_hbm)
    i_row, i_lhs, i_rhs = onl.arange(128)[:, None], onl.arange(128)[None, :], onl.arange(512)[None, :]
    for im in onl.affine_range(m // 128):
        for jn in onl.affine_range(n // 512):
            total = onl.zeros((128, 512), onl.float32, buffer=onl.psum)
            for kk in onl.affine_range(k // 128):
                lhs = onl.load(a[kk * 128 + i_row, im * 128 + i_lhs])
                rhs = onl.load(b[kk * 128 + i_row, jn * 512 + i_rhs])
                total[i_row, i_rhs] += oisa.nc_matmul(lhs[i_row, i_lhs], rhs[i_row, i_rhs])
            onl.store(out[im * 128 + i_row, jn * 512 + i_rhs], value=onl.copy(total, dtype=a.dtype))
    return out


def rate(kernel, arrays, legacy=False):
    """The best of three recordings."""
    best = 0.0
    for _ in range(3):
        begin = time.process_time()
        recorder = record(kernel, arrays, {}, dialect=NEURONXCC if legacy else NKI)[0]
        best = max(best, len(recorder.program) / (time.process_time() - begin))
    return best


def main():
    x = np.ones((128, 512), np.float32)
    tiles = np.ones((3584, 3584), np.float32), np.ones((3584, 14336), np.float32)
    for kernel, arrays, legacy in ((vector, (x,), False), (matmul, (x,), False),
                                   (index_tiles, tiles, True)):
        print(f"{kernel.__name__:<12} {rate(kernel, arrays, legacy):>10,.0f} instructions/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
