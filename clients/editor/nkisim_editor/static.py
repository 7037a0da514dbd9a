"""Checks a kernel file for the editor without executing it: Python's syntax, names that nki does
not have, constructs that the NKI compiler lacks, and comments with example calls that cannot be
read.
"""

import ast
import functools
import importlib
import warnings

from nkisim.record import strict
from nkisim.tools.example_call import Call, calls
from nkisim.values.errors import Error

#: The modules whose names are looked up; no module of a user's is imported.
MODULES = ("nki.isa", "nki.language", "nki", "nki.collectives")


def aliases(tree):
    """{name: module} of what a text imports of MODULES at its top."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found.update({a.asname: a.name for a in node.names if a.name in MODULES and a.asname})
            found.update({a.name: a.name for a in node.names if a.name in MODULES and not a.asname})
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names
                          if f"{node.module}.{a.name}" in MODULES})
    return found


def kernel_functions(tree):
    """The functions of a module with a decorator called jit, as `nki.jit` or `jit(...)`."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                inner = decorator.func if isinstance(decorator, ast.Call) else decorator
                if getattr(inner, "attr", getattr(inner, "id", "")) == "jit":
                    yield node
                    break


def dotted_name(node, names):
    """(module, name) of an attribute such as nisa.activation, or None."""
    if isinstance(node, ast.Attribute):
        inner = node.value
        module = names.get(inner.id if isinstance(inner, ast.Name) else
                           ast.unparse(inner) if isinstance(inner, ast.Attribute) else "")
        return (module, node.attr) if module else None
    return None


def _diagnostic(line, message, rule="", severity="error", start=None, end=None):
    return {"line": line, "message": message, "rule": rule, "severity": severity, "instruction": "",
            **({"start": start, "end": end} if start is not None else {})}


def _names(tree, names):
    """Attributes that a module of nki does not have."""
    for node in ast.walk(tree) if names else ():
        found = dotted_name(node, names)
        said = _missing(*found) if found and isinstance(node.ctx, ast.Load) else None
        if said:
            yield _diagnostic(node.lineno, *said, "error", node.col_offset, node.end_col_offset)


@functools.lru_cache(maxsize=4096)
def _missing(module, name):
    """(message, rule) where a module of nki has no such name, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(importlib.import_module(module), name)
        except Error as problem:
            return problem.message, problem.rule
        except AttributeError as problem:
            return str(problem), "unsupported_call"
    return None


def is_python(text):
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def problems(text):
    """Diagnostics of a text, as study says them, and its kernels without a call: [(name, line, parameters)]."""
    try:
        tree = ast.parse(text)
    except SyntaxError as problem:
        return [_diagnostic(problem.lineno or 1, f"SyntaxError: {problem.msg}", "")], []
    except (ValueError, RecursionError, MemoryError) as problem:
        return [_diagnostic(1, f"{type(problem).__name__}: {problem}", "")], []
    found = list(_names(tree, aliases(tree)))
    given = calls(text)
    for line, said in given.values():
        try:
            Call(line, said)
        except ValueError as problem:
            found.append(_diagnostic(line, f"# nkisim: {problem}", "option_value"))
    bare = []
    for node in kernel_functions(tree):
        found += [_diagnostic(n.lineno, message, "", "warning") for n, message in strict.problems(node)]
        if node.name not in given:
            first = min(d.lineno for d in node.decorator_list)
            bare.append((node.name, first, [a.arg for a in node.args.args]))
    return found, bare
