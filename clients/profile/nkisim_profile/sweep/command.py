"""Implements the command line of `nkisim sweep`, which simulates a program once for each
combination of settings.
"""

import argparse
import itertools
import os
import pathlib
import sys

from nkisim_work.options import Parser

from ..session import BadSession
from . import output
from .journal import Journal, is_figure
from .running import on_scheduler, on_this_machine
from .source import Source

EXAMPLES = """
nkisim sweep k.nisa --set dma.bytes_per_ns=13.6,27.2,54.4 --set dma.engines=8,16 --jobs 4
nkisim sweep k.py:matmul --arg a=bf16[512,512] --arg b=bf16[512,512] --targets trn1,trn2,trn3
nkisim sweep k.nisa --set pe.clock=1.4,2.4 --csv k.csv --plot k.png"""
NOTES = """Every point is written to the journal when it is done; the same command goes on where it was interrupted.
Exit codes: 0 ok, 2 usage, 3 bad input or a point failed, 130 interrupted."""


def axis(text):
    """PATH=a,b,c as the path and its values."""
    name, found, values = text.partition("=")
    values = [v.strip() for v in values.split(",") if v.strip()]
    if not found or not name or not values:
        raise argparse.ArgumentTypeError(f"{text!r}; PATH=VALUE,VALUE,... is required")
    return name, values


def names(text):
    return [word for word in text.split(",") if word]


def arguments(words):
    parser = Parser("sweep", "TRACE|FILE.py:FUNCTION [options]",
                    "Simulates every combination of settings, and tabulates or plots a metric.", EXAMPLES, NOTES)
    parser.add_argument("program", metavar="TRACE|FILE.py:FUNCTION")
    add = parser.option
    add("set", type=axis, dest="axes")
    add("targets", type=names, dest="target")
    add("configs", type=names, dest="config")
    add("arg")
    add("jobs", default=os.cpu_count() or 1)
    for name in ("scheduler", "journal", "metric", "csv", "plot"):
        add(name)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    if args.jobs < 1:
        parser.error("--jobs needs 1 or more")
    repeated = [n for n, _ in args.axes if sum(n == m for m, _ in args.axes) > 1]
    if repeated:
        parser.error(f"--set {repeated[0]} is given twice")
    return args


def grid(args):
    """Every combination of the settings, the first one changing slowest."""
    axes = [(n, v) for n, v in (("target", args.target), ("config", args.config)) if v] + args.axes
    if not axes:
        raise BadSession("nothing varies: --set, --target or --config is required")
    return [dict(zip((n for n, _ in axes), values))
            for values in itertools.product(*(v for _, v in axes))]


def progress(total, done):
    """A bar on a terminal, nothing elsewhere."""
    try:
        from tqdm import tqdm
    except ImportError:
        raise BadSession("a sweep needs the Python package tqdm: pip install tqdm") from None
    return tqdm(total=total, initial=done, unit="point", disable=not sys.stderr.isatty())


def run(args, points, source, journal):
    """Simulates what the journal lacks. Returns the records of points that failed."""
    todo = [p for p in points if p not in journal]
    if not todo:
        return []
    failed = []
    if args.scheduler:
        results = on_scheduler(args.scheduler, todo, source)
    else:
        results = on_this_machine(args.jobs, todo, source)
    with progress(len(points), len(points) - len(todo)) as bar:
        try:
            for row in results:
                journal.add(row)
                bar.update()
                if "error" in row:
                    failed.append(row)
        finally:
            results.close()
    return failed


def report(args, points, journal, failed):
    rows = [journal[p] for p in points if p in journal]
    for row in rows:
        if not is_figure(row["summary"].get(args.metric)):
            raise BadSession(f"--metric {args.metric}: no such metric; {', '.join(row['summary'])}")
    if args.csv:
        output.write_csv(output.flat(rows), args.csv)
    if args.plot and rows:
        output.plot(rows, args.metric, args.plot)
    if args.json:
        print(output.as_json(rows, failed))
    elif rows:
        print("\n".join(output.table(rows, args.metric)))
    for row in failed:
        print(f"nkisim sweep: {row['point']}: {row['error']}", file=sys.stderr)
    return 3 if failed else 0


def sweep(args):
    points = grid(args)
    source = Source(args.program, args.arg)
    name = pathlib.Path(args.program.replace(":", "-")).name
    journal = Journal(args.journal or f"{name}.sweep.jsonl", source.stamp)
    try:
        failed = run(args, points, source, journal)
    except KeyboardInterrupt:
        done = sum(p in journal for p in points)
        print(f"nkisim sweep: interrupted; {done} of {len(points)} points are in {journal.path}, "
              "the same command goes on from there", file=sys.stderr)
        return 130
    return report(args, points, journal, failed)


def main(words):
    args = arguments(words)
    try:
        return sweep(args)
    except (BadSession, OSError) as error:
        print(f"nkisim sweep: {error}", file=sys.stderr)
        return 3
