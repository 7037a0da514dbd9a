"""Lists the public API of every release of NKI from the history of AWS's documentation.

    python tests/conformance/public_api.py SDK > tests/python/nki/public_api.txt

SDK is a repository of aws-neuron/aws-neuron-sdk with its tags. A name is public where a page lists
it (autosummary) or where the documentation's stub of the module declares it. One line each: module,
first and last SDK release, name with parameters (without annotations) or value. Releases to 2.26 are
`neuronxcc.nki`; 2.27 and 2.28 are NKI 0.2, then one minor version of NKI each.
"""

import ast
import re
import subprocess
import sys

TAGS = ("v2.20.2 v2.21.0 v2.22.0 v2.23.0 v2.24.0 v2.25.0 v2.26.1 v2.27.1 v2.28.0 v2.29.1 v2.30.0 "
        "v2.31.1 v2.32.0").split()
_LAST_LEGACY = 26


def _git(root, *args):
    return subprocess.run(["git", "-C", root, *args], capture_output=True, text=True,
                          check=True).stdout


def _signature(node, method=False):
    """"(a, b=1, *, c)" of a function definition, without annotations and without self."""
    args = node.args
    positional = args.posonlyargs + args.args
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    if method and positional and positional[0].arg in ("self", "cls"):
        positional, defaults = positional[1:], defaults[1:]
    parts = [_parameter(p, d) for p, d in zip(positional, defaults)]
    if args.vararg or args.kwonlyargs:
        parts.append("*" + (args.vararg.arg if args.vararg else ""))
    parts += [_parameter(p, d) for p, d in zip(args.kwonlyargs, args.kw_defaults)]
    if args.kwarg:
        parts.append("**" + args.kwarg.arg)
    return "(" + ", ".join(parts) + ")"


def _parameter(arg, default):
    return arg.arg + ("" if default is None else "=" + ast.unparse(default))


def _targets(node):
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [t.id for t in targets if isinstance(t, ast.Name) and not t.id.startswith("_")]


def _value(node):
    """"=1" of a member that is a number, as those of enumerations are."""
    return f"={node.value}" if isinstance(node, ast.Constant) and type(node.value) is int else ""


def _members(node):
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            marks = [ast.unparse(d) for d in member.decorator_list]
            text = "" if any("property" in m for m in marks) else _signature(member, True)
            yield f"{node.name}.{member.name}", text
        elif isinstance(member, (ast.Assign, ast.AnnAssign)):
            for name in _targets(member):
                yield f"{node.name}.{name}", _value(member.value)


def _declared(text):
    """(name, signature) of what a stub declares; values, classes and properties have none."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, _signature(node)
        elif isinstance(node, ast.ClassDef):
            if not node.name.startswith("_"):
                yield node.name, ""
            yield from _members(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for name in _targets(node):
                yield name, ""


def _listed(text):
    """The names of a page's autosummaries."""
    inside = False
    for line in text.splitlines():
        if line.startswith(".. autosummary"):
            inside = True
        elif inside and re.fullmatch(r"   ~?[\w.]+\s*", line):
            yield line.strip().lstrip("~"), ""
        elif inside and line.strip() and not line.startswith(" "):
            inside = False


def _module(page, path):
    """What a page says its names belong to, else what its path says."""
    found = re.search(r"^\.\. currentmodule:: (\S+)", page, re.M)
    return found[1] if found else path.replace("/", ".")


def _release(root, tag):
    """{(module, name): signature} of one release."""
    found = {}
    files = _git(root, "ls-tree", "-r", "--name-only", tag).splitlines()
    prefix = "neuronxcc." if int(tag.split(".")[1]) <= _LAST_LEGACY else ""
    for path in files:
        page = re.search(r"/api/(nki(?:\.\w+)*)\.rst$", path)
        stub = re.search(r"/api/(nki(?:/\w+)*)/__init__\.py$", path)
        if page or stub:
            text = _git(root, "show", f"{tag}:{path}")
            module = prefix + _module(text if page else "", (page or stub)[1])
            for name, signature in (_listed if page else _declared)(text):
                name = name.replace("_TileSize.", "tile_size.")
                found[module, name] = signature or found.get((module, name), "")
    return found


def main(root):
    spans = {}
    for number, tag in enumerate(TAGS):
        for (module, name), signature in _release(root, tag).items():
            runs = spans.setdefault((module, name, signature), [])
            if runs and runs[-1][1] == number - 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
    short = [t[1:].rsplit(".", 1)[0] for t in TAGS]
    print(f"# {__doc__.splitlines()[0]}\n# Written by tests/conformance/public_api.py; "
          f"releases {TAGS[0]} to {TAGS[-1]} of aws-neuron-sdk.")
    for (module, name, signature), runs in sorted(spans.items()):
        when = ",".join(f"{short[a]}-{short[b]}" for a, b in runs)
        print(module, when, name + signature)


if __name__ == "__main__":
    main(*sys.argv[1:])
