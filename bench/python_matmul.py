"""Times a 2048^3 bf16 matmul kernel from the Python call to checked output and profile (target:
under 5 s).

    PYTHONPATH=build/release/python python bench/python_matmul.py [--size 2048] [--repeat 3]
"""

import argparse
import os
import pathlib
import sys
import tempfile
import time

import numpy as np

import nkisim

nkisim.install()
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "examples"))

import matmul  # noqa: E402


def once(size, folder):
    """Seconds of each stage, and the result."""
    case, = matmul.cases(size, (matmul.buffered,))
    a_t, b = case.inputs(np.random.default_rng(0))
    marks = [time.perf_counter()]
    result = nkisim.run(case.kernel, a_t, b, target="trn2")
    marks.append(time.perf_counter())
    expected = case.reference(a_t, b)
    np.testing.assert_allclose(result.outputs.astype(np.float32), expected, case.rtol, case.atol)
    marks.append(time.perf_counter())
    result.perfetto(os.path.join(folder, "matmul.pftrace"))
    marks.append(time.perf_counter())
    ran, verified, profiled = np.diff(marks)
    return {"record": result.record_seconds, "simulate": ran - result.record_seconds,
            "verify": verified, "profile": profiled, "total": marks[-1] - marks[0]}, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runs = [once(args.size, folder) for _ in range(args.repeat)]
    best, result = min(runs, key=lambda r: r[0]["total"])
    print(f"{args.size}^3 bf16 on trn2: {result.instructions} instructions, simulated "
          f"{result.latency_us:.1f} us, load average {os.getloadavg()[0]:.1f} on "
          f"{os.cpu_count()} processors")
    print("  ".join(f"{stage} {seconds:.2f} s" for stage, seconds in best.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
