"""Finds the test files nearest to a place in the code: those that share the rarest names with it.

The names are those of the function around the place, of the function itself and of the module; a name
counts the more, the fewer test files have it. So the tests of a mutant can be run without the whole suite, where no map
says which execute it (scripts/executed.py), and of those that do the likeliest first.
"""

import ast
import collections
import math
import re
from pathlib import PurePosixPath

from executed import lines_around

_NAME = re.compile(r"[A-Za-z_]\w{2,}")
_SMALL = 100  # names, below which a test file is no nearer for being short
_OWN = 3.0  # how much more the names of the function and the module say than those in it


def names_at(text, line, module):
    """{name: weight} of the smallest function or class around a line (or of the whole file), and of the module."""
    lines = text.splitlines()
    body = [lines[n - 1] for n in sorted(lines_around(module, text, line)) if n <= len(lines)]
    around = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.ClassDef))
              and n.lineno <= line <= n.end_lineno] if module.endswith(".py") else []
    weights = {}
    for name in _NAME.findall("\n".join(body)):
        weights[name] = 1.0
    for own in [n.name for n in around] + [PurePosixPath(module).stem]:
        weights[own] = _OWN
    return weights


def likeness(files, weights, folders=(), module=""):
    """{test file: how much it shares with {name: weight}} of test files ({name: text}); one in one of these folders,
    or with the module's name in its own, counts twice."""
    names = {file: set(_NAME.findall(text)) | {PurePosixPath(file).stem.removeprefix("test_")}
             for file, text in files.items()}
    having = collections.Counter(n for found in names.values() for n in found & weights.keys())
    score = {file: sum(w * math.log(len(files) / having[n]) for n, w in weights.items() if n in found)
             / math.sqrt(len(found) + _SMALL) for file, found in names.items()}
    stem = PurePosixPath(module).stem
    for file in files:
        path = PurePosixPath(file)
        score[file] *= (1 + (str(path.parent) in folders)) * (1 + (stem in path.stem and bool(stem)))
    return score


def nearest(files, weights, count, folders=(), module=""):
    """The `count` of the test files that are most alike, best first."""
    score = likeness(files, weights, folders, module)
    return sorted(sorted(files), key=lambda file: -score[file])[:count]
