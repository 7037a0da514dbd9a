"""Places SBUF tensors where the plain placement finds no room: narrow ones side by side.

A tensor of at most 64 partitions may lie at partition 0 or 64, one of at most 32 also at 32 and 96,
together with those it meets in instructions that want the same start (models/partitions).
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np

from .allocator import ALIGN, OutOfSpace

QUADRANT, QUADRANTS = 32, 4
_ATTEMPTS = 24


@dataclass
class Packed:
    """Addresses by id, start partitions of the tensors that may move, bytes used."""

    addresses: dict = field(default_factory=dict)
    starts: dict = field(default_factory=dict)
    peak: int = 0


def pack(items, groups, rows, capacity):
    """Places `items` (allocator.Item; explicit addresses stay) within `capacity` bytes.

    `groups`: by id, the group that starts at one partition, -1 for 0; `rows`: (first partition,
    partitions) by id. Raises allocator.OutOfSpace. Time is quadratic in the number of items.
    """
    masks, starts = _masks(items, groups, rows)
    fixed = [i for i in items if i.address >= 0]
    order = sorted((i for i in items if i.address < 0),
                   key=lambda i: (-i.bytes * masks[i.id].bit_count(), i.start))
    attempts = max(1, min(_ATTEMPTS, 40_000_000 // (len(items) ** 2 + 1)))
    problem = None
    for _ in range(attempts):
        try:
            out = _place(fixed, order, masks, capacity)
        except OutOfSpace as error:  # what found no room chooses first
            problem = problem or error
            order.remove(error.item)
            order.insert(0, error.item)
        else:
            out.starts = starts
            return out
    raise problem


def _span(start, rows):
    """Quadrants that partitions [start, start + rows) lie in, as bits."""
    return sum(1 << q for q in range(start // QUADRANT, -(-(start + rows) // QUADRANT)))


def _masks(items, groups, rows):
    """Quadrants of each item, groups put where least is filled at the same time."""
    births = sorted({i.start for i in items})
    filled = np.zeros((QUADRANTS, len(births)), np.int64)
    masks, members = {}, {}

    def fill(item, mask, sign):
        live = slice(bisect_left(births, item.start), bisect_right(births, item.end))
        for q in range(QUADRANTS):
            if mask >> q & 1:
                filled[q, live] += sign * item.bytes
        return int(filled[:, live].max(initial=0))

    for item in items:
        if groups[item.id] >= 0 and item.address < 0:
            members.setdefault(groups[item.id], []).append(item)
        else:
            masks[item.id] = _span(*rows[item.id])
            fill(item, masks[item.id], 1)
    starts = {}
    for group in sorted(members.values(), key=lambda g: (-sum(i.bytes for i in g), g[0].id)):
        step = 64 if max(rows[i.id][1] for i in group) > QUADRANT else QUADRANT

        def highest(start, group=group):
            most = [fill(i, _span(start, rows[i.id][1]), 1) for i in group]
            for i in group:
                fill(i, _span(start, rows[i.id][1]), -1)
            return max(most)

        best = min(range(0, QUADRANTS * QUADRANT, step), key=highest)
        for item in group:
            starts[item.id] = best
            masks[item.id] = _span(best, rows[item.id][1])
            fill(item, masks[item.id], 1)
    return masks, starts


def _place(fixed, order, masks, capacity):
    """Each item in turn at the lowest address that is free in its quadrants while it lives."""
    out = Packed({i.id: i.address for i in fixed})
    done = np.zeros((5, len(fixed) + len(order)), np.int64)  # start, end, mask, first, last byte
    for k, item in enumerate((*fixed, *order)):
        mask = masks[item.id]
        begin, end, quadrants, low, high = done[:, :k]
        taken = np.flatnonzero((begin <= item.end) & (end >= item.start) & (quadrants & mask != 0))
        at = item.address if item.address >= 0 else _gap(low[taken], high[taken], item.bytes,
                                                         capacity)
        if at is None:
            everything = (*fixed, *order)
            raise OutOfSpace(item, [everything[i] for i in taken])
        done[:, k] = item.start, item.end, mask, at, at + item.bytes
        out.addresses[item.id] = at
        out.peak = max(out.peak, at + item.bytes)
    return out


def _gap(low, high, size, capacity):
    """The lowest aligned address with `size` free bytes beside the intervals [low, high)."""
    by = np.argsort(low, kind="stable")
    ends = np.maximum.accumulate(np.concatenate(([0], high[by])))
    begins = -(-ends // ALIGN) * ALIGN
    fits = np.flatnonzero(begins + size <= np.concatenate((low[by], [capacity])))
    return int(begins[fits[0]]) if fits.size else None
