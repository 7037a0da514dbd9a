#!/usr/bin/env python3
"""Compares every instruction with a NumPy reference on random tests.

    tests/differential/run.py --driver build/tests/differential_driver --cases 100000 --seed 1
    tests/differential/run.py --op tensor_scalar --cases 5000
    tests/differential/run.py --op tensor_scalar --seed 1 --case 4711     one case, with its trace

Exit code 0: everything agrees; 1: something differs; 2: wrong use. Failures are reduced and saved as
traces that `nkisim run` reproduces.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import coverage  # noqa: E402
import generator_control  # noqa: E402,F401
import generator_data  # noqa: E402,F401
import generator_moves  # noqa: E402,F401
import negatives  # noqa: E402
import shrink  # noqa: E402
from generator import GENERATORS, draw_case  # noqa: E402
from harness import Driver, check  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def op_of(index, ops):
    return ops[index % len(ops)]


def one_case(driver, options, op, index):
    """Runs case `index`; returns (coverage keys, failure or None)."""
    seed = f"{options.seed}:{op}:{index}"
    if index % 10 == 9:  # every tenth case of an instruction
        return negatives.check(driver, op, seed, options.target)
    case = draw_case(op, seed, target=options.target)
    failure = check(driver, case)
    return coverage.keys(case), failure and (*failure, case)


def work(arguments):
    """One worker: every `jobs`-th case."""
    options, ops, first = arguments
    driver, counts, failures = Driver(options.driver, options.timed), Counter(), []
    per_op = Counter()
    for index in range(first, options.cases, options.jobs):
        op = op_of(index, ops)
        try:
            keys, failure = one_case(driver, options, op, index // len(ops))
        except Exception as error:
            raise RuntimeError(f"{op} case {index // len(ops)}, seed {options.seed}") from error
        counts.update(keys)
        if failure and per_op[op] < options.keep:
            per_op[op] += 1
            kind, message, case = failure
            failures.append(shrink.report(driver, options.out, op, index // len(ops), kind, message, case))
        elif failure:
            per_op[op] += 1
    driver.close()
    return counts, failures, per_op


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--driver", default=str(ROOT / "build/tests/differential_driver"))
    parser.add_argument("--cases", type=int, default=10000)
    parser.add_argument("--seed", default=None, help="default: from the clock, printed")
    parser.add_argument("--op", action="append", help="only this instruction (repeatable)")
    parser.add_argument("--skip", action="append", default=[], help="not this instruction; reported")
    parser.add_argument("--case", type=int, help="only this case of --op")
    parser.add_argument("--target", choices=["trn1", "inf2", "trn2", "trn3"])
    parser.add_argument("--timed", action="store_true",
                        help="run each case in simulated time, too: the same bytes")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--keep", type=int, default=3, help="failures per instruction to reduce and save")
    parser.add_argument("--out", default="differential-failures", help="folder for failing traces")
    parser.add_argument("--coverage", help="write the coverage table: .md or .json")
    options = parser.parse_args()
    options.seed = options.seed or str(int(time.time()))
    unknown = set(options.op or []) | set(options.skip)
    unknown -= set(GENERATORS)
    if unknown:
        parser.error(f"no generator for {', '.join(sorted(unknown))}")
    return options


def single(options):
    op = options.op[0]
    driver = Driver(options.driver, options.timed)
    keys, failure = one_case(driver, options, op, options.case)
    if failure is None:
        case = draw_case(op, f"{options.seed}:{op}:{options.case}", target=options.target)
        print(case.text(), end="")
        print("agrees")
        return 0
    print(failure[2].text(), end="")
    print(shrink.report(driver, options.out, op, options.case, *failure)["text"])
    return 1


def main():
    options = parse()
    if options.case is not None:
        return single(options)
    ops = [o for o in options.op or sorted(GENERATORS) if o not in options.skip]
    print(f"differential: seed {options.seed}, {options.cases} cases, {len(ops)} instructions", flush=True)
    start = time.time()
    jobs = [(options, ops, k) for k in range(options.jobs)]
    if options.jobs == 1:
        results = [work(jobs[0])]
    else:
        with multiprocessing.Pool(options.jobs) as pool:
            results = pool.map(work, jobs, chunksize=1)
    counts, failures, per_op = Counter(), [], Counter()
    for c, f, p in results:
        counts.update(c)
        failures += f
        per_op.update(p)
    return summary(options, ops, counts, failures, per_op, time.time() - start)


def summary(options, ops, counts, failures, per_op, seconds):
    for failure in failures:
        print(failure["text"])
    table = coverage.table(counts)
    if options.coverage:
        text = json.dumps(table, indent=1) if options.coverage.endswith(".json") else coverage.markdown(table)
        Path(options.coverage).write_text(text + "\n")
    for name in options.skip:
        print(f"left out by --skip: {name}")
    total = sum(per_op.values())
    for name, count in sorted(per_op.items()):
        print(f"  {name}: {count} of its cases fail")
    print(f"{options.cases} cases in {seconds:.0f} s, {counts[('rejects',)]} of them invalid on purpose: "
          f"{total} failures; {len(table)} instructions, {coverage.cells(table)} combinations of "
          f"dtype, memory and mode reached")  # fmt: skip
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
