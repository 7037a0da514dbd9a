"""Divides the time of a step among its parts, each with what it reads and multiplies."""

from __future__ import annotations

import dataclasses
from collections import defaultdict

import numpy as np

from nkisim_profile.session import CAUSES, ENGINES, FS_PER_NS
from nkisim_profile.tables.engines import TRANSPOSE

HBM = 0  # of a transfer's source
OVERLAP = "overlap"  # the cause of time in which another part is on the critical path


@dataclasses.dataclass
class Part:
    """The time of one part of a step, in microseconds: of all layers together.

    us: its time of the step (parts_of()). read_us: its reads from HBM at the stack's full rate, flops_us: its products
    at the Tensor engines' peak of BF16. hidden_us: of the longer of them, what took place next to other parts that had
    the time. read_bytes, flops: of one rank, flops without transposes. bounds: `us` by what the path went through
    there, an engine at work or a cause of waiting (docs/profile.md).
    """

    us: float = 0.0
    read_us: float = 0.0
    read_bytes: int = 0
    flops_us: float = 0.0
    flops: int = 0
    hidden_us: float = 0.0
    bounds: dict[str, float] = dataclasses.field(default_factory=lambda: defaultdict(float))

    @property
    def roof_us(self) -> float:
        """The least that it can take of this step."""
        return max(0.0, max(self.read_us, self.flops_us) - self.hidden_us)

    @property
    def gain_us(self) -> float:
        """The gain of a step if the part ran at its roof; 0 where it neither reads nor multiplies, as a collective,
        which has no roof here."""
        return max(0.0, self.us - self.roof_us) if self.has_roof else 0.0

    @property
    def has_roof(self) -> bool:
        return bool(self.read_bytes or self.flops)

    @property
    def bound(self) -> str:
        """The cause of most of its time: "Tensor busy", "dma_latency"; "" where it takes none."""
        return max(self.bounds, key=self.bounds.__getitem__) if self.us > 0 else ""

    def add(self, other: Part, times: float) -> None:
        """Adds a part of one layer so many times."""
        for field in ("us", "read_us", "read_bytes", "flops_us", "flops", "hidden_us"):
            setattr(self, field, getattr(self, field) + times * getattr(other, field))
        for cause, us in other.bounds.items():
            self.bounds[cause] += times * us

    def take(self, cause: str, us: float) -> None:
        """Adds time that has a cause."""
        self.us += us
        self.bounds[cause] += us

    def as_json(self) -> dict:
        return {"us": self.us, "read_us": self.read_us, "read_bytes": self.read_bytes, "flops_us": self.flops_us,
                "flops": self.flops, "hidden_us": self.hidden_us, "roof_us": self.roof_us, "gain_us": self.gain_us,
                "bounds": dict(sorted(self.bounds.items(), key=lambda item: -item[1]))}


def parts_of(session, regions, first, last):
    """The Parts of a rank's step by layer and name. regions: layer and name of each instruction; first, last: those of
    what has none.

    The critical path goes through one part at any time. Where reads or products of another part take place in that
    time, such as loads of weights ahead, that part has as much of the time as they take at full rate, and the part on
    the path has the rest. Where all that takes place would take longer than the time (one part reads while another
    multiplies), they divide it, and what is over is hidden.
    """
    found = defaultdict(Part)
    runs = _path(session, regions, last)
    edges = np.array([runs[0].begin, *(run.end for run in runs)])
    lengths = np.diff(edges)
    works = _works(session, regions, found, first, edges)
    needed = sum(works.values(), np.zeros(len(runs)))
    fits = lengths / np.maximum(needed, lengths)
    kept = np.maximum(lengths - needed, 0)  # of each run, by the part on the path
    for key, work in works.items():
        own = np.array([run.key == key for run in runs])
        found[key].hidden_us += _us((work * (1 - fits)).sum())
        kept[own] += (work * fits)[own]
        found[key].take(OVERLAP, _us((work * fits)[~own].sum()))
    for run, share in zip(runs, (kept / lengths).tolist()):
        for cause, time in run.causes.items():
            found[run.key].take(cause, _us(time * share))
    return found


def _us(time):
    return float(time) / FS_PER_NS / 1e3


@dataclasses.dataclass
class _Run:
    """A time in which the critical path is in one layer's part, in femtoseconds, by cause."""

    begin: int
    end: int
    key: tuple[int, str]
    causes: dict[str, int] = dataclasses.field(default_factory=lambda: defaultdict(int))


def _path(session, regions, last):
    """The critical path as _Runs. A rank has one path for each core, of which the one that ends last is taken; a wait
    that belongs to no instruction is its successor's. As the latency, it is counted from the first instruction's
    start."""
    path = session.path
    ends = {core: path.to[path.core == core].max() for core in set(path.core.tolist())}
    core = max(ends, key=ends.get)
    mine, start = path.core == core, int(session.parts.start.min(initial=path.to.max()))
    engines = session.insts.engine.tolist()
    key, runs = last, []
    for begin, end, inst, cause in zip(*(column[mine].tolist()[::-1] for column in
                                         (getattr(path, "from"), path.to, path.inst, path.cause))):
        key, begin = regions.get(inst, key), max(begin, start)
        if end <= begin:
            continue
        if not runs or runs[-1].key != key:
            runs.append(_Run(begin, end, key))
        runs[-1].begin = begin
        busy = CAUSES[cause] == "busy" and inst >= 0
        runs[-1].causes[f"{ENGINES[engines[inst]]} busy" if busy else CAUSES[cause]] += end - begin
    return runs[::-1]


def _works(session, regions, found, first, edges):
    """The time that each part's reads or products, of which there are more, take at full rate between each two edges;
    adds them all to the parts of `found`."""
    machine, moved, parts = session.machine, session.transfers, session.parts
    multiplies = (parts.flops > 0) & (parts.features & TRANSPOSE == 0)
    peak = 2 * machine["pe_rows"] * machine["pe_columns"] * machine["clocks_ghz"]["tensor"] * machine["cores"]
    works: dict[tuple[int, str], np.ndarray] = {}
    for what, per_ns, which, inst, begin, end, amount in (
            ("read", float(machine["hbm_bytes_per_ns"]), moved.src == HBM, moved.inst, moved.first_packet,
             moved.last_packet, moved.bytes),
            ("flops", peak, multiplies, parts.inst, parts.start, parts.end, parts.flops)):
        rows: dict[tuple[int, str], list[int]] = defaultdict(list)
        for at in np.flatnonzero(which).tolist():
            rows[regions.get(int(inst[at]), first)].append(at)
        for key, of_key in rows.items():
            total, part = int(amount[of_key].sum()), found[key]
            time = amount[of_key] / per_ns * FS_PER_NS
            if what == "read":
                part.read_bytes += total
                part.read_us += total / per_ns / 1e3
            else:
                part.flops += total
                part.flops_us += total / per_ns / 1e3
            work = _between(edges, begin[of_key], end[of_key], time)
            works[key] = np.maximum(works.get(key, 0.0), work)
    return works


def _between(edges, begin, end, amount):
    """The amounts between each two edges, each spread evenly from its begin to its end."""
    end = np.maximum(end, begin + 1)
    times = np.concatenate([begin, end])
    order = np.argsort(times, kind="stable")
    times = times[order]
    rates = np.cumsum(np.concatenate([amount / (end - begin), -amount / (end - begin)])[order])
    done = np.concatenate([[0.0], np.cumsum(rates[:-1] * np.diff(times))])
    return np.diff(np.interp(edges, times, done))
