"""Implements `nkisim model`, which predicts the time per token of a whole model, by part, from its
config.json.

The layers are nki-library's decode kernels (a checkout that you name), nkisim's or your own; embedding,
residual sums, head and sampling are nkisim's. docs/models.md says what is modelled and what is not.
"""

import argparse
import copy
import dataclasses
import importlib.util
import json
import sys
from pathlib import Path

from nkisim.values.errors import Error
from nkisim_profile.session import BadSession
from nkisim_profile.sweep.journal import Journal
from nkisim_work import ProgressLine
from nkisim_work.options import Parser

from . import goal, instances, page, report
from .architecture import ModelError, read
from .library import load
from .sweep import SWEPT, Sweep, is_found

EXAMPLES = """
nkisim model llama-3-8b/config.json --library nki-library --tp 8
nkisim model config.json --library nki-library --sweep tp=8,16,32 batch=1,4 --plot tokens.png
nkisim model config.json --library nki-library --tp 8 --part mlp=my.py:mlp"""
FOUND = ("target", "tp", "batch", "dp", "ep", "instances", "ultraserver", "sweep", "compare", "speculate", "plot",
         "html")  # by --goal, or not for it
NOTES = """
CONFIG is a Hugging Face config.json, or the folder that has one. The layers are nki-library's decode kernels where it
has one for the part (trn2 and trn3), else nkisim's, or your own; embedding, residual sums, head and sampling are
nkisim's. docs/models.md says what is modelled.
Exit codes: 0 ok, 2 usage, 3 bad input, 130 interrupted."""


def axis(text):
    """tp=8,16 as the name and its values."""
    name, found, values = text.partition("=")
    try:
        numbers = [int(v) for v in values.split(",")]
    except ValueError:
        numbers = []
    if not found or name not in SWEPT or not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}; {'|'.join(SWEPT)}=N,N,... is required")
    return name, numbers


def shard(text):
    """3/16 as (3, 16)."""
    number, found, shards = text.partition("/")
    if not found or not number.isdecimal() or not shards.isdecimal() or not 1 <= int(number) <= int(shards):
        raise argparse.ArgumentTypeError(f"{text!r}; K/N with 1 <= K <= N is required")
    return int(number), int(shards)


def kernel(text):
    """PART=FILE.py:FUNCTION as the part and the function."""
    part, found, place = text.partition("=")
    path, colon, name = place.rpartition(":")
    if not found or not colon:
        raise argparse.ArgumentTypeError(f"{text!r}; PART=FILE.py:FUNCTION is required")
    return part, path, name


def changed(text):
    """tp=16 as the name and the value, or PART=FILE.py:FUNCTION as kernel() has it."""
    if text.partition("=")[0] in SWEPT:
        name, values = axis(text)
        if len(values) == 1:
            return name, values[0]
        raise argparse.ArgumentTypeError(f"{text!r}; one value is required")
    return kernel(text)


def function(path, name):
    """A user's function."""
    if not Path(path).is_file():
        raise ModelError(f"no file {path}", "PART=FILE.py:FUNCTION", "--kernel")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not callable(found):
        raise ModelError(f"{path} has no function {name}", "PART=FILE.py:FUNCTION", "--kernel")
    return found


def arguments(words):
    parser = Parser("model", "CONFIG [options]", "Predicts the time per token of a whole model, by part.", EXAMPLES,
                    NOTES)
    parser.add_argument("config", metavar="CONFIG")
    add = parser.option
    add("library")
    add("target", default=None)
    add("instance")
    add("tp", default=None)
    add("lnc")
    add("cache-dtype", dest="cache_dtype")
    add("own")
    add("unpack")
    add("strict")
    add("goal")
    add("prices")
    for name in ( "dp", "ep", "instances", "ultraserver", "batch", "context", "prompt", "dtype", "layers",
                 "boundaries", "host", "exact"):
        add(name)
    add("config", dest="machine")
    add("part", type=kernel, dest="kernel")
    add("sweep", nargs="+", default=[], type=axis)
    add("compare", nargs="+", default=[], type=changed)
    add("jobs")
    add("scheduler", dest="dask")
    add("speculate")
    add("acceptance")
    add("journal")
    add("shard", type=shard, default=(1, 1))
    add("plot")
    add("html")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    if args.instance and args.target:
        parser.error("--instance and --target exclude each other: an instance has its target")
    for name in FOUND:
        if args.goal and getattr(args, name) != parser.get_default(name):
            parser.error(f"--goal excludes --{name}: it looks for instances, tp, copies and batch")
    if args.prices and not args.goal:
        parser.error("--prices is for --goal")
    for name, given in (("scheduler", args.dask), ("journal", args.journal), ("shard", args.shard != (1, 1))):
        if given and not args.sweep:
            parser.error(f"--{name} is for --sweep")
    if args.journal and (args.html or args.plot):
        parser.error("--journal excludes --html and --plot: it has no timelines")
    if args.compare and args.sweep:
        parser.error("--compare and --sweep exclude each other")
    return args


def sweep(args):
    """The Sweep that was asked for, be it of one point."""
    model = read(args.config)
    if args.layers is not None:
        if args.layers < 1:
            raise ModelError(f"--layers {args.layers}", "at least 1")
        model = type(model)(**{**vars(model), "layers": args.layers})
    if args.unpack and model.quantised:
        model = dataclasses.replace(model, quantised=dataclasses.replace(model.quantised, at_load=True))
    check_unknown_keys(model, args.strict)
    on = instances.find(args.instance) if args.instance else None
    args.target, args.lnc = (on.target, args.lnc or on.lnc) if on else (args.target or "trn2", args.lnc)
    args.tp = args.tp or (on.ranks_of(args.lnc) if on else 8)
    axes = {name: [getattr(args, name)] for name in SWEPT} | dict(args.sweep)
    replaced = {part: function(path, name) for part, path, name in args.kernel}
    return Sweep(model, args.target, args.dtype, axes, load(args.library) if args.library else None, replaced,
                 args.exact, args.machine, args.prompt, args.boundaries, args.host, args.dp,
                 args.ep, args.instances, args.ultraserver, lnc=args.lnc, cache_dtype=args.cache_dtype or "",
                 own=args.own, instance=on, speculate=args.speculate, acceptance=args.acceptance)


def check_unknown_keys(model, strict):
    """Says which keys of the config are not known, and with --strict refuses them."""
    if model.unknown and strict:
        raise ModelError(f"keys that are not known: {', '.join(model.unknown)}", "known keys alone", "--strict")
    if model.unknown:
        print(f"nkisim model: warning: the config has keys that are not looked at: {', '.join(model.unknown)}; "
              "--strict refuses them", file=sys.stderr)


def _executor(address):
    """The executor of a Dask scheduler; None without one."""
    if address is None:
        return None
    try:
        from dask.distributed import Client

        return Client(address, timeout=10).get_executor(pure=False)
    except (ImportError, OSError, ValueError) as problem:
        raise ModelError(f"no Dask scheduler at {address}: {problem}", "the address of one, and dask",
                         "--scheduler") from None


def run_comparison(args, asked):
    """The Points of what is asked and of what --compare makes of it, and a name for each."""
    words = [f"{name}={getattr(args, name)}" for name in SWEPT], [f"{part}={f}:{n}" for part, f, n in args.kernel]
    other = copy.copy(asked)
    other.axes = asked.axes | {item[0]: [item[1]] for item in args.compare if len(item) == 2}
    other.replaced = asked.replaced | {part: function(f, n) for part, f, n in
                                       (item for item in args.compare if len(item) == 3)}
    said = {w.partition("=")[0]: w for w in (*words[0], *words[1])}
    then = said | {item[0]: f"{item[0]}={':'.join(map(str, item[1:]))}" for item in args.compare}
    asked.compares = other.compares = False
    with ProgressLine("reading the model") as progress:
        points = [each.predicted(each.points()[0], progress.say) for each in (asked, other)]
    return points, tuple(" ".join(s.values()) for s in (said, then))


def reach(args, asked):
    """Looks for the cheapest configuration that meets --goal: a line for each as it comes, then that one."""
    wanted, prices, tried = goal.goal_of(args.goal), goal.prices_of(args.prices), []
    if wanted.ttft_ms is not None and args.prompt is None:
        raise ModelError("a goal for the first token", "the tokens of the prompt", "--prompt")
    if not args.json:
        print(goal.HEAD)
    with ProgressLine("looking") as progress:
        for found in goal.search(asked, wanted, prices, progress.say):
            tried.append(found)
            if not args.json:
                print(goal.line(found), flush=True)
    best = goal.cheapest(tried)
    if args.json:
        print(json.dumps({"cheapest": best and dataclasses.asdict(best), "prices": prices,
                          "tried": [dataclasses.asdict(found) for found in tried]}, indent=1))
    else:
        print(f"\ncheapest\n{goal.line(best)}" if best else "\nnone meets the goal")
    return 0 if best else 3


def run(args):
    asked = sweep(args)
    if args.goal:
        return reach(args, asked)
    names = None
    if args.compare:
        points, names = run_comparison(args, asked)
    elif args.sweep:
        points = run_sweep(args, asked)
    else:
        with ProgressLine("reading the model") as progress:
            points = [asked.predicted(asked.points()[0], progress.say)]
    found = [p for p in points if p.found is not None]
    answered = any(p.found is not None or p.kept and "tpot_us" in p.kept for p in points)
    if args.plot and found:
        report.plot([p.found for p in found], args.plot)
    if args.html and found:
        page.write(points, args.html, args.instance or "")
    if args.json:
        out = [p.as_json() for p in points]
        print(json.dumps(out if args.sweep or names else out[0], indent=1))
    elif names:
        print("\n".join(report.comparison(points, names)))
    else:
        if not args.sweep:
            print("\n".join(report.lines(points[0].found, points[0].prompt, points[0].speculation)))
        for p in found:
            if p.without is not None:
                print("\n".join(report.difference(p.without, p.found, asked.replaced)))
    return 0 if answered else 3


def run_sweep(args, asked):
    """The points of --sweep, each with its line when it is known."""
    journal, executor = None, _executor(args.dask)
    prompted = args.prompt is not None
    if args.journal:
        stamp = asked.stamp()
        try:
            journal = Journal(args.journal, lambda point: stamp, {"nkisim_model": 1},
                              lambda row: is_found(row, prompted, bool(args.speculate)))
        except (BadSession, OSError) as problem:
            raise ModelError(str(problem), "a journal of nkisim model", "--journal") from None
    if not args.json:
        print(report.head(prompted, bool(args.speculate)), flush=True)

    def each(point):
        if not args.json:
            print(report.row(point, prompted, bool(args.speculate)), flush=True)

    return asked.run(args.jobs, executor, args.shard, journal, each)


def _of_library(problem, args):
    """True if an exception was raised in a file of the library, or of a kernel of the user's."""
    trace = problem.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    file = Path(trace.tb_frame.f_code.co_filename).resolve()
    given = [args.library, *(path for _, path, _ in args.kernel)]
    return any(Path(place).resolve() in (file, *file.parents) for place in given if place)


def main(words):
    args = arguments(words)
    try:
        return run(args)
    except Error as problem:
        print(f"nkisim model: {problem}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("nkisim model: interrupted", file=sys.stderr)
        return 130
    except Exception as problem:  # how the library says what its kernels do not take
        if not isinstance(problem, AssertionError) and not _of_library(problem, args):
            raise
        kind = "" if isinstance(problem, AssertionError) else f"{type(problem).__name__}: "
        print(f"nkisim model: the library refuses it: {kind}{problem}", file=sys.stderr)
        return 3
