"""Tests that every relative link of every Markdown page leads to a file and a heading that exist."""

import re

import pytest

from running import ROOT, run

pytestmark = pytest.mark.process
LINK = re.compile(r"(?<!`)\]\(([^)\s]+)\)")
MENTION = re.compile(r"\bdocs/[\w-]+\.(?:md|json|png)\b")


def tracked():
    names = run("git", "-C", ROOT, "ls-files", "-co", "--exclude-standard").stdout.splitlines()
    return [ROOT / n for n in names if (ROOT / n).is_file() and not n.startswith("tests/stored/0")]


def prose(text):
    """Without blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors(page):
    """GitHub's names of the headings of a page; the second of a name has -1, and so on."""
    found, seen = set(), {}
    for heading in re.findall(r"^#+ (.+?)\s*$", prose(page.read_text(encoding="utf-8")), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{number}" if number else name)
    return found


def test_anchors(tmp_path):
    page = tmp_path / "p.md"
    page.write_text("# A `b` [c](d.md)\n## 1. Types\n```\n# no heading\n```\n## 1. Types\n")
    assert anchors(page) == {"a-b-c", "1-types", "1-types-1"}


def test_links_lead_somewhere():
    broken, count = [], 0
    for page in (p for p in tracked() if p.suffix == ".md"):
        for target in LINK.findall(re.sub(r"`[^`\n]+`", "", prose(page.read_text(encoding="utf-8")))):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            to = (page.parent / name).resolve() if name else page
            count += 1
            if not to.exists() or anchor and to.suffix == ".md" and anchor not in anchors(to):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert count > 100
    assert broken == []


def test_pages_that_are_named_exist():
    """In code, messages and configs."""
    broken, count = [], 0
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for name in MENTION.findall(text):
            count += 1
            if not (ROOT / name).exists():
                broken.append(f"{path.relative_to(ROOT)}: {name}")
    assert count > 50
    assert broken == []


def test_the_index_has_every_page():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {p.name for p in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {p for p in pages if f"({p})" not in index} == set()
