"""Fills the profile tables of the PE array's throttling."""

import numpy as np

from ..session import FS_PER_NS
from .common import ns

LEVELS = 100  # k of n: a limit in hundredths
PE_ARRAY = 1  # unit


def stretches(s, core):
    """Rows of the parts in each stretch without an unthrottled instruction of the PE array."""
    p = s.parts
    rows = np.flatnonzero((p.core == core) & (p.unit == PE_ARRAY) & (p.busy_to > p.busy_from))
    rows = rows[np.argsort(p.busy_from[rows], kind="stable")]
    slowed = p.throttled[rows] > 0
    edges = np.flatnonzero(slowed[1:] != slowed[:-1]) + 1
    return [part for part in np.split(rows, edges) if len(part) and p.throttled[part[0]] > 0]


def limit(s, rows):
    """The share of full speed at which the array ran these parts."""
    p = s.parts
    busy = int((p.busy_to - p.busy_from)[rows].sum())
    return 1 - int(p.throttled[rows].sum()) / busy


def throttle(s):
    """A row per stretch of slowed instructions; k/n is the speed the limit left on average."""
    p, out = s.parts, {k: [] for k in ("duration", "k", "n", "timestamp", "type", "pcore_idx")}
    for core in range(s.cores):
        for rows in stretches(s, core):
            start, end = int(p.busy_from[rows[0]]), int(p.busy_to[rows].max())
            for key, value in (("duration", end // FS_PER_NS - start // FS_PER_NS),
                               ("k", round(LEVELS * limit(s, rows))), ("n", LEVELS),
                               ("timestamp", int(ns(start))), ("type", "activity_0"),
                               ("pcore_idx", core)):
                out[key].append(value)
    return out


def throttle_summary(s):
    """A row per core with matmuls; the limit is weighted by the time of each stretch."""
    events, total = throttle(s), s.end_fs / FS_PER_NS
    out = {k: [] for k in ("nc_idx", "throttle_type", "throttle_active_time_ns",
                           "throttle_active_time_percent",
                           "max_achievable_util_with_throttling_percent")}
    for core in range(s.cores):
        mine = [(d, k / n) for d, k, n, c in zip(events["duration"], events["k"], events["n"],
                                                 events["pcore_idx"]) if c == core]
        active = sum(d for d, _ in mine)
        if not active:
            continue
        for kind in ("activity_0", "all"):
            for key, value in zip(out, (core, kind, active, active / total,
                                        sum(d * u for d, u in mine) / active)):
                out[key].append(value)
    return out
