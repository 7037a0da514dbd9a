"""Tests scripts/size, which counts lines by part of the tree and fails above a limit."""

import importlib.machinery
import importlib.util
import json

import pytest

from running import ROOT


@pytest.fixture
def size():
    loader = importlib.machinery.SourceFileLoader("size_script", str(ROOT / "scripts" / "size"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("size_script", loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("name, part", [
    ("isa/ops/memset.cpp", "core: isa"), ("python/nkisim/run/kernel.py", "core: front end"),
    ("clients/legacy/nkisim_legacy/language.py", "client: legacy"), ("clients/web/page.js", "client: web"),
    ("clients/legacy/tests/test_masks.py", "tests"), ("src/device_profile/import.cpp", "client: profile"),
    ("src/job/run.cpp", "core: src"), ("tests/isa/a_test.cpp", "tests"), ("CMakeLists.txt", "tools"),
    ("LICENSE", None)])
def test_the_longest_folder_decides(size, name, part):
    assert size.part_of(name) == part


@pytest.mark.process
def test_every_source_file_is_of_a_part(size):
    for name, content in size.files(None):
        assert name.endswith(".md") or not size.is_code(name, content) or size.part_of(name) or "/" not in name, name


def test_lines_and_words_are_counted(size, monkeypatch):
    monkeypatch.setattr(size, "files", lambda commit: [
        ("isa/a.cpp", b"one\n\nthree\n"), ("isa/a.png", b"\n" * 9), ("scripts/run", b"#!/bin/sh\nls\n"),
        ("docs/log.md", b"# Four words of it\n"), ("clients/model/nkisim_model/a.py", b"x\n")])
    sizes = size.measured()
    assert (sizes["core: isa"], sizes["core, all"], sizes["client, all"], sizes["tools"]) == (3, 3, 1, 2)
    assert sizes["words of pages"] == 5


def test_a_part_above_its_ceiling_is_named(size, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(size, "CEILINGS", tmp_path / "size.json")
    monkeypatch.setattr(size, "files", lambda commit: [("isa/a.cpp", b"x\n" * 251)])
    size.CEILINGS.write_text(json.dumps({"core: isa": 250, "core, all": 500}))
    monkeypatch.setattr("sys.argv", ["size", "--check"])
    assert size.main() == 1
    assert capsys.readouterr().out.startswith("size: core: isa has 251, its ceiling in scripts/size.json is 250")
    monkeypatch.setattr("sys.argv", ["size", "--write"])
    assert size.main() == 0 and json.loads(size.CEILINGS.read_text())["core: isa"] == 500
