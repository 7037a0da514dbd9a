"""Holds functions that the profile tables share: the schema, ids, and sums over time."""

import json
import pathlib

import numpy as np

from ..session import FS_PER_NS

SCHEMA = json.loads((pathlib.Path(__file__).parents[1] / "schema_7_4_0.json").read_text())["tables"]
VERSION = "7.4.0"
NS_PER_S = 1_000_000_000
# Ids are unique over the tables: what, core, number and part in one integer.
PART_ID, TRANSFER_ID, PACKET_ID = 1 << 52, 2 << 52, 3 << 52


def ns(fs):
    """Femtoseconds as whole nanoseconds, rounded down."""
    return np.asarray(fs, dtype=np.int64) // FS_PER_NS


def part_ids(s):
    p = s.parts
    return PART_ID + (p.core << 46) + (p.sequence << 14) + (p.engine << 10) + p.part


def transfer_ids(core, sequence):
    return TRANSFER_ID + (core << 46) + sequence


def steps(times, changes):
    """A running sum: the distinct times and the value from each on."""
    times, changes = np.asarray(times), np.asarray(changes)
    if not len(times):
        return times, changes
    order = np.argsort(times, kind="stable")
    times, values = times[order], np.cumsum(changes[order])
    last = np.append(times[1:] != times[:-1], True)
    return times[last], values[last]


class RowCollector:
    """Columns of which each core adds a piece; there is at least one."""

    def __init__(self, *names):
        self._pieces = {name: [] for name in names}

    def add(self, **pieces):
        for name, values in pieces.items():
            self._pieces[name].append(np.asarray(values))

    def columns(self):
        return {name: pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
                for name, pieces in self._pieces.items()}


def merged(start, end):
    """The union of intervals as two arrays."""
    start, end = np.asarray(start), np.asarray(end)
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    first = np.append(True, start[1:] > reach[:-1])
    return start[first], reach[np.append(np.flatnonzero(first)[1:] - 1, len(start) - 1)]


def rate(size, time):
    """Bytes per second of transfers of `size` bytes in `time` ns."""
    time = np.asarray(time)
    return np.divide(size * NS_PER_S, time, out=np.zeros(len(size)), where=time > 0)
