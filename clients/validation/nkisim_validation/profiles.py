"""Simulates the instructions of device profiles, with the numbers in use and with numbers fitted
without that profile.

`nkisim validate --replay` simulates the instruction stream of each device profile in the table
and compares times, engines and packets. With --leave-one-out the numbers of
clients/validation/table/leave_one_out.json are fitted anew, once without each profile and once without each kernel
family, from the middle of their ranges, so that nothing of the profile held out is in them; then the
one held out is predicted.
"""

import json
from pathlib import Path

from .calibrate import Parameter, fit
from .measurements import Row
from .replay import Replays

PACKETS = ("median", "p90")


def family(profile):
    """attention_fused_bf16_s512 -> attention_fused: all but dtype and sequence."""
    return profile.name.split(".")[0].rsplit("_", 2)[0]


def compare(diff):
    """Figures of one replay from `diff-profile --json`: errors in percent, engines in points."""
    measured, simulated = diff["measured_total_ns"], diff["simulated_total_ns"]
    engines = {e["engine"]: 100 * (e["simulated_active_ns"] / simulated
                                   - e["measured_active_ns"] / measured) for e in diff["engines"]}
    worst = max(engines, key=lambda name: abs(engines[name]))
    packets = diff["dma"]["duration_error"]
    return {"measured_us": measured / 1e3, "simulated_us": simulated / 1e3,
            "error": 100 * (simulated / measured - 1), "engine": worst,
            "engine_points": engines[worst],
            **{f"packet_{p}": 100 * packets[p] for p in PACKETS}}


class Profiles:
    """Replays of the profiles in a folder."""

    def __init__(self, folder, nkisim, config, scratch, progress, jobs=None):
        self.files = sorted(Path(folder).glob("*.json.gz"))
        self.replays = Replays(nkisim, config, scratch, progress, jobs)

    def rows(self, held=()):
        return [Row(f.name, f) for f in self.files if f not in held]

    def errors(self, values, own_phase=False):
        """{file: figures} with these values in place of the config's."""
        return {f: compare(self.replays.diff(f, values, own_phase)) for f in self.files}

    def fitted(self, held, ranges, config):
        """Values found without the profiles in `held`, by path."""
        parameters = [Parameter(text, config) for text in ranges]
        for p in parameters:
            p.before = p.value = (p.low + p.high) / 2
        fit(self.replays, self.rows(held), parameters)
        return {p.path: p.value for p in parameters}


def replay(profiles):
    """Rows of --replay: default phase of the utilisation limit, and the run's own."""
    default, own = profiles.errors({}), profiles.errors({}, own_phase=True)
    return [{"profile": f.name.split(".")[0], **default[f], "own_phase_error": own[f]["error"]}
            for f in profiles.files]


def leave_one_out(profiles, ranges, config):
    """Rows of --leave-one-out: what was held out together, the numbers found, its figures."""
    groups = [[f] for f in profiles.files]
    for name in dict.fromkeys(map(family, profiles.files)):
        members = [f for f in profiles.files if family(f) == name]
        groups += [members] * (len(members) > 1)
    rows = []
    for held in groups:
        values = profiles.fitted(held, ranges, config)
        figures = profiles.errors(values)
        rows += [{"profile": f.name.split(".")[0], "held_out": len(held), "values": values,
                  **figures[f]} for f in held]
    return rows


def ranges(folder):
    """The numbers to be fitted anew: lines PATH=LOW:HIGH of clients/validation/table/leave_one_out.json."""
    table = json.loads((Path(folder) / "leave_one_out.json").read_text(encoding="utf-8"))
    return table["parameters"]


def mean_and_worst(rows, key="error"):
    errors = [r[key] for r in rows]
    return sum(map(abs, errors)) / len(errors), max(errors, key=abs)


HEAD = ("| profile | measured us | simulated us | error | own phase | engine active, worst | "
        "packets: median | p90 |\n|---|--:|--:|--:|--:|---|--:|--:|")


def _line(r):
    own = f"{r['own_phase_error']:+.1f} %" if "own_phase_error" in r else "-"
    return (f"| `{r['profile']}` | {r['measured_us']:.2f} | {r['simulated_us']:.2f} | "
            f"{r['error']:+.1f} % | {own} | {r['engine']} {r['engine_points']:+.1f} points "
            f"| {r['packet_median']:.1f} % | {r['packet_p90']:.1f} % |")


def table(rows):
    """Markdown of either table."""
    mean, worst = mean_and_worst(rows)
    own = "-"
    if "own_phase_error" in rows[0]:
        own = "{:.1f} % ({:+.1f} %)".format(*mean_and_worst(rows, "own_phase_error"))
    return "\n".join([HEAD, *map(_line, rows),
                      f"| mean (worst) | | | {mean:.1f} % ({worst:+.1f} %) | {own} | | | |"])


def found(rows):
    """Markdown of the numbers that each part of the profiles gave."""
    paths = list(rows[0]["values"])
    fits = {tuple(sorted(r["values"].items())): [] for r in rows}
    for r in rows:
        fits[tuple(sorted(r["values"].items()))].append(r["profile"])
    lines = ["| found without | " + " | ".join(f"`{p}`" for p in paths) + " |",
             "|---|" + "--:|" * len(paths)]
    for values, held in fits.items():
        numbers = dict(values)
        lines.append("| " + ", ".join(f"`{h}`" for h in held) + " | "
                     + " | ".join(f"{numbers[p]:.4g}" for p in paths) + " |")
    return "\n".join(lines)


def text(result):
    """The tables that there are, for a terminal and for docs/evidence.md."""
    parts = [table(result["replay"])]
    rows = result.get("leave_one_out", [])
    one = [r for r in rows if r["held_out"] == 1]
    more = [r for r in rows if r["held_out"] > 1]
    if one:
        parts += ["Each profile with the numbers found without it:", table(one), found(one)]
    if more:
        parts += ["Each family with the numbers found without it:", table(more), found(more)]
    return "\n\n".join(parts)
