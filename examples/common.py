"""Helpers of the examples: a kernel with a NumPy reference; main() runs and compares both.

    python -m nkisim examples/softmax.py [--target trn1|trn2|trn3]
"""

import argparse
from dataclasses import dataclass
from typing import Callable

import numpy as np

ALL = ("trn1", "trn2", "trn3")


@dataclass
class Case:
    """`kernel(*inputs(rng))` must be `reference(*inputs(rng))` within the tolerance."""

    name: str
    kernel: Callable
    reference: Callable
    inputs: Callable
    rtol: float = 1e-5
    atol: float = 1e-5
    targets: tuple = ALL
    grid: int | None = None


def as_tuple(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def run(case, target):
    """The nkisim.Result and, for each output, the largest difference from the reference."""
    import nkisim

    inputs = case.inputs(np.random.default_rng(0))
    expected = as_tuple(case.reference(*inputs))
    result = nkisim.run(case.kernel, *inputs, target=target, grid=case.grid)
    found = as_tuple(result.outputs)
    assert len(found) == len(expected)
    differences = []
    for a, b in zip(found, expected):
        assert a.shape == b.shape, (a.shape, b.shape)
        a, b = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
        np.testing.assert_allclose(a, b, case.rtol, case.atol, err_msg=case.name)
        differences.append(float(np.abs(a - b).max()))
    return result, differences


def main(cases):
    """Runs every case and prints its latency and how far it is from the reference."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="trn2", choices=ALL)
    target = parser.parse_args().target
    for case in cases:
        if target not in case.targets:
            print(f"{case.name:28} needs {' or '.join(case.targets)}")
            continue
        result, differences = run(case, target)
        worst = ", ".join(f"{d:.1e}" for d in differences)
        print(f"{case.name:28} {target}  {result.latency_us:9.3f} us  "
              f"{result.instructions:5} instructions  matches NumPy (largest difference {worst})")
