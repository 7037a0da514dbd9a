"""Groups measured kernels into families: errors by family, and if a family's kernels are ranked
right.

A family is one kernel or task in several versions, sizes or types. Versions for the same task are
what a search chooses between, so their order is counted pair by pair as well.
"""

import json
import re
import statistics
from itertools import combinations
from pathlib import Path

#: (name, start of the measurements' ids, what of the rest of an id is the task). The names are those
#: of clients/validation/table/held_out.json where a family has numbers found without it.
FAMILIES = (
    ("nki-autotune matmul", "trn2-autotune-", r""),
    ("tutorial matmul, trn2", "trn2-doc-matmul-", r""),
    ("tutorial matmul, trn1", "trn1-doc-matmul-", r""),
    ("tutorial Mamba, trn1", "trn1-doc-mamba-", r"seq\d+|v1-\d+"),
    ("nki-library MLP", "trn2-nkilib-", r".*"),
    ("NKIBench", "trn1-nkibench-", r".*"),
    ("attention", "trn2-fusion-attn-", r"(fp32|bf16)-s\d+"),
    ("attention", "trn2-fusion-trace-", r"(fp32|bf16)_s\d+"),
    ("fused MLP", "trn2-fusion-mlp-", r".*"),
    ("decode MoE in FP8, trn3", "trn3-decode-moe-fp8-", r""),
    ("decode MoE in FP8, trn2", "trn2-decode-moe-fp8-", r""),
    ("decode MoE in BF16, trn2", "trn2-decode-moe-bf16-", r""),
    ("decode attention, trn2", "trn2-decode-attn-", r""),
    ("decode attention of four KV heads, trn2", "trn2-decode-attn4-", r""),
    ("decode MoE by token, trn2", "trn2-decode-moetkg-", r""),
    ("prefill attention, trn2", "trn2-prefill-attn-", r""),
)
_SAME_TASK = {"v1-4096": "seq512"}  # Mamba v1 is measured with 512 steps only


def of(name):
    """(family, way of measuring and task) of a measurement's id; (None, None) if it has none."""
    for family, start, task in FAMILIES:
        if name.startswith(start):
            found = re.search(task, name[len(start):])
            task = found[0] if found else ""
            return family, start + _SAME_TASK.get(task, task)
    return None, None


#: Families whose rows are of one kernel of one repository: what is left out together.
_KIN = {"decode MoE in FP8, trn3": "fused MoE decode", "decode MoE in FP8, trn2": "fused MoE decode",
        "decode MoE in BF16, trn2": "fused MoE decode", "decode attention, trn2": "decode attention",
        "decode attention of four KV heads, trn2": "decode attention"}


def kernel_of(name):
    """All rows of one kernel of one repository, whatever their versions, sizes and types, as a name. A task of
    NKIBench is a kernel; programs of the table next to FAMILIES are those of who measured them."""
    family = of(name)[0]
    parts = name.split("-")
    if family == "NKIBench":
        return f"NKIBench {parts[2]}"
    return _KIN.get(family, family) or f"{parts[1]} {parts[2].split('_')[0]}"


def left_out(stored):
    """[{family, kernels, mean, worst, calibrated}] of the kernels from source, each family once, with the numbers
    and rules that are found without it where any were chosen with it; the closest first."""
    without = {i: e for part in stored["without_family"].values() for i, e in part.items()}
    errors = {}
    for row in stored["kernels"]:
        errors.setdefault(kernel_of(row["id"]), {})[row["id"]] = without.get(row["id"], row["error_percent"])
    rows = [{"family": family, "kernels": len(part), **_mean_and_worst([*part.values()]),
             "calibrated": statistics.mean(abs(r["error_percent"]) for r in stored["kernels"]
                                           if kernel_of(r["id"]) == family)}
            for family, part in errors.items() if family not in NOT_LEFT_OUT]
    return sorted(rows, key=lambda row: row["mean"])


#: A rule was chosen with them, and no run without it is fair (clients/validation/table/text.py, CHOSEN).
NOT_LEFT_OUT = ("fused MLP", "tutorial Mamba, trn1")


def left_out_markdown(rows):
    """left_out() as a table, and its median."""
    lines = ["| family left out | kernels | mean error | worst | calibrated |\n|---|--:|--:|--:|--:|"]
    lines += [f"| {r['family']} | {r['kernels']} | {r['mean']:.1f} % | {r['worst']:+.1f} % | {r['calibrated']:.1f} % |"
              for r in rows]
    lines.append(f"| **median of {len(rows)} families** | | **{statistics.median(r['mean'] for r in rows):.1f} %** | "
                 f"{max((r['worst'] for r in rows), key=abs):+.1f} % | "
                 f"{statistics.median(r['calibrated'] for r in rows):.1f} % |")
    return "\n".join(lines)


def ranks(values):
    """Ranks from 1; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) + 1) / 2 for v in values]


def spearman(a, b):
    """Spearman's rank correlation; None where all values of a side are equal."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return statistics.correlation(ranks(a), ranks(b))


#: Two measurements closer than this are alike: what runs of one kernel differ by.
APART = 0.03


def measured_apart(a, b):
    """True if two measured latencies have an order."""
    return abs(a - b) > APART * min(a, b)


def ordered(rows):
    """rows: (task, measured, simulated). (pairs of one task that are ordered as measured, all such
    pairs); pairs measured alike have no order."""
    right = pairs = 0
    for (a, ma, sa), (b, mb, sb) in combinations(rows, 2):
        if a == b and measured_apart(ma, mb):
            pairs += 1
            right += (ma < mb) == (sa < sb) and sa != sb
    return right, pairs


def _mean_and_worst(errors):
    return None if not errors else {"mean": statistics.mean(map(abs, errors)),
                                    "worst": max(errors, key=abs)}


def found(stored, before):
    """A row for each family, from clients/validation/table/public.json and before.json: how far off as it is and
    with the numbers found without it, and the order of its kernels before and now."""
    kernels = {}
    for row in stored["kernels"]:
        kernels.setdefault(of(row["id"])[0], []).append(row)
    rows = []
    for family in dict.fromkeys(f for f, *_ in FAMILIES):
        part = kernels.get(family, [])
        if not part:
            continue
        row = {"family": family, "kernels": len(part), "now": _mean_and_worst(
                   [r["error_percent"] for r in part]),
               "without": _mean_and_worst([*stored["without_family"].get(family, {}).values()])}
        both = [r for r in part if r["id"] in before["simulated_us"]]
        for way, simulated in (("before", lambda r: before["simulated_us"][r["id"]]),
                               ("after", lambda r: r["simulated_us"])):
            pairs = [(of(r["id"])[1], r["measured_us"], simulated(r)) for r in both]
            right, all_pairs = ordered(pairs)
            row[way] = {"variants": len(pairs), "right": right, "pairs": all_pairs,
                        "spearman": spearman([m for _, m, _ in pairs], [s for *_, s in pairs])}
        rows.append(row)
    return rows


def read(folder):
    """found() of the files in the table's folder."""
    stored, before = (json.loads((Path(folder) / name).read_text(encoding="utf-8"))
                      for name in ("public.json", "before.json"))
    return found(stored, before)


def _percent(errors):
    return "-" if errors is None else f"{errors['mean']:.1f} % ({errors['worst']:+.0f} %)"


def _rank(way):
    return "-" if way["spearman"] is None else f"{way['spearman']:.3f}"


def _pairs(way):
    return f"{way['right']} of {way['pairs']}" if way["pairs"] else "-"


HEAD = ("| family | kernels | without what it showed: mean (worst) | as it is | Spearman | versions of one task "
        "ordered right |\n|---|--:|--:|--:|--:|--:|")


def markdown(rows):
    """The rows as a table."""
    return "\n".join([HEAD, *(
        f"| {r['family']} | {r['kernels']} | {_percent(r['without'])} | {_percent(r['now'])} | "
        f"{_rank(r['after'])} | {_pairs(r['after'])} |" for r in rows)])


def lines(rows):
    """The rows for a terminal; all are stored."""
    return ["kernels from source, stored:"] + [
            f"{r['family']:22} {r['kernels']:3} kernels  mean {r['now']['mean']:5.1f} %  Spearman "
            f"{_rank(r['before'])} before, {_rank(r['after'])} now; versions of one task ordered right "
            f"{_pairs(r['before'])}, {_pairs(r['after'])}" for r in rows]
