"""Makes random tests of every function of nki.isa and compares nkisim with a NumPy reference of
AWS's documents.

python tests/conformance/oracle/run.py --cases N --seed S [--function F] [--batch B] [--first NUMBER]
"""

import argparse
import collections
import contextlib
import importlib
import io
import sys
import time
import warnings
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    __package__ = "oracle"

# Each module registers its cases.
from . import copies, corners, elementwise, engines, language, options, search, wider  # noqa: F401
from .case import CASES
from .draw import Draw
from .dress import dress


def draw(seed, number, only=None):
    """Case `number` of a seed: its function and its generation follow the number, so every function gets its share."""
    names = [only] if only else sorted(CASES)
    rng = np.random.default_rng((seed, number))
    drawers = CASES[names[number % len(names)]]
    drawer, since = drawers[int(rng.integers(len(drawers)))]
    with np.errstate(all="ignore"):
        case = drawer(Draw(rng, int(rng.integers(since, 5))))
    dress(case, rng)
    return case


def compare_results(case, results):
    """The findings of a case: (class, detail) for a refusal or for each result that differs."""
    if isinstance(results, Exception):
        return [("refused", f"{type(results).__name__}: {results}")]
    found = []
    for name, expect in case.expect.items():
        got = np.asarray(results[name])
        with np.errstate(all="ignore"):
            wrong = np.broadcast_to(expect.wrong(got), expect.low.shape)
        for label, where in (("wrong", wrong & ~expect.unknown), ("undocumented", wrong & expect.unknown)):
            if where.any():
                place = tuple(int(i[0]) for i in np.nonzero(where))
                values = ", ".join(f"{n}{place}={w}" for n, w in sources(case, place))
                there = got.reshape(expect.low.shape)[place] if got.size == expect.low.size else got.reshape(-1)[:4]
                found.append(
                    (
                        label,
                        f"{name}{place}: documents {expect.low[place]}..{expect.high[place]}, nkisim {there}; "
                        f"{int(where.sum())} of {where.size}; {values}",
                    )
                )
    return found


def sources(case, place):
    """The elements of the inputs at `place`, where an input has that place."""
    for tile in case.tiles.values():
        if tile.data is not None and tile.data.ndim == len(place):
            with contextlib.suppress(IndexError):
                yield tile.name, tile.data[tuple(min(p, s - 1) for p, s in zip(place, tile.shape))]


def execute(numbered, batch):
    """Runs cases by generation in batches; yields (number, case, results)."""
    results = importlib.import_module(".kernel", "oracle").results
    for generation in (2, 3, 4):
        own = [(n, c) for n, c in numbered if c.generation == generation]
        for start in range(0, len(own), batch):
            part = own[start : start + batch]
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = results([c for _, c in part])
            yield from ((n, c, r) for (n, c), r in zip(part, found))


def main(argv=None):
    """Prints the findings; returns 1 if a documented value is wrong or a legal case is refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--function", choices=sorted(CASES))
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--show", type=int, default=3, help="findings printed for each function and class")
    asked = parser.parse_args(argv)
    begin, counts = time.process_time(), collections.defaultdict(collections.Counter)
    for chunk in range(asked.first, asked.first + asked.cases, 3000):
        last = min(chunk + 3000, asked.first + asked.cases)
        numbered = [(n, draw(asked.seed, n, asked.function)) for n in range(chunk, last)]
        for number, case, results in execute(numbered, asked.batch):
            counts[case.function]["cases"] += 1
            for label, detail in compare_results(case, results):
                counts[case.function][label] += 1
                if counts[case.function][label] <= asked.show:
                    print(f"{case.function} {label} (case {number}, trn{case.generation - 1}, {case.option}): {detail}")
    total = collections.Counter()
    for function in sorted(counts):
        print(function, dict(counts[function]))
        total += counts[function]
    print(f"{dict(total)}; {time.process_time() - begin:.1f} s of processor time")
    return 1 if total["wrong"] or total["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
