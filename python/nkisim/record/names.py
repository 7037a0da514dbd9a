"""Looks up which public names each NKI release has, and reports names that the chosen release
lacks.

public_api.txt, written from the history of AWS's documents, is the one table: module, releases, name and
signature. `--sdk`, --strict and the tests ask it.
"""

import ast
import functools
import os
import re
import sys
import types

_MODULES = ("nki", "nki.language", "nki.isa", "nki.collectives")
_LEGACY = "neuronxcc."


@functools.cache
def table():
    """{(module, name): [(first, last, signature), ...]} with minor release numbers."""
    found: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    with open(os.path.join(os.path.dirname(__file__), "public_api.txt"), encoding="utf-8") as file:
        text = file.read()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        module, when, rest = line.split(" ", 2)
        name = re.split(r"[^\w.]", rest, maxsplit=1)[0]
        for span in when.split(","):
            first, last = (int(release.split(".")[1]) for release in span.split("-"))
            found.setdefault((module, name), []).append((first, last, rest[len(name):]))
    return found


def releases(module, name):
    """The releases that list a name, "2.27 to 2.32"; empty where none does."""
    spans = sorted((a, b) for a, b, _ in table().get((module, name), ()))
    runs: list[list[int]] = []
    for a, b in spans:
        if runs and a <= runs[-1][1] + 1:
            runs[-1][1] = max(runs[-1][1], b)
        else:
            runs.append([a, b])
    return ", ".join(f"2.{a} to 2.{b}" if a != b else f"2.{a}" for a, b in runs)


def why_absent(module, name, release):
    """The reason why SDK 2.`release` has no such name, or None if it has."""
    spans = table().get((module, name), ())
    if any(a <= release <= b for a, b, _ in spans):
        return None
    if spans:
        return (f"{module}.{name} is none of SDK 2.{release}, whose pages do not list it; those of "
                f"{releases(module, name)} do")
    legacy = releases(_LEGACY + module, name)
    if legacy:
        return (f"{module}.{name} is none of SDK 2.{release}: only {_LEGACY}{module} had it "
                f"({legacy})")
    return f"{module}.{name} is none of SDK 2.{release}: no page of any release lists it"


def keywords(module, name, release):
    """The keywords that a function of a release takes; None where any, or none is known."""
    known = set()
    for a, b, signature in table().get((module, name), ()):
        if not a <= release <= b:
            continue
        if "(" not in signature or "**" in signature or "(*args" in signature:
            return None
        known |= set(re.findall(r"[(,]\s*(\w+)\s*(?==|,|\)|:)", signature.replace("*, ", "")))
    return known or None


@functools.cache
def _signatures(module, name, release):
    """The parameters of each signature that a release has of a function; () where any call may be right."""
    found = []
    for a, b, signature in table().get((module, name), ()):
        if not a <= release <= b:
            continue
        if not signature.startswith("("):
            return ()
        try:
            function = ast.parse(f"def f{signature}: pass").body[0]
        except SyntaxError:
            return ()
        if isinstance(function, ast.FunctionDef):
            found.append(function.args)
    return tuple(found)


def members(module, name, release):
    """The members that a release lists of an enumeration; empty where it lists none."""
    head = f"{name}."
    return {full[len(head):] for (of, full), spans in table().items()
            if of == module and full.startswith(head) and any(a <= release <= b for a, b, _ in spans)}


def argument_faults(module, name, release, node):
    """The fault of a call apart from its keywords: arguments too many, missing or given twice. Empty where a
    signature of the release takes it; that of the first signature where none does."""
    if any(isinstance(value, ast.Starred) for value in node.args):
        return []
    tried = [_misfits(f"{module}.{name}", takes, node) for takes in _signatures(module, name, release)]
    return tried[0] if tried and all(tried) else []


def arguments_of_call(module, name, release, node):
    """{parameter: its expression} of a call, by the first signature of the release."""
    takes = _signatures(module, name, release)[:1]
    positional = [a.arg for t in takes for a in [*t.posonlyargs, *t.args]]
    return dict(zip(positional, node.args)) | {k.arg: k.value for k in node.keywords if k.arg is not None}


def _misfits(full, takes, node):
    positional = [a.arg for a in [*takes.posonlyargs, *takes.args]]
    optional = set(positional[len(positional) - len(takes.defaults):])
    optional |= {a.arg for a, default in zip(takes.kwonlyargs, takes.kw_defaults) if default is not None}
    defaults = dict(zip(positional[len(positional) - len(takes.defaults):], takes.defaults))
    values = [*zip(positional, node.args), *((k.arg, k.value) for k in node.keywords)]
    every = positional + [a.arg for a in takes.kwonlyargs]
    given = [k.arg for k in node.keywords if k.arg is not None]
    found = [f"{full} is given {name}={ast.unparse(value)}, which is no truth value" for name, value in values
             if _is_truth(defaults.get(name)) and _is_no_truth(value)]
    if len(node.args) > len(positional) and takes.vararg is None:
        named = every[len(positional):]
        behind = f"; {', '.join(named)} {'is' if len(named) == 1 else 'are'} given by name" if named else ""
        takes_at_most = _count(len(positional), "argument")
        found.append(f"{full} takes {takes_at_most} by position and is given {len(node.args)}{behind}")
        given += named[:len(node.args) - len(positional)]  # of which no second message is needed
    for name in positional[:len(node.args)]:
        if name in given:
            found.append(f"{full} is given {name} twice, by position and by name")
    if not any(k.arg is None for k in node.keywords):
        there = {*positional[:len(node.args)], *given}
        missing = [name for name in every if name not in there and name not in optional]
        if missing:
            found.append(f"{full} needs {', '.join(missing)}")
    return found


def _is_truth(default):
    return isinstance(default, ast.Constant) and isinstance(default.value, bool)


def _is_no_truth(value):
    """True if an expression is a text or a collection as it stands there."""
    return isinstance(value, (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr)) or (
        isinstance(value, ast.Constant) and isinstance(value.value, (str, bytes, float)))


def _count(number, noun):
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _scope(function):
    """Names that a function sees, with their values."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    outer = {}
    for name, cell in cells:
        try:
            outer[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return {**function.__globals__, **outer}


def _known():
    """{id of a value: (module, name)} of what the modules of nki give, for `from nki.language import ...`."""
    found: dict[int, tuple[str, str]] = {}
    for module in _MODULES[1:]:
        loaded = sys.modules.get(module)
        for name, value in vars(loaded).items() if loaded else ():
            if not name.startswith("_") and not isinstance(value, types.ModuleType):
                found.setdefault(id(value), (module, name))
    return found


def _module_of(value):
    return value.__name__ if isinstance(value, types.ModuleType) and value.__name__ in _MODULES else None


def _resolve(node, scope, known):
    """(module, name) that an expression means, or None."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        value = scope.get(node.id)
        plain = value is None or type(value) in (int, float, bool, str)
        return None if plain else known.get(id(value))
    if not isinstance(node, ast.Attribute):
        return None
    parts = [node.attr]
    base = node.value
    while isinstance(base, ast.Attribute):
        parts.append(base.attr)
        base = base.value
    if not isinstance(base, ast.Name):
        return None
    module = _module_of(scope.get(base.id))
    while module and len(parts) > 1 and f"{module}.{parts[-1]}" in _MODULES:
        module = f"{module}.{parts.pop()}"
    return (module, parts[-1]) if module and len(parts) == 1 else None


def problems(tree, function, release):
    """(node, message) of every name and keyword in a kernel's syntax tree that a release lacks."""
    scope = _scope(function)
    known = _known()
    for node in ast.walk(tree):
        found = _resolve(node, scope, known)
        if found is not None and not _is_module(scope, node, found):
            module, name = found
            why = why_absent(module, name, release)
            if why:
                yield node, why
        if isinstance(node, ast.Call):
            yield from _keywords(node, _resolve(node.func, scope, known), release)


def _is_module(scope, node, found):
    """True if nki.isa or another package is named, not what is in it."""
    base = node
    while isinstance(base, ast.Attribute):
        base = base.value
    value = scope.get(base.id)
    return isinstance(node, ast.Attribute) and isinstance(value, types.ModuleType) and isinstance(
        vars(value).get(node.attr), types.ModuleType)


def _keywords(node, found, release):
    if found is None:
        return
    module, name = found
    known = keywords(module, name, release)
    for keyword in node.keywords if known is not None else ():
        if keyword.arg is not None and keyword.arg not in known:
            yield keyword.value, f"{module}.{name} has no keyword {keyword.arg} in SDK 2.{release}"
    for what in argument_faults(module, name, release, node):
        yield node, f"{what} in SDK 2.{release}"


_SHORT = {"nl": "nki.language", "nisa": "nki.isa", "ncc": "nki.collectives"}


def signatures_by_release(full):
    """[(releases, signature)] of a name like nl.tiles or neuronxcc.nki.isa.iota, by release; of one
    that only the legacy API had, those."""
    head, _, rest = full.partition(".")
    full = f"{_SHORT.get(head, head)}.{rest}"
    return _spans(full) or ([] if full.startswith(_LEGACY) else _spans(_LEGACY + full))


def _spans(full):
    module, name = full, ""
    while module:
        module, _, last = module.rpartition(".")
        name = f"{last}.{name}" if name else last
        if (module, name) in table():
            return [(f"2.{a}" if a == b else f"2.{a} to 2.{b}", f"{module}.{name}{signature}")
                    for a, b, signature in sorted(table()[module, name])]
    return []
