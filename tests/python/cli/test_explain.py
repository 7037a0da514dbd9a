"""nkisim explain: every metric of a summary and every error message of the sources has an entry."""

import ast
import json
import re

import pytest

from running import ROOT, cli

pytestmark = pytest.mark.process
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
CALL = re.compile(r"(?<![\w>])(?:isa::|\w+\.)?(fail|usage|Error(?:\s+\w+)?)\(")
# What a reader puts before its messages: the file or the place in the config.
PREFIX = {"config_reader": "config: X: ", "config_parse": "config: X: ", "zip_file": "X ",
          "byte_reader": "X ", "npy": "X ", "atomic_file": "X ", "binary_reader": "X: ",
          "config": ""}


def explain(*words, code=0):
    return cli("explain", *words, code=code).stdout


def arguments(text, at):
    """The top-level arguments of a call whose parenthesis opens before `at`."""
    depth, start, quoted, out = 0, at, False, []
    while True:
        c = text[at]
        if quoted:
            at += c == "\\"
            quoted = c != '"'
        elif c == '"':
            quoted = True
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            if depth == 0:
                return out + [text[start:at]]
            depth -= 1
        elif c == "," and depth == 0:
            out.append(text[start:at])
            start = at + 1
        at += 1


def literals(expression):
    """The expression's text with X for what is not a literal."""
    if LITERAL.search(expression) is None:
        return "X"
    parts, last = [], 0
    for m in LITERAL.finditer(expression):
        if re.search(r"\w", expression[last:m.start()]):
            parts.append("X")
        parts.append(m[1].replace('\\"', '"').replace("\\n", "\n"))
        last = m.end()
    if re.search(r"\w", expression[last:]):
        parts.append("X")
    return "".join(parts)


def cpp_messages():
    for folder in ("isa", "models", "checks", "src", "python"):
        for path in sorted((ROOT / folder).rglob("*.cpp")):
            text = path.read_text()
            for call in CALL.finditer(text):
                args = [a for a in arguments(text, call.end()) if a.strip()]
                if not args or not LITERAL.search("".join(args)):
                    continue
                if call[1] != "fail":
                    args = [a for a in args if "ErrorCode::" not in a]
                texts = [literals(a) for a in args]
                message = f"{texts[0]} is {texts[1]}; {texts[2]} is required" if len(texts) == 3 \
                    else ": ".join(texts)
                line = text.count("\n", 0, call.start()) + 1
                yield f"{path.relative_to(ROOT)}:{line}", PREFIX.get(path.stem, "") + message


def python_messages():
    for path in sorted((ROOT / "python" / "nkisim").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name not in ("fail", "Error", "_usage", "KernelTypeError", "KernelIndexError",
                            "KernelValueError"):
                continue
            first = node.args[0]
            if isinstance(first, ast.JoinedStr):
                text = "".join(p.value if isinstance(p, ast.Constant) else "X" for p in first.values)
            elif isinstance(first, ast.Constant):
                text = str(first.value)
            else:
                continue
            yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def kind_of(message, table):
    return next((e["kind"] for e in table if any(t in message for t in e["texts"])), None)


USAGE = ("/cli/", "kernel_cli.py", "tools/demo.py", "pytest_plugin.py")
#: The bodies of the functions that only pass on their caller's message.
PASSED_ON = re.compile(r"^(X:? ?|: )*$")


@pytest.fixture(scope="module")
def table():
    return json.loads(explain("--json"))


def test_every_error_message_of_the_sources_has_an_entry(table):
    messages = [(where, text) for where, text in [*cpp_messages(), *python_messages()]
                if not any(u in where for u in USAGE) and not PASSED_ON.match(text)]
    assert len(messages) > 400
    missing = [m for m in messages if kind_of(m[1], table["errors"]) in (None, "usage")]
    assert not missing
    reached = {kind_of(text, table["errors"]) for _, text in messages}
    assert {e["kind"] for e in table["errors"]} - reached == {"usage", "race"}  # checks/describe.cpp


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
    # What no trace shows: an interruption and a second core.
    rest = {name for name in known - seen if "nc1" not in name}
    assert rest == {"partial"}


def test_every_metric_of_the_published_schema_is_in_the_summary(table):
    schema = json.loads((ROOT / "python/nkisim_profile/schema_7_4_0.json").read_text())["tables"]
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


def test_completion_offers_the_names():
    script = cli("completion", "bash").stdout
    assert "mfu_estimated_percent" in script and "unwritten" in script and "explain" in script
