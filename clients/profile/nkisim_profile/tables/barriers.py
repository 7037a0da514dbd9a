"""Fills the profile table of barriers between the two physical cores of a logical core."""

import numpy as np

from ..session import ENGINES
from .common import ns, part_ids

OPCODE = "PSEUDO_CORE_BARRIER"


def core_barriers(s):
    """A row per core and barrier. nkisim gives barriers no semaphore of their own: 0."""
    p = s.parts
    opcodes = np.array(s.text(p.opcode), dtype=object)
    rows = np.flatnonzero(opcodes == OPCODE)
    start, end = ns(p.start[rows]), ns(p.end[rows])
    texts = s.text(p.operands[rows])
    return {"start_ts": start, "end_ts": end, "duration_ns": end - start,
            "engine_name": [ENGINES[e] for e in p.engine[rows]], "id": part_ids(s)[rows],
            "semaphore": np.zeros(len(rows), np.int64),
            "compiler_pc": s.insts.trace_line[p.inst[rows]],
            "compiler_opcode": [OPCODE] * len(rows),
            "compiler_operands": [t.removeprefix(OPCODE + " ") for t in texts],
            "pcore_idx": p.core[rows]}
