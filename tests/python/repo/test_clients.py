"""Tests clients, the packages that use the core: each is nkisim.NAME too."""

import importlib
import inspect

import pytest

import nkisim
import nkisim_evaluate
from nkisim.tools.clients import NAMES


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
