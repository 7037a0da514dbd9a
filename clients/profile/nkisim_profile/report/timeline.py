"""Computes the slices of the HTML report's timeline: critical path, engines, DMA queues."""

import math

import numpy as np

from ..session import CAUSES, FS_PER_NS, UNITS
from ..tables.engines import producers

TICK_FS = 10_000  # finest resolution of the page's times
NOT_WAITS = ("busy", "fixed_latency", "throttle", "end")


def tick_fs(end_fs):
    """Femtoseconds per tick: the finest with which the run fits 31 bits."""
    return TICK_FS * 2 ** max(0, math.ceil(math.log2(max(1, end_fs) / TICK_FS / (2 ** 31 - 1))))


def rows_of(start, end):
    """First-fit rows for slices sorted by start."""
    free, rows = [], np.zeros(len(start), np.int64)
    if (start[1:] >= end[:-1]).all():
        return rows
    for i, (a, b) in enumerate(zip(start.tolist(), end.tolist())):
        for row, until in enumerate(free):
            if until <= a:
                free[row] = b
                rows[i] = row
                break
        else:
            rows[i] = len(free)
            free.append(b)
    return rows


class Texts:
    """Texts by number, each stored once."""

    def __init__(self, texts):
        self.all = list(texts)
        self._ids = {text: i for i, text in enumerate(self.all)}

    def __getitem__(self, text):
        if text not in self._ids:
            self._ids[text] = len(self.all)
            self.all.append(text)
        return self._ids[text]


class Tracks:
    """Timeline rows and their slices, as flat columns; the slices of a row follow each other."""

    KEYS = ("start", "end", "name", "detail", "inst", "cause", "wait", "event")

    def __init__(self):
        self.names, self.first, self._chunks = [], [0], {key: [] for key in self.KEYS}

    def add(self, family, columns):
        """`columns` are arrays by key; overlapping slices go to further rows."""
        order = np.argsort(columns["start"], kind="stable")
        rows = rows_of(columns["start"][order], columns["end"][order])
        for row in range(int(rows.max(initial=-1)) + 1):
            mine = order[rows == row]
            self.names.append(f"{family} · {row}" if row else family)
            self.first.append(self.first[-1] + len(mine))
            for key in self.KEYS:
                self._chunks[key].append(np.broadcast_to(columns[key], rows.shape)[mine])

    def column(self, key):
        return np.concatenate(self._chunks[key] or [np.zeros(0, np.int64)])


def largest_waits(s):
    """Per part: the number of the cause that most of the wait before it was charged to, and fs."""
    numbers = [i for i, c in enumerate(CAUSES) if c not in NOT_WAITS]
    best, time = np.zeros(len(s.parts), np.int64), np.zeros(len(s.parts), np.int64)
    for number in numbers:
        charged = getattr(s.charged, CAUSES[number])
        larger = charged > time
        best[larger], time[larger] = number, charged[larger]
    return best, time


def _critical_path(s, core, texts):
    path = s.path
    rows = np.flatnonzero(path.core == core)
    causes = np.array([texts[c.replace("_", " ")] for c in CAUSES])
    numbers, where = np.unique(path.where[rows], return_inverse=True)
    names = np.array([texts[s.queue_names.get((core, n), "")] for n in numbers.tolist()], np.int64)
    return {"start": getattr(path, "from")[rows], "end": path.to[rows],
            "name": causes[path.cause[rows]], "detail": names[where], "inst": path.inst[rows],
            "cause": 0, "wait": 0, "event": -1}


def _engine(s, rows, waits):
    p = s.parts
    return {"start": p.start[rows], "end": p.end[rows], "name": p.opcode[rows],
            "detail": p.operands[rows], "inst": p.inst[rows], "cause": waits[0][rows],
            "wait": waits[1][rows], "event": rows}


def _queue(s, rows, texts):
    t = s.transfers
    moved = [texts[f"{size:,} bytes in {packets:,} packets"] for size, packets in
             zip(t.bytes[rows].tolist(), t.packets[rows].tolist())]
    return {"start": t.trigger_start[rows], "end": t.visible[rows],
            "name": s.insts.op[t.inst[rows]], "detail": np.array(moved), "inst": t.inst[rows],
            "cause": 0, "wait": 0, "event": len(s.parts) + rows}


def _collectives(s, texts):
    """A rank's operations: once, since each of its cores has triggered them."""
    c = s.collectives
    rows = np.flatnonzero(c.core == 0)
    said = [f"{algorithm}, {group}" + (f"; waited for rank {last}" if last >= 0 else "")
            for algorithm, group, last in zip(s.text(c.algorithm[rows]), s.text(c.group[rows]),
                                              c.waited_for[rows].tolist())]
    return {"start": c.start[rows], "end": c.end[rows], "name": c.operation[rows],
            "detail": np.array([texts[t] for t in said], np.int64), "inst": c.inst[rows],
            "cause": CAUSES.index("wait_rank"), "wait": (c.ready - c.start)[rows], "event": -1}


def tracks_of(s, texts):
    tracks, waits = Tracks(), largest_waits(s)
    for core in range(s.cores):
        prefix = f"core {core} " if s.cores > 1 else ""
        tracks.add(prefix + "Critical path", _critical_path(s, core, texts))
        for unit, name in enumerate(UNITS):
            rows = np.flatnonzero((s.parts.core == core) & (s.parts.unit == unit))
            tracks.add(prefix + name, _engine(s, rows, waits))
        mine = s.transfers.core == core
        for queue in sorted(set(s.transfers.queue[mine].tolist())):
            rows = np.flatnonzero(mine & (s.transfers.queue == queue))
            tracks.add(prefix + s.queue_names[core, queue], _queue(s, rows, texts))
    if len(s.collectives):
        tracks.add("Collectives", _collectives(s, texts))
    return tracks


def slice_of_producer(s, event):
    """Per slice the slice it waited for, -1 for none; `event` is the part's or transfer's number."""
    parts, transfers = producers(s)
    wanted = np.where(parts >= 0, parts, np.where(transfers >= 0, len(s.parts) + transfers, -1))
    slices = np.full(len(s.parts) + len(s.transfers) + 1, -1)
    slices[event[event >= 0]] = np.flatnonzero(event >= 0)
    is_part = (event >= 0) & (event < len(s.parts))
    out = np.full(len(event), -1)
    out[is_part] = slices[wanted[event[is_part]]]
    return out


def timeline(s, pack, texts):
    """The page's `timeline`: columns in ticks, tables of the static instructions."""
    tick = tick_fs(s.end_fs)
    tracks = tracks_of(s, texts)
    start = tracks.column("start") // tick
    event = tracks.column("event")
    i = s.insts
    return {
        "tick_ns": tick / FS_PER_NS, "tracks": tracks.names, "first": tracks.first,
        "causes": [c.replace("_", " ") for c in CAUSES],
        "start": pack.add(start, delta=True),
        "duration": pack.add(tracks.column("end") // tick - start),
        "name": pack.add(tracks.column("name")), "detail": pack.add(tracks.column("detail")),
        "inst": pack.add(tracks.column("inst"), delta=True),
        "cause": pack.add(tracks.column("cause"), "u1"),
        "wait": pack.add(tracks.column("wait") // tick),
        "producer": pack.add(slice_of_producer(s, event), delta=True),
        "insts": {"op": pack.add(i.op), "label": pack.add(i.label), "file": pack.add(i.file),
                  "line": pack.add(i.line), "trace_line": pack.add(i.trace_line, delta=True),
                  **({"region": pack.add(i.region)} if s.has_regions else {})},
    }
