"""Simulates measured programs for `nkisim calibrate` with the numbers being fitted, and compares
the times.
"""

import json
import math
from pathlib import Path

from .program import Failed, on_threads

# The share of a profile's total time in its weight; opcodes and packets share the rest by time.
TOTAL_SHARE = 0.5


class Figure:
    """One measured number against its simulation. weight: of the squared logarithm of the ratio."""

    def __init__(self, row, name, measured, simulated, weight):
        self.row, self.name, self.measured, self.simulated = row, name, measured, simulated
        self.weight = weight

    @property
    def error(self):
        """Relative to the measured value."""
        return self.simulated / self.measured - 1

    @property
    def residual(self):
        ratio = max(self.simulated, 1e-12 * self.measured) / self.measured
        return math.sqrt(self.weight) * math.log(ratio)


class Replays:
    """Runs the programs of rows with `--set` values and compares; repeated values are remembered."""

    def __init__(self, nkisim, config, scratch, progress, jobs=None):
        self.nkisim, self.config, self.scratch = nkisim, config, Path(scratch)
        self.progress, self.jobs = progress, jobs
        self._imported, self._known = {}, {}

    def figures(self, rows, values):
        """Figures of the rows, in their order. values: {config path: number}."""
        programs = list(dict.fromkeys((r.program, r.metric == "") for r in rows))
        sets = _sets(values)
        missing = [p for p in programs if (p, sets) not in self._known]
        results = on_threads(lambda p: self._run(*p, sets), missing, self.progress, self.jobs)
        self._known.update({(p, sets): r for p, r in zip(missing, results)})
        return [figure for r in rows
                for figure in _figures(r, self._known[(r.program, r.metric == ""), sets])]

    def _run(self, program, is_profile, sets):
        if not is_profile:
            return self.nkisim.summary(self._copy(program), self.config, sets)
        return self._diff(program, sets)

    def diff(self, profile, values, own_phase=False):
        """`diff-profile --json` of a replay. own_phase: the profile's phase of the PE limit."""
        return self._diff(profile, _sets(values), *["--throttle-from-profile"] * own_phase)

    def _diff(self, profile, sets, *options):
        changes = [word for item in sets for word in ("--set", item)]
        return json.loads(self.nkisim.call("diff-profile", self._import(profile), profile, "--json",
                                           "--config", self.config, *changes, *options))

    def _copy(self, program):
        """The trace itself, under a name in the scratch folder: summaries go next to it."""
        link = self.scratch / f"{abs(hash(program))}{program.suffix}"
        if not link.exists():
            link.symlink_to(program.resolve())
        return link

    def _import(self, profile):
        if profile not in self._imported:
            trace = self.scratch / f"{abs(hash(profile))}.nisa"
            self.nkisim.call("import-profile", profile, "-o", trace)
            self._imported[profile] = trace
        return self._imported[profile]


def _sets(values):
    return tuple(f"{path}={value:.6g}" for path, value in values.items())


def _figures(row, result):
    if row.metric == "":
        return _profile_figures(row, result)
    if not isinstance(result.get(row.metric), (int, float)):
        raise Failed(f"{row.name}: {row.metric!r} is not a metric of --summary-json")
    simulated = result[row.metric] + row.overhead
    return [Figure(row, row.name, row.value, simulated, row.weight)]


def _profile_figures(row, diff):
    rest = [(f"{o['engine']} {o['opcode']}", o["measured_mean_ns"], o["simulated_mean_ns"],
             o["count"] * o["measured_mean_ns"]) for o in diff["opcodes"]
            if o["measured_mean_ns"] > 0]
    dma = diff["dma"]
    if dma["measured_packet_time_ns"] > 0:
        packets = dma["measured_packet_time_ns"]
        rest.append(("DMA packets", packets, dma["simulated_packet_time_ns"], packets))
    total = sum(time for *_, time in rest)
    figures = [Figure(row, f"{row.name} total time", diff["measured_total_ns"],
                      diff["simulated_total_ns"], row.weight * TOTAL_SHARE)]
    for name, measured, simulated, time in rest:
        figures.append(Figure(row, f"{row.name} {name}", measured, simulated,
                              row.weight * (1 - TOTAL_SHARE) * time / total))
    return figures
