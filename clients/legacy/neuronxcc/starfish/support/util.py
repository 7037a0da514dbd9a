"""neuronxcc.starfish.support.util: a comparison of arrays that AWS's tests of neuronxcc.nki import."""

import numpy as np


def allclose(a, b, rtol=1e-5, atol=1e-8, verbose=False, **_ignored):
    return bool(np.allclose(np.asarray(a, np.float32), np.asarray(b, np.float32), rtol, atol))
