"""Implements `nkisim probe`: small kernels to measure on a real chip, a form for the results, and
the machine description that follows from them.

Each probe repeats one thing at two counts; the slope between its times is the time of one, without what a launch
costs. A probe that a number of the config decides is solved for it; the others only say whether the model fits.
"""

import contextlib
import datetime
import json
import math
import os
import shutil
import statistics
import tempfile
from pathlib import Path

from nkisim_work import Ended, Workers, foreign, message
from nkisim_work.files import replace
from nkisim_work.options import Parser

from .calibrate import _leaf, _put
from .program import Failed, Program, Progress, on_threads

EXAMPLES = """
nkisim probe --target trn2 -o probes                    # kernels, a form, and how to measure
nkisim probe --measurements probes/results.json -o my_trn2.json
nkisim run k.nisa --config my_trn2.json"""
NOTES = """
probes/measure.py runs the kernels with nki.benchmark on the chip and fills the form, results.json; times of
profiles may be written there by hand (us, several of each, in the order of the counts).
Exit codes: 0 ok, 1 some probe fits no number of the model, 2 usage, 3 bad input."""
KERNELS = Path(__file__).with_name("probe_kernels.py")
#: A time of one may be off by so many standard errors (1 of 20 forms has a probe beyond),
SIGMAS = 3
#: and a share of it, to which a number is solved and times are printed.
RESOLUTION = 0.01
#: Noise that is taken for a single time.
NOISE = 0.03
PASSES, STEPS = 3, 6  # over all numbers, and for each
FACTORS = (1, 0.7, 1.4, 0.5, 2, 0.25, 4)  # of a number, where a solution is looked for

#: The number that decides a probe, on the targets that have one of their own.
NUMBERS = {
    "load_rate": "dma.bytes_per_ns", "software_trigger": "dma.software.interval_base",
    "hardware_trigger": "dma.hardware.trigger.sync", "run_time_address": "dma.software.dynamic_trigger",
    "pieces_far_apart": "dma.piece_gap", "copies_within_hbm": "hbm.bytes_per_ns",
    "vector_short": "rules.vector_fp32_sbuf.overlap", "vector_long": "rules.vector_fp32_sbuf.cycles_per_element",
    "scalar_short": "rules.activate.overlap", "scalar_long": "rules.activate.cycles_per_element",
    "vector_two_operands": "rules.tensor_tensor_sbuf.cycles_per_element",
    "reciprocal": "rules.reciprocal.cycles_per_element",
    "gpsimd_two_operands": "rules.gpsimd_two_inputs.cycles_per_element",
    "products_512": "rules.matmul.cycles_per_element"}
OF_TARGET = {("skipped_rows", "trn1"): "dma.software.dynamic_trigger", ("loop", "trn1"): "rules.loop_vector.fixed",
             ("vector_shortest", "trn1"): "extras.vector_short.min_interval",
             ("vector_shortest", "trn2"): "extras.vector_short.min_interval"}

MEASURE = '''"""Runs the probes on this machine's chip and fills results.json: python measure.py"""
import json
import pathlib

import ml_dtypes
import numpy as np
import neuronxcc.nki as benchmarks  # nki.benchmark of the release that is installed

import probe_kernels

FORM = pathlib.Path(__file__).with_name("results.json")
form = json.loads(FORM.read_text())
for name, probe in form["probes"].items():
    make, counts, _ = probe_kernels.PROBES[name]
    for count, times in zip(counts, probe["us"]):
        kernel, arguments = make(count)
        arrays = [np.full(shape, 99 if name == "skipped_rows" else 0, np.int32) if dtype == "int32" else
                  np.ones(shape, getattr(ml_dtypes, dtype, dtype)) for shape, dtype in arguments.values()]
        while len(times) < 5:
            timed = benchmarks.benchmark(kernel, warmup=5, iters=20)
            timed(*arrays)
            times.append(timed.benchmark_result.nc_latency.get_latency_percentile(50))
        FORM.write_text(json.dumps(form, indent=1))
        print(name, count, times)
'''


def kernels():
    import nkisim
    nkisim.install()
    from . import probe_kernels
    return probe_kernels.PROBES


def of(target):
    return {name: (make, counts) for name, (make, counts, targets) in kernels().items() if target in targets}


def write(target, folder):
    """The folder with kernels, the form and the program that fills it; none if it cannot be written whole."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Failed(f"{folder} is not empty; a new folder is required")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fill(target, folder)
    except OSError as problem:
        for name in (KERNELS.name, "measure.py", "results.json"):
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        raise Failed(f"{folder}: {problem.strerror or problem}") from None
    print(f"wrote {folder}: on the chip `python measure.py` fills results.json, then\n"
          f"nkisim probe --measurements {folder}/results.json -o my_{target}.json")
    return 0


def fill(target, folder):
    """Writes the files of an empty folder."""
    shutil.copy(KERNELS, folder / KERNELS.name)
    (folder / "measure.py").write_text(MEASURE, encoding="utf-8")
    form = {"nkisim_probe": 1, "target": target, "measured_on": "instance, SDK release, date", "probes": {
        name: {"counts": list(counts), "us": [[], []], "number": number(name, target)}
        for name, (_, counts) in of(target).items()}}
    (folder / "results.json").write_text(json.dumps(form, indent=1) + "\n", encoding="utf-8")


def number(name, target):
    return OF_TARGET.get((name, target)) or (None if (name, "trn1") in OF_TARGET else NUMBERS.get(name))


class Slope:
    """The time of one by the medians of the times at two counts, and by what share it may be off."""

    def __init__(self, counts, times):
        first, second = (list(map(float, few)) for few in times)
        few, many = counts
        self.us = (statistics.median(second) - statistics.median(first)) / (many - few)
        freedom = len(first) + len(second) - 2
        # The normal quantile, made that of Student's t for an error that is found from few times.
        sigmas = SIGMAS + (SIGMAS**3 + SIGMAS) / (4 * freedom) if min(len(first), len(second)) > 1 else SIGMAS
        self.off = sigmas * math.hypot(error(first), error(second)) / (many - few) / abs(self.us) if self.us else 0


def error(times):
    """The standard error of the median of `times`."""
    spread = statistics.stdev(times) if len(times) > 1 else NOISE * times[0]
    return (math.sqrt(math.pi / 2) if len(times) > 2 else 1) * spread / math.sqrt(len(times))


def read(path):
    """The form, and {probe: Slope} of those that were measured."""
    try:
        form = foreign.read(path)
    except (OSError, ValueError) as problem:
        raise Failed(f"{path}: {problem}") from None
    if not isinstance(form, dict) or form.get("nkisim_probe") != 1 or not isinstance(form.get("probes"), dict):
        raise Failed(f"{path}: a form of `nkisim probe` is required")
    slopes = {}
    for name, probe in form["probes"].items():
        try:
            (few, many), (first, second) = probe["counts"], probe["us"]
            if first and second:
                slopes[name] = Slope((few, many), (first, second))
        except (TypeError, ValueError, KeyError, ArithmeticError):
            raise Failed(f"{path}: {name}: counts and us, two lists of times, are required") from None
        if name in slopes and slopes[name].us <= 0:
            raise Failed(f"{path}: {name}: {many} of them take no longer than {few}")
    if not slopes:
        raise Failed(f"{path}: no probe has times at both counts")
    return form, slopes


class Simulated:
    """Slopes of the probes with numbers of a config; the kernels are recorded once."""

    def __init__(self, program, target, config, names, scratch, jobs=None):
        self.workers, self.config, self.jobs = Workers(program.path), config, jobs
        self.traces = {name: [(n, record(make(n), name, target, Path(scratch) / f"{name}-{n}.nisa"))
                              for n in counts] for name, (make, counts) in of(target).items() if name in names}

    def _us(self, trace, settings):
        # Only skipped rows hang on values.
        job = {"trace": str(trace), "config": str(self.config), "want": "all" if "skipped" in trace.name else "time",
               "set": [f"{path}={value:.9g}" for path, value in settings.items()], "allow_unwritten": True,
               "reasons": False}
        try:
            said = self.workers.run(job)
        except (Ended, OSError) as problem:
            raise Failed(str(problem)) from None
        if "error" in said:
            raise Failed(message(said).removeprefix("nkisim: "))
        return said["latency_us"]

    def slopes(self, names, settings):
        jobs = [trace for name in names for _, trace in self.traces[name]]
        times = iter(on_threads(lambda trace: self._us(trace, settings), jobs, Progress("simulating"), self.jobs))
        found = {}
        for name in names:
            (few, _), (many, _) = self.traces[name]
            first, second = next(times), next(times)
            found[name] = (second - first) / (many - few)
        return found


def record(made, name, target, file):
    import nkisim
    import numpy as np
    kernel, arguments = made
    if name == "skipped_rows":
        arrays = [np.full(shape, 99, np.int32) if dtype == "int32" else nkisim.Shape(shape, dtype)
                  for shape, dtype in arguments.values()]
        import ml_dtypes
        arrays = [a if isinstance(a, np.ndarray) else np.zeros(a.shape, ml_dtypes.bfloat16) for a in arrays]
        nkisim.run(kernel, *arrays, target=target).save(file, compiled=False)
    else:
        nkisim.run(kernel, *(nkisim.Shape(shape, dtype) for shape, dtype in arguments.values()), target=target,
                   timing="only").save(file, compiled=False)
    return file


def solve_one(slope_at, start, measured):
    """The number near `start` at which a probe takes what was measured, by a false position between the nearest values
    that take more and less; None where there are none."""
    tried = sorted((start * f, slope_at(start * f) - measured) for f in FACTORS)
    pairs = [(a, b) for a, b in zip(tried, tried[1:]) if (a[1] < 0) != (b[1] < 0)]
    if not pairs:
        return None
    low, high = min(pairs, key=lambda pair: abs(pair[0][0] + pair[1][0] - 2 * start))
    for step in range(STEPS):
        share = low[1] / (low[1] - high[1]) if step % 3 < 2 else 0.5
        at = low[0] + share * (high[0] - low[0])
        off = slope_at(at) - measured
        if abs(off) <= 1e-3 * measured:
            return at
        low, high = ((at, off), high) if (off < 0) == (low[1] < 0) else (low, (at, off))
    return (low if abs(low[1]) < abs(high[1]) else high)[0]


def solve(simulated, measured, paths, values):
    """{path: value} at which each probe takes what was measured: one by one, several times over, as one probe may
    depend on more than one number."""
    values = dict(values)
    for _ in range(PASSES):
        for name, path in paths.items():
            found = solve_one(lambda v, n=name, p=path: simulated.slopes([n], {**values, p: v})[n], values[path],
                              measured[name])
            values[path] = values[path] if found is None else found
    return values


def compare_slopes(simulated, slopes, target, config):
    """[{probe, number, measured, before, after, value, was, verdict}] and the numbers that change."""
    measured = {name: slope.us for name, slope in slopes.items()}
    before = simulated.slopes(list(measured), {})
    paths = {name: number(name, target) for name in measured if number(name, target)}
    start = {path: float(_leaf(config, path)["value"]) for path in paths.values()}
    off = {name: path for name, path in paths.items()
           if abs(before[name] / measured[name] - 1) > slopes[name].off + RESOLUTION}
    values = solve(simulated, measured, off, {path: start[path] for path in off.values()})
    after = simulated.slopes(list(measured), values)
    found = max((slopes[name].off for name in off), default=0)  # by which the numbers found may be off
    rows = []
    for name in measured:
        moved = found if abs(after[name] / before[name] - 1) > RESOLUTION else 0
        allowed = math.hypot(slopes[name].off, moved) + RESOLUTION
        path, fits = paths.get(name), abs(after[name] / measured[name] - 1) <= allowed
        changed = name in off and values[path] != start[path]
        verdict = ("contradicted" if changed else "confirmed" if path else "fits") if fits else "nothing fits"
        rows.append({"probe": name, "number": path, "measured_us": measured[name], "before_us": before[name],
                     "after_us": after[name], "allowed": allowed, "was": start.get(path),
                     "value": values.get(path, start.get(path)), "verdict": verdict})
    kept = {row["number"]: row["value"] for row in rows if row["verdict"] == "contradicted"}
    return rows, kept


def new_config(args, form, config, rows):
    """The config that follows: the one that it inherits, and the numbers that a probe contradicts."""
    out, base = Path(args.output), args.config
    if Path(base).is_file():
        base = os.path.relpath(base, out.resolve().parent)
    result = {"inherits": base, "name": out.stem, "target": config["target"]}
    for row in rows:
        if row["verdict"] == "contradicted":
            leaf = {"value": float(f"{row['value']:.6g}"), "unit": _leaf(config, row["number"])["unit"],
                    "source": f"nkisim probe {row['probe']} on {form.get('measured_on')}, {datetime.date.today()}: "
                              f"{row['measured_us']:.4g} us, {row['before_us']:.4g} with {row['was']:g}",
                    "confidence": "derived"}
            _put(result, row["number"].split("."), leaf)
    return result


def show(rows):
    print(f"{'probe':22} {'measured':>10} {'simulated':>10} {'then':>10} {'allowed':>7}")
    for r in rows:
        change = r["number"] or ""
        if r["verdict"] == "contradicted":
            change += f" {r['was']:g} -> {r['value']:g}"
        print(f"{r['probe']:22} {r['measured_us']:7.4g} us {r['before_us']:7.4g} us {r['after_us']:7.4g} us "
              f"{100 * r['allowed']:5.1f} % {r['verdict']:13} {change}")
    if any(r["verdict"] == "nothing fits" for r in rows):
        print("nothing fits: with no value of its number, or with none at all, does the model take what was measured")


def answer(args):
    form, measured = read(args.measurements)
    program = Program(args.nkisim)
    args.config = args.config or form.get("target")
    config = program.config(args.config)
    unknown = [name for name in measured if name not in of(config["target"])]
    if unknown:
        raise Failed(f"{args.measurements}: no probe {unknown[0]!r} of {config['target']}")
    with tempfile.TemporaryDirectory() as scratch:
        simulated = Simulated(program, config["target"], args.config, measured, scratch, args.jobs)
        rows, kept = compare_slopes(simulated, measured, config["target"], config)
    if args.json:
        print(json.dumps({"ok": True, "probes": rows}, indent=1))
    else:
        show(rows)
    if args.output and kept:
        text = json.dumps(new_config(args, form, config, rows), indent=2) + "\n"
        try:
            replace(args.output, text.encode())
        except OSError as problem:
            raise Failed(f"{args.output}: {problem.strerror or problem}") from None
    return int(any(row["verdict"] == "nothing fits" for row in rows))


def main(words):
    parser = Parser("probe", "--target TARGET -o FOLDER | --measurements RESULTS [-o CONFIG]",
                    "Kernels that measure what the model is least sure of on a chip, and the config that follows.",
                    EXAMPLES, NOTES)
    for name in ("target", "measurements", "config", "output", "jobs", "nkisim"):
        parser.option(name)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    if args.measurements:
        return answer(args)
    if args.target not in ("trn1", "trn2", "trn3", "inf2") or not args.output:
        parser.error("--target trn1, trn2 or trn3 and --output are required, or --measurements")
    return write("trn1" if args.target == "inf2" else args.target, Path(args.output))
