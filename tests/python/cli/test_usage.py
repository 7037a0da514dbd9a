"""Tests that each Python package behind a command prints its usage when it is started without a
command.
"""

import pytest

from running import python

pytestmark = pytest.mark.process


@pytest.mark.parametrize("words", [(), ("nothing",), ("--help",)], ids=["none", "another", "help"])
@pytest.mark.parametrize("package, command", [
    ("nkisim_advise", "advise PROGRAM ..."), ("nkisim_evaluate", "evaluate|tune ..."),
    ("nkisim_adapters", "mcp --reference REF.py"), ("nkisim_editor", "lsp [--trust]"),
    ("nkisim_debug", "debug PROGRAM ..."),
    ("nkisim_profile", "view|report|compare|sweep|tables_json ...")])
def test_without_a_command_its_usage_is_reported(package, command, words):
    done = python("-m", package, *words, code=2)
    assert (done.stdout, done.stderr) == ("", f"usage: python -m {package} {command}\n")
