"""Tests that another installed package called nki does not hide ours."""

import os
import pathlib

import nkisim
import pytest

from running import ROOT, python

pytestmark = pytest.mark.process
PACKAGES = pathlib.Path(nkisim.__file__).absolute().parents[1]
HOOK = (ROOT / "python" / "nkisim_simulator.pth").read_text()
ASK = "import nki; print(getattr(nki, '__version__', 'placeholder'))"


def found(tmp_path, script, **variables):
    """The output of `script` where a placeholder comes first on the path."""
    folder = tmp_path / "other" / "nki"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("placeholder = True\n")
    env = {**os.environ, **variables,
           "PYTHONPATH": os.pathsep.join([str(folder.parent), str(PACKAGES)])}
    return python("-c", script, env=env).stdout.strip()


def test_the_placeholder_comes_first_unless_asked(tmp_path):
    assert found(tmp_path, ASK, NKI_SIMULATOR="0") == "placeholder"


def test_install_puts_ours_first(tmp_path):
    assert found(tmp_path, "import nkisim; nkisim.install(); " + ASK).endswith("nkisim")


def test_install_replaces_what_was_imported(tmp_path):
    assert found(tmp_path, "import nki, nkisim; nkisim.install(); " + ASK).endswith("nkisim")


def test_the_environment_puts_ours_first(tmp_path):
    """The line of nkisim_simulator.pth, as an interpreter runs it at its start."""
    assert found(tmp_path, HOOK + ASK, NKI_SIMULATOR="1").endswith("nkisim")
    assert found(tmp_path, HOOK + ASK, NKI_SIMULATOR="0") == "placeholder"


def test_python_m_nkisim_puts_ours_first(tmp_path):
    script = tmp_path / "ask.py"
    script.write_text(ASK)
    run = f"import sys, runpy; sys.argv = ['nkisim', {str(script)!r}]; runpy.run_module('nkisim', run_name='__main__')"
    assert found(tmp_path, run).endswith("nkisim")
