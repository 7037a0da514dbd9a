"""The interval of a run's confidence: how far measured latencies are from simulated ones.

A row is (kind, family, target, ratio, uncertain): how the program came about (trace, nki,
neuronxcc), the kernel family, the chip, measured over simulated latency, and the share of busy time
at rates or sizes that nobody measured. The logarithm of the ratio, over 1 + WIDENING * uncertain,
has the interval of a kind from its lower to its upper quantile; families weigh the same, so that
45 settings of one kernel count as one kernel. It is then widened until COVERAGE of the rows are
within when their own family has no part in it.
"""

import math
from collections import Counter

COVERAGE = 0.8
WIDENING = 1.0  # assumed: at nothing but unmeasured rates the logarithms double
STEP = 0.05
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


def _score(row):
    _, _, _, ratio, uncertain = row
    return math.log(ratio) / (1 + WIDENING * uncertain)


def fit(rows, factor=1.0):
    """(low, high) of the rows' kind. The interval always has 1 in it."""
    size = Counter(row[1] for row in rows)
    scores, weights = [_score(r) for r in rows], [1 / size[r[1]] for r in rows]
    tail = (1 - COVERAGE) / 2
    high = quantile(scores, weights, 1 - tail)
    low = -quantile([-s for s in scores], weights, 1 - tail)
    return math.exp(factor * min(low, 0.0)), math.exp(factor * max(high, 0.0))


def inside(row, interval):
    low, high = (math.log(x) for x in interval)
    return low - 1e-12 <= _score(row) <= high + 1e-12


def covered(rows, interval):
    """The share of rows within an interval."""
    return sum(inside(r, interval) for r in rows) / len(rows)


def left_out(rows, factor, by_family):
    """The share of rows within the interval of the others, or of the other families."""
    hits = 0
    for i, row in enumerate(rows):
        others = [r for j, r in enumerate(rows)
                  if (r[1] != row[1] if by_family else j != i)]
        hits += bool(others) and inside(row, fit(others, factor))
    return hits / len(rows)


def found(rows):
    """{kind: {low, high, rows, families, targets, coverage, ...}}, low and high rounded outwards."""
    result = {}
    for kind in KINDS:
        part = [r for r in rows if r[0] == kind]
        if not part:
            continue
        factor = 1.0
        while min(left_out(part, factor, True), left_out(part, factor, False)) < COVERAGE and (
                factor < 10):
            factor += STEP
        low, high = fit(part, factor)
        low, high = math.floor(100 * low) / 100, math.ceil(100 * high) / 100
        result[kind] = {
            "low": low, "high": high, "rows": len(part), "families": len({r[1] for r in part}),
            "targets": sorted({r[2] for r in part}), "factor": round(factor, 2),
            "coverage": covered(part, (low, high)),
            "coverage_left_one_out": left_out(part, factor, False),
            "coverage_left_family_out": left_out(part, factor, True)}
    return result


def family(name):
    """trn2-nkilib-mlp_cte-L230 -> trn2-nkilib-mlp; NKIBench's kernels are a family each."""
    parts = name.split("-")
    if name.startswith("trn1-nkibench-"):
        return "-".join(parts[:3])
    if name.startswith("trn2-fusion-trace-"):  # the profiles of attention kernels
        return f"trn2-fusion-attn-{parts[3].split('_')[0]}"
    if name.startswith("trn2-fusion-attn-"):
        return "-".join(parts[:4])
    return "-".join(parts[:3]).removesuffix("_cte")


def rows_of(points, names, stored):
    """Rows of the table's latencies and of the kernels from source (validation/public.json); of
    families with the numbers and rules found without them where these are known. names: of replays.
    """
    rows = []
    without = {i: e for family_ in stored["without_family"].values() for i, e in family_.items()}
    for r in points:
        if r["kind"] == "latency":
            ratio = r["measured"] / r["simulated"]
            if r["metric"].startswith("mfu"):  # the inverse of a latency
                ratio = 1 / ratio
            rows.append(("trace", f"replay {family(r['id'])}" if r["id"] in names
                         else family(r["id"]), r["hardware"], ratio, r["uncertain"]))
    for r in stored["kernels"]:
        error = without.get(r["id"], r["error_percent"])
        rows.append(("neuronxcc" if r["api"] == "legacy" else "nki", family(r["id"]),
                     r["hardware"], 1 / (1 + error / 100), r["uncertain"]))
    return rows


def markdown(result):
    """The table of docs/evidence.md."""
    lines = ["| how the program came about | measured / simulated | latencies | families | within | "
             "leaving one out | leaving its family out |\n|---|--:|--:|--:|--:|--:|--:|"]
    names = {"trace": "a trace", "nki": "a kernel of the new API",
             "neuronxcc": "a kernel of the legacy API"}
    for kind, s in result.items():
        lines.append(f"| {names[kind]} | {s['low']:.2f} to {s['high']:.2f} | {s['rows']} | "
                     f"{s['families']} | {100 * s['coverage']:.0f} % | "
                     f"{100 * s['coverage_left_one_out']:.0f} % | "
                     f"{100 * s['coverage_left_family_out']:.0f} % |")
    return "\n".join(lines)
