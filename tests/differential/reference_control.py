"""Computes in NumPy, as the reference, instructions that join cores, registers in memory, and
device_print.
"""

import numpy as np

import alu
import control
from reference import copy_tile, op


@op
def sendrecv(m, a, inst):
    """On one core what is sent arrives. Of two, the first to come here moves both directions."""
    if m.case.cores == 1:
        return copy_tile(m, a["dst"], a["src"])
    if inst.core in m.received:
        return m.store_raw(a["dst"], m.received.pop(inst.core))
    mine = m.raw(a["src"]).copy()
    at = m.case.insts.index(inst)
    other = next(i for i in m.case.insts[at:] if i.op == "sendrecv" and i.core != inst.core)
    theirs = m.raw(other.args["src"]).copy()
    m.received[other.core] = theirs if other.args["recv_from_rank"] == other.core else mine
    m.store_raw(a["dst"], mine if a["recv_from_rank"] == inst.core else theirs)


@op
def sendrecv_compute(m, a, inst):
    """Each core gets the same: the first to come here reduces both."""
    if inst.core not in m.received:
        other = next(i for i in m.case.insts if i.op == "sendrecv_compute" and i.core != inst.core)
        mine, theirs = m.load(a["src"]), m.load(other.args["src"])
        fold = alu.BINARY[inst.args["reduce_op"]]
        m.received[inst.core] = fold(mine, theirs).astype(np.float32)
        m.received[other.core] = fold(theirs, mine).astype(np.float32)
    m.store(a["dst"], m.received.pop(inst.core))


@op
def core_barrier(m, a, inst):
    """No effect on data: the instructions of a case are in an order it allows."""


def _number(dtype, value, bits):
    if dtype.name == "uint32":
        return str(int(bits))
    if dtype.kind in ("int", "bool"):
        return str(int(np.uint32(bits).astype(np.int32)))
    return "nan" if np.isnan(value) else "%.8g" % value


def _shown(items, gap):
    """All, or three of either end around `gap`."""
    return items if len(items) <= 12 else items[:3] + [gap] + items[-3:]


@op
def device_print(m, a, inst):
    view = a["tensor"]
    values, bits = m.load(view), m.bits(view)
    shape = ([view.parts] if view.on_chip else []) + [n for _, n in view.dims]
    text = f"{a['print_prefix']} {view.space}[{' x '.join(map(str, shape))}] {view.dtype.name}\n"
    lines = []
    for row, row_bits in zip(values, bits):
        cells = [_number(view.dtype, v, b) for v, b in zip(row, row_bits)]
        lines.append(f" [{' '.join(_shown(cells, '...'))}]\n")
    m.printed.append(text + "".join(_shown(lines, " ...\n")))


@op
def register_load(m, a, inst):
    m.registers[a["dst"]] = control.wrap(int(m.integers(a["src"])[0, 0]))


@op
def register_store(m, a, inst):
    m.store_bits(a["dst"], np.array([[m.registers[a["src"]] & 0xFFFFFFFF]], np.uint32))
