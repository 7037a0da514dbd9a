#!/usr/bin/env python3
"""Writes src/report/messages.def, a table of every error message in the sources with the rule that it belongs to.

`nkisim explain 'MESSAGE'` finds the rule of a message that shows no id by it. "..." stands for what a run fills in.
Without --check it writes the file; with it, it fails where the file differs.
"""

import ast
import pathlib
import re
import sys

import packages

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "src" / "report" / "messages.def"
ANY = "..."
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
#: Messages whose words come from several places.
FORMED = [("unsupported_call", f"{module} has no ...; {said}")
          for module in ("nki.language", "nki.isa", "nki.collectives", "NkiTensor")
          for said in ("did you mean ...?", "use ...", "dir(...) lists its names", "it has ...")]
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\", "\\t": "\t"}


def split(text, *at):
    """An expression of C++ at separators that are in no brackets, texts and characters."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        c = text[i]
        if c in "\"'":
            i += 1
            while i < len(text) and text[i] != c:
                i += 2 if text[i] == "\\" else 1
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif depth == 0 and c in at and text[i - 1:i + 2] != "::" and text[i:i + 2] != "::":
            parts.append(text[start:i])
            start = i + 1
        i += 1
    return [*parts, text[start:]]


def call_at(text, start):
    """The arguments of the call whose bracket opens at `start`, or None."""
    depth, i = 0, start
    while i < len(text):
        if text[i] in "\"'":
            quote, i = text[i], i + 1
            while i < len(text) and text[i] != quote:
                i += 2 if text[i] == "\\" else 1
        elif text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return [a.strip() for a in split(text[start + 1:i], ",")]
        i += 1
    return None


def plain(literals):
    return "".join(re.sub(r'\\.', lambda m: _ESCAPES.get(m[0], m[0]), part) for part in literals)


def cpp(text):
    """The forms of a text that an expression of C++ gives."""
    text = text.strip()
    chosen = split(text, "?")
    if len(chosen) > 1:
        return [form for branch in split("?".join(chosen[1:]), ":") for form in cpp(branch)]
    out = ""
    for term in split(text, "+"):
        term = term.strip()
        inner = re.fullmatch(r"std::string\((.*)\)", term, re.S)
        term = inner[1].strip() if inner else term
        literals = _LITERAL.findall(term)
        out += plain(literals) if literals and not _LITERAL.sub("", term).strip() else ANY
    return [out]


def joined(parts):
    """Forms of "OPERAND is FOUND; REQUIRED is required", or of the message alone."""
    if len(parts) == 1:
        return parts[0]
    operand, found, required = parts
    return [f"{o} is {f}; {r} is required" for o in operand for f in found for r in required]


def of_cpp():
    for folder in ("isa", "models", "compiler", "checks", "src", "python/binding"):
        for path in sorted((ROOT / folder).rglob("*.[ch]pp")):
            text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.M)
            for call in re.finditer(r"\b[\w:]+(?:\s+\w+)?\(\s*([\w.]+(?:\([^()]*\))?,\s*)?(?:isa::)?Rule::(\w+)\s*,",
                                    text):
                arguments = call_at(text, text.index("(", call.start()))
                arguments = arguments[1:] if arguments and call[1] else arguments  # report(level, rule, text)
                rest = arguments[1:4] if arguments and len(arguments) >= 4 else (arguments or [])[1:2]
                if rest:
                    yield from ((call[2], form) for form in joined([cpp(a) for a in rest]))


def python(node):
    """The forms of a text that an expression of Python gives."""
    if isinstance(node, ast.Constant):
        return [node.value if isinstance(node.value, str) else ANY]
    if isinstance(node, ast.JoinedStr):
        return ["".join(v.value if isinstance(v, ast.Constant) else ANY for v in node.values)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [a + b for a in python(node.left) for b in python(node.right)]
    if isinstance(node, ast.IfExp):
        return python(node.body) + python(node.orelse)
    return [ANY]


def of_python():
    for path in packages.modules(ROOT):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            named = {k.arg: k.value for k in node.keywords}
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = list(node.args)
            if name in ("fail", "fail_on") and given:
                named["rule"] = given.pop(0)
            rule = getattr(named.get("rule"), "value", None)
            if not isinstance(rule, str):
                continue
            if name != "fail_on" and given:
                yield from ((rule, form) for form in python(given[0]))
                continue
            parts = dict(zip(("operand", "found", "required"), given), **named)
            if {"operand", "found", "required"} <= parts.keys():
                verb = getattr(parts.get("verb"), "value", "is")
                yield from ((rule, form.removesuffix("is required") + f"{verb} required")
                            for form in joined([python(parts[k]) for k in ("operand", "found", "required")]))


def of_table(text):
    """The examples of rules.def, whose numbers and places are those of one run."""
    for entry in re.finditer(r"^NKISIM_RULE\((\w+),(.*?)\)$", text, re.M | re.S):
        says = re.search(r"\.says = ((?:\s*\"(?:[^\"\\]|\\.)*\")+)", entry[2])
        for line in plain(_LITERAL.findall(says[1])).splitlines() if says else []:
            yield entry[1], re.sub(r"\b\w+\.py:\d+|\d+", ANY, line)


def table():
    rules = (ROOT / "isa" / "rules" / "rules.def").read_text()
    known = re.findall(r"^NKISIM_RULE\((\w+)", rules, re.M)
    found = {}
    for rule, form in [*of_cpp(), *of_python(), *of_table(rules), *FORMED]:
        form = re.sub(r"(?:\.\.\.)+", ANY, re.sub(r"\s+", " ", form)).strip()
        if rule in known and len(re.sub(r"\W", "", form)) > 3:
            found[rule, form] = None
    lines = ["// The form of every message of the sources; made by scripts/messages.py (scripts/fresh --write)."]
    for rule, form in sorted(found, key=lambda one: (known.index(one[0]), one[1])):
        text = form.replace("\\", "\\\\").replace('"', '\\"').replace("??", "?\\?")
        lines.append(f'NKISIM_MESSAGE({rule}, "{text}")')
    return "\n".join(lines) + "\n"


def main():
    text = table()
    if "--check" not in sys.argv:
        OUT.write_text(text)
    elif not OUT.exists() or OUT.read_text() != text:
        print("fresh: src/report/messages.def is stale; run scripts/fresh --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
