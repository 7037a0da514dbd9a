"""nkisim check --migrate 2.33 k.py: what a file of kernels must change for an SDK release, and to what.

The file is read, not run. A finding says the line, what a release no longer has or takes, and what
replaces it by AWS's migration pages (migrations.json, public_api.txt). Exit codes: 0 nothing must change
(what is deprecated is said), 3 something must.
"""

import argparse
import ast
import json
import sys
from pathlib import Path

from ..record import names
from ..values.errors import SDKS

_TABLE = json.loads((Path(__file__).parent / "migrations.json").read_text(encoding="utf-8"))
_BUFFERS = {"sbuf", "psum", "hbm", "private_hbm", "shared_hbm"}
_ENUMS = {"engine", "dge_mode", "oob_mode", "reduce_cmd", "dma_engine"}
_LEGACY = "neuronxcc."
#: Parameters that go together.
_TOGETHER = {"nki.isa.tensor_scalar": [("op1", "operand1")]}
#: Functions of Python that the parser took of a register, and what is traced instead.
_ON_REGISTERS = {"range": "nl.fori_loop(lower, upper, body)", "int": "an NkiScalar (nisa.scalar_load), or nl.fori_loop"}


class Finding:
    """One change: its line, what is wrong, what replaces it, and whether it must be."""

    def __init__(self, node, what, instead, must=True):
        self.line, self.column = node.lineno, node.col_offset
        self.what, self.instead, self.must = what, instead, must

    def text(self, file):
        return f"{file}:{self.line}: {self.what}; {self.instead}"


class Reader(ast.NodeVisitor):
    """Follows what a file imports of NKI and finds what the release has not."""

    def __init__(self, release):
        self.release = release
        self.bound = {}      # name -> "nki.language" or "nki.language.tiles"
        self.registers = set()
        self.found = []

    # ---- imports -----------------------------------------------------------------------------
    def _bind(self, node, alias, full):
        if full.startswith(_LEGACY + "nki"):
            today = full.removeprefix(_LEGACY)
            place = None if today in self._PACKAGES else self._split(today)
            if place is None or not names.why_absent(*place, self.release):  # else _check says what replaces it
                self.found.append(Finding(node, f"{full} is of NKI 0.1, which no release since 2.30 compiles",
                                          today))
            full = today
        if full.split(".")[0] == "nki":
            self.bound[alias] = full

    def visit_Import(self, node):
        for one in node.names:
            plain = one.asname is None
            self._bind(node, one.name.split(".")[0] if plain else one.asname,
                       one.name.split(".")[0] if plain and not one.name.startswith(_LEGACY) else one.name)

    def visit_ImportFrom(self, node):
        for one in node.names:
            if node.module and node.level == 0:
                self._bind(node, one.asname or one.name, f"{node.module}.{one.name}")
                self._check(node, f"{node.module}.{one.name}".removeprefix(_LEGACY))

    # ---- names -------------------------------------------------------------------------------
    def _full(self, node):
        """The dotted name that an expression means, "nki.language.tiles"; None if it is none of NKI."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        base = self.bound.get(node.id) if isinstance(node, ast.Name) else None
        return ".".join([base, *reversed(parts)]) if base else None

    @staticmethod
    def _split(full):
        """("nki.language", "tiles") of a dotted name; None for packages and for members of values."""
        for module in sorted(("nki", "nki.language", "nki.isa", "nki.collectives"), key=len, reverse=True):
            if full.startswith(module + "."):
                rest = full[len(module) + 1:]
                return None if "." in rest and not names.table().get((module, rest)) else (module, rest)
        return None

    _PACKAGES = ("nki.language", "nki.isa", "nki.collectives", "nki.typing", "nki.compiler", "nki.tensor",
                 "nki.simulator", "nki.dtype", "nki.experimental")

    def _check(self, node, full):
        if full in self._PACKAGES:
            return
        place = self._split(full)
        if place is None:
            head = self._split(".".join(full.split(".")[:3]))
            if head is not None and full.count(".") > 2:
                self._check(node, ".".join(full.split(".")[:3]))
                self._member(node, head, full.split(".")[3])
            return
        about = _TABLE["names"].get(full, {})
        why = names.why_absent(*place, self.release)
        if why:
            self.found.append(Finding(node, why, about.get("instead", "no replacement is documented")))
        elif about.get("since", 99) <= self.release:
            self.found.append(Finding(node, f"{full} is {about['why']} since SDK 2.{about['since']}",
                                      about["instead"], about.get("must", False)))

    def _member(self, node, place, member):
        """Members that an enumeration of nki.isa lacks: nisa.engine.vectr."""
        known = names.members(*place, self.release) if place[1] in _ENUMS else {}
        if known and member not in known:
            self.found.append(Finding(node, f"{'.'.join(place)} has no member {member} in SDK 2.{self.release}",
                                      " or ".join(f"nisa.{place[1]}.{name}" for name in sorted(known))))

    def visit_Attribute(self, node):
        full = self._full(node)
        if full is None:
            self.generic_visit(node)
        else:
            self._check(node, full)

    def visit_Call(self, node):
        full = self._full(node.func)
        if isinstance(node.func, ast.Name) and full is None and node.func.id in _ON_REGISTERS:
            for argument in node.args:
                self._of_register(argument, f"{node.func.id}() of a register", _ON_REGISTERS[node.func.id])
        place = self._split(full) if full else None
        if place:
            known = names.keywords(*place, self.release)
            for keyword in node.keywords:
                self._keyword(keyword, full, known)
            if not names.why_absent(*place, self.release):
                self._arguments(node, full, place)
        self.generic_visit(node)

    def _arguments(self, node, full, place):
        for what in names.argument_faults(*place, self.release, node):
            self.found.append(Finding(node, what, " or ".join(
                f"{full}{signature}" for first, last, signature in names.table()[place]
                if first <= self.release <= last)))
        there = {name: value for name, value in names.arguments_of_call(*place, self.release, node).items()
                 if not (isinstance(value, ast.Constant) and value.value is None)}
        whole = not any(isinstance(value, ast.Starred) for value in node.args) and all(k.arg for k in node.keywords)
        for one, other in _TOGETHER.get(full, ()) if whole else ():
            if (one in there) != (other in there):
                lacks, has = (one, other) if other in there else (other, one)
                self.found.append(Finding(node, f"{full} has {has} and no {lacks}", "both or neither"))
        exponent = there.get("y") if full == "nki.language.power" and self.release >= 29 else None
        if isinstance(exponent, ast.Constant):
            self.found.append(Finding(node, "nl.power does not take a number as exponent", "a tile, or nl.multiply"))

    def _keyword(self, keyword, full, known):
        name, value = keyword.arg, keyword.value
        if name is None:
            return
        if known is not None and name not in known:
            about = _TABLE["keywords"].get(name, {})
            self.found.append(Finding(value, f"{full} has no keyword {name} in SDK 2.{self.release}",
                                      about.get("instead", "no replacement is documented")))
        elif isinstance(value, ast.Constant) and name == "buffer" and value.value in _BUFFERS:
            self.found.append(Finding(value, f"buffer={value.value!r}: a name for a buffer",
                                      f"nl.{value.value}"))
        elif isinstance(value, ast.Constant) and type(value.value) in (int, str) and name in _ENUMS:
            kind = "an integer" if type(value.value) is int else "a text"
            self.found.append(Finding(value, f"{name}={value.value!r}: {kind} for an enumeration",
                                      f"a member of nisa.{name}"))

    # ---- loops on registers ------------------------------------------------------------------
    def visit_Assign(self, node):
        targets = {t.id for t in node.targets if isinstance(t, ast.Name)}
        if isinstance(node.value, ast.Call) and self._full(node.value.func) == "nki.isa.register_alloc":
            self.registers |= targets
        alias = self._full(node.value)
        if alias in self._PACKAGES:  # nl = nki.language
            self.bound |= dict.fromkeys(targets, alias)
        self.generic_visit(node)

    def _of_register(self, node, what, instead):
        if isinstance(node, ast.Name) and node.id in self.registers and self.release >= 33:
            self.found.append(Finding(node, f"{what} is a TypeError of the tracer since SDK 2.33", instead))

    def visit_While(self, node):
        self._of_register(node.test, "`while` on a register", "nl.while_loop(init, body)")
        self.generic_visit(node)


def findings(source, release, file="<kernel>"):
    """The changes that a file needs for SDK 2.`release`, by line."""
    compile(source, file, "exec", dont_inherit=True)  # a keyword that is given twice, say, is no error of the tree
    reader = Reader(release)
    reader.visit(ast.parse(source, file))
    once = {(f.line, f.column, f.what): f for f in reader.found}
    return sorted(once.values(), key=lambda f: (f.line, f.column))


def main(words=None):
    parser = argparse.ArgumentParser(prog="nkisim check --migrate", description=__doc__)
    parser.add_argument("--to", choices=SDKS, default=SDKS[-1])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("file")
    args = parser.parse_args(words)
    try:
        source = Path(args.file).read_text(encoding="utf-8")
        found = findings(source, int(args.to[2:]), args.file)
    except (OSError, SyntaxError, ValueError) as problem:
        if args.json:
            print(json.dumps({"ok": False, "exit_code": 3, "error": {"kind": "file", "rule": "file_unreadable",
                                                                     "message": f"{args.file}: {problem}"}}, indent=1))
        print(f"nkisim: {args.file}: {problem}", file=sys.stderr)
        return 3
    must = sum(f.must for f in found)
    if args.json:
        print(json.dumps({"ok": not must, "exit_code": 3 if must else 0, "file": args.file, "sdk": args.to,
                          "changes": [{"line": f.line, "text": f.what, "instead": f.instead, "must": f.must}
                                      for f in found]}, indent=1))
        return 3 if must else 0
    for f in found:
        print(f.text(args.file) + ("" if f.must else " (deprecated)"))
    print(f"{args.file}: {must} to change for SDK {args.to}" +
          (f", {len(found) - must} deprecated" if len(found) > must else ""))
    return 3 if must else 0


if __name__ == "__main__":
    sys.exit(main())
