"""Tests that the Python core runs kernels and passes its tests where its clients are not installed."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
from running import ROOT

pytestmark = [pytest.mark.process, pytest.mark.slow]

CORE = ("nkisim", "nki", "nkisim_work", "nkisim_kernels", "neuron_dtypes")
#: They hold the names of the older API to its pages.
OF_CLIENTS = ("test_public_api.py::test_every_public_name_exists",
              "test_public_api.py::test_exceptions_are_still_needed")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    for package in CORE:
        shutil.copytree(ROOT / "python" / package, folder / package,
                        ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(importlib.util.find_spec("nkisim._core").origin, folder / "nkisim")
    (folder / "nkisim" / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "mistakes.md", folder / "nkisim" / "docs")
    return folder


def test_tests_of_the_core_pass_without_its_clients(alone):
    words = ["-q", "-p", "no:cacheprovider", "-p", "core_alone", "-m", "not slow and not process", "--disable-warnings",
             *(f"--deselect=tests/python/nki/{test}" for test in OF_CLIENTS), "tests/python/nki"]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": f"{alone}:{ROOT / 'tests' / 'support'}"})
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 1400
