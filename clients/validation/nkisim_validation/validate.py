"""Implements `nkisim validate`: simulates a table of measured programs and compares the times.

The table holds what AWS and kernels' authors have published about runs on the chip; docs/evidence.md
is its last result. Without limits the exit code is 0 whatever the errors are.
"""

import itertools
import json
import math
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from nkisim_work.files import replace
from nkisim_work.options import Parser

from . import collectives, families, profiles, sets, spread
from .program import Failed, Program, Progress, on_threads

EXAMPLES = """
nkisim validate                                  # the table and its summary
nkisim validate --config my_trn2.json            # measurements of the config's target
nkisim validate --max-mean 8 --max-worst 20      # exit code 1 if kernel latencies are further off"""
NOTES = """
The table holds what AWS and kernels' authors have published about runs on the chip; docs/evidence.md is its last
result. --json FILE writes the table there as well. --leave-one-out needs scipy, --collectives needs numpy, --write
needs a source tree and takes the whole table; with --replay it writes what the page says of replays.
Exit codes: 0 ok (whatever the errors are, without limits), 1 a limit is exceeded, 2 usage, 3 bad input."""


def folder():
    """The table: next to this package where it is installed, else in the source tree."""
    installed = Path(__file__).resolve().parent / "table" / "validation"
    return installed if installed.exists() else Path(__file__).resolve().parents[1] / "table"


def table_module(name):
    """A module of the table's folder: points, report, curve."""
    if str(folder()) not in sys.path:
        sys.path.insert(0, str(folder()))
    return import_module(name)


def root():
    """The source tree, or in an installation the folder in its place."""
    return table_module("source_tree").ROOT


def config_of(target):
    """The config file next to the table, so that a changed one counts without a build."""
    file = root() / "configs" / f"{target}.json"
    return file if file.exists() else target


def key(program):
    if isinstance(program, str):
        return program
    return repr((program.func.__name__, program.args, sorted(program.keywords.items())))


class Simulator:
    """Writes a program's trace once and simulates it."""

    def __init__(self, nkisim, scratch, config=None, overrides=()):
        self.nkisim, self.scratch, self.overrides = nkisim, Path(scratch), overrides
        self.config = config
        self.target = nkisim.config(config)["target"] if config else None
        self._numbers = itertools.count()

    def trace(self, program):
        """A program, or the name of a recorded profile, as a trace file and its target."""
        number = next(self._numbers)
        if isinstance(program, str):
            file = self.scratch / f"{number}.nisa"
            profile = folder() / "profiles" / f"{program}.json.gz"
            self.nkisim.call("import-profile", profile, "-o", file)
            return file, "trn2"
        built = program()
        file = self.scratch / f"{number}.jsonl"
        file.write_text(built.text(), encoding="utf-8")
        return file, built.target

    def figures(self, program):
        """The summary of a program; None if the chosen config describes another target."""
        file, target = self.trace(program)
        try:
            if self.target not in (None, target):
                return None
            return self.nkisim.summary(file, self.config or config_of(target), self.overrides)
        finally:
            file.unlink()


def evaluate(simulator, only="", jobs=None):
    """Rows of the table (clients/validation/table/report.py says what a row holds) and the measurements."""
    points, report = table_module("points"), table_module("report")
    table = json.loads((folder() / "measurements.json").read_text(encoding="utf-8"))
    measured = {m["id"]: m for m in table["single_core"]}
    chosen = [p for p in points.POINTS if only in p.measurement]
    programs = {key(p.program): p.program for p in chosen}
    results = on_threads(simulator.figures, list(programs.values()), Progress("simulating"), jobs)
    figures = dict(zip(programs, results))
    return [report.row(measured[p.measurement], p, figures[key(p.program)]) for p in chosen
            if figures[key(p.program)] is not None], table


def dma_rates(simulator):
    """Rates for the plot of DMA throughput (clients/validation/table/curve.py)."""
    return table_module("curve").measure(simulator.figures)


def all_sets(simulator, rows, args):
    """The errors by set, generation and part (sets.summary). Kernels from source and numbers found
    without a profile are stored with the table, for the configs as they are."""
    found = sets.ties(folder(), simulator.nkisim)
    replayed = {p.measurement for p in table_module("points").POINTS if isinstance(p.program, str)}
    errors = sets.own_rows(rows, replayed, found)
    if not args.config and not args.set:
        errors += sets.source_rows(folder(), found)
        runs = profiles.Profiles(folder() / "profiles", simulator.nkisim, config_of("trn2"),
                                 simulator.scratch, Progress("replaying"), args.jobs)
        errors += sets.replay_rows(folder(), profiles.replay(runs))
    return sets.summary(errors)


def spreads(rows):
    """The interval of a run's confidence and its coverage (spread.narrowest_intervals)."""
    replayed = {p.measurement for p in table_module("points").POINTS if isinstance(p.program, str)}
    stored = json.loads((folder() / "public.json").read_text(encoding="utf-8"))
    found = spread.narrowest_intervals(spread.rows_of(rows, replayed, stored))
    versions = spread.versions(spread.pairs_of(stored))
    for kind, row in found.items():
        row["versions"] = None if kind == "trace" else versions
    return found


def exceeded(summary, args):
    """The latencies that exceed the limits, in words."""
    latencies = summary["errors"].get("kernel latencies")
    if latencies is None:
        return ["no kernel latency to hold against a limit"] if limited(args) else []
    found = []
    if latencies["mean"] > args.max_mean:
        found.append(f"mean error {latencies['mean']:.1f} % is above {args.max_mean:g} %")
    if abs(latencies["worst"]) > args.max_worst:
        found.append(f"{latencies['worst_id']}: error {latencies['worst']:+.1f} % is above "
                     f"{args.max_worst:g} %")
    return found


def limited(args):
    return math.isfinite(min(args.max_mean, args.max_worst))


def parse(words):
    parser = Parser("validate", "[options]",
                    "Simulates the programs of the validation table, and compares them with the measurements.",
                    EXAMPLES, NOTES)
    add = parser.option
    add("only", default="")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE")
    add("config")
    add("set")
    add("max-mean", default=math.inf)
    add("max-worst", default=math.inf)
    for name in ("replay", "leave-one-out", "collectives", "jobs", "write", "nkisim"):
        add(name)
    args = parser.parse_args(words)
    if args.leave_one_out and not args.replay:
        parser.error("--leave-one-out goes with --replay")
    if args.replay and (args.only or limited(args)):
        parser.error("--replay takes the profiles of the table, all of them, without limits")
    if args.collectives and (args.replay or args.config or limited(args)):
        parser.error("--collectives takes the built-in configs, without limits and replays")
    if args.write and (args.only or args.config or args.set):
        parser.error("--write takes the whole table at its defaults")
    if args.write and not (root() / "docs").is_dir():
        parser.error("--write needs a source tree")
    return args


def emit(args, rows, summary, report):
    text = json.dumps({"points": rows, "summary": summary}, indent=1) + "\n"
    if args.json == "-":
        sys.stdout.write(text)
        return
    print(report.text(rows, summary))
    if args.json:
        replace(args.json, text.encode())


def replays(args):
    """--replay: the table of the profiles, on its own."""
    nkisim = Program(args.nkisim)
    config = args.config or config_of("trn2")
    with tempfile.TemporaryDirectory() as scratch:
        if args.set:  # becomes part of the config, so that a fit can change other numbers
            changed = Path(scratch) / "config.json"
            changed.write_text(json.dumps(nkisim.config(config, args.set)), encoding="utf-8")
            config = changed
        runs = profiles.Profiles(folder() / "profiles", nkisim, config, scratch,
                                 Progress("simulating"), args.jobs)
        result = {"replay": profiles.replay(runs)}
        if args.leave_one_out:
            found = profiles.leave_one_out(runs, profiles.ranges(folder()), nkisim.config(config))
            result["leave_one_out"] = found
    text = json.dumps(result, indent=1) + "\n"
    if args.json == "-":
        sys.stdout.write(text)
    else:
        print(profiles.text(result))
    files = [Path(name) for name in (args.json,) if name not in (None, "-")]
    files += [folder() / "replay.json"] * args.write
    try:
        for file in files:
            replace(file, text.encode())
    except OSError as problem:
        raise Failed(str(problem)) from None
    return 0


def collective_times(args):
    """--collectives: the table of clients/validation/table/collectives.json, on its own."""
    program = Program(args.nkisim)
    found = collectives.points(folder(), args.only)
    if not found:
        raise Failed(f"no measurement has an id with {args.only!r}", code=2)
    rows = collectives.rows(program, found, config_of, args.set)
    fitted = [r for r in rows if r["set"].startswith(collectives.FITTED)]
    ways = collectives.held_out(fitted, collectives.numbers_of(program, config_of, args.set))
    summary = collectives.summary(rows, ways)
    text = json.dumps({"points": [{k: v for k, v in r.items() if k != "answer"} for r in rows],
                       "summary": summary}, indent=1) + "\n"
    if args.json == "-":
        sys.stdout.write(text)
    else:
        print(collectives.text(rows, summary))
    try:
        if args.json not in (None, "-"):
            replace(args.json, text.encode())
        if args.write:
            collectives.write(rows, summary, ways, root() / "docs")
    except OSError as problem:
        raise Failed(str(problem)) from None
    return 0


def main(words):
    args = parse(words)
    if args.replay:
        return replays(args)
    if args.collectives:
        return collective_times(args)
    with tempfile.TemporaryDirectory() as scratch:
        simulator = Simulator(Program(args.nkisim), scratch, args.config, args.set)
        rows, table = evaluate(simulator, args.only, args.jobs)
        rates = dma_rates(simulator) if args.write else {}
        parts = all_sets(simulator, rows, args) if rows and not args.only else []
    if not rows:
        raise Failed(f"no measurement has an id with {args.only!r}"
                     + (f" for {simulator.target}" if args.config else ""), code=2)
    report = table_module("report")
    summary = {**report.summary(rows), "sets": parts}
    if not (args.only or args.config or args.set):
        summary["spread"] = spreads(rows)
        summary["families"] = families.read(folder())
    try:
        emit(args, rows, summary, report)
        if args.write:
            report.write(rows, summary, table, rates, root() / "docs")
    except OSError as problem:
        raise Failed(str(problem)) from None
    problems = exceeded(summary, args)
    for problem in problems:
        print(f"nkisim validate: {problem}", file=sys.stderr)
    return 1 if problems else 0
