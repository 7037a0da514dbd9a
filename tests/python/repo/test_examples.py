"""Tests every kernel of examples/ on every generation that has its instructions, against NumPy."""

import importlib
import sys

import numpy as np
import pytest

import nkisim
from running import ROOT

nkisim.install()
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))

import common  # noqa: E402

NAMES = sorted(p.stem for p in EXAMPLES.glob("*.py") if p.stem != "common")
CASES = [case for name in NAMES for case in importlib.import_module(name).cases()]


@pytest.mark.parametrize("target", common.ALL)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_example(case, target):
    if target not in case.targets:
        pytest.skip(f"needs {' or '.join(case.targets)}")
    result, _ = common.run(case, target)
    assert result.latency_us > 0


@pytest.mark.parametrize("target", common.ALL)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_timed_and_untimed_leave_the_same_bytes(case, target):
    if target not in case.targets:
        pytest.skip(f"needs {' or '.join(case.targets)}")
    timed, plain = (
        nkisim.run(case.kernel, *case.inputs(np.random.default_rng(0)), target=target,
                   grid=case.grid, timing=timing) for timing in (True, False))
    for a, b in zip(common.as_tuple(timed.outputs), common.as_tuple(plain.outputs)):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("target", common.ALL)
def test_every_step_of_the_matmul_is_faster(target):
    import matmul

    latencies = [common.run(case, target)[0].latency_us for case in matmul.cases(1024)[1:]]
    # AWS's own last three on trn2 are within 1 % of each other, not in order: 28.20, 28.41, 28.30 ms
    assert all(b <= 1.01 * a for a, b in zip(latencies, latencies[1:]))
    assert latencies[-1] < 0.5 * latencies[0]


@pytest.mark.process
def test_torch_operator():
    pytest.importorskip("torch")
    import torch_operator

    torch_operator.with_torch()


@pytest.mark.slow
def test_the_tutorial_is_true():
    """Its table may lag behind the calibration of the models, its story may not."""
    import re

    import matmul

    text = (EXAMPLES.parent / "docs" / "tutorial.md").read_text()
    for case in matmul.cases(1024):
        name = case.kernel.__name__
        written = float(re.search(rf"^{name} +([\d.]+) ", text, re.M)[1])
        found = common.run(case, "trn2")[0].latency_us
        assert written == pytest.approx(found, rel=0.2), (
            f"{name}: run examples/matmul.py and correct docs/tutorial.md")
