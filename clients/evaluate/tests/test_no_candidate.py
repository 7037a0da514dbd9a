"""Tests what `nkisim evaluate` says of submitted candidates that are no kernels' files."""

import pytest

from running import python

pytestmark = pytest.mark.process

REFERENCE = """import numpy as np


def inputs(seed):
    return (np.ones((128, 4), np.float32),)


def reference(x):
    return x
"""


@pytest.mark.parametrize("name, said", [
    ("none.py", "there is no such file; a kernel's Python file is required"),
    ("program.nisa", "is no text in UTF-8; a kernel's Python file is required"),
    ("empty", "has no Python file; one at least is required"),
    ("ref.py", "the file has no function add; one of inputs, reference is required")])
def test_what_is_no_candidate(name, said, tmp_path):
    (tmp_path / "ref.py").write_text(REFERENCE)
    (tmp_path / "program.nisa").write_bytes(b"\x89\xff")
    (tmp_path / "empty").mkdir()
    done = python("-m", "nkisim_evaluate", "evaluate", "--reference", tmp_path / "ref.py", "--candidates",
                  tmp_path / name, "--function", "add", code=None)
    assert done.returncode == 1 and said in done.stdout and "1 error" in done.stderr, done.stdout
