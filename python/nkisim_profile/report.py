"""`nkisim report SESSION -o FILE`: one HTML file that opens without a network."""

import argparse
import base64
import gzip
import html
import importlib.util
import json
import os
import pathlib
import sys

import numpy as np

from .session import CAUSES, FS_PER_NS, UNITS, BadSession, Session
from .tables import TABLES

HERE = pathlib.Path(__file__).parent
PLOT_POINTS = 4000  # of an occupancy curve


def plotly():
    """The plotting library, from the Python package plotly."""
    spec = importlib.util.find_spec("plotly")
    if spec is None:
        raise BadSession("the report needs the Python package plotly: pip install plotly")
    return (pathlib.Path(spec.origin).parent / "package_data" / "plotly.min.js").read_text()


def rows_of(start, end):
    """First-fit rows for slices sorted by start."""
    free, rows = [], np.zeros(len(start), np.int64)
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


class Tracks:
    """Timeline rows and their slices, as flat columns."""

    def __init__(self, texts):
        self.names, self.columns = [], {k: [] for k in ("track", "start", "end", "name", "text",
                                                        "source", "note")}
        self.texts, self.ids = list(texts), {}

    def ids_of(self, values):
        """Numbers of texts, each stored once."""
        out = np.empty(len(values), np.int64)
        for i, value in enumerate(values):
            if value not in self.ids:
                self.ids[value] = len(self.texts)
                self.texts.append(value)
            out[i] = self.ids[value]
        return out

    def add(self, family, start, end, names, texts, sources, notes):
        """Everything but the family is an array; texts are given by number."""
        order = np.argsort(start, kind="stable")
        rows = rows_of(start[order], end[order])
        for row in range(int(rows.max(initial=-1)) + 1):
            mine = order[rows == row]
            self.names.append(f"{family} · row {row}" if row else family)
            self.columns["track"].append(np.full(len(mine), len(self.names) - 1))
            for key, values in (("start", start), ("end", end), ("name", names), ("text", texts),
                                ("source", sources), ("note", notes)):
                self.columns[key].append(values[mine])

    def packed(self):
        out = {}
        for key, chunks in self.columns.items():
            values = np.concatenate(chunks) if chunks else np.zeros(0, np.int64)
            kind = np.float64 if key in ("start", "end") else np.int32
            values = (values / FS_PER_NS if kind is np.float64 else values).astype(kind)
            out[key] = base64.b64encode(values.tobytes()).decode()
        return {"tracks": self.names, "texts": self.texts, **out}


def notes_of(s, tracks):
    """Per part: the cause that most of the wait before it was charged to."""
    causes = [c for c in s.charged.columns if c not in ("busy", "fixed_latency", "end")]
    matrix = np.stack([s.charged.columns[c] for c in causes])
    largest = matrix.argmax(axis=0)
    time = matrix.max(axis=0) // FS_PER_NS
    kinds, index = np.unique(np.stack([largest, time]), axis=1, return_inverse=True)
    texts = [f"{causes[k].replace('_', ' ')} {t} ns" if t else "" for k, t in kinds.T.tolist()]
    return tracks.ids_of(texts)[index.ravel()]


def timeline(s):
    tracks, p, t, path = Tracks(s.texts), s.parts, s.transfers, s.path
    where = tracks.ids_of(s.source() + [""])  # -1: no instruction
    ops = np.append(s.insts.op, tracks.ids_of([""]))
    notes = notes_of(s, tracks)
    causes = tracks.ids_of(list(CAUSES))
    moved = tracks.ids_of([f"{b} bytes in {n} packets" for b, n in
                           zip(t.bytes.tolist(), t.packets.tolist())])
    for core in range(s.cores):
        prefix = f"core {core} " if s.cores > 1 else ""
        rows = np.flatnonzero(path.core == core)
        queues = {q: n for (c, q), n in s.queue_names.items() if c == core}
        tracks.add(prefix + "Critical path", getattr(path, "from")[rows], path.to[rows],
                   causes[path.cause[rows]], ops[path.inst[rows]], where[path.inst[rows]],
                   tracks.ids_of([queues.get(q, "") for q in path.where[rows].tolist()]))
        for unit, name in enumerate(UNITS):
            rows = np.flatnonzero((p.core == core) & (p.unit == unit))
            if len(rows):
                tracks.add(prefix + name + " Engine", p.start[rows], p.end[rows], p.opcode[rows],
                           p.operands[rows], where[p.inst[rows]], notes[rows])
        for q in sorted(set(t.queue[t.core == core].tolist())):
            rows = np.flatnonzero((t.core == core) & (t.queue == q))
            tracks.add(prefix + queues[q], t.trigger_start[rows], t.visible[rows],
                       ops[t.inst[rows]], moved[rows], where[t.inst[rows]], moved[rows])
    return tracks.packed()


def thin(table, keys):
    """At most PLOT_POINTS points of a step curve of core 0, extremes of each stretch kept."""
    core = np.asarray(table["pcore_idx"]) == 0
    time = np.asarray(table["timestamp"])[core]
    out = {}
    for key in keys:
        values = np.asarray(table[key], dtype=float)[core]
        if len(time) > PLOT_POINTS:
            stretch = -(-len(time) // (PLOT_POINTS // 2))
            starts = range(0, len(time), stretch)
            keep = sorted({a + int(f(values[a:a + stretch])) for a in starts
                           for f in (np.argmin, np.argmax)})
        else:
            keep = range(len(time))
        keep = list(keep)
        out[key] = {"x": (time[keep] / 1000).tolist(), "y": values[keep].tolist()}
    return out


def source_lines(s):
    """Per kernel line: executions, engine time, waits charged and time on the critical path."""
    where, of_inst = np.unique(np.array(s.source(), dtype=str), return_inverse=True)
    waits = sum(s.charged.columns[c] for c in s.charged.columns
                if c not in ("busy", "fixed_latency", "throttle", "end"))

    def sums(index, weights):
        # Picoseconds: sums of femtoseconds would leave the exact range of a double.
        return np.bincount(of_inst[index], weights // 1000, len(where)) * 1000

    p, path = s.parts, s.path
    known = path.inst >= 0
    count = np.bincount(of_inst[p.inst], minlength=len(where))
    busy, wait = sums(p.inst, p.end - p.start), sums(p.inst, waits)
    critical = sums(path.inst[known], (path.to - getattr(path, "from"))[known])
    rows = {line: {"count": int(count[i]), "busy": busy[i], "wait": wait[i],
                   "critical": critical[i]} for i, line in enumerate(where.tolist())}
    sources = {f: text.splitlines() for f, text in s.sources.items()}
    out = []
    for line, r in sorted(rows.items(), key=lambda kv: -kv[1]["critical"])[:60]:
        file, _, number = line.rpartition(":")
        lines = sources.get(file, [])
        code = lines[int(number) - 1].strip() if 0 < int(number) <= len(lines) else ""
        out.append({"line": line, "code": code, **r})
    return out


def payload(s):
    end = s.end_fs
    m = s.summary()
    stalls = [{"who": (f"core {c['core']} " if s.cores > 1 else "") + who, "fs": x["total_fs"]}
              for c in s.facts["accounting"]["cores"]
              for who, x in list(c["engines"].items()) + list(c["dma_queues"].items())
              if set(x["total_fs"]) != {"idle after the end"}]
    bins, counts = np.unique(np.floor(np.log2(np.maximum(s.transfers.descriptor_bytes, 1)))
                             .astype(int), return_counts=True)
    return {"title": pathlib.Path(s.facts.get("trace") or "trace").name, "end_ns": end / FS_PER_NS,
            "partial": s.facts.get("partial", False), "machine": s.machine, "summary": m,
            "verdict": s.facts.get("verdict", []), "what_if": s.facts.get("what_if", []),
            "stalls": stalls, "end_fs": end, "timeline": timeline(s), "lines": source_lines(s),
            "sbuf": thin(TABLES["SbufUsage"](s), ["avg_util_percent", "partition_0_util_percent"]),
            "psum": thin(TABLES["PsumUsage"](s), ["avg_util_percent"]),
            "hbm": thin(TABLES["HbmUsage"](s), ["current_throughput"]),
            "dma_sizes": {"x": [f"{1 << int(b)} B" if b < 10 else f"{1 << int(b - 10)} KiB"
                                for b in bins], "y": counts.tolist()},
            "warnings": TABLES["Warning"](s)["message"]}


def render(session):
    data = gzip.compress(json.dumps(payload(session)).encode(), 1, mtime=0)
    page = (HERE / "report.html").read_text()
    parts = {"@TITLE@": html.escape(pathlib.Path(session.facts.get("trace") or "trace").name),
             "@PLOTLY@": plotly(), "@SCRIPT@": (HERE / "report.js").read_text(),
             "@DATA@": base64.b64encode(data).decode()}
    for key, value in parts.items():
        page = page.replace(key, value, 1 if len(value) > 1000 else -1)
    return page


def main(words):
    parser = argparse.ArgumentParser(
        prog="nkisim report", description=__doc__,
        epilog="example: nkisim run k.jsonl --session k.npz && nkisim report k.npz -o k.html")
    parser.add_argument("session")
    parser.add_argument("--output", "-o", required=True)
    args = parser.parse_args(words)
    try:
        page = render(Session(args.session))
        partial = f"{args.output}.partial"
        pathlib.Path(partial).write_text(page)
        os.replace(partial, args.output)
    except (BadSession, OSError) as error:
        print(f"nkisim report: {error}", file=sys.stderr)
        return 3
    return 0
