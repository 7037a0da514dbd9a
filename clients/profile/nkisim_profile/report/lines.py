"""Sums the simulated time by line of the kernel's source (else by instruction), and by named
region.
"""

import numpy as np

from ..tables.engines import ENGINES

HOT = 40  # rows of the table
WAITS = ("wait_engine", "wait_dma", "hbm", "dma_latency", "dma_engines", "port", "semaphore",
         "own_path", "issue")


def grouped(s, of_inst, groups):
    """Per group: executions, and engine time, waits and critical path in fs."""
    waits = sum(s.charged.columns[c] for c in WAITS)

    def sums(index, weights):
        # Picoseconds: sums of femtoseconds would leave the exact range of a double.
        return (np.bincount(of_inst[index], weights // 1000, groups) * 1000).tolist()

    p, path = s.parts, s.path
    known = path.inst >= 0
    return {"count": np.bincount(of_inst[p.inst], minlength=groups).tolist(),
            "busy": sums(p.inst, p.end - p.start), "wait": sums(p.inst, waits),
            "critical": sums(path.inst[known], (path.to - getattr(path, "from"))[known])}


def _rows(sums, names):
    keys = list(sums)
    rows = [dict(zip(["name", *keys], row)) for row in zip(names, *sums.values())]
    return sorted(rows, key=lambda r: (-r["critical"], -r["busy"]))


def regions(s):
    """Rows by region, in the order in which they begin; none if the kernel names none."""
    if not s.has_regions:
        return []
    groups, first, of_inst = np.unique(s.insts.region, return_index=True, return_inverse=True)
    sums = grouped(s, of_inst.ravel(), len(groups))
    rows = [dict(zip(["name", *sums], row)) for row in zip(s.text(groups.tolist()), *sums.values())]
    return [rows[k] for k in np.argsort(first)]


def source_lines(s):
    """The page's `lines`: hot rows, and every line of the files that are at hand."""
    i = s.insts
    has_file = np.array([bool(t) for t in s.texts])[i.file]
    if not has_file.any():
        key = np.stack([i.engine, i.op])
        groups, of_inst = np.unique(key, axis=1, return_inverse=True)
        names = [f"{s.texts[op]} on {ENGINES[e]}" for e, op in groups.T.tolist()]
        return {"by": "instruction", "files": {},
                "rows": _rows(grouped(s, of_inst.ravel(), len(names)), names)[:HOT]}
    groups, of_inst = np.unique(np.stack([i.file, i.line]), axis=1, return_inverse=True)
    names = [f"{s.texts[f]}:{line}" if s.texts[f] else "(no source)" for f, line in
             groups.T.tolist()]
    rows = _rows(grouped(s, of_inst.ravel(), len(names)), names)
    files = {}
    for file, text in s.sources.items():
        mine = {int(r["name"].rpartition(":")[2]): r for r in rows
                if r["name"].rpartition(":")[0] == file}
        if mine:
            files[file] = {"lines": text.splitlines(), "time": mine}
    return {"by": "source line", "rows": rows[:HOT], "files": files}
