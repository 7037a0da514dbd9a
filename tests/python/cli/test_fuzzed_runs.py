"""Runs commands on damaged input files (a sample of tests/fuzz/runs.py); NKISIM_FUZZ_RUNS=25000
makes it the large run.
"""

import os
import sys

import pytest

from running import ROOT

sys.path.insert(0, str(ROOT / "tests" / "fuzz"))
import mutate  # noqa: E402
import runs  # noqa: E402

pytestmark = pytest.mark.process
RUNS = int(os.environ.get("NKISIM_FUZZ_RUNS", "120"))


def test_damaged_input_is_an_error_and_nothing_else(tmp_path):
    codes, wrong = runs.many(RUNS, seed=7, jobs=1 if RUNS < 1000 else os.cpu_count(),
                             keep={"folder": str(tmp_path), "always": False}, timeout=60)
    assert sum(codes.values()) == RUNS
    assert not wrong
    kinds = {kind for kind, _ in codes}
    every = sum(weight for _, weight in runs.KINDS.values())
    often = {kind for kind, (_, weight) in runs.KINDS.items() if RUNS * weight / every > 5}
    assert kinds >= often and len(often) >= 6 and {code for _, code in codes} <= {0, 1, 2, 3}
    assert any(code == 0 for _, code in codes) and any(code == 3 for _, code in codes)


def test_what_is_wrong_is_named():
    assert runs.verdict(0, "") is None and runs.verdict(3, "nkisim: no") is None
    assert runs.verdict(None, "") == "no end"
    assert runs.verdict(-11, "") == "signal 11"
    assert runs.verdict(4, "internal error") == "exit code 4"
    assert runs.verdict(1, "Traceback (most recent call last):\n") == "traceback"


def test_the_same_seed_makes_the_same_damage():
    import random

    data = b'{"a": [1, 2, 3], "b": "text"}\n' * 3
    for edit in (mutate.edit_bytes, mutate.edit_lines):
        first, second = (edit(data, random.Random(5)) for _ in range(2))
        assert first == second != data
