"""Runs the text tests of the compiler's passes (tests/compiler/text): a program in, its remaining
lines out.
"""

import importlib.util
import re

import pytest

from running import ROOT

pytestmark = pytest.mark.process

FOLDER = ROOT / "tests" / "compiler" / "text"
_spec = importlib.util.spec_from_file_location("pass_texts", FOLDER / "check.py")
texts = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(texts)

PASSES = re.findall(r'Pass\{"(\w+)"', (ROOT / "compiler" / "pipeline.cpp").read_text())


@pytest.mark.parametrize("name", PASSES)
def test_the_lines_that_a_pass_leaves(name):
    assert texts.check(FOLDER / f"{name}.pass") == ""


def test_no_file_is_of_a_pass_that_is_gone():
    assert sorted(path.stem for path in FOLDER.glob("*.pass")) == sorted(PASSES)


def test_a_line_that_differs_is_shown(tmp_path):
    path = FOLDER / "clears.pass"
    other = tmp_path / path.name
    other.write_text(path.read_text().replace("; check\n", "; check\n; one line more\n"))
    assert "-one line more" in texts.check(other)
