"""Tests that chip generation, launch grid and cores per rank (lnc) are checked together before a
run.
"""


import numpy as np
import pytest

import nki
import nki.language as nl
import nkisim

X = np.random.default_rng(0).random((1024, 512), dtype=np.float32)
SEEN = []


@nki.jit
def scale(x):
    SEEN.append((int(nl.program_id(0)), int(nl.num_programs(0))))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    iterations = 8 // nl.num_programs(0)
    for k in range(iterations):
        rows = nl.ds((nl.program_id(0) * iterations + k) * 128, 128)
        nl.store(out[rows], nl.exp(nl.load(x[rows])))
    return out


@pytest.mark.parametrize("target", ["trn1", "inf2", "trn2", "trn3"])
def test_two_programs_are_two_cores_where_there_are_two(target):
    times = {}
    for grid in (1, 2, 4):
        result = nkisim.run(scale[grid], X, target=target)
        assert np.allclose(result.outputs, np.exp(X), rtol=1e-5)
        times[grid] = result.latency_us
    paired = target in ("trn2", "trn3")
    assert (times[2] < 0.8 * times[1]) is paired
    if not paired:
        assert times[2] == pytest.approx(times[1], rel=0.05)
    assert times[4] > 0.9 * times[1]


@pytest.mark.parametrize("grid, lnc, target, says", [
    (None, 2, "trn1", "lnc is 2 on trn1; 1 is required"), (None, 4, "trn2", "lnc is 4 on trn2; 1 to 2 is required"),
    (None, 0, "trn2", "1 to 2 is required"), (None, "2", "trn2", "lnc is '2' on trn2"),
    (None, True, "trn2", "lnc is True"),
    (4, 2, "trn2", "lnc is 2 and the kernel's launch grid 4"), (3, 2, "trn2", "launch grid 3; one size is required"),
    (2, 1, "trn2", "lnc is 1 and the kernel's launch grid 2"), ((2, 2), 2, "trn2", "launch grid (2, 2)")])
def test_what_no_rank_is_is_refused_before_anything_runs(grid, lnc, target, says):
    SEEN.clear()
    with pytest.raises(nkisim.Error) as refused:
        nkisim.run(scale if grid is None else scale[grid], X, target=target, lnc=lnc)
    assert says in refused.value.message and refused.value.rule == "launch_grid" and not SEEN


@pytest.mark.parametrize("grid, lnc, programs", [(None, 1, 1), (None, 2, 2), (2, 2, 2), ((2,), 2, 2), (1, 1, 1)])
def test_what_agrees_runs(grid, lnc, programs):
    SEEN.clear()
    nkisim.run(scale if grid is None else scale[grid], X, target="trn2", lnc=lnc, timing=False)
    assert SEEN == [(n, programs) for n in range(programs)]


def test_strict_names_a_grid_of_two_on_trn1(monkeypatch):
    monkeypatch.setenv("NKISIM_STRICT", "1")
    nkisim.run(scale[2], X, target="trn2", timing=False)
    with pytest.raises(nkisim.Error, match="NCC_EARG001") as caught:
        nkisim.run(scale[2], X, target="trn1", timing=False)
    assert caught.value.rule == "sdk_refuses"
