"""Computes the HTML report's curves of memory use and queue length, and its maps of addresses over
time.
"""

import numpy as np

from ..session import FS_PER_NS
from ..tables import TABLES
from ..tables.memory import lifetimes
from .timeline import tick_fs

POINTS = 20_000  # of a curve
GB = 1e9


def reduced(time, value, end, mean):
    """A step curve of at most POINTS points: of each stretch the mean, or the largest value."""
    if len(time) <= POINTS:
        return time, value
    edges = np.linspace(0, end, POINTS + 1)
    if mean:
        area = np.concatenate([[0], np.cumsum(value[:-1] * np.diff(time))])
        return edges[:-1], np.diff(np.interp(edges, time, area)) / np.diff(edges)
    stretch = np.clip(np.searchsorted(edges, time, side="right") - 1, 0, POINTS - 1)
    largest = np.zeros(POINTS)
    np.maximum.at(largest, stretch, value)
    # The value at the begin of a stretch counts, too.
    before = np.searchsorted(time, edges[:-1], side="right") - 1
    return edges[:-1], np.maximum(largest, np.where(before >= 0, value[before], 0))


def curves(s, pack):
    """Per core and quantity: times in ticks, values, and what they are."""
    tick, end, out = tick_fs(s.end_fs), s.end_fs // FS_PER_NS, []
    for name, unit, table, key, scale, mean in (
            ("HBM traffic", "GB/s", "HbmUsage", "current_throughput", 1 / GB, True),
            ("DMAs pending", "", "PendingDma", "value", 1, False),
            ("SBUF in use", "%", "SbufUsage", "avg_util_percent", 100, False),
            ("PSUM in use", "%", "PsumUsage", "avg_util_percent", 100, False)):
        columns = TABLES[table](s)
        for core in range(s.cores):
            mine = np.asarray(columns["pcore_idx"]) == core
            if not mine.any():
                continue
            time, value = reduced(np.asarray(columns["timestamp"], float)[mine],
                                  np.asarray(columns[key], float)[mine] * scale, end, mean)
            out.append({"name": f"core {core} {name}" if s.cores > 1 else name, "unit": unit,
                        "averaged": mean and int(mine.sum()) > POINTS,
                        "time": pack.add((time * FS_PER_NS // tick).astype(np.int64), delta=True),
                        "value": pack.add(value, "f4")})
    return out


def maps(s, pack):
    """Core 0's SBUF and PSUM: a rectangle per tensor, from first to last use over its addresses."""
    t, tick = s.tensors, tick_fs(s.end_fs)
    first, last = lifetimes(s)
    spaces, out = np.array(s.text(t.space), dtype=object), []
    for name, space, size in (("SBUF map", "sbuf", s.machine["sbuf_partition_bytes"]),
                              ("PSUM map", "psum", s.machine.get("psum_banks", 8) * s.machine["psum_bank_bytes"])):
        mine = np.flatnonzero((spaces == space) & (last >= 0) & (t.core == 0))
        if len(mine):
            texts = [f"{s.texts[t.name[i]]}: {s.texts[t.dtype[i]]} {s.texts[t.shape[i]]}, "
                     f"{t.bytes[i]:,} bytes per partition at {t.address[i]:#x}"
                     for i in mine.tolist()]
            out.append({"name": name, "size": size, "texts": texts,
                        "used": int((t.address + t.bytes)[mine].max()),
                        "start": pack.add(first[mine] // tick), "end": pack.add(last[mine] // tick),
                        "low": pack.add(t.address[mine]), "bytes": pack.add(t.bytes[mine])})
    return out
