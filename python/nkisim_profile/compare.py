"""`nkisim compare A B`: what changed between two saved sessions."""

import argparse
import json
import sys

import numpy as np

from .session import ENGINES, FS_PER_NS, BadSession, Session

METRICS = ("total_time", "total_active_time_percent", "tensor_engine_active_time_percent",
           "vector_engine_active_time_percent", "scalar_engine_active_time_percent",
           "gpsimd_engine_active_time_percent", "dma_active_time_percent", "dma_transfer_count",
           "hbm_read_bytes", "hbm_write_bytes", "mfu_estimated_percent", "mbu_estimated_percent")


def grouped(keys, *columns):
    """Per key the sums of the columns (fs) as ns, and the count."""
    out = {}
    for key, *values in zip(keys, *(c.tolist() for c in columns)):
        row = out.setdefault(key, [0] * (len(values) + 1))
        row[0] += 1
        for i, v in enumerate(values):
            row[i + 1] += v
    return {k: [v[0]] + [x / FS_PER_NS for x in v[1:]] for k, v in out.items()}


def by_opcode(s):
    keys = [f"{ENGINES[e]} {o}" for e, o in zip(s.parts.engine, s.text(s.parts.opcode))]
    return grouped(keys, s.parts.end - s.parts.start)


def by_line(s):
    where = np.array(s.source(), dtype=object)
    keys = [w.split("/")[-1] for w in where[s.parts.inst]]
    return grouped(keys, s.parts.end - s.parts.start)


def by_engine(s):
    """Per engine or queue and cause: nanoseconds."""
    out = {}
    for core in s.facts["accounting"]["cores"]:
        prefix = f"core {core['core']} " if s.cores > 1 else ""
        for who, x in list(core["engines"].items()) + list(core["dma_queues"].items()):
            for cause, fs in x["total_fs"].items():
                out[f"{prefix}{who}: {cause}"] = [1, fs / FS_PER_NS]
    return out


def changes(a, b):
    """Rows of keys whose sums differ, largest difference first."""
    rows = []
    for key in sorted(set(a) | set(b)):
        x, y = a.get(key, [0, 0.0]), b.get(key, [0, 0.0])
        if x != y:
            rows.append({"what": key, "a_count": x[0], "b_count": y[0], "a_ns": x[1],
                         "b_ns": y[1], "change_ns": y[1] - x[1]})
    return sorted(rows, key=lambda r: -abs(r["change_ns"]))


def compare(a, b):
    x, y = a.summary(), b.summary()
    return {"summary": [{"metric": m, "a": x[m], "b": y[m]} for m in METRICS],
            "by_engine": changes(by_engine(a), by_engine(b)),
            "by_opcode": changes(by_opcode(a), by_opcode(b)),
            "by_line": changes(by_line(a), by_line(b))}


def print_text(result, top):
    for row in result["summary"]:
        a, b = row["a"], row["b"]
        change = f"{100 * (b / a - 1):+.1f} %" if a else ""
        scale, unit = (1e6, " us") if row["metric"].endswith("_time") else \
            (100, " %") if row["metric"].endswith("_percent") else (1, "")
        print(f"{row['metric']:<38} {a * scale:>14.3f}{unit:<3} {b * scale:>14.3f}{unit:<3} {change}")
    for title in ("by_engine", "by_opcode", "by_line"):
        print(f"\n{title.replace('_', ' ')}: largest changes"
              f"\n{'':<50} {'A ns':>12} {'B ns':>12} {'change':>12}")
        for row in result[title][:top]:
            count = "" if row["a_count"] == row["b_count"] else \
                f"  ({row['a_count']} -> {row['b_count']} runs)"
            print(f"{row['what'][:50]:<50} {row['a_ns']:>12.1f} {row['b_ns']:>12.1f} "
                  f"{row['change_ns']:>+12.1f}{count}")


def main(words):
    parser = argparse.ArgumentParser(
        prog="nkisim compare", description=__doc__,
        epilog="example: nkisim run k.jsonl --target trn1 --session a.npz; "
               "nkisim run k.jsonl --target trn2 --session b.npz; nkisim compare a.npz b.npz")
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--top", type=int, default=12, help="rows per table")
    args = parser.parse_args(words)
    try:
        result = compare(Session(args.a), Session(args.b))
    except (BadSession, OSError) as error:
        print(f"nkisim compare: {error}", file=sys.stderr)
        return 3
    if args.json:
        print(json.dumps(result, indent=1))
    else:
        print_text(result, args.top)
    return 0
