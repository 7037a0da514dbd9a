"""Implements `nkisim calibrate`: fits numbers of a machine description to measurements, and writes
the fitted one.

One set of numbers is fitted to all measurements; there is no number per kernel. A part of the
measurements can be held back: their error before and after says whether the fit holds elsewhere.
"""

import datetime
import json
import math
import os
import statistics
import tempfile
from pathlib import Path

from nkisim_work.extras import install_hint
from nkisim_work.files import replace
from nkisim_work.options import Parser

from . import measurements
from .program import Failed, Program, Progress
from .replay import Replays

EXAMPLES = """
nkisim calibrate --measurements mine.json --param dma.bytes_per_ns=20:30 -o my_trn2.json
nkisim calibrate --measurements mine.json --param engines.vector.wake=10:60 --hold-out 0.3 -o my.json
nkisim run k.nisa --config my_trn2.json"""
NOTES = """
One set of numbers is fitted to all measurements; there is no number per kernel. With --hold-out, the error of
the rest before and after says whether the fit holds elsewhere; --seed chooses it.

MEASUREMENTS is JSON; paths in it are relative to the file:

  {"measurements": [
     {"trace": "add.nisa", "metric": "total_time", "value": 28.36, "unit": "us", "overhead": 15.35},
     {"profile": "attention.json.gz"}]}

docs/evidence.md describes it. Traces run on the config's target (default: trn2).
Exit codes: 0 ok, 1 nothing fits better than the config as it is, 2 usage, 3 bad input."""
STEPS = (0.1, 0.02)   # of a parameter's range: differences for the slopes, coarse and then fine
LOSS_SCALE = 0.1      # errors beyond 10 % count linearly, so that one misfit does not decide


class Parameter:
    """A number of the config that may change between two bounds."""

    def __init__(self, text, config):
        self.path, found, bounds = text.partition("=")
        low, colon, high = bounds.partition(":")
        try:
            self.low, self.high = float(low), float(high)
        except ValueError:
            found = ""
        if not (found and colon) or not self.low < self.high or not math.isfinite(
                self.high - self.low):
            raise Failed(f"--param {text!r}; PATH=LOW:HIGH with LOW < HIGH is required", code=2)
        self.leaf = _leaf(config, self.path)
        self.before = self.value = float(self.leaf["value"])
        self.matters = True

    def at(self, x):
        """The value at x in 1 to 2: a range that keeps relative steps of the fit useful."""
        return min(self.high, max(self.low, self.low + (x - 1) * (self.high - self.low)))

    def x(self):
        start = (self.before - self.low) / (self.high - self.low)
        return 1 + min(1.0, max(0.0, start))

    def note(self):
        if not self.matters:
            return "no measurement depends on it: left as it was"
        reach = 1e-3 * (self.high - self.low)
        return "at its bound" if min(self.value - self.low, self.high - self.value) < reach else ""


def _leaf(config, path):
    at = config
    for key in path.split("."):
        if isinstance(at, list):
            at = next((row for row in at if row.get("id") == key), None)
        else:
            at = at.get(key) if isinstance(at, dict) else None
        if at is None:
            raise Failed(f"--param {path}: the config has no {key!r} there", code=2)
    value = at.get("value") if isinstance(at, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Failed(f"--param {path} is not a number of the config", code=2)
    return at


def spread(figures):
    """Mean and worst absolute error in percent, each row counted once (a profile by its mean)."""
    rows = {}
    for f in figures:
        rows.setdefault(id(f.row), []).append(f)
    errors = [100 * sum(abs(f.error) * f.weight for f in part) / sum(f.weight for f in part)
              for part in rows.values()]
    return {"rows": len(errors), "mean_percent": statistics.mean(errors),
            "worst_percent": max(errors)} if errors else None


def minimise(residuals, start):
    """Least squares with a soft loss in 1 to 2."""
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise Failed(f"the fit needs the Python package scipy: {install_hint('scipy')}") from None
    x = start
    for step in STEPS:
        x = least_squares(residuals, x, bounds=(1, 2), diff_step=step, loss="soft_l1",
                          f_scale=LOSS_SCALE, xtol=step / 50, ftol=1e-4, max_nfev=40).x
    return x


def fit(replays, rows, parameters):
    """Changes the parameters that matter to the best values found."""
    def residuals(changed):
        values = {p.path: p.before for p in parameters} | changed
        return [f.residual for f in replays.figures(rows, values)]

    for p in parameters:
        p.matters = residuals({p.path: p.low}) != residuals({p.path: p.high})
    free = [p for p in parameters if p.matters]
    if not free:
        return
    x = minimise(lambda x: residuals({p.path: p.at(v) for p, v in zip(free, x)}),
                 [p.x() for p in free])
    for p, v in zip(free, x):
        p.value = float(f"{p.at(v):.6g}")


def changed_config(args, config, parameters, source):
    """The new config: what it inherits and the fitted numbers with their source."""
    out = Path(args.output)
    base = args.config
    if Path(base).is_file():
        base = os.path.relpath(base, out.resolve().parent)
    result = {"inherits": base, "name": out.stem, "target": config["target"]}
    for p in parameters:
        if p.value == p.before:
            continue
        leaf = {"value": p.value, "unit": p.leaf["unit"], "confidence": "derived",
                "source": f"{source}; was {p.before:g}, range {p.low:g} to {p.high:g}"}
        _put(result, p.path.split("."), leaf)
    return result


def _put(at, keys, leaf):
    """Sets a nested value; under rules, extras the second key is a row's id."""
    for key, following in zip(keys, keys[1:] + [None]):
        if isinstance(at, list):
            row = next((r for r in at if r["id"] == key), None)
            if row is None:
                row = {"id": key}
                at.append(row)
            at = row
        elif following is None:
            at[key] = leaf
        else:
            at = at.setdefault(key, [] if key in ("rules", "extras") else {})


def parse(words):
    parser = Parser("calibrate", "--measurements FILE --param PATH=LOW:HIGH -o CONFIG [options]",
                    "Fits numbers of a config to measurements, within bounds, and writes a config that has them.",
                    EXAMPLES, NOTES)
    add = parser.option
    add("measurements", required=True)
    add("config", default="trn2")
    add("param", required=True)
    add("hold-out")
    add("seed")
    add("output", required=True)
    add("jobs")
    add("nkisim")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    if not 0 <= args.hold_out < 1:
        parser.error("--hold-out takes a fraction from 0 to below 1")
    return args


def report(args, result):
    if args.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{'error':22} {'rows':>5} {'mean before':>12} {'after':>9} {'worst before':>13} {'after':>9}")
    for name in ("fitted", "held back"):
        part = result["errors"].get(name)
        if part:
            b, a = part["before"], part["after"]
            print(f"{name:22} {b['rows']:5} {b['mean_percent']:10.2f} % {a['mean_percent']:7.2f} % "
                  f"{b['worst_percent']:11.2f} % {a['worst_percent']:7.2f} %")
    for p in result["parameters"]:
        note = f"  ({p['note']})" if p["note"] else ""
        print(f"{p['path']:40} {p['before']:g} -> {p['after']:g}{note}")


def source_text(args, errors):
    f = errors["fitted"]
    text = (f"calibrated from {Path(args.measurements).name}, {datetime.date.today()}: mean error "
            f"{f['before']['mean_percent']:.2f} % before, {f['after']['mean_percent']:.2f} % after, "
            f"{f['before']['rows']} rows")
    held = errors.get("held back")
    if held:
        text += (f"; held back {held['before']['mean_percent']:.2f} % before, "
                 f"{held['after']['mean_percent']:.2f} % after, {held['before']['rows']} rows")
    return text


def calibrate(args, scratch):
    """Exit code; writes the config."""
    nkisim = Program(args.nkisim)
    config = nkisim.config(args.config)
    parameters = [Parameter(text, config) for text in args.param]
    if len({p.path for p in parameters}) < len(parameters):
        raise Failed("--param names a path twice", code=2)
    nkisim.config(args.config, [f"{p.path}={p.at(1.5):g}" for p in parameters])
    rows = measurements.read(args.measurements)
    fitted, held = measurements.split(rows, args.hold_out, args.seed)
    replays = Replays(nkisim, args.config, scratch, Progress("fitting: simulation"), args.jobs)
    before = {p.path: p.before for p in parameters}
    figures = replays.figures(fitted, before)
    if len(figures) < len(parameters):
        raise Failed(f"{len(parameters)} parameters cannot be found from {len(figures)} figures",
                     code=2)
    fit(replays, fitted, parameters)
    after = {p.path: p.value for p in parameters}
    errors = {name: {"before": spread(replays.figures(part, before)),
                     "after": spread(replays.figures(part, after))}
              for name, part in (("fitted", fitted), ("held back", held)) if part}
    return finish(args, config, parameters, errors)


def finish(args, config, parameters, errors):
    gain = (errors["fitted"]["before"]["mean_percent"] - errors["fitted"]["after"]["mean_percent"])
    report(args, {"errors": errors, "written": gain > 0,
                  "parameters": [{"path": p.path, "before": p.before, "after": p.value,
                                  "low": p.low, "high": p.high, "note": p.note()}
                                 for p in parameters]})
    if gain <= 0:
        return 1
    text = json.dumps(changed_config(args, config, parameters, source_text(args, errors)), indent=2)
    try:
        replace(args.output, text.encode() + b"\n")
    except OSError as problem:
        raise Failed(f"{args.output}: {problem.strerror or problem}") from None
    return 0


def main(words):
    args = parse(words)
    with tempfile.TemporaryDirectory() as scratch:
        return calibrate(args, scratch)
