"""Holds a reference and a correct kernel for it, which tests of `nkisim evaluate` modify."""

REFERENCE = """
import numpy as np
SEEDS = (0, 1)
def inputs(seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((128, 64), dtype=np.float32),
            rng.standard_normal((128, 64), dtype=np.float32))
def reference(a, b):
    return a + b
"""

HEAD = """
import os, sys, time, gc
import numpy as np
import nki, nki.isa as nisa, nki.language as nl
"""

BODY = """
@nki.jit
def kernel(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=a)
    nisa.dma_copy(dst=y, src=b)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=out, src=x)
    INSERT
    return out
"""

GOOD = HEAD + BODY.replace("INSERT", "")


def kernel_with(text):
    return HEAD + BODY.replace("INSERT", text)
