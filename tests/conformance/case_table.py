"""Holds the table of tests that run public NKI kernels, and helpers that the tests share."""

import importlib.util
import sys
from pathlib import Path

import numpy as np

CASES = {}


def case(group, name=None):
    def add(function):
        CASES.setdefault(group, {})[name or function.__name__] = function
        return function

    return add


def module(path):
    """A kernel file as a module; its folder is importable, as for a script."""
    path = Path(path)
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
    out = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = out
    spec.loader.exec_module(out)
    return out


def rng():
    return np.random.default_rng(0)


def close(found, expected, rtol=1e-2, atol=1e-2):
    np.testing.assert_allclose(np.asarray(found).astype(np.float64),
                               np.asarray(expected).astype(np.float64), rtol=rtol, atol=atol)


def bf16(array):
    import ml_dtypes

    return array.astype(ml_dtypes.bfloat16)
