"""Instructions per second that the Python front end records (target: 100,000).

    PYTHONPATH=build/release/python python bench/recording.py
"""

import sys
import time

import numpy as np

import nkisim

nkisim.install()

import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
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


def main():
    x = np.ones((128, 512), np.float32)
    for kernel in (vector, matmul):
        best = 0.0
        for _ in range(3):
            begin = time.perf_counter()
            record(kernel, (x,), {})
            best = max(best, COUNT / (time.perf_counter() - begin))
        print(f"{kernel.__name__:<8} {best:>10,.0f} instructions/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
