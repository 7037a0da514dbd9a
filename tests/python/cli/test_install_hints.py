"""Tests the pip command that is printed where an optional package is missing: a shell gives it to this interpreter, and
it asks for what pyproject.toml asks.
"""

import ast
import shlex
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from running import ROOT, SOURCES, needs_clients

from nkisim_work.extras import PACKAGES, install_hint

DECLARED = {r.name: r for some in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"].values() for r in map(Requirement, some) if r.name != "nkisim"}


@pytest.mark.parametrize("interpreter", ["/usr/bin/python3", "/a folder/it's here/python", ""])
def test_a_shell_gives_the_command_to_this_interpreter(interpreter, monkeypatch):
    monkeypatch.setattr(sys, "executable", interpreter)
    command = shlex.split(install_hint("distributed", "tqdm"))
    assert command[:4] == [interpreter or "python3", "-m", "pip", "install"]
    assert [Requirement(w) for w in command[4:]] == [DECLARED["dask"], DECLARED["tqdm"]]


def test_a_package_without_an_entry_is_asked_for_by_its_name():
    assert install_hint("numpy").endswith(" install numpy")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_is_asked_for_as_pyproject_does(name):
    wanted = Requirement(PACKAGES[name])
    assert wanted == DECLARED[wanted.name]


@needs_clients
def test_every_name_that_the_sources_ask_for_has_an_entry():
    asked = set()
    texts = (p.read_text(encoding="utf-8") for folder in SOURCES for p in folder.rglob("*.py"))
    for text in (t for t in texts if "install_hint(" in t):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "install_hint":
                asked |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    assert asked and asked <= set(PACKAGES)
