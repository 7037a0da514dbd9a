"""Runs one public NKI kernel per test on small shapes and compares it with NumPy.

    python tests/conformance/cases.py GROUP NAME ROOT

A case takes the checkout's root and raises if the kernel's result is wrong. References are written
here from the kernels' documented meaning unless the checkout has its own.
"""

import sys
from pathlib import Path

import nkisim

nkisim.install()

import cases_library  # noqa: E402,F401  (each registers its cases)
import cases_samples  # noqa: E402,F401
import cases_sdk  # noqa: E402,F401
import retired  # noqa: E402,F401
from case_table import CASES  # noqa: E402


def main():
    group, name, root = sys.argv[1:4]
    CASES[group][name](Path(root))


if __name__ == "__main__":
    main()
