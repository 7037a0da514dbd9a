"""Moves chosen instructions next to each other; those that depend on them follow in their old
order.
"""

from .facts import acts_elsewhere


def together(program, indices):
    """The order of all instructions in which those at `indices` follow each other where the last of them was, as
    (before, after): the instructions ahead of them and behind them. None if one of them needs another's result."""
    chosen, first, last = set(indices), min(indices), max(indices)
    before, behind, tainted = list(range(first)), [], set()
    for index in range(first, last + 1):
        touched = [(r.tensor, writes) for _, _, r, _, writes in program.operands(index)]
        if index in chosen:
            own = {t for t, writes in touched if writes}
            if tainted & {t for t, _ in touched} - own or tainted & own & _late(program, behind):
                return None
            tainted |= own
        elif (acts_elsewhere(program.insts[index]) or "after" in program.insts[index]
              or tainted & {t for t, _ in touched}):
            if acts_elsewhere(program.insts[index]):
                return None
            behind.append(index)
            tainted |= {t for t, writes in touched if writes or not program.constant(t)}
        else:
            before.append(index)
    return before, [*behind, *range(last + 1, len(program.insts))]


def _late(program, behind):
    return {r.tensor for i in behind for _, _, r, _, _ in program.operands(i)}
