"""Tests `nkisim explain`: every metric of a run's summary has an entry, and every error message a
rule.
"""

import ast
import json
import re

import pytest

from running import ROOT, SOURCES, cli

pytestmark = pytest.mark.process
#: A call that makes an error, and what of it names the rule.
CALL = re.compile(r"(?<![\w>.])(?:isa::)?(?:fail|usage|Error)(?:\s+\w+)?\(\s*((?:isa::)?\w+(?:::\w+)*)")


def explain(*words, code=0):
    return cli("explain", *words, code=code).stdout


def cpp_rules():
    """(place, rule) of every call in C++ that makes an error."""
    for folder in ("isa", "models", "compiler", "checks", "src", "python/binding"):
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            text = path.read_text()
            for call in CALL.finditer(text):
                place = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, call.start()) + 1}"
                if "Rule::" in call[1]:
                    yield place, call[1].rpartition("::")[2]


def python_rules():
    """(place, rule or None) of every call in Python that makes an error."""
    for package in ("nkisim", "nkisim_evaluate"):
        for path in sorted(p for folder in SOURCES for p in (folder / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
                place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
                if name in ("fail", "fail_on") and getattr(node.args[0], "id", "") != "rule":
                    yield place, getattr(node.args[0], "value", None)
                elif name in ("Error", "KernelTypeError", "KernelIndexError", "KernelValueError"):
                    if any(k.arg is None for k in node.keywords):  # parts of another error
                        continue
                    rule = [k.value for k in node.keywords if k.arg == "rule"]
                    if not rule or isinstance(rule[0], ast.Constant):
                        yield place, rule[0].value if rule else None


@pytest.fixture(scope="module")
def table():
    return json.loads(explain("--json"))


def test_every_error_of_the_sources_has_a_rule(table):
    known = {rule["rule"] for rule in table["rules"]}
    used = [*cpp_rules(), *python_rules()]
    assert len(used) > 700
    assert not [place for place, rule in used if rule not in known]


def test_rules_are_unique_documented_and_distinguished_from_kinds(table):
    ids = [rule["rule"] for rule in table["rules"]]
    kinds = {kind["kind"]: kind for kind in table["errors"]}
    assert len(set(ids)) == len(ids) and not set(ids) & set(kinds)
    documented = (ROOT / "docs" / "glossary.md").read_text()
    for rule in table["rules"]:
        assert rule["kind"] in kinds and rule["meaning"] and rule["cause"] and rule["fix"]
        assert rule["rule"] in kinds[rule["kind"]]["rules"]
        assert f"| `{rule['rule']}` |" in documented


def test_no_product_line_searches_the_text_of_a_message():
    search = re.compile(r"(?:message|what)\(\)\.(?:find|rfind|starts_with|contains)|"
                        r" in (?:problem|error|e)\.message|in str\(problem\)|"
                        r"re\.(?:search|match|fullmatch)\([^\n]*\n?[^\n]*\.message|_RULE\.match")
    found = [f"{path.relative_to(ROOT)}: {hit[0]}"
             for folder in (*(ROOT / name for name in ("isa", "models", "compiler", "checks", "src")), *SOURCES)
             for path in sorted(folder.rglob("*"))
             if path.suffix in (".cpp", ".hpp", ".py") and "tests" not in path.parts
             for hit in search.finditer(path.read_text())]
    assert [f for f in found if "nkisim/run/execution.py" not in f and
            "nkisim/run/world.py" not in f] == []


def test_every_metric_of_a_summary_has_an_entry(table, tmp_path):
    known = {m["metric"] for m in table["metrics"]}
    assert all(m["unit"] and m["meaning"] and m["how"] and m["source"] for m in table["metrics"])
    seen = set()
    for trace in sorted((ROOT / "traces").glob("*.jsonl")):
        out = tmp_path / "s.json"
        cli("run", trace, "-q", "--summary-json", out)
        for metrics in json.loads(out.read_text()).values():
            seen |= set(metrics)
    assert seen <= known
    # Metrics that no trace shows: an interruption and a second core.
    rest = {name for name in known - seen if "nc1" not in name}
    assert rest == {"partial"}


def test_every_metric_of_the_published_schema_is_in_the_summary(table):
    schema = json.loads((ROOT / "clients/profile/nkisim_profile/schema_7_4_0.json").read_text())["tables"]
    published = {row[0] for row in schema["Summary"]}
    known = {m["metric"]: m for m in table["metrics"]}
    assert published <= set(known)
    ours = {"partial", "instance_type", "nc_idx", "nd_idx"}
    assert {n for n in known if "schema 7.4.0, table" in known[n]["source"]} == published
    assert all(n in ours or n.startswith("throttle_") for n in set(known) - published)


def test_words_find_entries():
    assert "union of its instructions" in explain("tensor_engine_active_time")
    assert explain("data is in HBM; SBUF or PSUM is required").startswith("error: memory")
    assert json.loads(explain("deadlock", "--json"))["fix"]
    listed = explain()
    assert "total_time" in listed and "unwritten" in listed
    failed = cli("explain", "total_tme", code=None)
    assert failed.returncode == 2 and "did you mean total_time" in failed.stderr
    assert "did you mean operand_size?" in cli("explain", "operand_siz", code=2).stderr
    guess = explain("the moving tile has a strange form")
    assert guess.startswith("No message has these words. The nearest rules: ")


def test_completion_offers_the_names():
    script = cli("completion", "bash").stdout
    assert "mfu_estimated_percent" in script and "unwritten" in script and "explain" in script
