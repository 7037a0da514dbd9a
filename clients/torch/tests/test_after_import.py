"""Tests hooks on the import of a module: each runs once, at once or when the module is imported."""

import importlib
import json
import sys

from nkisim_torch.after_import import after_import


def test_of_a_module_that_is_there():
    done = []
    after_import("json", lambda: done.append(json))
    assert done == [json]


def test_of_a_module_that_comes(tmp_path, monkeypatch):
    (tmp_path / "comes_later.py").write_text("FACT = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = []
    after_import("comes_later", lambda: done.append(sys.modules["comes_later"].FACT))
    after_import("never_comes", lambda: done.append("never"))
    assert done == []
    importlib.import_module("comes_later")
    assert done == [7]
    importlib.reload(sys.modules.pop("comes_later") and importlib.import_module("comes_later"))
    assert done == [7]
