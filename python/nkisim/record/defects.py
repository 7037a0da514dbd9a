"""Warns where a kernel meets a known defect of AWS's compiler or device, by SDK release
(defects.json).
"""

import functools
import json
import os
import re
from typing import Any


@functools.cache
def table():
    """The rows of defects.json."""
    with open(os.path.join(os.path.dirname(__file__), "defects.json"), encoding="utf-8") as file:
        return json.load(file)["defects"]


class _Seen:
    """The facts that a pattern examines: an instruction's line of the trace, and the program around it."""

    inst: dict[str, Any]
    begins: dict[int, list[int]]
    spaces: dict[str, str]
    born: dict[str, int]
    variables: set[int]

    def __init__(self, header):
        self.cores, self.target = header.get("cores", 1), header["target"]
        self.spaces = {}      # of the tensors
        self.born = {}        # tensor -> instructions before it was made
        self.number = 0       # of the instruction
        self.begins = {}      # core -> numbers of those that begin the open loops
        self.by_hardware = self.transposes = False  # a DMA by the hardware's generator; another that transposes
        self.variables = set()  # registers that count loops
        self.inst = {}

    @property
    def begins_loop(self):
        return self.inst["i"] in ("loop_begin", "while_begin")

    def declare(self, tensor):
        name = tensor["name"]
        self.spaces[name] = tensor["space"]
        self.born[name] = tensor.get("born", 0)

    def step(self):
        begins = self.begins.setdefault(self.inst.get("core", 0), [])
        if self.begins_loop:
            begins.append(self.number)
        elif self.inst["i"] in ("loop_end", "while_end"):
            begins.pop()
        self.number += 1

    @property
    def loops(self):
        """Numbers of the instructions that begin the loops around this one."""
        return self.begins.get(self.inst.get("core", 0), [])


def loop_without_grid(seen):
    """Chips whose cores work in pairs by default (LNC 2) compile a kernel without a grid for the pair."""
    return seen.begins_loop and seen.cores == 1 and seen.target in ("trn2", "trn3")


def nested_loop(seen):
    return seen.begins_loop and bool(seen.loops)


def biased_copy(seen):
    """Seen on trn1 alone; AWS's library has it on later chips, where its tests hold values against NumPy's."""
    return seen.target in ("trn1", "inf2") and seen.inst["i"] == "activation" and (
        seen.inst.get("op") == "copy" and seen.inst.get("bias") not in (None, 0, 0.0))


def dynamic_dma_on_chip(seen):
    if seen.inst["i"] != "dma_copy":
        return False
    operands = [seen.inst[p] for p in ("dst", "src") if isinstance(seen.inst.get(p), dict)]
    return any(o.get("dynamic") and seen.spaces.get(re.split(r"\[", o["tensor"])[0]) != "hbm"
               for o in operands)


def hwdge_during_transpose(seen):
    """The later of a DMA by hardware descriptors and a transpose by other ones."""
    hardware = seen.inst.get("dge_mode") == "hwdge" and seen.inst.get("engine") != "gpsimd"
    seen.by_hardware |= hardware
    seen.transposes |= seen.inst["i"] == "dma_transpose" and not hardware
    return seen.by_hardware and seen.transposes


def _registers(inst):
    """The registers at which operands of an instruction lie."""
    return {entry["register"] for operand in inst.values() if isinstance(operand, dict)
            for entry in operand.get("dynamic", ()) if "register" in entry}


def loop_variable_offset(seen):
    if seen.inst["i"] == "loop_begin":
        seen.variables.add(int(str(seen.inst["register"]).lstrip("r")))
    return bool(seen.variables & _registers(seen.inst))


def _on_trn1(seen):
    return seen.target in ("trn1", "inf2")


def compute_at_register(seen):
    return _on_trn1(seen) and not seen.inst["i"].startswith("dma_") and bool(_registers(seen.inst))


def nested_loop_on_trn1(seen):
    return _on_trn1(seen) and nested_loop(seen)


def tensor_tensor_on_gpsimd(seen):
    return _on_trn1(seen) and seen.inst["i"] == "tensor_tensor" and seen.inst.get("engine") == "gpsimd"


def product_into_older_tile(seen):
    """A product in a loop whose PSUM tile is from before the loop."""
    if not _on_trn1(seen) or seen.inst["i"] != "nc_matmul" or not seen.loops:
        return False
    dst = seen.inst["dst"]
    name = re.split(r"\[", dst["tensor"] if isinstance(dst, dict) else dst)[0]
    return seen.born.get(name, 0) <= seen.loops[0]


def gathered_size(seen):
    return seen.inst["i"] == "local_gather" and seen.inst.get("num_elem_per_idx", 1) != 1 and (
        seen.inst.get("num_valid_indices") is None)


def range_select_settings(seen):
    inst = seen.inst
    return inst["i"] == "range_select" and (
        inst.get("reduce_cmd", "reset_reduce") != "reset_reduce" or
        float(inst.get("on_false_value", _LOWEST)) != _LOWEST)


_LOWEST = -3.4028234663852886e38  # of float32
_PATTERNS = {f.__name__: f for f in (loop_without_grid, nested_loop, biased_copy, dynamic_dma_on_chip,
                                     hwdge_during_transpose, loop_variable_offset, compute_at_register,
                                     nested_loop_on_trn1, tensor_tensor_on_gpsimd, product_into_older_tile,
                                     gathered_size, range_select_settings)}


def _lines(program):
    """The program as it was recorded, line by line of its trace."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.jsonl")
        program.save(path, "kernel", "", {}, False)
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def found_defects(program, release):
    """(file, line, message) of each defect that SDK 2.`release` has and the program meets, at the first
    instruction that does."""
    rows = [row for row in table() if row["first"] <= release and (release <= row["last"] or not row["last"])]
    seen: _Seen | None = None
    for line in _lines(program) if rows else ():
        if seen is None:  # a trace begins with its header
            seen = _Seen(line)
        elif "tensor" in line and "i" not in line:
            seen.declare(line["tensor"])
        elif "i" in line:
            seen.inst = line
            for row in [r for r in rows if _PATTERNS[r["pattern"]](seen)]:
                rows.remove(row)
                file, _, number = line.get("loc", "nkisim:0").rpartition(":")
                yield file, int(number or 0), (
                    f"{line['i']}: the {row.get('of', 'compiler')} of SDK 2.{release} {row['says']} (known defect: "
                    f"{row['issue']}); {row['instead']} avoids it")
            seen.step()
