"""Tests the table of AWS's documentation pages of SDK 2.33 that were read for nkisim
(docs/conformance.md).
"""

import sys

import pytest

from nkisim.record import names
from running import ROOT

sys.path.insert(0, str(ROOT / "tests" / "conformance"))
import pages  # noqa: E402

ROWS = pages.pages()
TESTS = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "python").rglob("test_*.py")}
TESTS["oracle"] = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests/conformance/oracle").glob("*.py"))


def test_each_page_has_one_row_of_a_known_state():
    found = [row["page"] for row in ROWS]
    assert len(set(found)) == len(found)
    assert {row["state"] for row in ROWS} == set(pages.STATES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["page"])
def test_what_was_read_has_a_test_and_what_was_not_has_none(row):
    read = row["state"] != "not readable"
    assert read == bool(row.get("read")) == bool(row.get("test"))
    if read and row["page"].startswith("nki."):
        name = row["page"].rsplit(".", 1)[1]
        assert any(name in TESTS[test] for test in row["test"].split(", ")), name


@pytest.mark.parametrize("row", [row for row in ROWS if row["page"].startswith("nki.")], ids=lambda row: row["page"])
def test_each_function_is_in_the_table_of_names(row):
    module, name = row["page"].rsplit(".", 1)
    assert names.why_absent(module, name, 33) is None


def test_signatures_that_changed_are_those_of_pages_that_were_read():
    """A signature of 2.33 unlike that of 2.32 comes from a page, as no tree of 2.33 is public."""
    read = {row["page"] for row in ROWS if row["state"] != "not readable"}
    for (module, name), spans in names.table().items():
        now = {s for a, b, s in spans if a <= 33 <= b}
        before = {s for a, b, s in spans if a <= 32 <= b}
        if "(" in "".join(now) and "." not in name and now != before:
            assert f"{module}.{name}" in read or f"{module}.{name.split('.')[0]}" in read, (module, name)


def test_the_page_says_the_counts():
    states, others, examples = pages.counts()
    assert others == [], "functions without a row"
    text = " ".join((ROOT / "docs" / "conformance.md").read_text(encoding="utf-8").split())
    for said in (f"{states['read'] + states['changed']} pages were read", f"{states['changed']} of them changed",
                 f"{states['not readable']} were looked for in vain",
                 f"{examples[0]} examples could be read whole, and {examples[1]} are right"):
        assert said in text, said
