"""Writes the HTML report of a run of several ranks: a row for each rank, its waits, and the
critical path.
"""

import html
import json
import pathlib
import re

from ..session import FS_PER_NS
from ..tables.common import merged

PAGE = pathlib.Path(__file__).parent / "page"
LANES = 4000  # stretches of a lane that are distinguished
SHOWN = 2000  # rows of the tables


def busy(start, end, run):
    """The union of intervals in ns, gaps too small to be seen closed."""
    from_, to = merged(start, end + run // LANES)
    return [[a / FS_PER_NS, b / FS_PER_NS]
            for a, b in zip(from_.tolist(), (to - run // LANES).tolist())]


def percent(part, whole):
    return f"{100 * part / max(1, whole):.1f} %"


def covered(operations, start, end):
    """The time that at least one operation takes from its `start` to its `end`: they overlap."""
    from_, to = merged(*([op[k] for op in operations] for k in (start, end)))
    return int(sum(to) - sum(from_))


def lane(rank, s, operations):
    summary = s.totals()
    engine = max(("tensor", "vector", "scalar", "gpsimd", "sync"),
                 key=lambda e: summary[f"{e}_engine_active_time"])
    mine = [op for op in operations if op["rank"] == rank]
    waiting = covered(mine, "start", "ready")
    first, last = s.facts.get("span_fs", (0, s.end_fs))
    return {
        "rank": rank, "end": s.end_fs / FS_PER_NS, "latency": (last - first) / FS_PER_NS,
        "operations": [{k: op[k] / FS_PER_NS for k in ("start", "ready", "end")}
                       | {k: op[k] for k in ("waited_for", "operation", "algorithm", "group")}
                       for op in mine],
        "engines": busy(s.parts.start, s.parts.end, s.end_fs),
        "dma": busy(s.lanes.start, s.lanes.end, s.end_fs),
        "inside": percent(covered(mine, "trigger_end", "end") - waiting, s.end_fs),
        "waiting": percent(waiting, s.end_fs),
        "busiest": engine, "busy": percent(summary[f"{engine}_engine_active_time_percent"], 1)}


def rows(operations):
    """A row per operation, of the rank that came last."""
    groups = {}
    for op in operations:
        groups.setdefault(op["id"], []).append(op)
    for number, ops in sorted(groups.items()):
        last, first = max(ops, key=lambda op: op["start"]), min(ops, key=lambda op: op["start"])
        us = [f"{t / FS_PER_NS / 1000:.3f} us" for t in
              (last["start"], last["end"] - last["start"], last["start"] - first["start"])]
        yield [str(number), last["operation"], last["algorithm"], last["group"],
               f"{max(last['input'], last['output']):,}", us[0], us[1], str(last["rank"]),
               f"{us[2]} (rank {first['rank']})" if last["start"] > first["start"] else ""]


def render(world, title=""):
    """The page of the ranks of a run; `title`: instead of their trace's file."""
    operations = list(world.operations())
    one = next(iter(world.by_rank.values()))
    trace = pathlib.Path(one.facts.get("trace") or "trace").name
    shared = world.ranks - len(world.by_rank)
    facts = f"{world.ranks} ranks of {one.machine['config']}, {world.latency_us():.3f} us"
    if shared:
        facts += f"; {shared} of them are as another one and not shown"
    data = {
        "facts": facts, "end": world.end_fs / FS_PER_NS,
        "ranks": [lane(rank, s, operations) for rank, s in world.by_rank.items()],
        "operations": list(rows(operations))[:SHOWN],
        "path": [{"rank": p["rank"], "from": p["from_fs"] / FS_PER_NS, "to": p["to_fs"] / FS_PER_NS,
                  "cause": p["cause"].replace("_", " "),
                  **{k: p[k] for k in ("where", "instruction", "source") if k in p}}
                 for p in world.path[:SHOWN * 10]]}
    # Inside a script element only "</" could end it.
    parts = {"@TITLE@": html.escape(title or trace), "@DATA@": json.dumps(data).replace("<", "\\u003c"),
             "@SCRIPT@": (PAGE / "world.js").read_text(encoding="utf-8")}
    page = (PAGE / "world.html").read_text(encoding="utf-8")
    return re.sub("|".join(parts), lambda found: parts[found[0]], page)
