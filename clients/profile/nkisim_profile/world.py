"""Joins the profiles of several ranks into one timeline that shows the operations between ranks.

Equal ranks are simulated once and have no profile of their own (`nkisim run --no-fold` gives them one).
"""

from .session import FS_PER_NS, BadSession, Session, reading
from .timeline import instants, slices

WAITING, INSIDE = "waiting", "in collective"
PATH = ("world", "Critical path")


class World:
    """Sessions of one run by rank."""

    def __init__(self, sessions):
        self.by_rank = {}
        for s in sessions:
            known = s.facts.get("world")
            rank = known.get("rank") if isinstance(known, dict) else None
            if not isinstance(rank, int) or rank in self.by_rank:
                raise BadSession("these sessions are not the ranks of one run: each is what "
                                 "`nkisim run --session NAME.{rank}.npz` wrote of another rank")
            self.by_rank[rank] = s
        self.by_rank = dict(sorted(self.by_rank.items()))
        facts = next(iter(self.by_rank.values())).facts["world"]
        if any(s.facts["world"].get("path") != facts.get("path") for s in self.by_rank.values()):
            raise BadSession("these sessions are of different runs")
        self.ranks, self.path = facts.get("ranks"), facts.get("path") or []
        self.end_fs = max(s.end_fs for s in self.by_rank.values())

    def latency_us(self):
        """From the first start to the last end of anything on any rank."""
        spans = [s.facts.get("span_fs", (0, s.end_fs)) for s in self.by_rank.values()]
        return (max(end for _, end in spans) - min(start for start, _ in spans)) / FS_PER_NS / 1000

    def operations(self):
        """A dict per rank and operation, in the order of ranks and starts. Times in fs."""
        for rank, s in self.by_rank.items():
            c = s.collectives
            texts = {k: s.text(getattr(c, k)) for k in ("operation", "algorithm", "group", "dtype")}
            for i in range(len(c)):
                if c.core[i]:
                    continue  # each core of a rank has triggered it
                number = {k: int(getattr(c, k)[i]) for k in
                          ("id", "trigger_end", "start", "ready", "end", "waited_for", "input",
                           "output")}
                yield {"rank": rank, **number, **{k: v[i] for k, v in texts.items()}}


def read(paths):
    sessions = []
    for path in paths:
        with reading(path):
            sessions.append(Session(path))
    return World(sessions)


def _bars(world):
    """Tracks of all ranks, those of the world as a whole first."""
    for piece in world.path:
        yield (*PATH, f"rank {piece['rank']}: {piece['cause'].replace('_', ' ')}",
               piece["from_fs"] // FS_PER_NS, piece["to_fs"] // FS_PER_NS,
               {k: piece[k] for k in ("rank", "core", "where", "instruction", "source") if k in piece})
    for op in world.operations():
        track, args = f"Rank {op['rank']}", {
            "id": op["id"], "algorithm": op["algorithm"], "replica_group": op["group"],
            "input_size": op["input"], "output_size": op["output"]}
        start, ready, end = (op[k] // FS_PER_NS for k in ("start", "ready", "end"))
        if op["waited_for"] >= 0 and ready > start:
            yield ("world", track, f"waiting for rank {op['waited_for']}", start, ready,
                   {**args, "waited_for_rank": op["waited_for"]})
        yield "world", track, op["operation"], ready, end, args
    for rank, s in world.by_rank.items():
        for core, *rest in slices(s):
            yield ((rank, core), *rest)


def _points(world):
    for rank, s in world.by_rank.items():
        for core, *rest in instants(s):
            yield ((rank, core), *rest)


def _arrows(world):
    """(id, track, ns, ends): from the rank that came last to those that had waited for it."""
    groups = {}
    for op in world.operations():
        groups.setdefault(op["id"], []).append(op)
    for number, ops in groups.items():
        last = {op["rank"]: op for op in ops}
        for op in ops:
            there = last.get(op["waited_for"])
            if there is not None:
                arrow = (number << 12) + op["rank"] + 1
                yield arrow, f"Rank {there['rank']}", there["ready"] // FS_PER_NS, False
                yield arrow, f"Rank {op['rank']}", op["ready"] // FS_PER_NS, True


def title(key):
    """The title of a process."""
    if key == "world":
        return "Collectives of all ranks"
    return f"Rank {key[0]} core {key[1]}"


def timeline_of(world):
    """Slices, instants and arrows for timeline.write_chrome and write_perfetto."""
    return (list(_bars(world)), list(_points(world)),
            [(n, "world", track, time, ends) for n, track, time, ends in _arrows(world)])
