"""Tests that README is short and shows real output, and that every trial script of packaging/ is
called.
"""

import importlib.util
import re

import pytest

from running import ROOT

pytestmark = pytest.mark.process
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def readme():
    spec = importlib.util.spec_from_file_location("readme", ROOT / "scripts" / "readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_prints_what_is_shown(readme):
    """`scripts/readme.py` writes the outputs anew; NKISIM_LIBRARY lets the model's command run as well."""
    for path, (old, new) in readme.renewed_pages().items():
        assert new == old, path


def test_figures_of_a_text_are_those_of_the_table(readme):
    """A table of other times gives a text of other figures; a text that has lost them is an error."""
    tutorial = readme.PAGES[1].read_text(encoding="utf-8")
    rows = readme.rows_of(tutorial)
    assert {"naive", "tiled", "accumulated", "hoisted", "buffered", "buffered as written"} <= set(rows)
    slower = {name: [2 * row[0], *row[1:]] if name == "hoisted" else row for name, row in rows.items()}
    text = readme.with_figures(tutorial, readme.TEXT, slower)
    assert f"**{2 * rows['hoisted'][0]:.0f} us, {rows['hoisted'][4]:.0f} % MFU**" in text
    with pytest.raises(SystemExit, match="no text"):
        readme.with_figures("nothing", readme.TEXT, rows)


def test_every_block_is_run_or_tried(readme):
    """A block is a command with its output, a file that a command runs, or the installation, which needs root and
    network: the commands of that are tried by packaging/."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)
    kinds = [kind for kind, _ in blocks]
    assert len(readme.BLOCK.findall(README)) == kinds.count("console") >= 6
    assert len(readme.FILE.findall(README)) == kinds.count("python") == 1
    assert kinds.count("sh") == 1 and set(kinds) == {"console", "python", "sh"}
    install = dict(blocks)["sh"]
    commands = [line.split("#")[0].strip() for line in install.splitlines()]
    assert commands == ["scripts/quickstart", "scripts/test", "pip install nkisim-*.whl"]
    assert "scripts/quickstart" in (ROOT / "packaging/try_readme").read_text(encoding="utf-8")
    assert "pip install" in (ROOT / "packaging/try_wheel").read_text(encoding="utf-8")


def test_an_output_that_differs_is_found(readme, tmp_path):
    page = "```console\n$ printf 'a\\nb\\nc\\nd\\n'\na\n...\nx\n```\n\n```console\n$ echo same\nsame\n```\n"
    assert readme.renewed(page) == page.replace("\nx\n", "\nd\n")


def test_its_length():
    assert len(README.split()) <= 900


def test_every_trial_is_called():
    """packaging/try_readme was dropped from scripts/test --full by a commit about other things, and nothing failed."""
    callers = "".join(p.read_text(encoding="utf-8") for folder in ("scripts", ".ci") for p in (ROOT / folder).iterdir()
                      if p.is_file() and p.suffix != ".py")
    trials = [p.name for p in (ROOT / "packaging").glob("try_*")]
    assert len(trials) > 3 and [name for name in trials if f"packaging/{name}" not in callers] == []
