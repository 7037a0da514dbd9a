"""Tests that the same random program gives the same values written for neuronxcc.nki, for nki.isa
and for NumPy.

What neuronxcc.nki leaves to the front end (where a result goes, whether it is copied, what a name shows after
its place has changed) is written out in the other one.
"""

import os

import numpy as np
import pytest

import nkisim

nkisim.install()

import neuronxcc.nki.isa as legacy_isa  # noqa: E402
import neuronxcc.nki.language as legacy_nl  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from two_apis import COLUMNS, NUMPY, ROWS, Program, compiled  # noqa: E402

#: Programs, of which BATCH are one kernel; NKISIM_FUZZ_SEED for where they begin.
PROGRAMS = int(os.environ.get("NKISIM_FUZZ_PROGRAMS", "5000"))
SEED = int(os.environ.get("NKISIM_FUZZ_SEED", "1"))
BATCH, JOBS = 10, 10
X = [np.random.default_rng(seed).integers(-4, 5, (ROWS, COLUMNS)).astype(np.float32) for seed in (1, 2)]


def kernel_of(programs, library):
    """A kernel that runs programs one behind the other and stores every variable they leave."""
    language, isa = (legacy_nl, legacy_isa) if library == "legacy" else (nl, nisa)
    functions = [compiled(p, library) for p in programs]

    def kernel(x0, x1):
        outputs = []
        for function in functions:
            for tile in function(language, isa, np, x0, x1):
                out = language.ndarray(tile.shape, dtype=tile.dtype, buffer=language.shared_hbm)
                if library == "nki" and tile.buffer == "psum":
                    copy = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
                    nisa.tensor_copy(copy, tile)
                    tile = copy
                language.store(out, tile)
                outputs.append(out)
        return tuple(outputs)
    return kernel


def computed(programs, library):
    return nkisim.run(kernel_of(programs, library), *X, legacy=library == "legacy", timing=False).outputs


def expected(programs):
    return [np.ascontiguousarray(tile).reshape(tile.shape) for p in programs
            for tile in compiled(p, "numpy")(None, None, NUMPY, *X)]


def wrong(programs):
    """The first fault of the programs, or None."""
    right = expected(programs)
    for library in ("nki", "legacy"):
        try:
            found = computed(programs, library)
        except Exception as problem:
            return f"{library}: {type(problem).__name__}: {problem}"
        for number, (one, other) in enumerate(zip(found, right, strict=True)):
            if one.shape != other.shape or not np.array_equal(one.astype(np.float32), other.astype(np.float32)):
                return f"{library}: variable {number} of those left is\n{one}\nand should be\n{other}"
    return None


def check(seeds):
    programs = [Program(seed) for seed in seeds]
    for batch in range(0, len(programs), BATCH):
        if wrong(programs[batch:batch + BATCH]) is None:
            continue
        for seed, program in list(zip(seeds, programs))[batch:batch + BATCH]:
            problem = wrong([program])
            assert problem is None, f"seed {seed}\n{problem}\n" + "\n".join(
                program.function(library) for library in ("legacy", "nki"))
        raise AssertionError(f"seeds {seeds[batch]} and on are wrong together: {wrong(programs[batch:batch + BATCH])}")


def test_some_programs_in_both_apis():
    check(range(SEED, SEED + 100))


@pytest.mark.slow
@pytest.mark.parametrize("job", range(JOBS))
def test_programs_in_both_apis(job):
    share = PROGRAMS // JOBS
    check(range(SEED + job * share, SEED + (job + 1) * share))
