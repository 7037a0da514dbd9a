"""Writes numpy_reference.npz, files as NumPy makes them, for tests/src/npy_test.cpp."""
import pathlib

import ml_dtypes
import numpy as np

np.savez_compressed(
    pathlib.Path(__file__).with_name("numpy_reference.npz"),
    x=np.arange(6, dtype=np.float32).reshape(2, 3),
    fortran=np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
    bf16=np.array([1.5, -2.0], ml_dtypes.bfloat16),
    wide=np.array([0.1, 1.0 + 2.0**-9], np.float64),
    scalar=np.float32(3.0),
    empty=np.zeros((0, 4), np.int32),
)
