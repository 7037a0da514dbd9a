"""Implements the command line of `nkisim tune`, which searches a kernel's own parameters."""

from __future__ import annotations

import argparse
import ast
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from nkisim_profile.session import BadSession
from nkisim_profile.sweep import output
from nkisim_work import program
from nkisim_work.extras import install_hint
from nkisim_work.files import replace
from nkisim_work.options import Parser
from nkisim_work.times import time_text

from .command import common, settings
from .evaluator import Settings
from .reference import BadReference
from .tuning import SAMPLERS, Tuner, Tuning

EXAMPLES = """
nkisim tune matmul.py:make --param tile=128,256,512 --param bufs=1:4 --reference ref.py
nkisim tune a.py:kernel b.py:kernel --param bufs=1,2 --reference ref.py --trials 20
nkisim tune matmul.py:make --param tile=128:512:128 --reference ref.py --out best/ --plot t.png"""
NOTES = """
FILE.py:FUNCTION is a kernel, or a factory that makes one; several have one interface. The first value of each
parameter is the default that the best is compared with. Every combination is written to the journal when it is known;
the same command goes on where it was interrupted.
Exit codes: 0 ok, 1 no combination is right, 2 usage, 3 bad input, 130 interrupted."""
_MOST_VALUES = 10_000


def _value(text):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def parameter(text: str) -> tuple[str, list[Any]]:
    """NAME=a,b,c or NAME=FROM:TO[:STEP] (both ends belong to it) as the name and its values."""
    name, found, rest = text.partition("=")
    if not found or not name.isidentifier() or not rest:
        raise argparse.ArgumentTypeError(f"{text!r}; NAME=VALUE,VALUE,... or NAME=FROM:TO[:STEP] is "
                                         "required")
    parts = rest.split(":")
    if len(parts) in (2, 3) and all(p.strip().lstrip("-").isdigit() for p in parts):
        first, last, step = (int(p) for p in (*parts, "1")[:3])
        values = list(range(first, last + (1 if step > 0 else -1), step)) if step else []
    else:
        values = [_value(v) for v in rest.split(",") if v]
    if not 0 < len(values) <= _MOST_VALUES:
        raise argparse.ArgumentTypeError(f"{text!r} has {len(values)} values; 1 to {_MOST_VALUES} "
                                         "are required")
    return name, values


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = Parser("tune", "FILE.py:FUNCTION ... --param NAME=VALUES --reference REF.py [options]",
                    "Searches a kernel's parameters for the fastest.", EXAMPLES, NOTES)
    parser.add_argument("kernel", nargs="+", metavar="FILE.py:FUNCTION")
    add = parser.option
    add("param", type=parameter)
    add("sampler", choices=SAMPLERS)
    for name in ("trials", "patience", "seed", "journal", "csv", "plot", "out"):
        add(name)
    common(parser)
    args = parser.parse_args(words)
    for name in [n for n, _ in args.param]:
        if [n for n, _ in args.param].count(name) > 1:
            parser.error(f"--param {name} is given twice")
    for value, name in ((args.jobs, "--jobs"), (args.trials, "--trials"),
                        (args.patience, "--patience")):
        if value is not None and value < 1:
            parser.error(f"{name} needs 1 or more")
    return args


def progress(total: int) -> Any:
    """A bar on a terminal, nothing elsewhere."""
    try:
        from tqdm import tqdm
    except ImportError:
        raise BadReference(f"tuning needs the Python package tqdm: {install_hint('optuna', 'tqdm', 'matplotlib')}"
                           ) from None
    return tqdm(total=total, unit="kernel", disable=not sys.stderr.isatty())


def table(found: Tuning) -> list[str]:
    """Lines: the right ones by latency, the default marked, then what became of the others."""
    good = sorted((r for r in found.rows if r[1]["status"] == "ok"),
                  key=lambda r: r[1]["latency_us"])
    default = found.default
    base = default[1]["latency_us"] if default and default[1]["status"] == "ok" else None
    lines = [[*found.space.values, "latency", "speed-up", "SBUF", ""]]
    for point, record in good:
        lines.append([*(str(point[n]) for n in found.space.values),
                      time_text(record['latency_us']),
                      f"{base / record['latency_us']:.2f}x" if base else "",
                      f"{record.get('sbuf_partition_bytes', 0)} B",
                      "default" if default and record is default[1] else ""])
    return output.aligned(lines) + failures(found)


def failures(found: Tuning) -> list[str]:
    """Lines: what became of the others, equal reasons together."""
    reasons: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for point, record in found.rows:
        if record["status"] != "ok":
            message = record.get("error", {}).get("message", "").split("\n")[0]
            reasons.setdefault((record["status"], message), []).append(point)
    return [f"{status}: {', '.join(f'{k}={v}' for k, v in points[0].items())}" +
            (f" and {len(points) - 1} more" if len(points) > 1 else "") + f": {message}"
            for (status, message), points in reasons.items()]


def flat(point: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the table that --csv writes."""
    return {**point, "status": record["status"], "latency_us": record["latency_us"],
            "sbuf_partition_bytes": record.get("sbuf_partition_bytes"),
            "psum_partition_bytes": record.get("psum_partition_bytes"),
            "error": record.get("error", {}).get("message")}


def plot(found: Tuning, path: str) -> None:
    """A panel per parameter, and one with the Pareto front of latency and SBUF."""
    good = [row for row in found.rows if row[1]["status"] == "ok"]
    names = [n for n, v in found.space.values.items() if len(v) > 1]
    figure, areas = output.plotter().subplots(1, len(names) + 1, figsize=(4 * len(names) + 4, 4),
                                    layout="constrained", squeeze=False)
    best = found.best
    assert best is not None  # run() plots what has one
    for name, area in zip(names, areas[0]):
        values = [str(v) for v in found.space.values[name]]
        area.plot([values.index(str(p[name])) for p, _ in good],
                  [r["latency_us"] for _, r in good], "o", alpha=0.5, color="tab:blue")
        lowest = [min((r["latency_us"] for p, r in good if str(p[name]) == v), default=None)
                  for v in values]
        reached = [(i, v) for i, v in enumerate(lowest) if v is not None]
        area.plot(*zip(*reached), color="tab:orange", label="best")
        area.set_xticks(range(len(values)), [os.path.basename(v) for v in values])
        area.set(xlabel=name, ylabel="latency (us)")
        area.set_ylim(bottom=0)
        area.grid(alpha=0.3)
        area.legend()
    area = areas[0][-1]
    kib = [r.get("sbuf_partition_bytes", 0) / 1024 for _, r in good]
    area.plot(kib, [r["latency_us"] for _, r in good], "o", alpha=0.5, color="tab:blue")
    front = found.pareto()
    area.plot([r.get("sbuf_partition_bytes", 0) / 1024 for _, r in front],
              [r["latency_us"] for _, r in front], drawstyle="steps-post", color="tab:orange",
              label="Pareto")
    area.plot([best[1].get("sbuf_partition_bytes", 0) / 1024], [best[1]["latency_us"]], "*",
              markersize=14, color="tab:red", label="best")
    area.set(xlabel="SBUF (KiB per partition)", ylabel="latency (us)")
    area.set_ylim(bottom=0)
    area.set_xlim(left=0)
    area.grid(alpha=0.3)
    area.legend()
    output.save(figure, path, dpi=110)


def write_reports(tuner: Tuner, chosen: Settings, args: argparse.Namespace) -> None:
    """Programs, parameters and reports of the best combination and of the default."""
    from . import keeping

    folder = pathlib.Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    found, reference = tuner.found, chosen.load()
    for name, row in (("best", found.best), ("default", found.default)):
        if row is None or row[1]["status"] != "ok":
            continue
        trace, record = keeping.save(tuner.space.candidate(row[0], name), row[1], folder / name, chosen)
        words = [program(), "run", str(trace), "--quiet", "--html", str(folder / f"{name}.html"),
                 "--session", str(folder / f"{name}.npz")]
        subprocess.run(words + keeping.options(chosen, reference), check=True)
        replace(folder / f"{name}.json", json.dumps(
            {"parameters": row[0], **record}, indent=1).encode() + b"\n")


def say(found: Tuning, args: argparse.Namespace) -> None:
    best = found.best
    if args.json:
        as_pair = lambda row: row and {"parameters": row[0], **row[1]}  # noqa: E731
        print(json.dumps({"best": as_pair(best), "default": as_pair(found.default),
                          "faster_likely": found.likely,
                          "pareto": [p for p, _ in found.pareto()],
                          "rows": [{"parameters": p, **r} for p, r in found.rows]}, indent=1))
        return
    print("\n".join(table(found)))
    if best:
        chosen = ", ".join(f"{k}={v}" for k, v in best[0].items())
        likely = found.likely
        print(f"best: {chosen}: {time_text(best[1]['latency_us'])}" + (
            "" if likely is None else f", faster than the default on a chip with {100 * likely:.0f} %"))


def run(args: argparse.Namespace) -> int:
    first = pathlib.Path(args.kernel[0].replace(":", "-")).name
    chosen = Settings(args.reference, **settings(args))
    tuner = Tuner(args.kernel, dict(args.param), chosen, args.sampler, args.trials, args.patience,
                  args.seed, args.jobs, args.journal or f"{first}.tune.jsonl", args.scheduler,
                  args.cache)
    try:
        with progress(tuner.trials) as bar:
            for _ in tuner.run():
                best = tuner.found.best
                bar.set_postfix_str(f"best {best[1]['latency_us']:.2f} us" if best else "")
                bar.update()
    finally:
        tuner.close()
    found = tuner.found
    if args.csv and found.rows:
        output.write_csv([flat(*row) for row in found.rows], args.csv)
    if args.plot and found.best:
        plot(found, args.plot)
    if args.out and found.best:
        write_reports(tuner, chosen, args)
    say(found, args)
    return 0 if found.best else 1


def main(words: Sequence[str]) -> int:
    args = arguments(words)
    try:
        return run(args)
    except (BadReference, BadSession, OSError, subprocess.CalledProcessError) as problem:
        print(f"nkisim tune: {problem}", file=sys.stderr)
        return 3
