"""Tests that published kernel search programs can call nkisim; the calls here are written from
their interfaces.
"""

import json
import pathlib
import textwrap
import types

import pytest

from running import python

import nkisim_adapters
from nkisim_adapters.accelopt import NKIKernel
from nkisim_adapters.autocomp import NkisimBackend

pytestmark = pytest.mark.process
TASK = """
import numpy as np
def get_inputs():
    return [np.random.normal(loc=0, scale=1.0, size=(512, 128)).astype(np.float32)]
def forward(x):
    return x / (1 + np.exp(-x))
def transform_to_nki_inputs(inputs):
    return [np.reshape(inputs[0], (128, 512))]
def transform_nki_outputs(k_res, ref):
    if not isinstance(k_res, tuple):
        k_res = (k_res,)
    return [np.reshape(v, ref.shape) for v in k_res]
"""
KERNEL = """
import neuronxcc.nki as nki, neuronxcc.nki.language as nl
@nki.jit
def optimized_kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.silu(nl.load(x)))
    return out
"""


@pytest.fixture
def files(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return str(path)
    return write


def test_adapters_are_small():
    for path in pathlib.Path(nkisim_adapters.__file__).parent.glob("*.py"):
        most = 220 if path.name == "mcp_server.py" else 150  # it serves agents, the others adapt a loop
        assert len(path.read_text().splitlines()) < most, path.name


def test_accelopt_profiles_a_kernel(files):
    task, kernel = files("silu.py", TASK), files("kernel.py", KERNEL)
    fields = ["hbm_read_bytes", "scalar_engine_active_time_percent", "no_such_field"]
    res = NKIKernel(kernel, task).profile(fields)
    assert (res.compiled, res.runnable, res.correct) == (True, True, True), res.metadata
    assert res.metadata["hbm_read_bytes"] == 4 * 512 * 128
    assert res.metadata["latency"] == res.metadata["min_ms"] > 0
    assert res.metadata["rel_diffs"] <= 0.01  # where its loop stops repeating
    assert "no_such_field" not in res.metadata


def test_accelopt_says_what_failed(files):
    task = files("silu.py", TASK)
    res = NKIKernel(files("a.py", KERNEL.replace("nl.silu(", "nl.exp(")), task).profile()
    assert (res.compiled, res.correct) == (True, False)
    assert "relative L2 error" in res.metadata["correctness_error"][0]
    res = NKIKernel(files("b.py", KERNEL.replace("nl.silu(", "nl.sillu(")), task).profile()
    assert not res.compiled and "sillu" in res.metadata["compilation_error"]
    res = NKIKernel(files("c.py", KERNEL + "half = nl.float16\n"), task).profile()
    assert not res.correct and "Float16" in res.metadata["correctness_error"]


def test_autocomp_gets_a_dict_for_every_text_in_order(files):
    problem = types.SimpleNamespace(prob_type="trn", prob_id=3)
    texts = [KERNEL, "1 / 0", KERNEL.replace("nl.silu", "nl.exp")]
    with NkisimBackend({("trn", 3): files("silu.py", TASK)}, jobs=2, target="trn1") as backend:
        said = backend.evaluate_code(problem, texts, "trn")
        assert [s["correct"] for s in said] == [True, False, False]
        assert said[0]["latency"] > 0 and "Test passed" in said[0]["stdout"]
        assert "ZeroDivisionError" in said[1]["stderr"] and said[1]["latency"] is None
        assert said[2]["stderr"].startswith("wrong")
        with pytest.raises(KeyError, match="no reference"):
            backend.evaluate_code(types.SimpleNamespace(prob_type="x", prob_id=1), texts, "trn")


def verify(*words):
    done = python("-m", "nkisim_adapters.kda", *words, code=None)
    return done.returncode, json.loads(done.stdout)


def test_kda_verifies_a_file(files, tmp_path):
    files("silu_M512.py", TASK)
    kernel, broken = files("kernel.py", KERNEL), files("broken.py", "1 / 0")
    tasks = ("--tasks", str(tmp_path), "--op", "silu", "--fast", "--timeout", "60")
    code, said = verify(*tasks, "--candidate", kernel)
    assert code == 0 and said["passed"] and said["error"] is None
    assert said["latency_ms"] == pytest.approx(1e3 * said["summary_metrics"]["total_time"])
    code, said = verify(*tasks, "--candidate", broken)
    assert code == 1 and not said["passed"] and "ZeroDivisionError" in said["error"]
    code, said = verify("--tasks", str(tmp_path), "--op", "none", "--candidate", kernel)
    assert code == 1 and "0 tasks for none" in said["error"]


@pytest.mark.parametrize("words, kept", [
    ((), {"target": None, "timeout": 60, "memory": 4 * 1024 ** 3}),
    (("--target", "trn3", "--timeout", "5", "--memory", "500M"), {"target": "trn3", "timeout": 5.0})], ids=str)
def test_a_server_starts_with_the_given_options_and_ends_its_processes(tmp_path, monkeypatch, words, kept):
    command = pytest.importorskip("nkisim_adapters.mcp_command", reason="mcp is not installed")
    (tmp_path / "softmax.py").write_text("def inputs(seed): return ()\ndef reference(): return 0\n")
    done = []

    def run(how):
        done.append(how)
        raise KeyboardInterrupt

    def make(references, **given):
        assert references == {"softmax": str(tmp_path / "softmax.py")}
        assert {k: given[k] for k in kept} == kept and set(given) == {"target", "timeout", "memory"}
        return types.SimpleNamespace(run=run), types.SimpleNamespace(close=lambda: done.append("closed"))

    monkeypatch.setattr(command, "make", make)
    with pytest.raises(KeyboardInterrupt):
        command.main(["--reference", str(tmp_path / "softmax.py"), *words])
    assert done == ["stdio", "closed"]
