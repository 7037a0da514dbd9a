"""Holds operands and NumPy references for tests of tensor-engine and DMA instructions
(make_cases.py).
"""
import ml_dtypes
import numpy as np

from vector_cases import table as base
from vector_cases.table import DTYPES, F32, T, as_f32, out

E4M3FN, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
DTYPES.update({"float8_e4m3fn": E4M3FN, "float8_e3m4": ml_dtypes.float8_e3m4,
               "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu, "tfloat32": np.float32})
PACKED = {"float8_e4m3fn_x4": E4M3FN, "float8_e5m2_x4": E5M2,
          "float4_e2m1fn_x4": ml_dtypes.float4_e2m1fn}


class X4(T):
    """A packed operand from its single values: four per element along the last axis."""

    def __init__(self, dtype, values):
        self.dtype, self.space, self.partition = dtype, "sbuf", 0
        self.address, self.core = None, 0
        self.values = np.asarray(values).astype(PACKED[dtype])
        self.shape = [*self.values.shape[:-1], self.values.shape[-1] // 4]


def case(op, title, tensors, program, keep=False, **rest):
    """As base.case; what is never run needs no values."""
    if "expect" not in rest and not keep:
        tensors = {n: T(t.dtype, shape=t.shape, space=t.space, partition=t.partition,
                      address=t.address)
                   for n, t in tensors.items()}
    base.case(op, title, tensors, program, **rest)


def psum(dtype, *shape):
    return out(dtype, *shape, space="psum")


def hbm(dtype, values=None, shape=None):
    return T(dtype, values, shape, space="hbm")


def product(st, mv, start=None):
    """FP32, one k after the other, each product and each sum rounded once."""
    st, mv = as_f32(st), as_f32(mv)
    acc = np.zeros((st.shape[1], mv.shape[1]), F32)
    for k in range(st.shape[0]):
        acc = acc + st[k][:, None] * mv[k][None, :]
    return acc if start is None else start + acc


def tf32(x):
    u = np.asarray(x, F32).view(np.uint32).astype(np.uint64)
    return ((u + 0xfff + ((u >> 13) & 1)) & 0xffffe000).astype(np.uint32).view(F32)
