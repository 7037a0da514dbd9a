"""Computes the interval that a run prints with its latency: how far measured latencies are from
simulated ones.

A row is (kind, family, target, ratio, uncertain, low, high): how the program came about (trace, nki,
neuronxcc), which kernel of which repository it is (families.kernel_of), the chip, measured over simulated latency,
the share of busy time at rates or sizes that were not measured, and the range, times the simulated latency, of what
the run takes with and without the rules of few measurements. A latency within that range is met, another is as far
off as it is beyond. The logarithm of the ratio to the range's end, over 1 +
widening * uncertain, has a lower and an upper quantile; families weigh the same, so that 45 settings of one
library count as one. The interval of a kind is the narrowest of those whose ends are multiples of these
quantiles, at one of the widenings, such that LEFT_OUT of a family's rows are within, in the mean over
families, when that family has no part in it, and COVERAGE of all rows; of intervals nearly as narrow, the one that
widens most with the share of rates that were not measured. It claims COVERAGE: kernels that
had not been seen were within more seldom than families that were left out.
"""

import math
import statistics
from collections import Counter
from itertools import combinations, product

from . import families

COVERAGE = 0.8
LEFT_OUT = 0.875  # more than is claimed, and as much as a median high over low of 1.6 affords in the new API
WIDENINGS = (0.0, 0.5, 1.0)  # tried: how much unmeasured rates widen the logarithms
AS_NARROW = 1.02  # of widths that differ less, the one that unmeasured rates widen most
FACTORS = tuple(n / 10 for n in range(5, 51))  # tried at either end
KINDS = ("trace", "nki", "neuronxcc")
NOTHING_OPEN = (1.0, 1.0)  # of rows that were stored without the range


def quantile(values, weights, share):
    """The least value with at least this share of the weight at or below it."""
    pairs = sorted(zip(values, weights))
    total, seen = sum(weights), 0.0
    for value, weight in pairs:
        seen += weight
        if seen >= share * total * (1 - 1e-12):
            return value
    return pairs[-1][0]


def score(row, widening):
    """The logarithm of a row's ratio to what the rules of few measurements leave open, as if all its rates were
    measured."""
    ratio, low, high = row[3], row[5], row[6]
    beyond = ratio / high if ratio > high else min(1.0, ratio / low)
    return math.log(beyond) / (1 + widening * row[4])


def tails(rows, widening):
    """(low, high) of the rows' scores: what a tenth of their weight is beyond at either end. 0 is
    always within."""
    size = Counter(row[1] for row in rows)
    scores, weights = [score(r, widening) for r in rows], [1 / size[r[1]] for r in rows]
    tail = (1 - COVERAGE) / 2
    high = quantile(scores, weights, 1 - tail)
    low = -quantile([-s for s in scores], weights, 1 - tail)
    return min(low, 0.0), max(high, 0.0)


class Fit:
    """The rows of a kind, the tails of all, and of those without each family, for one widening. factors: (at
    the low end, at the high end)."""

    def __init__(self, rows, widening):
        self.rows, self.widening = rows, widening
        self.scores = [score(r, widening) for r in rows]
        self.all = tails(rows, widening)
        self.families = sorted({r[1] for r in rows})
        without = {f: [r for r in rows if r[1] != f] for f in self.families}
        self._others = {f: tails(rest, widening) for f, rest in without.items() if rest}

    @staticmethod
    def _within(value, ends, factors):
        return ends is not None and (
            factors[0] * ends[0] - 1e-12 <= value <= factors[1] * ends[1] + 1e-12)

    def coverage(self, factors):
        """The share of all rows within."""
        return statistics.mean(self._within(x, self.all, factors) for x in self.scores)

    def left_out(self, factors):
        """{family: the share of its rows within what the other families say}."""
        return {f: statistics.mean(self._within(x, self._others.get(f), factors)
                                   for x, r in zip(self.scores, self.rows) if r[1] == f)
                for f in self.families}

    def holds(self, factors):
        return (self.coverage(factors) >= COVERAGE
                and statistics.mean(self.left_out(factors).values()) >= LEFT_OUT - 1e-12)

    def interval(self, factors):
        """(low, high) of measured over simulated at measured rates, rounded outwards."""
        low, high = (math.exp(f * end) for f, end in zip(factors, self.all))
        return math.floor(100 * low) / 100, math.ceil(100 * high) / 100

    def width(self, factors):
        """The median of high over low of the rows' own intervals, with all that widens them."""
        low, high = self.interval(factors)
        return statistics.median((high / low) ** (1 + self.widening * r[4]) * r[6] / r[5] for r in self.rows)


def _range(pairs, share):
    """The least difference that this share of pairs do not exceed, families weighing the same."""
    size = Counter(family for family, _ in pairs)
    return quantile([abs(d) for _, d in pairs], [1 / size[family] for family, _ in pairs], share)


def versions(pairs):
    """pairs: (family, difference of two versions' log of measured over simulated). The standard deviation of a normal
    distribution of which four of five lie where they do here, also of a family that has no part in it (the mean over
    families): what the order of two versions of one kernel is judged by. None of fewer than two families."""
    families_of = sorted({family for family, _ in pairs})
    if len(families_of) < 2:
        return None
    for share in range(round(100 * COVERAGE), 101):
        held = []
        for family in families_of:
            most = _range([p for p in pairs if p[0] != family], share / 100)
            held.append(statistics.mean(abs(d) <= most + 1e-12 for f, d in pairs if f == family))
        if statistics.mean(held) >= COVERAGE:
            break
    return _range(pairs, share / 100) / statistics.NormalDist().inv_cdf((1 + COVERAGE) / 2)


def narrowest_intervals(rows):
    """{kind: {low, high, widening, rows, families, targets, coverage, ...}}: the narrowest interval that
    holds."""
    result = {}
    for kind in KINDS:
        part = [r for r in rows if r[0] == kind]
        if not part:
            continue
        tried = [(fit.width(factors), fit, factors) for fit in (Fit(part, w) for w in WIDENINGS)
                 for factors in product(FACTORS, FACTORS)]
        tried.sort(key=lambda t: t[0])
        holding = [t for t in tried if t[1].holds(t[2])] or tried[-1:]
        width, fit, factors = min((t for t in holding if t[0] <= AS_NARROW * holding[0][0]),
                                  key=lambda t: (-t[1].widening, t[0]))
        low, high = fit.interval(factors)
        result[kind] = {
            "low": low, "high": high, "widening": fit.widening, "factors": list(factors),
            "rows": len(part), "families": len(fit.families), "targets": sorted({r[2] for r in part}),
            "median_width": width, "coverage": fit.coverage(factors),
            "left_out": fit.left_out(factors)}
    return result


def versions_apart(stored):
    """Yields each two kernels from source that are versions of one task and were measured apart."""
    for a, b in combinations(stored["kernels"], 2):
        task = families.of(a["id"])
        if task == families.of(b["id"]) and task[0] is not None and families.measured_apart(
                a["measured_us"], b["measured_us"]):
            yield a, b


def pairs_of(stored):
    """Pairs for versions(). Both APIs together: of the legacy one there are four, all of one family."""
    result = []
    for a, b in versions_apart(stored):
        errors = [math.log1p(r["error_percent"] / 100) for r in (a, b)]
        result.append((families.kernel_of(a["id"]), errors[1] - errors[0]))
    return result


def rows_of(points, names, stored):
    """Rows of the table's latencies and of the kernels from source (clients/validation/table/public.json); of
    families with the numbers and rules found without them where these are known. names: of replays,
    whose streams are the chip's own.
    """
    rows = []
    without = {i: e for family_ in stored["without_family"].values() for i, e in family_.items()}
    ranges = {r["id"]: r.get("open", NOTHING_OPEN) for r in stored["kernels"]}
    ranges |= {i: r for family_ in stored.get("without_family_open", {}).values() for i, r in family_.items()}
    for r in points:
        if r["kind"] == "latency":
            ratio = r["measured"] / r["simulated"]
            if r["metric"].startswith("mfu"):  # the inverse of a latency
                ratio = 1 / ratio
            kernel_of = families.kernel_of(r["id"]) + ", replayed" * (r["id"] in names)
            rows.append(("trace", kernel_of, r["hardware"], ratio, r["uncertain"], *r["open"]))
    for r in stored["kernels"]:
        error = without.get(r["id"], r["error_percent"])
        rows.append(("neuronxcc" if r["api"] == "legacy" else "nki", families.kernel_of(r["id"]),
                     r["hardware"], 1 / (1 + error / 100), r["uncertain"], *ranges[r["id"]]))
    return rows


def left_out_sentence(result):
    """A sentence: the share that the intervals hold of families that have no part in them."""
    said = [f"{100 * statistics.mean(s['left_out'].values()):.0f} % of a left-out family of {name} "
            f"(median high / low {s['median_width']:.2f})" for kind, name in (
                ("nki", "the new API"), ("neuronxcc", "the legacy API")) if (s := result.get(kind))]
    return f"The interval of a run claims {100 * COVERAGE:.0f} %, and holds {' and '.join(said)}."


def markdown(result):
    """The table of docs/evidence.md."""
    lines = ["| how the program came about | measured / simulated | median high / low | latencies | families "
             "| within | of a family that is left out | the least | versions |\n"
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    names = {"trace": "a trace", "nki": "a kernel of the new API",
             "neuronxcc": "a kernel of the legacy API"}
    for kind, s in result.items():
        name, least = min(s["left_out"].items(), key=lambda x: x[1])
        scale = "-" if s.get("versions") is None else f"{s['versions']:.3f}"
        lines.append(f"| {names[kind]} | {s['low']:.2f} to {s['high']:.2f} | {s['median_width']:.2f} | "
                     f"{s['rows']} | {s['families']} | {100 * s['coverage']:.0f} % | "
                     f"{100 * statistics.mean(s['left_out'].values()):.0f} % | {100 * least:.0f} % ({name}) | "
                     f"{scale} |")
    return "\n".join(lines)
