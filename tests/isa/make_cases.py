#!/usr/bin/env python3
"""Writes tables of instruction tests (inputs and expected values), isa/ops/*.cases.json.

    python3 tests/isa/make_cases.py [--check]

Expected values come from NumPy and ml_dtypes alone. The format is described in
tests/src/cases_test.cpp.
"""
import json
import math
import pathlib
import sys

import numpy as np

from tensor_cases import activations, products, rules, transfers
from vector_cases import copies, elementwise, reductions, searches
from vector_cases.table import TABLES

BUILDERS = (elementwise.ALL + copies.ALL + reductions.ALL + searches.ALL + products.ALL +
            activations.ALL + transfers.ALL + rules.ALL)
OPS = pathlib.Path(__file__).resolve().parents[2] / "isa" / "ops"


def same(a, b):
    """Are two tables equal but for the last digits of NumPy's float64 functions, which are another processor's own?"""
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-14) or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and a == b


def main():
    for build in BUILDERS:
        with np.errstate(all="ignore"):
            build()
    stale = []
    for op, cases in TABLES.items():
        text = "[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n"
        path = OPS / f"{op}.cases.json"
        if path.exists() and same(json.loads(path.read_text()), json.loads(text)):
            continue
        stale.append(path.name)
        if "--check" not in sys.argv:
            path.write_text(text)
    print(f"{sum(len(c) for c in TABLES.values())} cases of {len(TABLES)} instructions; "
          f"{'stale' if '--check' in sys.argv else 'written'}: {len(stale)}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
