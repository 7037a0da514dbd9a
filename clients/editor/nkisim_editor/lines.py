"""Sums the simulated time of a run by line of one source file."""

import numpy as np

from nkisim_profile.report.lines import grouped
from nkisim_profile.session import ENGINES, FS_PER_NS


def by_line(session, path):
    """{line: {"count", "busy_ns", "dma_ns", "critical_ns", "share", "ops"}} of the file at `path`.

    count: executions; busy_ns: engines' time in its instructions; dma_ns: from asking for a transfer
    until its data are seen, the longest at a time counting once per queue; critical_ns and share: of the
    run's critical path. ops: {"instruction on engine": executions}.
    """
    insts = session.insts
    # A session names files without the folders of whoever recorded it.
    files = np.array([bool(text) and f"/{path}".endswith(f"/{text}") for text in session.texts] or [False])
    mine = files[insts.file]
    groups = np.where(mine, insts.line, 0).astype(np.int64)
    size = int(groups.max(initial=0)) + 1
    sums = grouped(session, groups, size)
    transfers = session.transfers
    moved = np.bincount(groups[transfers.inst], (transfers.visible - transfers.first_packet) // 1000,
                        size) * 1000 if len(transfers) else np.zeros(size)
    executed = np.unique(np.stack([session.parts.inst, session.parts.core, session.parts.sequence]), axis=1)
    runs = np.bincount(executed[0], minlength=len(insts))  # an instruction has several parts
    found = {}
    for line in sorted(set(groups[mine].tolist()) - {0}):
        ops = {}
        for i in np.nonzero(groups == line)[0].tolist():
            name = f"{session.texts[insts.op[i]]} on {ENGINES[insts.engine[i]]}"
            ops[name] = ops.get(name, 0) + int(runs[i])
        found[line] = {"count": sum(ops.values()), "busy_ns": sums["busy"][line] / FS_PER_NS,
                       "dma_ns": float(moved[line]) / FS_PER_NS, "critical_ns": sums["critical"][line] / FS_PER_NS,
                       "share": sums["critical"][line] / session.end_fs if session.end_fs else 0.0, "ops": ops}
    return found
