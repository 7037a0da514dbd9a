"""Finds the cheapest instances that serve a model fast enough: `nkisim model --goal
tpot=20,ttft=500`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from nkisim.values.errors import Error
from nkisim_work import foreign

from .architecture import ModelError
from .between import served
from .instance_table import INSTANCES
from .instances import Instance
from .share import share_of
from .sweep import Point, Sweep

#: Dollars an hour, Linux on demand in us-east-1. Source: instances.vantage.sh of 26 August 2026, as copied by
#: tsaol/aws-gpu @299375b (data/*_instances.js), for trn1 and inf2. Confidence: medium. trn1n: two public price tables.
#: trn2.48xlarge: its rate as a capacity block for ML, in public scripts of February 2026; trn2.3xlarge: one chip of 16
#: of that, looked up nowhere. Confidence of these: low. --prices FILE.json replaces the table.
PRICES = {"trn1.2xlarge": 1.34375, "trn1.32xlarge": 21.5, "trn1n.32xlarge": 24.78, "inf2.xlarge": 0.7582,
          "inf2.8xlarge": 1.96786, "inf2.24xlarge": 6.49063, "inf2.48xlarge": 12.98127, "trn2.3xlarge": 2.235,
          "trn2.48xlarge": 35.7608}
MOST = 1024  # sequences of a batch that are tried
GROWTH = 4  # from a batch to the next one that is tried, before the one between


class Goal(NamedTuple):
    """Milliseconds per token, and until the first one, as served; None where any will do."""

    tpot_ms: float | None
    ttft_ms: float | None


@dataclasses.dataclass
class GoalResult:
    """A configuration that was tried. copies: of the model on the instance; tokens/s are of all. dollars: for a million
    tokens. problem: why it does not meet the goal, "" where it does."""

    instance: str
    tp: int
    copies: int
    batch: int
    tpot_ms: float = 0.0
    ttft_ms: float | None = None
    tokens_per_second: float = 0.0
    dollars: float = 0.0
    problem: str = ""


def goal_of(text: str) -> Goal:
    """The Goal of tpot=MS,ttft=MS."""
    given = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            given[name] = float(value)
        except ValueError:
            given[name] = -1.0
        if name not in ("tpot", "ttft") or not 0 < given[name] < float("inf"):
            raise ModelError(f"{part!r}", "tpot=MS, ttft=MS or both, each above 0", "--goal")
    return Goal(given.get("tpot"), given.get("ttft"))


def prices_of(path: str | None) -> dict[str, float]:
    """Dollars an hour by instance type: a file's, or the table's."""
    if path is None:
        return PRICES
    try:
        found = foreign.read(path)
    except (OSError, ValueError) as problem:
        raise ModelError(f"{path}: {problem}", "dollars an hour by instance type, as JSON", "--prices") from None
    names = {row[0] for row in INSTANCES}
    ok = isinstance(found, dict) and found and all(
        name in names and type(v) in (int, float) and 0 < v < float("inf") for name, v in found.items())
    if not ok:
        raise ModelError(f"{path}", f"an object of dollars an hour, each above 0, by name: {', '.join(sorted(names))}",
                         "--prices")
    return {name: float(v) for name, v in found.items()}


def candidates(sweep: Sweep, prices: dict[str, float]) -> list[tuple[Instance, int]]:
    """(instance, tp) that are tried: the sweep's instance, or all that have a price; tp from all ranks down by halves
    while the weights fit."""
    rows = [Instance(*row) for row in INSTANCES if row[0] in prices]
    if sweep.instance is not None:
        rows = [row for row in rows if row.name == sweep.instance.name]
        if not rows:
            raise ModelError(f"no price of {sweep.instance.name}", f"one of {', '.join(prices)}", "--prices")
    out = []
    for row in rows:
        tp = row.ranks_of(sweep.lnc if sweep.instance else None)
        while tp and _fits(sweep, row, tp, 1):
            out.append((row, tp))
            tp = tp // 2 if tp % 2 == 0 else 0
    return out


def _fits(sweep, row, tp, batch):
    share = share_of(sweep.model, row.target, tp, batch, sweep.axes["context"][0], sweep.dtype, _lnc(sweep, row),
                     cache_dtype=sweep.cache_dtype)
    try:
        row.check(share)
    except ModelError:
        return False
    return True


def _lnc(sweep, row):
    return sweep.lnc if sweep.instance else row.lnc


def search(sweep: Sweep, goal: Goal, prices: dict[str, float], said: Callable[[str], None]) -> Iterator[GoalResult]:
    """Yields each configuration as it is tried. For an instance and tp the batch grows while the goal is met and
    the memory suffices. Where one sequence misses it, and again with half of the ranks and later, fewer ranks are
    not tried."""
    known: dict[tuple, Any] = {}
    missed: dict[str, list[float]] = {}  # times of one sequence that missed the goal, by instance
    for row, tp in candidates(sweep, prices):
        times = missed.setdefault(row.name, [])
        if len(times) > 1 and times[-1] > times[-2]:
            continue
        met, between = 0, False  # the largest batch that meets the goal; whether the next one is the last
        while not between:
            batch = met * GROWTH if met else 1
            failed = batch > MOST or not _fits(sweep, row, tp, batch)
            if not failed:
                said(f"{row.name}, tp {tp}, batch {batch}")
                yield (found := _tried(sweep, goal, row, tp, batch, prices[row.name], known))
                failed = bool(found.problem)
                if failed and batch == 1:
                    times.append(found.tpot_ms)
            met, between = (met, True) if failed else (batch, False)
        if met and 2 * met <= MOST and _fits(sweep, row, tp, 2 * met):
            said(f"{row.name}, tp {tp}, batch {2 * met}")
            yield _tried(sweep, goal, row, tp, 2 * met, prices[row.name], known)


def _predicted(sweep, row, tp, batch, known):
    """The Point of a configuration, with what is known of instances of the same chips: steps, and the prompt of one
    sequence, which is the same for all batches."""
    asked = dataclasses.replace(sweep, target=row.target, lnc=_lnc(sweep, row), instance=row)
    of_prompt = row.target, asked.lnc, tp
    of_step = *of_prompt, batch
    if of_step not in known:
        prompt = known.get(of_prompt)
        point = dataclasses.replace(asked, prompt=None if prompt else asked.prompt).predicted(
            Point(tp, batch, sweep.axes["context"][0]))
        known[of_step], known[of_prompt] = point.found, prompt or point.prompt
    return known[of_step], known[of_prompt]


def _tried(sweep, goal, row, tp, batch, price, known):
    """One configuration; the other ranks of the instance have copies, which exchange nothing."""
    copies = row.ranks_of(_lnc(sweep, row)) // tp
    out = GoalResult(row.name, tp, copies, batch)
    try:
        step, prompt = _predicted(sweep, row, tp, batch, known)
    except (Error, AssertionError) as problem:
        out.problem = str(problem).splitlines()[0] if str(problem) else "refused"
        return out
    as_served = served(step)
    out.tpot_ms, out.tokens_per_second = as_served.us / 1e3, copies * batch * 1e6 / as_served.us
    out.ttft_ms = served(prompt).us / 1e3 if prompt else None
    out.dollars = price / 3600 / out.tokens_per_second * 1e6
    if goal.tpot_ms is not None and out.tpot_ms > goal.tpot_ms:
        out.problem = f"{out.tpot_ms:.1f} ms per token"
    elif goal.ttft_ms is not None and (out.ttft_ms is None or out.ttft_ms > goal.ttft_ms):
        out.problem = "no prompt is predicted" if out.ttft_ms is None else f"{out.ttft_ms:.0f} ms to the first token"
    return out


HEAD = (f"{'instance':<16}{'tp':>4}{'copies':>8}{'batch':>7}{'ms/token':>10}{'ms first':>10}{'tokens/s':>10}"
        f"{'$/million':>11}")


def line(found: GoalResult) -> str:
    """One row of the table."""
    first = f"{found.ttft_ms:>10.0f}" if found.ttft_ms is not None else f"{'-':>10}"
    return (f"{found.instance:<16}{found.tp:>4}{found.copies:>8}{found.batch:>7}{found.tpot_ms:>10.2f}{first}"
            f"{found.tokens_per_second:>10.0f}{found.dollars:>11.3f}" + (f"  {found.problem}" if found.problem else ""))


def cheapest(tried: list[GoalResult]) -> GoalResult | None:
    """The cheapest one that meets the goal."""
    return min((f for f in tried if not f.problem), key=lambda f: f.dollars, default=None)
