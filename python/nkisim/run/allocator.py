"""Places on-chip tensors: by liveness, reusing freed space as late as possible.

Reuse is what makes a later write wait for earlier reads, so the space that has been free longest is
taken first (a rolling pointer): double buffering then works as in compiled kernels. Tensors with an
explicit address keep it to the byte.
"""

import bisect
import heapq
from dataclasses import dataclass, field
from itertools import accumulate

ALIGN = 32
_SMALL = 4  # a tile of at most this part of the largest is small


@dataclass
class Item:
    """One tensor to place; times are instruction indices, both ends included."""

    id: int
    bytes: int
    start: int
    end: int
    name: str = ""
    where: str = ""
    address: int = -1  # explicit address, -1 = to be chosen


@dataclass
class Placement:
    addresses: dict = field(default_factory=dict)
    peak: int = 0


class OutOfSpace(Exception):
    def __init__(self, item, live):
        super().__init__(item.name)
        self.item = item
        self.live = live


def place(items, capacity, bank=0, strict=True, thorough=True):
    """Addresses for `items` within `capacity` bytes; `bank` > 0 places PSUM tiles.

    Tries the rolling pointer first, then first fit, then large and small tiles apart, then
    (thorough; quadratic) largest first unless more lives at a time than there is.
    Raises OutOfSpace, or, with strict=False, grows beyond the capacity.
    """
    fixed = [i for i in items if i.address >= 0]
    free = sorted((i for i in items if i.address < 0), key=lambda i: (i.start, i.id))
    problem = None
    for rolling in (True, False):
        try:
            return _in_time_order(free, fixed, capacity, bank, rolling)
        except OutOfSpace as error:
            problem = problem or error
    if not (fixed or bank):
        try:
            return _in_zones(free, capacity)
        except OutOfSpace:
            pass
    if not thorough or strict and _most_live(items) > capacity:
        raise problem
    try:
        return _largest_first(free, fixed, capacity, bank)
    except OutOfSpace:
        if strict:
            raise problem from None
    return _in_time_order(free, fixed, 1 << 62, bank, False)


def _most_live(items):
    """The most bytes that live at a time: no placement needs less."""
    changes = sorted([(i.start, 1, i.bytes) for i in items] + [(i.end, 2, -i.bytes) for i in items])
    return max(accumulate(change for _, _, change in changes), default=0)


def _in_zones(items, capacity):
    """Small tiles above all large ones, lest they break up the space that those need."""
    small = max((i.bytes for i in items), default=0) // _SMALL
    out = _in_time_order([i for i in items if i.bytes > small], [], capacity, 0, False)
    floor = -(-out.peak // ALIGN) * ALIGN
    upper = _in_time_order([i for i in items if i.bytes <= small], [], capacity - floor, 0, True)
    out.addresses.update({number: floor + at for number, at in upper.addresses.items()})
    out.peak = floor + upper.peak
    return out


def _in_time_order(items, fixed, capacity, bank, rolling):
    out = Placement({i.id: i.address for i in fixed})
    out.peak = max((i.address + i.bytes for i in fixed), default=0)
    live = []  # (address, end address, id), sorted
    expiry = []  # heap of (end time, address, end address, id)
    by_id = {i.id: i for i in items}
    pointer = 0
    for item in items:
        while expiry and expiry[0][0] < item.start:
            _, a, b, gone = heapq.heappop(expiry)
            live.pop(bisect.bisect_left(live, (a, b, gone)))
        overlapping = [f for f in fixed if f.start <= item.end and f.end >= item.start]
        taken = live if not overlapping else _merged(
            live + [(f.address, f.address + f.bytes, f.id) for f in overlapping])
        at = _find(taken, item.bytes, capacity, bank, pointer if rolling else 0)
        if at is None:
            raise OutOfSpace(item, [by_id[e[3]] for e in expiry] + overlapping)
        end = at + item.bytes
        pointer = end
        out.addresses[item.id] = at
        out.peak = max(out.peak, end)
        bisect.insort(live, (at, end, item.id))
        heapq.heappush(expiry, (item.end, at, end, item.id))
    return out


def _largest_first(items, fixed, capacity, bank):
    out = Placement({i.id: i.address for i in fixed})
    placed = [(i.address, i.address + i.bytes, i) for i in fixed]
    for item in sorted(items, key=lambda i: (-i.bytes, i.start)):
        taken = _merged([(a, b, x.id) for a, b, x in placed
                         if x.start <= item.end and x.end >= item.start])
        at = _find(taken, item.bytes, capacity, bank, 0)
        if at is None:
            raise OutOfSpace(item, [x for _, _, x in placed
                                    if x.start <= item.end and x.end >= item.start])
        out.addresses[item.id] = at
        placed.append((at, at + item.bytes, item))
    out.peak = max((b for _, b, _ in placed), default=0)
    return out


def _merged(intervals):
    """Sorted; overlapping ones (of fixed tensors) as one."""
    out = []
    for a, b, number in sorted(intervals):
        if out and a < out[-1][1]:
            out[-1] = (out[-1][0], max(b, out[-1][1]), out[-1][2])
        else:
            out.append((a, b, number))
    return out


def _find(taken, size, capacity, bank, pointer):
    if bank:
        return _find_bank(taken, size, capacity, bank, pointer)
    at = _first_gap(taken, size, capacity, pointer)
    return _first_gap(taken, size, capacity, 0) if at is None and pointer else at


def _first_gap(taken, size, capacity, pointer):
    """The lowest place from `pointer` on between the sorted intervals `taken`."""
    i = bisect.bisect_left(taken, (pointer,))
    cursor = pointer
    if i:  # the intervals do not overlap, or are kept merged
        cursor = max(pointer, taken[i - 1][1])
    for k in range(i, len(taken) + 1):
        begin = -(-cursor // ALIGN) * ALIGN
        if begin + size <= (taken[k][0] if k < len(taken) else capacity):
            return begin
        if k < len(taken):
            cursor = max(cursor, taken[k][1])
    return None


def _find_bank(taken, size, capacity, bank, pointer):
    """Whole banks first, round robin; then any place that does not straddle a bank."""
    banks = capacity // bank if capacity < (1 << 40) else 64
    need = -(-size // bank)
    busy = [False] * (banks + need)
    for a, b, _ in taken:
        for k in range(a // bank, min(-(-b // bank), len(busy))):
            busy[k] = True
    first = -(-pointer // bank)
    for step in range(banks):
        k = (first + step) % banks
        if k + need <= banks and not any(busy[k:k + need]):
            return k * bank
    if size > bank:
        return None
    for k in range(banks):
        cursor = k * bank
        for a, b in sorted((a, b) for a, b, _ in taken if a < (k + 1) * bank and b > k * bank):
            if cursor + size <= a:
                return cursor
            cursor = max(cursor, -(-b // ALIGN) * ALIGN)
        if cursor + size <= (k + 1) * bank:
            return cursor
    return None
