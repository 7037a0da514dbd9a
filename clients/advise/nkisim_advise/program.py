"""Holds a program as data that `nkisim advise` changes: its tensors, its instructions, and their
uses.
"""

import json
import pathlib
import subprocess

from nkisim_work import program as nkisim

from .facts import element_bytes, memory_parameters, table
from .operand import is_whole, parse


class BadProgram(Exception):
    """The trace cannot be changed; the message says why."""


class Program:
    """`insts` and the values of `tensors` are dicts of the trace. They are replaced, never changed."""

    def __init__(self, header, tensors, insts, known=None):
        self.header, self.tensors, self.insts = header, tensors, insts
        self._uses = self._touched = self._lines = None
        self.derived = {}  # what edits have found out about it, by their own keys
        #: By an instruction's id itself (so that it lives), its text and its operands: variants share most.
        self._known = {} if known is None else known

    @classmethod
    def read(cls, path, folder):
        """The program in a trace of either form. Data files are named as from `folder`, where its variants are to
        be written. Raises BadProgram with nkisim's own message."""
        text = pathlib.Path(folder) / "as-written.jsonl"
        said = subprocess.run([nkisim(), "convert", "--patterns", str(path), "-o", str(text)],
                              capture_output=True, text=True)
        if said.returncode:
            raise BadProgram(said.stderr.strip().removeprefix("nkisim: "))
        header, tensors, insts = None, {}, []
        with text.open(encoding="utf-8") as lines:
            for item in map(json.loads, lines):
                if "nisa" in item:
                    header = item
                elif "tensor" in item:
                    tensors[item["tensor"]["name"]] = item["tensor"]
                else:
                    insts.append(item)
        return cls(header, tensors, insts)

    def write(self, path):
        with open(path, "w", encoding="utf-8") as file:
            for item in (self.header, *({"tensor": t} for t in self.tensors.values())):
                file.write(json.dumps(item) + "\n")
            file.writelines(self._facts(i)[1] for i in self.insts)

    def _facts(self, inst):
        """(the instruction, its line, its operands)."""
        found = self._known.get(id(inst))
        if found is None:
            found = self._known[id(inst)] = inst, json.dumps(inst) + "\n", tuple(self._operands(inst))
        return found

    def changed(self, insts=None, tensors=None):
        """Another program, with other instructions or tensors."""
        return Program(self.header, self.tensors if tensors is None else tensors,
                       list(self.insts) if insts is None else insts, self._known)

    @property
    def target(self):
        return self.header["target"]

    @property
    def straight(self):
        """True if every instruction runs once, in the order of the trace, and none names another."""
        return not any("control" in table()[i["i"]] or "after" in i for i in self.insts)

    @property
    def open(self):
        """True if tiles have no address yet and engines may be left to the compiler."""
        return self.header.get("addresses") == "open"

    def operands(self, index):
        """(parameter, place in a list or None, Ref, reads, writes) of an instruction."""
        return self.uses()[0][index]

    def uses(self):
        """By instruction its operands, and by tensor its (instruction, parameter, Ref, reads, writes)."""
        if self._uses is None:
            by_inst, by_tensor = [], {name: [] for name in self.tensors}
            for index, inst in enumerate(self.insts):
                own = self._facts(inst)[2]
                by_inst.append(own)
                for parameter, _, ref, reads, writes in own:
                    by_tensor[ref.tensor].append((index, parameter, ref, reads, writes))
            self._uses = by_inst, by_tensor
        return self._uses

    def _operands(self, inst):
        for name, reads, writes in memory_parameters(inst["i"]):
            value = inst.get(name)
            if name == "dst" and inst["i"].startswith("nc_matmul"):
                reads = inst.get("accumulate") is not False
            for place, one in enumerate(value) if isinstance(value, list) else ((None, value),):
                ref = parse(one, self.tensors)
                if ref is not None:
                    yield name, place, ref, reads, writes
                    for inner in _indices(one):
                        index = parse(inner, self.tensors)
                        if index is not None:
                            yield name, place, index.moved(index.tensor), True, False

    def space(self, ref):
        return self.tensors[ref.tensor].get("space", "hbm")

    def whole(self, ref):
        return is_whole(ref, self.tensors[ref.tensor])

    def bytes_of(self, ref):
        """Bytes of all elements of an operand."""
        return ref.elements() * max(ref.partitions, 1) * element_bytes(ref.dtype or self.tensors[ref.tensor]["dtype"])

    def lines(self):
        """{(line, instruction's name): the places where it occurs}, in the order of the first."""
        if self._lines is None:
            self._lines = {}
            for index, inst in enumerate(self.insts):
                self._lines.setdefault((inst.get("loc", ""), inst["i"]), []).append(index)
        return self._lines

    def fresh_name(self, name):
        n = 1
        while f"{name}.a{n}" in self.tensors:
            n += 1
        return f"{name}.a{n}"

    def touched(self):
        """The tensors that are read, and those that are written."""
        if self._touched is None:
            self._touched = tuple({name for name, uses in self.uses()[1].items() if any(u[how] for u in uses)}
                                  for how in (3, 4))
        return self._touched

    def constant(self, name):
        """True if it is a tensor in HBM that nothing writes."""
        return self.tensors[name].get("space", "hbm") == "hbm" and name not in self.touched()[1]


def _indices(value):
    """The operands from which addresses are read at run time."""
    if isinstance(value, dict):
        for entry in value.get("dynamic", ()):
            yield from (entry[k] for k in ("scalar", "vector", "indirect") if k in entry)
