"""Tests clients, the folders that use the core: each has a page, tests, and packages that are nkisim.NAME too."""

import importlib
import inspect
import re

import pytest

import nkisim
import nkisim_evaluate
from nkisim.tools.clients import NAMES
from running import ROOT


@pytest.mark.parametrize("name", NAMES)
def test_a_client_has_two_names(name):
    client = importlib.import_module(f"nkisim.{name}")
    assert client is importlib.import_module(f"nkisim_{name}")
    assert client.__name__ == client.__spec__.name == f"nkisim_{name}"
    assert getattr(nkisim, name) is client or name == "evaluate"


def test_a_module_of_a_client_is_executed_once():
    from nkisim.profile import session
    from nkisim.profile.tables import common

    assert importlib.import_module("nkisim_profile.session") is session
    assert importlib.import_module("nkisim.profile.session") is session
    assert importlib.import_module("nkisim_profile.tables.common") is common


def test_evaluate_is_a_function_and_a_package():
    importlib.import_module("nkisim.evaluate")
    assert inspect.isgenerator(nkisim_evaluate("reference.py", [])) and inspect.isgenerator(nkisim.evaluate("r.py", []))
    assert nkisim.evaluate.Evaluator is nkisim_evaluate.Evaluator


def test_a_name_of_no_client():
    assert not hasattr(nkisim, "profiles")
    with pytest.raises(ModuleNotFoundError, match="No module named 'nkisim.profiles'"):
        importlib.import_module("nkisim.profiles")


FOLDERS = sorted(p for p in (ROOT / "clients").iterdir() if p.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_client_is_a_folder(folder, monkeypatch):
    """With tests, and a page that names its packages and those that it imports."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import layers

    page = (folder / "README.md").read_text(encoding="utf-8")
    own = {p.parent.name for p in folder.glob("*/__init__.py")} - {"tests"}
    assert page.startswith(f"# {folder.name}\n") and list((folder / "tests").glob("test_*.py"))
    assert all(f"`{name}`" in page for name in own)
    used = {other.split(".")[0] for edges in layers.imports(ROOT) for module, others in edges.items()
            if module.split(".")[0] in own for other in others} - own
    said = set(re.findall(r"`(n\w+)`", re.search(r"^\* \*\*Uses:\*\* (.*)$", page, re.M)[1]))
    assert said == used or not own


def test_the_core_is_what_python_has(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import layers

    assert {p.parent.name for p in (ROOT / "python").glob("*/__init__.py")} == set(layers.CORE)
