"""Tests that calling a small kernel again reuses work of the last call, but nothing that may have
changed.
"""

import gc
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import nkisim

nkisim.install()

import nki  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from nkisim.values.environment import variable  # noqa: E402

ONES, MORE, MOST = (np.ones((128, 4), np.float32) for _ in range(3))
CONFIG = Path(__file__).resolve().parents[3] / "configs" / "trn2.json"


def added(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    x = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    y = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(x, a)
    nisa.dma_copy(y, b)
    nisa.tensor_tensor(x, x, y, nl.add)
    nisa.dma_copy(out, x)
    return out


COUNTED = """
import sys
import warnings
import test_launches as these

kernel, calls = these.nki.jit(these.added), 0

def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")

kernel(these.ONES, these.ONES)
sys.setprofile(count)
kernel(these.ONES, these.ONES)
sys.setprofile(None)
print(calls)
"""


@pytest.mark.process
def test_a_launch_calls_few_functions():
    """A launch calls 499 functions of Python and C; 621 when variables of the environment that are not set took five
    calls each and the levels of logging seven for each category. In a process of its own, as what other tests have
    installed calls functions too."""
    found = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True,
                           cwd=Path(__file__).parent, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert int(found.stdout) < 500


def test_a_variable_of_the_environment_is_read_anew_each_time(monkeypatch):
    name = "NKISIM_OF_THIS_TEST"
    assert variable(name) is None and variable(name, "1") == "1"
    monkeypatch.setenv(name, "ü")
    assert variable(name) == "ü" == os.environ[name]
    monkeypatch.delenv(name)
    assert variable(name, "2") == "2"
    monkeypatch.setattr(os, "environ", {name: "3"})
    assert variable(name) == "3" and variable("PATH") is None


def figures(result):
    return result.summary, result.totals, result.summary_text, result.confidence


def test_figures_are_the_same_whenever_they_are_read():
    at_once = figures(nkisim.run(added, ONES, ONES))
    late = nkisim.run(added, ONES, ONES)
    nkisim.run(lambda a: added(a, added(a, a)), ONES)  # other runs change nothing
    gc.collect()
    assert figures(late) == at_once
    summary, totals, text, confidence = at_once
    assert summary["nc_0"]["hbm_read_bytes"] == 2 * ONES.nbytes
    assert totals["total_time"] == pytest.approx(late.latency_ns * 1e-9, rel=1e-12)
    assert confidence["origin"] == "nki"
    assert "hbm_read_bytes" in text


def test_figures_outlive_their_result():
    result = nkisim.run(added, ONES, ONES)
    expected, kept = result.summary, nkisim.run(added, ONES, ONES)._figures
    gc.collect()
    assert json.loads(kept.summary()) == expected


def test_figures_are_those_of_the_last_run(tmp_path):
    result = nkisim.run(added, ONES, ONES)
    before = result.summary
    before["nc_0"].clear()
    result.write(accounting_json=tmp_path / "a.json")
    assert result.summary["nc_0"]["hbm_read_bytes"] == 2 * ONES.nbytes


def test_without_time_there_are_no_figures():
    assert figures(nkisim.run(added, ONES, ONES, timing=False)) == ({}, {}, "", None)


def test_a_changed_config_is_seen(tmp_path):
    path, config = tmp_path / "machine.json", json.loads(CONFIG.read_text())
    path.write_text(json.dumps(config))
    as_given = nkisim.run(added, ONES, ONES, target="trn2").latency_ns
    assert nkisim.run(added, ONES, ONES, target="trn2", config=str(path)).latency_ns == as_given
    clock = config["engines"]["vector"]["clock"]["value"] / 2
    config["engines"]["vector"]["clock"]["value"] = clock
    path.write_text(json.dumps(config))
    slower = nkisim.run(added, ONES, ONES, target="trn2", config=str(path)).latency_ns
    assert slower > as_given
    said = nkisim.run(added, ONES, ONES, target="trn2", config=path)  # a Path, as the signature says
    said.write(session=path.with_suffix(".npz"))
    assert said.latency_ns == slower and path.with_suffix(".npz").exists()
    overridden = nkisim.run(added, ONES, ONES, target="trn2", overrides={"engines.vector.clock.value": clock})
    assert overridden.latency_ns == slower
    assert nkisim.run(added, ONES, ONES, target="trn2").latency_ns == as_given


def test_a_changed_environment_is_seen(monkeypatch):
    kernel = nki.jit(added)
    kernel(ONES, ONES)
    assert kernel.result.latency_ns > 0
    monkeypatch.setenv("NKISIM_TIMING", "0")
    kernel(ONES, ONES)
    assert kernel.result.latency_ns is None


def names_of(function, *args):
    result = nkisim.run(function, *args)
    return [st.name for st in result.recorder.storages if st.array is not None], result.outputs


def test_a_redefined_kernel_is_seen():
    def kernel(left, right):
        return added(left, right)

    def other(above, below):
        return added(above, added(above, below))

    assert names_of(kernel, ONES, MORE)[0] == ["left", "right"]
    kernel.__code__ = other.__code__
    names, out = names_of(kernel, ONES, MORE)
    assert names == ["above", "below"] and (out == 3).all()


def test_names_of_parameters_are_those_of_the_signature():
    def kernel(first, *others, last=None):
        return added(first, others[-1])

    assert names_of(kernel, ONES, MORE)[0] == ["first", "others"]
    assert names_of(kernel, ONES, MORE, MOST)[0][:2] == ["first", "others"]


def test_a_grid_within_a_kernel_is_noted_if_it_is_another():
    @nki.jit
    def each(x):
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out[nl.program_id(0)], nl.load(x))
        return out

    @nki.jit
    def outer(x):
        return each[2](x)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert np.array_equal(outer[2](ONES), np.stack([ONES, ONES]))
    assert not [w for w in said if "its grid is ignored" in str(w.message)]
    with pytest.warns(UserWarning, match=r"each\[2\] is called within a kernel, in whose 1 program instances it runs"):
        nkisim.run(outer, ONES, allow_unwritten=True)
