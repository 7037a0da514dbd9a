"""Tests what conftest.py does for every test: how processes share the tests, and what a test leaves behind."""

import os
import re
import shutil

import pytest

from running import ROOT, python

pytestmark = pytest.mark.process
FILES = {"test_one.py": """
import os, sys
import pytest
@pytest.mark.parametrize("i", range(8))
def test_leaves_something(i):
    assert "left" not in sys.path and "LEFT" not in os.environ
    sys.path.insert(0, "left")
    os.environ["LEFT"] = "1"
    os.chdir("/")
""", "test_two.py": """
import pytest
@pytest.mark.parametrize("i", range(8))
def test_(i): pass
""", "test_three.py": """
import time
import pytest
pytestmark = pytest.mark.apart
@pytest.mark.parametrize("i", range(8))
def test_(i): time.sleep(0.1)  # the other process comes to its share
"""}


def test_a_file_stays_in_one_process_and_leaves_nothing(tmp_path):
    """The tests of a file share what is prepared once; pytest 9 and xdist 3.8 spread a file's tests in spite of
    --dist loadgroup."""
    pytest.importorskip("xdist")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = apart\n")
    path = os.pathsep.join([str(ROOT / "tests" / "support"), os.environ.get("PYTHONPATH", "")])
    said = python("-m", "pytest", "-v", "-n", "2", "-p", "no:cacheprovider", cwd=tmp_path,
                  env={**os.environ, "PYTHONPATH": path}).stdout
    passed = re.findall(r"\[(gw\d)\] .*PASSED (test_\w+)\.py::", said)
    assert len(passed) == 24, said
    where = {name: {worker for worker, of in passed if of == name} for name in ("test_one", "test_two", "test_three")}
    assert len(where["test_one"]) == len(where["test_two"]) == 1 and len(where["test_three"]) == 2, said
