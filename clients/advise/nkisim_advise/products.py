"""Proposes for `nkisim advise` another order of matmuls, so that weights in the PE array serve
several tiles.
"""

from .edit import Edit
from .order import together

SHARED = (2, 4, 8)


def edits(program):
    if not program.straight or not program.open:
        return
    for (line, name), places in program.lines().items():
        if name != "nc_matmul":
            continue
        seen = set()
        for most in SHARED:
            windows = _windows(program, places, most)
            longest = max(map(len, windows), default=1)
            if longest < 2 or longest in seen:
                continue
            seen.add(longest)
            yield Edit("weights", line, name, f"use each stationary tile for {longest} tiles of the result before the "
                       f"next is loaded: {longest} accumulation groups in PSUM at once, the loop over them innermost",
                       _interleave(line, most), f"weights {line}")


def _groups(program, places):
    """Runs of products into one place of PSUM: (dst, stationary operands, indices)."""
    out = []
    for index in places:
        operands = {p: r for p, _, r, _, _ in program.operands(index)}
        dst, weights = operands.get("dst"), operands.get("stationary")
        if dst is None or weights is None or dst.opaque or weights.opaque:
            return []
        if out and out[-1][0] == dst and program.insts[index].get("accumulate"):
            out[-1][1].append(weights)
            out[-1][2].append(index)
        else:
            out.append((dst, [weights], [index]))
    return out


def _windows(program, places, most):
    """Neighbouring groups with the same stationary tiles, at most `most`, each into a tensor of its own."""
    out, window = [], []
    for group in _groups(program, places):
        if (window and len(window) < most and group[1] == window[0][1]
                and group[0].tensor not in {g[0].tensor for g in window}):
            window.append(group)
        else:
            out.append(window)
            window = [group]
    return [w for w in [*out, window] if len(w) > 1]


def _interleave(line, most):
    def apply(program):
        changed = False
        while True:
            places = program.lines().get((line, "nc_matmul"), ())
            windows = [w for w in _windows(program, places, most) if not _done(w)]
            orders = [(w, together(program, [i for g in w for i in g[2]])) for w in windows]
            usable = _apart([(w, o) for w, o in orders if o])
            if not usable:
                return program if changed else None
            program, changed = program.changed(_rewritten(program, usable)), True
    return apply


def _done(window):
    """True if the groups follow step by step already, which leaves groups of one product each."""
    return all(len(g[2]) == 1 for g in window)


def _apart(found):
    """Windows that do not overlap."""
    out, end = [], -1
    for window, order in found:
        first, last = min(window[0][2]), max(window[-1][2])
        if first > end:
            out.append((window, order))
            end = last
    return out


def _rewritten(program, usable):
    insts, at = [], 0
    for window, (before, after) in usable:
        first, last = min(window[0][2]), max(window[-1][2])
        insts += program.insts[at:first]
        insts += [program.insts[i] for i in before if i >= first]
        insts += [program.insts[i] for step in zip(*(g[2] for g in window)) for i in step]
        insts += [program.insts[i] for i in after if i <= last]
        at = last + 1
    return insts + program.insts[at:]
