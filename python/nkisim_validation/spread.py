"""The interval of a run's confidence: how far measured latencies are from simulated ones.

A row is (kind, source, target, ratio, uncertain): how the program came about (trace, nki,
neuronxcc), who measured and published it, the chip, measured over simulated latency, and the share of
busy time at rates or sizes that are not measured. The logarithm of the ratio, over 1 + widening *
uncertain, has a lower and an upper quantile; sources weigh the same, so that 45 settings of one library
count as one. The interval of a kind is the narrowest of those whose ends are multiples of these
quantiles, at one of the widenings, such that COVERAGE of every source's rows are within when that source
has no part in it, and COVERAGE of all rows when they themselves have none.
"""

import math
import statistics
from collections import Counter
from itertools import combinations, product

from . import families

COVERAGE = 0.8
WIDENINGS = (0.0, 0.5, 1.0)  # tried: how much unmeasured rates widen the logarithms
FACTORS = tuple(n / 10 for n in range(5, 51))  # tried at either end
KINDS = ("trace", "nki", "neuronxcc")


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
    """The logarithm of a row's ratio, as if all its rates were measured."""
    return math.log(row[3]) / (1 + widening * row[4])


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
    """The rows of a kind, the tails of all, and of those without each row and each source, for one
    widening. factors: (at the low end, at the high end)."""

    def __init__(self, rows, widening):
        self.rows, self.widening = rows, widening
        self.scores = [score(r, widening) for r in rows]
        self.all = tails(rows, widening)
        self.sources = sorted({r[1] for r in rows})
        without = {s: [r for r in rows if r[1] != s] for s in self.sources}
        self._source = {s: tails(rest, widening) for s, rest in without.items() if rest}
        self._one = [tails(rows[:i] + rows[i + 1:], widening) if len(rows) > 1 else None
                     for i in range(len(rows))]

    @staticmethod
    def _within(value, ends, factors):
        return ends is not None and (
            factors[0] * ends[0] - 1e-12 <= value <= factors[1] * ends[1] + 1e-12)

    def coverage(self, factors):
        """The share of all rows within."""
        return statistics.mean(self._within(x, self.all, factors) for x in self.scores)

    def left_one_out(self, factors):
        """The share of rows within what the others say."""
        return statistics.mean(self._within(x, ends, factors)
                               for x, ends in zip(self.scores, self._one))

    def left_source_out(self, factors):
        """{source: the share of its rows within what the other sources say}."""
        return {s: statistics.mean(self._within(x, self._source.get(s), factors)
                                   for x, r in zip(self.scores, self.rows) if r[1] == s)
                for s in self.sources}

    def holds(self, factors):
        return min(self.coverage(factors), self.left_one_out(factors),
                   *self.left_source_out(factors).values()) >= COVERAGE

    def interval(self, factors):
        """(low, high) of measured over simulated at measured rates, rounded outwards."""
        low, high = (math.exp(f * end) for f, end in zip(factors, self.all))
        return math.floor(100 * low) / 100, math.ceil(100 * high) / 100

    def width(self, factors):
        """The median of high over low of the rows' own intervals, unmeasured rates included."""
        low, high = self.interval(factors)
        return statistics.median((high / low) ** (1 + self.widening * r[4]) for r in self.rows)


def versions(pairs):
    """pairs: (source, difference of two versions' log of measured over simulated). Its root mean square,
    sources weighing the same: what the order of two versions of one kernel is judged by."""
    if not pairs:
        return None
    size = Counter(source for source, _ in pairs)
    return math.sqrt(sum(d * d / size[source] for source, d in pairs) / len(size))


def found(rows):
    """{kind: {low, high, widening, rows, sources, targets, coverage, ...}}: the narrowest interval that
    holds."""
    result = {}
    for kind in KINDS:
        part = [r for r in rows if r[0] == kind]
        if not part:
            continue
        tried = [(fit.width(factors), fit, factors) for fit in (Fit(part, w) for w in WIDENINGS)
                 for factors in product(FACTORS, FACTORS)]
        width, fit, factors = next(t for t in sorted(tried, key=lambda t: t[0])
                                   if t[2] == (FACTORS[-1],) * 2 or t[1].holds(t[2]))
        low, high = fit.interval(factors)
        result[kind] = {
            "low": low, "high": high, "widening": fit.widening, "factors": list(factors),
            "rows": len(part), "sources": len(fit.sources), "targets": sorted({r[2] for r in part}),
            "median_width": width, "coverage": fit.coverage(factors),
            "coverage_left_one_out": fit.left_one_out(factors),
            "coverage_left_source_out": fit.left_source_out(factors)}
    return result


#: The publishers: starts of measurements' ids.
SOURCES = (("nki-autotune", "trn2-autotune-"), ("nki-library", "trn2-nkilib-"),
           ("AccelOpt", "trn1-nkibench-"), ("trainium-kernel-fusion", "trn2-fusion-"),
           ("nki-moe-megakernel", "trn2-decode-"), ("nki-moe-megakernel", "trn3-decode-"),
           ("asst4-trainium2", "trn2-cs149-"), ("rishic3", "trn2-rishic3-"),
           ("nki-samples", "trn-nkisamples-"), ("aws-neuron-sdk, Mamba", "trn1-doc-mamba-"),
           ("aws-neuron-sdk, matmul", ""))


def source(name):
    """The source of a measurement's id. The two tutorials of aws-neuron-sdk are different kernels and years."""
    return next(s for s, start in SOURCES if name.startswith(start))


def pairs_of(stored):
    """{kind: pairs for versions()} of the kernels from source: versions of one task that were measured
    apart."""
    result = {}
    for a, b in combinations(stored["kernels"], 2):
        task = families.of(a["id"])
        if task != families.of(b["id"]) or task[0] is None:
            continue
        if not families.apart(a["measured_us"], b["measured_us"]):
            continue
        kind = "neuronxcc" if a["api"] == "legacy" else "nki"
        errors = [math.log1p(r["error_percent"] / 100) for r in (a, b)]
        result.setdefault(kind, []).append((source(a["id"]), errors[1] - errors[0]))
    return result


def rows_of(points, names, stored):
    """Rows of the table's latencies and of the kernels from source (validation/public.json); of
    families with the numbers and rules found without them where these are known. names: of replays,
    whose streams are the chip's own.
    """
    rows = []
    without = {i: e for family_ in stored["without_family"].values() for i, e in family_.items()}
    for r in points:
        if r["kind"] == "latency":
            ratio = r["measured"] / r["simulated"]
            if r["metric"].startswith("mfu"):  # the inverse of a latency
                ratio = 1 / ratio
            rows.append(("trace", f"{source(r['id'])}, replayed" if r["id"] in names
                         else source(r["id"]), r["hardware"], ratio, r["uncertain"]))
    for r in stored["kernels"]:
        error = without.get(r["id"], r["error_percent"])
        rows.append(("neuronxcc" if r["api"] == "legacy" else "nki", source(r["id"]),
                     r["hardware"], 1 / (1 + error / 100), r["uncertain"]))
    return rows


def markdown(result):
    """The table of docs/evidence.md."""
    lines = ["| how the program came about | measured / simulated | median high / low | latencies | sources "
             "| within | leaving one out | leaving its source out, the least | versions |\n"
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    names = {"trace": "a trace", "nki": "a kernel of the new API",
             "neuronxcc": "a kernel of the legacy API"}
    for kind, s in result.items():
        name, least = min(s["coverage_left_source_out"].items(), key=lambda x: x[1])
        scale = "-" if s.get("versions") is None else f"{s['versions']:.3f}"
        lines.append(f"| {names[kind]} | {s['low']:.2f} to {s['high']:.2f} | {s['median_width']:.2f} | "
                     f"{s['rows']} | {s['sources']} | {100 * s['coverage']:.0f} % | "
                     f"{100 * s['coverage_left_one_out']:.0f} % | {100 * least:.0f} % ({name}) | {scale} |")
    return "\n".join(lines)
