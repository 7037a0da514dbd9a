"""Compiles an edited copy of a kernel's source, which is called in its place."""

from __future__ import annotations

import __future__
import ast
import functools
import inspect
import linecache
import textwrap
import tokenize
import types
from collections.abc import Mapping
from typing import Any

_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag


class Editor(ast.NodeTransformer):
    """Edits the definition of a kernel, and says whether it did."""

    changed = False
    #: Names that the edited source uses beyond its own, with their values.
    names: Mapping[str, Any] = {}


def definition_of(code: types.CodeType) -> ast.stmt | None:
    """The statement that a function's code was compiled from, its first line counted as 1; None without a source.
    inspect.getsource would look for the module first, which takes long."""
    try:
        return ast.parse(text_of(code)).body[0]
    except (SyntaxError, IndentationError, IndexError):
        return None


@functools.lru_cache(maxsize=64)
def text_of(code: types.CodeType) -> str:
    """The text of that statement; "" without a source."""
    try:
        lines = inspect.getblock(linecache.getlines(code.co_filename)[code.co_firstlineno - 1:])
    except (SyntaxError, IndentationError, tokenize.TokenError, IndexError):
        return ""
    return textwrap.dedent("".join(lines))


def rewritten(function: Any, *editors: Editor) -> types.FunctionType | None:
    """`function` as the editors leave its source; None if they change nothing, or there is no source."""
    if not isinstance(function, types.FunctionType) or "__class__" in function.__code__.co_freevars:
        return None
    kernel = definition_of(function.__code__)  # a wrapper's own source, not that of what it wraps
    if not isinstance(kernel, ast.FunctionDef) or kernel.name != function.__code__.co_name:
        return None
    if getattr(kernel, "type_params", None) or _mangled(kernel):
        return None
    kernel.decorator_list = []
    for editor in editors:
        editor.generic_visit(kernel)
    if not any(editor.changed for editor in editors):
        return None
    return _compiled(function, kernel, {k: v for editor in editors for k, v in editor.names.items()})


def _mangled(kernel):
    """True if the source has a name that a class around it changes: __x."""
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(kernel))
    return any(name.startswith("__") and not name.endswith("__") for name in names)


def _compiled(function, definition, names):
    """The function of a definition, with the other one's place, defaults and variables."""
    code = function.__code__
    outer = ast.parse(f"def outer({', '.join([*code.co_freevars, *names])}): pass")
    made_there = outer.body[0]
    assert isinstance(made_there, ast.FunctionDef)
    made_there.body = [definition]
    ast.increment_lineno(definition, code.co_firstlineno - 1)
    made = compile(ast.fix_missing_locations(outer), code.co_filename, "exec", code.co_flags & _FUTURES, True)
    for _ in range(2):
        made = next(c for c in made.co_consts if isinstance(c, types.CodeType))
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    cells.update((name, types.CellType(value)) for name, value in names.items())
    out = types.FunctionType(made, function.__globals__, function.__name__, function.__defaults__,
                             tuple(cells[name] for name in made.co_freevars))
    out.__kwdefaults__, out.__qualname__ = function.__kwdefaults__, function.__qualname__
    return out
