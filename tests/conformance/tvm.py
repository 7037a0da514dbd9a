"""python tests/conformance/tvm.py CHECKOUT: runs the kernels that Apache TVM's tests expect of its code generator.

They are texts in tests/python/tirx/codegen/test_codegen_nki.py, in its order: x + 1 of two sizes, and a product.
"""

import pathlib
import re
import sys
import tempfile

import numpy as np

import nkisim

TESTS = "tests/python/tirx/codegen/test_codegen_nki.py"


def added(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    return [x], x + 1


def product():
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((1024, 4096), (1024, 2048)))
    return [a, b], (a.astype(np.float32).T @ b.astype(np.float32)).astype(np.float16)


CASES = [lambda: added((128, 512)), lambda: added((128, 2048)), product]


def main(checkout):
    """Prints a line a kernel; whether all are right."""
    nkisim.install()
    texts = re.findall(r'expected = """(.*?)"""', (pathlib.Path(checkout) / TESTS).read_text(), re.S)
    right = 0
    for number, text in enumerate(texts):
        if number >= len(CASES):
            print(f"kernel {number + 1}: new, without a reference here")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kernel.py"
            path.write_text(text.strip() + "\n")
            space = {}
            exec(compile(path.read_text(), str(path), "exec"), space)
            given, expected = CASES[number]()
            out = np.zeros_like(expected)
            space["func_kernel"](*given, out)
        good = np.array_equal(out, expected)
        right += good
        print(f"kernel {number + 1}: {'right' if good else 'wrong'}")
    print(f"{right} of {len(texts)} right")
    return 0 if right == len(texts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
