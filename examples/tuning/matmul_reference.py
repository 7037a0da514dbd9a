"""Makes inputs and expected results for tuning the matrix product, 1024 x 1024 x 1024 in bf16."""

import ml_dtypes
import numpy as np

SEEDS, RTOL, ATOL = (0, 1), 1e-2, 0.5
SIZE = 1024


def inputs(seed):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((SIZE, SIZE)).astype(ml_dtypes.bfloat16) for _ in range(2)]


def reference(a_t, b):
    return a_t.astype(np.float32).T @ b.astype(np.float32)
