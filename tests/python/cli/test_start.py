"""Tests that nkisim starts fast: modules that only a mistake, a report or a second process needs
are not imported in processes that import nkisim and run a kernel.
"""

import json
import subprocess
import sys

import pytest

KERNEL = """
import json, sys
import numpy as np
import nkisim
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def twice(x):
    t = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    out = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(t, x)
    nisa.tensor_tensor(t, t, t, nl.add)
    nisa.dma_copy(out, t)
    return out

out = nkisim.run(twice, np.ones((128, 8), np.float32), target="trn2").outputs
print(json.dumps([float(out.sum()), sorted(sys.modules)]))
"""
LATER = {"bz2", "difflib", "fractions", "hashlib", "logging", "lzma", "multiprocessing", "pathlib", "random", "shutil",
         "socket", "statistics", "subprocess", "tempfile", "urllib.parse", "zipfile"}


@pytest.mark.process
def test_a_run_imports_no_module_that_it_does_not_need(tmp_path):
    (tmp_path / "alone.py").write_text("import json, sys, numpy\nprint(json.dumps(sorted(sys.modules)))\n")
    (tmp_path / "run.py").write_text(KERNEL)
    alone, (total, run) = (json.loads(subprocess.run([sys.executable, tmp_path / name], check=True, capture_output=True,
                                                     text=True).stdout) for name in ("alone.py", "run.py"))
    assert total == 2 * 128 * 8
    assert "nkisim.run.session" in run
    assert LATER & (set(run) - set(alone)) == set()
