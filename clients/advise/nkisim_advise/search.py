"""Simulates a program with proposed edits within a time budget, and keeps edits that help and
change no value.
"""

import math
import pathlib
import tempfile
import time
from dataclasses import dataclass, field

import numpy as np

from nkisim_work import Ended, Worker, message

from . import buffers, engines, forms, fusions, products, transfers, transposes, widen
from .program import BadProgram, Program

KINDS = (widen, transfers, transposes, fusions, buffers, products, forms, engines)
#: At most this many times what the program's own run takes, in all: processor time, so that a busy machine gives the
#: same advice.
BUDGET = 30
#: A job that has begun ends where it takes as many times the processor time that is left, however busy the machine is.
_PATIENCE = 10
#: Below this share of the latency a change is not worth a line.
LEAST = 0.005
#: The order in which edits are combined at first: those that need fewer bytes or instructions change what others do.
_RANK = {kind: n for n, kind in enumerate(
    ("keep", "widen", "transpose", "fuse", "buffers", "weights", "merge", "form", "engine", "queue"))}
#: Kinds that leave the work as it is and do it elsewhere. Among findings their gain counts by half: what needs less
#: work comes first, unless it gains far less.
_TRICKS = ("engine", "queue", "descriptors")
#: 80 % of a normal distribution lie within as many standard deviations.
_FOUR_OF_FIVE = 1.2816


@dataclass
class Finding:
    """A change that helps: simulated, and its outputs are the same bits."""
    edit: object
    latency_us: float
    gain: float  # share of the latency that it saves
    interval: tuple  # of the gain, in 4 of 5 cases; None if not known

    def as_json(self):
        return {"kind": self.edit.kind, "line": self.edit.line, "instruction": self.edit.what, "write": self.edit.say,
                "latency_us": round(self.latency_us, 3), "gain_percent": round(100 * self.gain, 2),
                "interval_percent": self.interval and [round(100 * x, 2) for x in self.interval]}


@dataclass
class Advice:
    """The result of a search. `combined`: the edits that help together, in the order in which they were added."""
    trace: str
    target: str
    latency_us: float
    bottleneck: str
    findings: list
    combined: list = field(default_factory=list)
    combined_us: float | None = None
    combined_interval: tuple | None = None
    bounds: list = field(default_factory=list)  # (what, us)
    tried: int = 0
    refused: int = 0  # not a program that the machine runs: no space, a rule of an instruction
    differ: int = 0   # other values
    left: int = 0     # not tried: the budget was used up
    own_seconds: float = 0.0        # processor seconds of the program's own run
    processor_seconds: float = 0.0  # of the whole search
    seconds: float = 0.0            # wall time

    def as_json(self):
        return {"trace": self.trace, "target": self.target, "latency_us": round(self.latency_us, 3),
                "bottleneck": self.bottleneck, "findings": [f.as_json() for f in self.findings],
                "combined": self.combined_us and {
                    "lines": [{"line": e.line, "write": e.say} for e in self.combined],
                    "latency_us": round(self.combined_us, 3),
                    "gain_percent": round(100 * (1 - self.combined_us / self.latency_us), 2),
                    "interval_percent": self.combined_interval and
                    [round(100 * x, 2) for x in self.combined_interval]},
                "bounds": [{"what": what, "us": round(us, 3)} for what, us in self.bounds],
                "variants": {"simulated": self.tried, "refused": self.refused, "other_values": self.differ,
                             "not_tried": self.left},
                "seconds": round(self.seconds, 2), "processor_seconds": round(self.processor_seconds, 2),
                "own_seconds": round(self.own_seconds, 3)}


def _worth(edit, gain):
    """The number by which findings are ordered."""
    return gain / 2 if edit.kind in _TRICKS else gain


class _OutOfTime(Exception):
    pass


class _Bench:
    """One worker, the variants' folder, and what may still be spent."""

    def __init__(self, worker, folder, machine, roots):
        self.worker, self.folder, self.roots = worker, pathlib.Path(folder), roots
        self.machine = machine
        self.begun, self.begun_thread = time.monotonic(), time.thread_time()
        self.seconds = math.inf  # the caller's limit
        self.budget = math.inf   # processor seconds
        self.path = self.folder / "variant.jsonl"
        self.reference = None

    def spent(self):
        """Processor seconds of the worker, which is new, and of this thread since then."""
        return self.worker.processor_seconds() + time.thread_time() - self.begun_thread

    def used(self):
        """The share of the budget or of the caller's time that is gone, 0 to 1 and above."""
        return max(self.spent() / self.budget, (time.monotonic() - self.begun) / self.seconds)

    def job(self, want, **more):
        left = min(_PATIENCE * (self.budget - self.spent()), self.begun + self.seconds - time.monotonic())
        if left <= 0:
            raise _OutOfTime
        try:
            return self.worker.run({"trace": str(self.path), "want": want, "roots": self.roots, **self.machine, **more},
                                   None if left == math.inf else left)
        except Ended as ended:
            if ended.kind == "timeout":
                raise _OutOfTime from None
            return {"error": {"text": str(ended), "rule": ended.kind}}

    def time(self, program):
        """The outcome of a variant without values, or with them where its course depends on some."""
        program.write(self.path)
        said = self.job("time", reasons=False)
        if said.get("error", {}).get("rule") == "timing_only_values":
            said = self.job("all", reasons=False)
        return said

    def values(self, program):
        """The outputs by name, None if it does not run."""
        program.write(self.path)
        file = self.folder / "outputs.npz"
        said = self.job("values", outputs=str(file))
        return None if "error" in said else _arrays(file)

    def same(self, program):
        found = self.values(program)
        return found is not None and found.keys() == self.reference.keys() and all(
            found[k].tobytes() == a.tobytes() for k, a in self.reference.items())


def _arrays(file):
    with np.load(file) as archive:
        return {k: archive[k] for k in archive.files}


def interval(before, after, versions):
    """The gain in 4 of 5 cases: the errors of versions of one kernel differ by a factor whose logarithm has the
    standard deviation `versions` (docs/evidence.md)."""
    if not versions:
        return None
    spread = _FOUR_OF_FIVE * versions
    return tuple(1 - after / before * math.exp(s * spread) for s in (1, -1))


def all_edits(program):
    """Edits of every kind, those of the lines first that have most to do."""
    weight = {}
    for (line, name), places in program.lines().items():
        weight[line, name] = len(places)
    edits = [e for kind in KINDS for e in kind.edits(program)]
    order = {e: n for n, e in enumerate(edits)}
    return sorted(edits, key=lambda e: (-weight.get((e.line, e.what), 0), order[e]))


def advise(trace, machine=None, budget=BUDGET, top=10, said=lambda line: None, session=None,
           memory_bytes=None, seconds=math.inf):
    """Finds what would make the program in `trace` faster (an Advice). machine: fields of a job that say the machine
    and the compiler's switches (nkisim_work.machine). session: a file for the session of the run as it is.
    memory_bytes, seconds: limits apart from the budget. Raises BadProgram where it does not run as it is."""
    with tempfile.TemporaryDirectory(prefix="nkisim-advise-") as folder, Worker(memory_bytes, folder=folder) as worker:
        home = str(pathlib.Path(trace).resolve().parent)
        bench = _Bench(worker, folder, machine or {}, [home, str(pathlib.Path.cwd())])
        bench.seconds = seconds
        program = Program.read(trace, folder)
        if program.header.get("timing_only"):
            raise BadProgram(f"{trace} has no values (timing_only), so none could be compared")
        program.write(bench.path)
        outputs = pathlib.Path(folder) / "reference.npz"
        try:
            base = bench.job("all", outputs=str(outputs))
        except _OutOfTime:
            raise BadProgram(f"{trace} takes longer than the {seconds:g} s that there are") from None
        if "error" in base:
            raise BadProgram(message(base).removeprefix("nkisim: "))
        own = bench.spent()
        bench.reference = _arrays(outputs)
        # Work that has begun when the budget is used up is finished: a part is kept for that.
        bench.budget = 0.97 * budget * own
        if session is not None:
            bench.job("all", session=str(session))
        advice = Advice(str(trace), base["target"], base["latency_us"], base["bottleneck"], [], own_seconds=own)
        _search(bench, program, base, advice, top, said)
        advice.processor_seconds = bench.spent()
        advice.seconds = time.monotonic() - bench.begun
        return advice


def _versions(outcome):
    return ((outcome.get("confidence") or {}).get("interval") or {}).get("versions")


def _search(bench, program, base, advice, top, said):
    candidates = all_edits(program)
    helping = []
    used = bench.used()
    singles_end, verified_end = used + 0.5 * (1 - used), used + 0.75 * (1 - used)
    for n, edit in enumerate(candidates):
        if bench.used() > singles_end:
            advice.left = len(candidates) - n
            break
        said(f"{n + 1} of {len(candidates)} variants, {len(helping)} help")
        variant = edit.apply(program)
        if variant is None:
            continue
        try:
            found = bench.time(variant)
        except _OutOfTime:
            advice.left = len(candidates) - n
            break
        advice.tried += 1
        if "error" in found:
            advice.refused += 1
        elif found["latency_us"] < (1 - LEAST) * base["latency_us"]:
            helping.append((found["latency_us"], edit, variant))
    helping.sort(key=lambda h: -_worth(h[1], 1 - h[0] / base["latency_us"]))
    helping = _best_alternatives(helping)
    try:
        _verify(bench, base, advice, helping, top, verified_end)
        _combine(bench, program, base, advice, said)
    except _OutOfTime:
        pass
    if not advice.bounds:
        advice.bounds = bounds(base)


def _best_alternatives(helping):
    """Keeps the best of alternatives and no other. Those of other values are found out later, so one follows in
    reserve."""
    seen, out = {}, []
    for h in helping:
        n = seen[h[1].alternative] = seen.get(h[1].alternative, 0) + 1
        if n <= 2:
            out.append(h)
    return out


def _verify(bench, base, advice, helping, top, end):
    """Findings are those that give the same bits."""
    done = set()
    for latency, edit, variant in helping:
        if len(advice.findings) == top or (advice.findings and bench.used() > end):
            break
        if edit.alternative in done:
            continue
        if not bench.same(variant):
            advice.differ += 1
            continue
        done.add(edit.alternative)
        advice.findings.append(Finding(edit, latency, 1 - latency / base["latency_us"],
                                       interval(base["latency_us"], latency, _versions(base))))


def _combine(bench, program, base, advice, said):
    """Greedy, in three orders: fewest bytes first, that of the findings, and the largest gain first. Each finding is
    kept if it helps with those before it."""
    try:
        for order in (lambda f: (_RANK.get(f.edit.kind, len(_RANK)), f.latency_us),
                      lambda f: -_worth(f.edit, f.gain), lambda f: f.latency_us):
            best, best_us, last, chosen = program, base["latency_us"], base, []
            for finding in sorted(advice.findings, key=order):
                variant = finding.edit.apply(best)
                if variant is None:
                    continue
                said(f"combining: {len(chosen)} edits, {best_us:.1f} us")
                found = bench.time(variant)
                advice.tried += 1
                if "error" in found or found["latency_us"] >= (1 - LEAST) * best_us:
                    continue
                best, best_us, last = variant, found["latency_us"], found
                chosen.append(finding.edit)
            if chosen and best_us < (advice.combined_us or math.inf):
                if not bench.same(best):
                    advice.differ += 1
                    continue
                advice.combined, advice.combined_us, advice.bounds = chosen, best_us, bounds(last)
                advice.combined_interval = interval(base["latency_us"], best_us, _versions(base))
    finally:
        advice.findings.sort(key=lambda f: -_worth(f.edit, f.gain))


def bounds(outcome):
    """Lower bounds of any order of the same instructions: (unit, us), the largest first."""
    totals, us = outcome["totals"], outcome["latency_us"]
    out = [("HBM traffic", totals["mbu_estimated_percent"] * us),
           ("DMA engines", totals["dma_active_time_percent"] * us)]
    for engine in ("tensor", "vector", "scalar", "gpsimd", "sync"):
        out.append((f"{engine} engine", totals[f"{engine}_engine_active_time_percent"] * us))
    return sorted(out, key=lambda b: -b[1])[:3]
