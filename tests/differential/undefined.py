#!/usr/bin/env python3
"""Tests which results of an instruction depend on never-written inputs, against a NumPy reference.

    tests/differential/undefined.py --driver build/tests/differential_driver --cases 4000 --seed 1

Every case is one instruction, as in run.py, with some elements of what it reads taken to be never
written. The reference is evaluated with many different values there: numbers of all sizes, NaN,
infinities, and the case's own data and constants. An element of a result that differs between two
of these evaluations must be undefined for the simulator; one that is undefined for it should differ
(except where docs/values.md says that more is taken to be undefined).
"""

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import generator_control  # noqa: E402,F401
import generator_data  # noqa: E402,F401
import generator_moves  # noqa: E402,F401
from dtypes import decode, encode  # noqa: E402
from generator import GENERATORS, draw_case  # noqa: E402
from harness import OK, Driver, expected  # noqa: E402
from machine import View  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
#: Not here: control flow and registers (undefined registers are errors), what has no memory operand
#: to read, several cores, and generators of random numbers, whose reference is a range.
LEFT_OUT = {"two_cores", "control", "registers", "rng", "rand2", "rand_get_state", "rand_set_state",
            "set_rng_seed", "dropout", "device_print", "memset", "iota", "nop", "core_barrier",
            "sendrecv", "sendrecv_compute", "isa", "event_semaphore"}
STEERS = {"indices", "index"}
#: Operands whose undefined values make the whole result undefined.
SELECTS = {"predicate", "bound0", "bound1"}
WRITTEN = {"dst", "reduce_res", "dst_idx", "val_dst", "idx_dst", "dst_scale"}
#: Wherever an undefined value goes in, the whole row (or the element) is taken to be undefined.
WIDER = {"nc_find_index8", "nc_match_replace8", "sequence_bounds"}
COMPARISONS = {"equal", "not_equal", "greater_equal", "greater", "less_equal", "less"}


def read_views(case):
    """Operands that undefined values may be in: read, and no indices."""
    steering = {v.tensor.name for i in case.insts for k, v in i.views() if k in STEERS}
    for inst in case.insts:
        for _, v in inst.views():
            steering |= {d.index.tensor.name for d in v.dynamic or [] if isinstance(d.index, View)}
    return [v for inst in case.insts for k, v in inst.views()
            if k not in WRITTEN and not v.dynamic and v.tensor.name not in steering]


def puncture(case, rng):
    """{tensor name: flags per byte, 1 where nothing was written}; None if nothing can be."""
    views = read_views(case)
    if not views:
        return None
    view = rng.choice(views)
    idx = np.unique(view.index())
    rows = range(view.part, view.part + view.parts) if view.on_chip else range(1)
    flags = np.zeros(view.tensor.data.shape, np.uint8)
    cells = flags.view([("bytes", np.uint8, (view.dtype.size,))])["bytes"]
    how = rng.randrange(3)
    for row in rows:
        if how == 0:  # a few elements
            for k in rng.sample(list(idx), min(len(idx), rng.randrange(1, 4))):
                cells[row, k] = 1
        elif how == 1 and rng.random() < 0.5:  # whole rows
            cells[row, idx] = 1
        elif how == 2:  # the end of each row
            cells[row, idx[len(idx) // 2:]] = 1
    return {view.tensor.name: (flags, view.dtype)} if flags.any() else None


def values(dtype, rng, case, name):
    """One way to fill undefined elements: a function of how many."""
    kind = rng.randrange(8)
    count = lambda n: np.random.default_rng(rng.getrandbits(32)).integers(0, 2 ** 32, n)  # noqa: E731
    if kind <= 1 or dtype.kind not in ("float", "int", "bool"):
        return lambda n: count(n).astype(dtype.raw)
    if kind == 2:
        return lambda n: encode(dtype, np.full((1, n), rng.choice([0.0, 1.0, 5.0, -3.0]),
                                               np.float32))[0]
    if kind == 3:
        return lambda n: encode(dtype, np.full((1, n), rng.choice([np.nan, np.inf, -np.inf]),
                                               np.float32))[0]
    if kind <= 5:  # data of the case
        pool = [decode(t.dtype, np.ascontiguousarray(t.data).view(t.dtype.raw)).reshape(-1)
                for t in case.tensors if t.dtype.kind in ("float", "int", "bool")]
        pool = np.concatenate(pool)
        return lambda n: encode(dtype, pool[count(n) % len(pool)].reshape(1, n).astype(np.float32))[0]
    scale = 10.0 ** rng.randrange(-3, 6)
    return lambda n: encode(dtype, ((count(n) / 2.0 ** 31 - 1) * scale).reshape(1, n).astype(
        np.float32))[0]


def evaluations(case, holes, rng, count):
    """Final bytes by tensor, one per way to fill the holes."""
    original = {t.name: t.data for t in case.tensors}
    found = []
    for _ in range(count):
        for t in case.tensors:
            if t.name not in holes:
                continue
            flags, dtype = holes[t.name]
            data = original[t.name].copy()
            cells, marked = data.view(dtype.raw), flags.view(dtype.raw) != 0
            cells[marked] = values(dtype, rng, case, t.name)(int(marked.sum()))
            t.data = data
        try:
            found.append(expected(case))
        except (ValueError, IndexError, OverflowError, FloatingPointError):
            pass  # these values are against a rule of the instruction
        finally:
            for t in case.tensors:
                t.data = original[t.name]
    return found


def elements(case):
    """Element size to compare each tensor by: that of the views that write it."""
    sizes = {t.name: t.dtype.size for t in case.tensors}
    for inst in case.insts:
        for key, v in inst.views():
            if key in WRITTEN:
                sizes[v.tensor.name] = v.dtype.size
    return sizes


def differing(case, tensor, one, other):
    """Bytes that differ; not those of two NaNs, whose sign and payload nothing uses."""
    flags = one != other
    view = next((v for i in case.insts for k, v in i.views()
                 if k in WRITTEN and v.tensor is tensor and v.dtype.kind == "float"), None)
    if view is None or not flags.any():
        return flags
    nan = [np.isnan(decode(view.dtype, np.ascontiguousarray(x).view(view.dtype.raw)))
           for x in (one, other)]
    cells = flags.reshape(flags.shape[0], -1, view.dtype.size).copy()
    cells[nan[0] & nan[1]] = False
    return cells.reshape(flags.shape)


def by_element(flags, size):
    return flags.reshape(flags.shape[0], -1, size).any(axis=2)


def conservative(case, holes):
    for inst in case.insts:
        if any(k in SELECTS and v.tensor.name in holes for k, v in inst.views()):
            return True
        if inst.op in WIDER or COMPARISONS & {v for v in inst.args.values() if isinstance(v, str)}:
            return True
    return False


def check(driver, case, rng, evals, counts):
    """None or what is wrong."""
    holes = puncture(case, rng)
    if holes is None:
        return None
    memories = evaluations(case, holes, rng, evals)
    if len(memories) < 2 or memories[0].free:
        return None
    flags = {name: f for name, (f, _) in holes.items()}
    status, message, actual, undefined = driver.run_undefined(case, flags)
    if status != OK:
        counts["rejected"] += 1
        counts["refused"] += "is undefined" not in message
        return None if "is undefined" in message else f"rejected: {message}"
    counts["cases"] += 1
    for t in case.tensors:
        size = elements(case)[t.name]
        differs = np.zeros(t.data.shape, bool)
        for m in memories[1:]:
            differs |= differing(case, t, m.bytes[t.name], memories[0].bytes[t.name])
        if t.name in flags:
            differs |= flags[t.name].astype(bool) & (undefined[t.name] != 0)
        wanted, said = by_element(differs, size), by_element(undefined[t.name] != 0, size)
        counts["wanted"] += int(wanted.sum())
        if (wanted & ~said).any():
            counts["missed"] += int((wanted & ~said).sum())
            row, k = np.argwhere(wanted & ~said)[0]
            return (f"{int((wanted & ~said).sum())} elements of {t.name} depend on undefined values "
                    f"and are defined, first row {row}, element {k}")
        counts["undefined"] += int(said.sum())
        if not conservative(case, holes):
            counts["wider"] += int((said & ~wanted).sum())
            if (said & ~wanted).any():
                counts[f"wider: {case.op}"] += int((said & ~wanted).sum())
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--driver", default=str(ROOT / "build/tests/differential_driver"))
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--evaluations", type=int, default=12)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--op", action="append")
    parser.add_argument("--missed", type=float, default=2e-4,
                        help="share of elements that differ and may be missed: values that are "
                             "tried are few (default %(default)s)")
    parser.add_argument("--wider", type=float, default=0.02,
                        help="share of undefined elements that may differ in no evaluation")
    options = parser.parse_args()
    ops = options.op or [o for o in sorted(GENERATORS) if o not in LEFT_OUT]
    driver, counts, failures = Driver(options.driver, undefined=True), Counter(), 0
    for index in range(options.cases):
        op = ops[index % len(ops)]
        seed = f"{options.seed}:{op}:{index // len(ops)}"
        case = draw_case(op, seed)
        problem = check(driver, case, random.Random(seed), options.evaluations, counts)
        if problem:
            failures += 1
            print(f"{op}, seed {seed}: {problem}")
            if failures <= 3:
                print(case.text())
    driver.close()
    share = counts["wider"] / max(counts["undefined"], 1)
    missed = counts["missed"] / max(counts["wanted"], 1)
    print(f"undefined: seed {options.seed}, {counts['cases']} cases with undefined values, "
          f"{counts['rejected']} refused, {counts['undefined']} elements undefined, "
          f"{100 * share:.2f} % of them in no evaluation of the reference; {failures} cases in which "
          f"{counts['missed']} of {counts['wanted']} elements that differ are missed")
    for key in sorted(k for k in counts if k.startswith("wider: ")):
        print(f"  {key}: {counts[key]}")
    refused = counts["refused"] > 0
    return 1 if refused or missed > options.missed or share > options.wider or (
        not counts["undefined"]) else 0


if __name__ == "__main__":
    sys.exit(main())
