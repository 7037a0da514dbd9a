"""Tests pip install into a fresh environment, and a kernel run from another folder.

    NKISIM_TEST_INSTALL=SOURCE_OR_WHEEL pytest tests/python/repo/test_install.py

Skipped otherwise, as it builds everything and fetches the build requirements.
"""

import os
import pathlib
import sys

import pytest

import running

pytestmark = pytest.mark.process
WHAT = os.environ.get("NKISIM_TEST_INSTALL")

KERNEL = """
import numpy as np
import nkisim, nkisim_profile, neuron_dtypes, neuronxcc.nki, nki_cpu_simulator
import nki, nki.language as nl

@nki.jit
def double(x):
    out = nl.ndarray(x.shape, x.dtype, nl.shared_hbm)
    nl.store(out, nl.add(nl.load(x), nl.load(x)))
    return out

if __name__ == "__main__":
    x = np.arange(128 * 16, dtype=np.float32).reshape(128, 16)
    assert np.array_equal(double(x), 2 * x)
    assert double.result.latency_us > 0
"""


@pytest.mark.skipif(not WHAT, reason="NKISIM_TEST_INSTALL is not set")
def test_installed_package_runs_a_kernel(tmp_path):
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NKISIM_PYTHON")}

    def run(*command):
        running.run(*command, cwd=tmp_path, env=env)

    what = pathlib.Path(WHAT).resolve()
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    programs = tmp_path / "venv" / "bin"
    run(programs / "pip", "install", what)
    (tmp_path / "kernel.py").write_text(KERNEL)
    run(programs / "python", "kernel.py")
    placeholder = tmp_path / "placeholder" / "nki"
    placeholder.mkdir(parents=True)
    (placeholder / "__init__.py").write_text("raise ImportError('a placeholder')")
    env["PYTHONPATH"] = str(placeholder.parent)
    env["NKI_SIMULATOR"] = "1"
    run(programs / "python", "kernel.py")
    del env["PYTHONPATH"], env["NKI_SIMULATOR"]
    run(programs / "nkisim", "kernel", "kernel.py:double", "--arg", "x=f32[128,16]")
    run(programs / "nkisim", "validate", "--only", "vector_add_stream-3")
    assert not list((tmp_path / "venv").glob("lib/*/site-packages/nkisim/configs"))
