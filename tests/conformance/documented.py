"""Runs every NKI example that AWS's documents have shown, at every release, and prints a table of
pages by releases.

    python tests/conformance/documented.py SDK [--only nki-aps] [--failures]

SDK is a repository of aws-neuron/aws-neuron-sdk with its tags. From SDK 2.20 to 2.32 it takes every
Python block of the pages and of the API's docstrings that speaks of NKI, and every one-instruction
test (nki/test), each text once, whichever releases have it. A block runs as a kernel's body, of the
generation of its release; assertions in it compare values. Names that a page introduces in prose are
stood in for (STAND_INS). A block that is part of a program is completed: names that it lacks are stood in
for by what their spelling suggests, then by anything else that runs, and an ellipsis is left out. What
remains (output of a shell, pseudo-code) counts as a fragment. ILLEGAL says which blocks are refused as
they should be.
"""

import argparse
import ast
import builtins
import collections
import hashlib
import math
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import types
import warnings
from pathlib import Path

import numpy as np

import nkisim

nkisim.install()

import neuronxcc.nki as old  # noqa: E402
import neuronxcc.nki.compiler as ncc  # noqa: E402
import neuronxcc.nki.isa as old_isa  # noqa: E402
import neuronxcc.nki.language as old_language  # noqa: E402
import nki  # noqa: E402
import nki.collectives  # noqa: E402
import nki.isa as nisa  # noqa: E402
import nki.language as nl  # noqa: E402
from public_api import TAGS  # noqa: E402

SECONDS = 20
#: (page, words of the error): refused, and why that is right.
ILLEGAL = {
    ("nki.errors", ""): "the page shows errors and, next to them, what avoids them",
    ("nki-aps", "pattern starts with stride"): "the page says so, or (2.27) forgets dtype=",
    ("nki-aps", "called with self"): "the page's short hand, not the function's parameters",
    ("nki-aps", "flatten"): "pseudo-code by its own word",
    ("nki-language-guide", "pattern starts with stride 1;"): "2.29's slip for [1024, 128]",
    ("nki-dynamic-loops", "an address within"): "its input is larger than the stand-in",
    ("language/__init__", "dst is sbuf[1 x 1]"): "its input has one element, the stand-in more",
    ("migration", "nl.par_dim marks another"): "the form to migrate from",
    ("about/index", "has no barrier"): "no function of this name was ever documented",
    ("direct_allocation", ""): "the page marks it as failing, or has typing errors",
    ("migration", "reciprocal: data is missing"): "the page's short hand, not the function's parameters",
    ("known_issues", "Ellipsis"): "a fragment",
}
STAND_INS = ("input_tensor", "in_tensor", "inp", "a_input", "b_input", "data_tensor", "x_tensor",
             "y_tensor", "indices_tensor", "a", "b", "x", "y", "t", "data", "src")


def git(root, *args):
    return subprocess.run(["git", "-C", root, *args], capture_output=True, text=True, errors="replace",
                          check=True).stdout


def files(root, tag, only):
    """(path, id of its text) of the pages, stubs and tests of a release that may have examples."""
    for line in git(root, "ls-tree", "-r", tag).splitlines():
        entry, path = line.split("\t")
        if only in path and re.match(r"(general/)?nki/.*\.(rst|md|py)$", path):
            yield path, entry.split()[2]


def blocks(text):
    """The Python blocks of a page or of a stub's docstrings that speak of NKI."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        start = re.match(r"^(\s*)(\.\. code(?:-block)?:: *python|```python)\s*$", lines[at])
        at += 1
        if start is None:
            continue
        fenced, body = start[2].startswith("`"), []
        while at < len(lines):
            line = lines[at]
            if line.strip().startswith(("```", '"""')) and (fenced or '"""' in line):
                break
            if not fenced and line.strip() and len(line) - len(line.lstrip()) <= len(start[1]):
                break
            body.append(line)
            at += 1
        body = [b for b in body if not re.match(r"\s*:(linenos|emphasize-lines|caption|name):?", b)]
        block = textwrap.dedent("\n".join(body).split('"""')[0]).strip("\n")
        if re.search(r"\b(nl|nisa|nki|ncc)\.", block):
            yield block


def is_fragment(tree):
    """True if an ellipsis stands where a program needs something."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return any(isinstance(node, ast.Constant) and node.value is Ellipsis and id(node) not in bare and
               not in_subscript for node, in_subscript in _with_subscripts(tree))


def _with_subscripts(tree, inside=False):
    for child in ast.iter_child_nodes(tree):
        now = inside or isinstance(tree, ast.Subscript)
        yield child, now
        yield from _with_subscripts(child, now)


def names(legacy, x, out):
    language = old_language if legacy else nl
    given = {name: x for name in STAND_INS}
    given.update(x_tensor=x[:, 0:128], y_tensor=x[:, 0:128])  # operands of a product
    return {**vars(builtins), **given, "nki": old if legacy else nki, "nl": language,
            "nisa": old_isa if legacy else nisa, "np": np, "numpy": np, "math": math,
            "ncc": types.SimpleNamespace(**{**vars(nki.collectives), **vars(ncc)}),
            "nt": old.typing, "sbuf": language.sbuf, "psum": language.psum, "hbm": language.hbm,
            "affine_range": language.affine_range, "par_dim": old_language.par_dim,
            "out_tensor": out, "output": out, "__name__": "documented"}


class _WithoutEllipses(ast.NodeTransformer):
    """A tree whose ellipses are left out: arguments, elements and statements; a value becomes a tensor."""

    @staticmethod
    def _rest(values):
        return [v for v in values if not (isinstance(v, ast.Constant) and v.value is Ellipsis)]

    def visit_Call(self, node):
        node.args = self._rest(node.args)
        node.keywords = [k for k in node.keywords if self._rest([k.value])]
        return self.generic_visit(node)

    def visit_Assign(self, node):
        if not self._rest([node.value]):
            node.value = ast.copy_location(ast.Name("src", ast.Load()), node)
        return self.generic_visit(node)


def _tile(language, space):
    """Code that makes a tile of 1 in a memory."""
    def make(x):
        if space == "sbuf":
            return language.load(x)
        return language.zeros((128, 512), dtype=language.float32, buffer=language.psum)
    return make


def _stand_ins(language):
    """The stand-ins for a name, by how it is spelled: (pattern, how to make it from the argument)."""
    return ((r"(?i).*psum", _tile(language, "psum")), (r"(?i).*(tile|sbuf|sb|res|result)\d*$", _tile(language, "sbuf")),
            (r"[ijklmnp]\w?$|.*(idx|index)$", lambda x: 0), (r"[A-Z_\d]+$|.*(size|dim|num|len)", lambda x: 128),
            (r".*dtype", lambda x: language.float32), (r".*", lambda x: x))


MOST_NAMES = 12


def run_block(block, legacy):
    """"ran", "completed", "fragment" or the error's first line."""
    try:
        tree = ast.parse(block)
    except SyntaxError:
        return "fragment"
    whole = not is_fragment(tree)
    if not whole:
        tree = ast.fix_missing_locations(_WithoutEllipses().visit(tree))
    makers = _stand_ins(old_language if legacy else nl)
    chosen = {}  # name -> numbers of the makers left to try
    for _ in range((MOST_NAMES + 1) * len(makers)):
        result = attempt(tree, legacy, {name: makers[left[0]][1] for name, left in chosen.items()})
        lacks = re.match(r"lacks (\w+)$", result)
        if "is in HBM; SBUF" in result and not chosen:  # the page means tiles by its tensors' names
            chosen = {name: [1] for name in STAND_INS}
            last = STAND_INS[0]
            continue
        if result == "ran":
            return "ran" if whole and not chosen else "completed"
        if lacks and lacks[1] not in chosen and len(chosen) < MOST_NAMES + len(STAND_INS):
            fits = [n for n, (pattern, _) in enumerate(makers) if re.match(pattern, lacks[1])]
            chosen[lacks[1]] = fits + [n for n in range(len(makers)) if n not in fits]
            last = lacks[1]
        elif not lacks and chosen and len(chosen[last]) > 1:
            chosen[last].pop(0)
        else:
            return result if whole and not chosen and not result.startswith("lacks") else "fragment"
    return "fragment"


def attempt(tree, legacy, more):
    """"ran", "lacks NAME" or the error's first line; `more`: name -> how its stand-in is made."""
    language = old_language if legacy else nl

    def kernel(x):
        out = language.ndarray((128, 512), dtype=language.float32, buffer=language.shared_hbm)
        language.store(out, language.load(x))
        space = {**names(legacy, x, out), **{name: make(x) for name, make in more.items()}}
        exec(compile(tree, "documented", "exec"), space)
        return out

    def late(*_):
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        nkisim.run(kernel, np.ones((128, 512), np.float32), legacy=legacy, timing=False,
                   allow_unwritten=True)
    except NameError as problem:
        return f"lacks {problem.name}"
    except ImportError:
        return "lacks a module"
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}".split("\n")[0]
    finally:
        signal.alarm(0)
    return "ran"


def run_test(text, name):
    """A one-instruction test of the documents, with pytest."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text)
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                               str(path)], cwd=folder, capture_output=True, text=True)
    if done.returncode in (0, 5):  # 5: it holds examples and no test
        return "ran" if done.returncode == 0 else "fragment"
    errors = re.findall(r"^E\s+(.*)$", done.stdout, re.M)
    return errors[-1] if errors else f"exit code {done.returncode}"


def expected(page, result):
    return any(place in page and words in result for place, words in ILLEGAL)


def collect(root, only):
    """{text: (kind, page, [releases])} in the order of the releases."""
    found, texts = {}, {}
    for tag in TAGS:
        for path, blob in files(root, tag, only):
            if blob not in texts:
                texts[blob] = git(root, "cat-file", "blob", blob)
            if "/test/" not in path:
                for block in blocks(texts[blob]):
                    found.setdefault(block, ("block", path, []))[2].append(tag)
            elif re.search(r"nki/test/test_\w+\.py$", path):
                found.setdefault(texts[blob], ("test", path, []))[2].append(tag)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sdk")
    parser.add_argument("--only", default="", help="pages with this text in their path")
    parser.add_argument("--failures", action="store_true", help="list what failed")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    table, failed = collections.defaultdict(collections.Counter), []
    for text, (kind, page, tags) in collect(args.sdk, args.only).items():
        legacy = int(tags[0].split(".")[1]) <= 26 or "neuronxcc" in text
        result = run_test(text, Path(page).name) if kind == "test" else run_block(text, legacy)
        counted = result in ("ran", "completed", "fragment")
        known = not counted and expected(page, result)
        outcome = "refused, rightly" if known else result if counted else "failed"
        for tag in set(tags):
            table[tag][kind, outcome] += 1
        if outcome == "failed":
            mark = hashlib.sha1(text.encode()).hexdigest()[:8]
            failed.append(f"{page} ({tags[0]} to {tags[-1]}, {mark}): {result[:160]}")
    columns = [(kind, outcome) for kind, outcomes in (
        ("block", ("ran", "completed", "fragment", "refused, rightly", "failed")), ("test", ("ran", "failed")))
        for outcome in outcomes]
    print("| release | " + " | ".join(f"{k}s {o}" for k, o in columns) + " |")
    print("|---|" + "---:|" * len(columns))
    for tag in TAGS:
        print(f"| {tag} | " + " | ".join(str(table[tag][c]) for c in columns) + " |")
    print(f"{len(failed)} failed")
    if args.failures:
        print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
