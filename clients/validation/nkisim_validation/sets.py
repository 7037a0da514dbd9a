"""Splits the measurements into those that a number or rule of the simulator was chosen with and all
others, so that errors are not flattered.

clients/validation/table/held_out.json ties measurements to the text of a config number's `source` field, and to
rules by hand. What it does not tie is held out: nothing was chosen with it. That is weaker than
unseen, since whoever chose the rest may have known it.
"""

import json
import statistics
from pathlib import Path

TARGETS = ("trn1", "trn2", "trn3")
CHOSEN = ("measured", "derived")  # a confidence that says somebody's figures are in the number
#: Parts of a config that no figure of one core depends on.
OF_RANKS = ("topology.", "collectives.")
REPLAY, OWN = "replay of profiles", "own programs"
SOURCE = {"new": "source, new API", "legacy": "source, legacy API"}
CALIBRATED, HELD_OUT, BY_FAMILY = "calibrated", "held out", "held out by family"


def numbers(config, path=""):
    """(path, number) of a config as plain JSON, with their source and confidence."""
    if isinstance(config, dict) and "confidence" in config and "source" in config:
        yield path, config
    elif isinstance(config, dict):
        for key, value in config.items():
            yield from numbers(value, f"{path}.{key}" if path else key)
    elif isinstance(config, list):
        for place, value in enumerate(config):
            name = value.get("id", place) if isinstance(value, dict) else place
            yield from numbers(value, f"{path}.{name}")


class Ties:
    """The measurements that the numbers of `configs` ({target: plain JSON}) were chosen with.

    table: clients/validation/table/held_out.json. unknown: (target, path, source) of measured or derived numbers
    whose source names nothing that the table knows: all measurements of the target count.
    """

    def __init__(self, table, configs):
        self._starts, self._own, self.unknown = set(), set(), []
        for target, config in configs.items():
            for path, number in numbers(config):
                if path.startswith(OF_RANKS):
                    continue
                named = [s for s in table["sources"] if s["names"] in number["source"]]
                for source in named:
                    self._starts.update(source["measurements"])
                if not named and number["confidence"] in CHOSEN:
                    self.unknown.append((target, path, number["source"]))
        for rule in table["rules"]:
            (self._own if rule.get("own") else self._starts).update(rule["measurements"])
        self._targets = {target for target, _, _ in self.unknown}

    def part(self, name, hardware, own=False):
        """CALIBRATED or HELD_OUT. own: simulated by a program of points.py."""
        starts = tuple(self._starts | (self._own if own else set()))
        return CALIBRATED if name.startswith(starts) or hardware in self._targets else HELD_OUT


def ties(folder, program):
    """Ties of the built-in configs; folder: of the table."""
    table = json.loads((Path(folder) / "held_out.json").read_text(encoding="utf-8"))
    return Ties(table, {target: program.config(target) for target in TARGETS})


def spread(rows):
    """rows: (id, error in percent)."""
    errors = [abs(e) for _, e in rows]
    worst = max(rows, key=lambda r: abs(r[1]))
    return {"points": len(rows), "mean": statistics.mean(errors),
            "median": statistics.median(errors), "worst": worst[1], "worst_id": worst[0]}


def _stored(folder, name):
    return json.loads((Path(folder) / name).read_text(encoding="utf-8"))


def own_rows(points, names, found):
    """(set, hardware, part, id, error) of the table's latencies; names: of replays, left out."""
    return [(OWN, r["hardware"], found.part(r["id"], r["hardware"], own=True), r["id"], r["error"])
            for r in points if r["kind"] == "latency" and r["id"] not in names]


def source_rows(folder, found):
    """The same of the kernels from source, as clients/validation/table/public last found them: as they are, and
    families without the numbers and rules that were chosen with them."""
    stored = _stored(folder, "public.json")
    kernels = {r["id"]: r for r in stored["kernels"]}
    errors = [(found.part(r["id"], r["hardware"]), i, r["error_percent"])
              for i, r in kernels.items()]
    errors += [(BY_FAMILY, i, error) for family in stored["without_family"].values()
               for i, error in family.items()]
    return [(SOURCE[kernels[i]["api"]], kernels[i]["hardware"], part, i, error)
            for part, i, error in errors]


def replay_rows(folder, replays=None):
    """The same of the device profiles: as they are, and with numbers found without them."""
    stored = _stored(folder, "replay.json")
    rows = [(REPLAY, "trn2", CALIBRATED, r["profile"], r["error"])
            for r in replays or stored["replay"]]
    for r in stored.get("leave_one_out", ()):
        part = HELD_OUT if r["held_out"] == 1 else BY_FAMILY
        rows.append((REPLAY, "trn2", part, r["profile"], r["error"]))
    return rows


def summary(rows):
    """[{"set", "hardware", "part", points, mean, ...}], held-out parts before calibrated ones."""
    order = ([REPLAY, OWN, *SOURCE.values()], TARGETS, [HELD_OUT, BY_FAMILY, CALIBRATED])
    groups = {}
    for name, hardware, part, row, error in rows:
        groups.setdefault((name, hardware, part), []).append((row, error))
    keys = sorted(groups, key=lambda key: [o.index(k) if k in o else len(o)
                                           for o, k in zip(order, key)])
    return [{"set": k[0], "hardware": k[1], "part": k[2], "stored": stored(k[0], k[2]),
             **spread(groups[k])} for k in keys]


def stored(name, part):
    """True if a row is read from the table's files instead of simulated by this run: kernels from
    source (clients/validation/table/public), and replays with numbers found without them."""
    return name in SOURCE.values() or (name == REPLAY and part != CALIBRATED)


HEAD = ("| | generation | | points | mean | median | worst | | |\n|---|---|---|--:|--:|--:|--:|---|---|")
STORED = ("stored: read from the table's files, not simulated by this run (clients/validation/table/public and "
          "`--replay --leave-one-out` write them)")


def markdown(found):
    """The summary as a table."""
    return "\n".join([HEAD, *(
        f"| {s['set']} | {s['hardware']} | {s['part']} | {s['points']} | {s['mean']:.1f} % | "
        f"{s['median']:.1f} % | {s['worst']:+.1f} % | `{s['worst_id']}` | {_mark(s)} |"
        for s in found), "", STORED[0].upper() + STORED[1:] + "."])


def _mark(row):
    return "stored" if row["stored"] else ""


def lines(found):
    """The summary for a terminal."""
    return [f"{s['set']:20} {s['hardware']}  {s['part']:19} {s['points']:3} points  mean "
            f"{s['mean']:5.1f} %  median {s['median']:5.1f} %  worst {s['worst']:+6.1f} % "
            f"({s['worst_id']}){'  ' + _mark(s) if s['stored'] else ''}" for s in found] + [STORED]
