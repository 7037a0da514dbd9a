"""Collects small programs with an intended race or other bug, and their correct counterparts.

A case is a name, a list of lines, and the hazards a checker has to name (none: a control). Cases of a
class are in one file each (races_*.py); `test_corpus.py` runs them all.
"""

import json
from dataclasses import dataclass, field

ENGINES = ("vector", "scalar", "gpsimd")


@dataclass
class Case:
    name: str
    trace: str                      # JSON lines
    hazards: frozenset = frozenset()  # "RAW", "WAR", "WAW", "stuck"; empty: correct


@dataclass
class Trace:
    """Lines of a trace; semaphores are called by name and numbered as they come."""
    cores: int = 1
    explicit: bool = True
    target: str = "trn2"
    lines: list = field(default_factory=list)
    names: dict = field(default_factory=dict)
    space: int = 0

    def hbm(self, name, shape=(128, 512), role="internal", dtype="float32", **more):
        data = {"data": {"generator": "ones"}} if role in ("input", "inputoutput") else {}
        self.lines.append({"tensor": {"name": name, "shape": list(shape), "dtype": dtype,
                                      "role": role, **data, **more}})
        return name

    def chip(self, name, shape=(128, 512), space="sbuf", address=None, dtype="float32", core=0):
        size = {"float32": 4, "int32": 4, "bfloat16": 2}[dtype]
        for n in shape[1:]:
            size *= n
        if address is None:
            address, self.space = self.space, self.space + (size + 63) // 64 * 64
        self.lines.append({"tensor": {"name": name, "space": space, "shape": list(shape),
                                      "dtype": dtype, "address": address,
                                      **({"core": core} if core else {})}})
        return name

    def op(self, what, wait=(), post=(), **arguments):
        line = {"i": what, **arguments}
        if wait:
            line["wait"] = [[self._known(s), c, v] for s, c, v in wait]
        if post:
            line["post"] = [[self._known(p[0]), *p[1:]] for p in post]
        self.lines.append(line)

    def _known(self, name):
        if isinstance(name, str):
            self.names.setdefault(name, len(self.names))
        return name

    def dma(self, dst, src, engine="sync", wait=(), post=(), **more):
        self.op("dma_copy", wait, post, dst=dst, src=src, engine=engine, **more)

    def copy(self, dst, src, engine="vector", wait=(), post=(), **more):
        self.op("tensor_copy", wait, post, dst=dst, src=src, engine=engine, **more)

    def fill(self, dst, engine="vector", wait=(), post=(), value=1.0, **more):
        self.op("memset", wait, post, dst=dst, value=value, engine=engine, **more)

    def text(self):
        header = {"nisa": 1, "target": self.target, "name": "k"}
        if self.explicit:
            header["semaphores"] = "explicit"
            if self.names:
                header["semaphore_names"] = {str(n): name for name, n in self.names.items()}
        if self.cores > 1:
            header["cores"] = self.cores
        return "\n".join(json.dumps(line) for line in [header, *self.lines]) + "\n"


def ge(name, value):
    return (name, ">=", value)


def up(name, value=None):
    return (name, "++") if value is None else (name, "+=", value)


def case(name, trace, *hazards):
    return Case(name, trace.text(), frozenset(hazards))
