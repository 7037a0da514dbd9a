"""Reads example calls of kernels from a file: a comment above a kernel, or within it.

    # nkisim: x=f32[512,2048]:normal scale=0.5 --target trn2
    @nki.jit
    def softmax(x, scale): ...

The words are those of `nkisim kernel`: NAME=DTYPE[SHAPE][:FILL] or NAME=VALUE for each parameter, and
--target, --lnc and --seed. `nkisim kernel FILE.py:FUNCTION` without --arg takes them, and so does the
language server.
"""

import ast
import re
import shlex

_COMMENT = re.compile(r"^[ \t]*#[ \t]*nkisim:[ \t]*(.*)$", re.M)
_OPTIONS = {"--target": str, "--lnc": int, "--seed": int}


class Call:
    """One comment: its `line`, the --arg `words`, and `options` (target, lnc, seed as given)."""

    def __init__(self, line, text):
        self.line, self.words, self.options = line, [], {}
        words = iter(shlex.split(text))
        for word in words:
            name, found, value = word.partition("=")
            if name not in _OPTIONS:
                self.words.append(word)
                continue
            value = value if found else next(words, None)
            if value is None:
                raise ValueError(f"{name} has no value")
            self.options[name[2:]] = _OPTIONS[name](value)


def _in_text(node, line):
    """True if a line is within a string of several lines below a node."""
    for child in ast.iter_child_nodes(node):
        first, last = getattr(child, "lineno", 1), getattr(child, "end_lineno", line)
        if first <= line <= last and first < last and (
                isinstance(child, (ast.Constant, ast.JoinedStr)) or _in_text(child, line)):
            return True
    return False


def comments(text, tree):
    """{line: what follows `# nkisim:`} of a Python text's lines that are such a comment alone."""
    found = {text.count("\n", 0, m.start(1)) + 1: m[1] for m in _COMMENT.finditer(text)}
    return {line: said for line, said in found.items() if not _in_text(tree, line)}


def _spans(tree):
    """(first line with decorators, last line, name) of the functions of a module."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno, node.name


def calls(text):
    """{function: (line, what follows `# nkisim:`)}: of each function of a module the first comment in it or
    right above it, nothing but comments and empty lines between. Raises SyntaxError."""
    lines, found, tree = text.splitlines(), {}, ast.parse(text)
    said = comments(text, tree)
    for first, last, name in _spans(tree) if said else ():
        above = first - 1
        while above >= 1 and (not lines[above - 1].strip() or lines[above - 1].lstrip().startswith("#")):
            above -= 1
        mine = [line for line in said if above < line <= last]
        if mine:
            found[name] = min(mine), said[min(mine)]
    return found


def call_of(text, name):
    """The Call that a text's comment makes of a function, or None. Raises SyntaxError, and ValueError for a
    comment whose options cannot be read."""
    found = calls(text).get(name)
    return None if found is None else Call(*found)
