"""Helpers of the examples for several ranks: a kernel, its reference, and how to run and check it.

    python -m nkisim examples/ranks/tensor_parallel_mlp.py [--ranks 4] [--target trn2]
"""

import argparse
from dataclasses import dataclass
from typing import Callable

import numpy as np


@dataclass
class Case:
    """`kernel(*inputs(rng, ranks))` on every rank must be `reference(the same inputs)`, a list of
    one array for each rank. An input is an array of all ranks or a list of one for each."""

    name: str
    kernel: Callable
    reference: Callable
    inputs: Callable
    rtol: float = 1e-4
    atol: float = 1e-4


def run(case, ranks, target="trn2", **options):
    """The nkisim.WorldResult and the largest difference from the reference."""
    import nkisim

    inputs = case.inputs(np.random.default_rng(0), ranks)
    given = [nkisim.per_rank(v) if isinstance(v, list) else v for v in inputs]
    result = nkisim.run(case.kernel, *given, ranks=ranks, target=target, **options)
    largest = 0.0
    for found, expected in zip(result.outputs, case.reference(*inputs)):
        a, b = np.asarray(found).astype(np.float64), np.asarray(expected).astype(np.float64)
        np.testing.assert_allclose(a, b, case.rtol, case.atol, err_msg=case.name)
        largest = max(largest, float(np.abs(a - b).max()))
    return result, largest


def main(case):
    """Runs the case and prints its latency and how far it is from the reference."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--target", default="trn2")
    args = parser.parse_args()
    result, largest = run(case, args.ranks, args.target)
    print(f"{case.name:28} {args.target}  {args.ranks:3} ranks  {result.latency_us:9.3f} us  "
          f"matches NumPy (largest difference {largest:.1e})")
