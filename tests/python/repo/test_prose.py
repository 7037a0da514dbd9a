"""Tests scripts/prose, which counts words and sentences of the pages and finds unclear words."""

import importlib.machinery
import importlib.util
import re

import pytest

from running import ROOT

LOADER = importlib.machinery.SourceFileLoader("prose", str(ROOT / "scripts" / "prose"))
PROSE = importlib.util.module_from_spec(importlib.util.spec_from_loader("prose", LOADER))
LOADER.exec_module(PROSE)

PAGE = """# A title is no sentence

One two three. Four `five with six` seven
eight! Not [a link](of/many/words.md) here.

    code is not counted at all

| a | table |
|---|---|

* An item of five words.
* Another one
  goes on here.

```text
nor is this
```
"""


def test_sentences_are_those_of_paragraphs_and_items():
    assert [count for count, _ in PROSE.sentences(PAGE)] == [3, 4, 4, 5, 5]


@pytest.mark.parametrize("end", ["end", "end steps", "end of steps", "steps: end"])
def test_sections_that_a_program_writes_are_not_hand_written(end):
    page = f"before\n<!-- steps: from clients/validation/table/advice --write -->\na b c\n<!-- {end} -->\nafter\n"
    assert PROSE._SECTION.sub("", page).split() == ["before", "after"]


@pytest.mark.parametrize("name, text, count", [
    ("a.cpp", "// What it is.\n// Of two.\nint x;\n// Whether.\n", 2), ("a.cpp", "// A queue.\n", 0),
    ("a.py", "# Those that wait.\n", 1), ("a.cpp", "// Whatever.\n", 0), ("a.hpp", "/// Which of two.\n", 1),
    ("a.py", '"""How it is done.\n\nWhat follows.\n"""\n', 1), ("a.py", 'def f():\n    """The result."""\n', 0)])
def test_a_headless_comment_starts_without_a_subject(tmp_path, monkeypatch, name, text, count):
    monkeypatch.setattr(PROSE, "ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    assert PROSE.headless(name) == count


@pytest.mark.parametrize("name, text, words", [
    ("a.py", '"""Reads a session."""\n', ["session"]),
    ("a.py", '"""Reads a session (the profile file of a run).\n\nOf a golden result.\n"""\n', []),
    ("a.cpp", "// Compares a legacy kernel\n// with its golden result.\nint golden;\n", ["legacy", "golden"]),
    ("a.hpp", "// Writes src/trace/trace.hpp for `nkisim run --session FILE`, in time.\n", ["in time"]),
    ("a", "#!/bin/sh\n# Runs every candidate.\n#\n# Each is a session.\n", ["candidate"]),
    ("a.cpp", "#include <session>\n", []), ("a.js", "'use strict';\n// Draws a world.\n", ["world"])])
def test_a_first_comment_explains_the_words_of_this_project(tmp_path, monkeypatch, name, text, words):
    monkeypatch.setattr(PROSE, "ROOT", tmp_path)
    (tmp_path / name).write_text(text)
    assert [found.split("'")[1] for found in PROSE.unexplained(name)] == words


@pytest.mark.process
def test_ceilings_hold_and_only_fall(tmp_path, monkeypatch, capsys):
    measured = PROSE.measure()
    monkeypatch.setattr(PROSE, "measure", lambda: measured)
    assert PROSE.main(["--check"]) == 0
    figures, _ = measured
    name = "words, docs"
    monkeypatch.setattr(PROSE, "CEILINGS", tmp_path / "prose.json")
    (tmp_path / "prose.json").write_text(f'{{"{name}": {figures[name] - 1}}}')
    assert PROSE.main(["--check"]) == 1
    assert f"prose: {name}: {figures[name]}, at most {figures[name] - 1}" in capsys.readouterr().out
    PROSE.main(["--lower"])
    assert PROSE.json.loads((tmp_path / "prose.json").read_text())[name] == figures[name] - 1


def test_each_page_says_whom_it_is_for_and_is_in_one_book():
    nav = (ROOT / "mkdocs.yml").read_text().split("nav:\n")[1]
    named = re.findall(r": ([\w-]+\.md)$", nav, re.M)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert len(named) == len(set(named)) and set(named) == pages | {"api.md", "instructions.md"}
    for name in pages - {"README.md"} - {page.removeprefix("docs/") for page in PROSE.GENERATED}:
        assert re.match(r"# .*\n\n\*For .*\.\*\n\n", (ROOT / "docs" / name).read_text()), name
