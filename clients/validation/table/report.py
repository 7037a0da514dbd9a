"""Writes docs/evidence.md: the errors of simulated against measured times, and their summary."""
import json
import statistics
from pathlib import Path

import curve
import text as words

from nkisim_validation import families, profiles, sets
from nkisim_validation import spread as intervals
from nkisim_validation.families import spearman


def figure(value):
    """Published ranges are [min, median, max]: the median counts."""
    return float(value[1] if isinstance(value, list) else value)


def row(measurement, point, simulated):
    value, result = figure(measurement["value"]), float(point.read(simulated))
    percent = "percent" in measurement["metric"]
    return {"id": measurement["id"], "hardware": measurement["hardware"],
            "metric": measurement["metric"].split(" ")[0], "kind": kind(measurement),
            "confidence": measurement["confidence"], "bound": point.bound, "group": point.group,
            "measured": value, "simulated": result, "points": result - value if percent else None,
            "error": 100 * (result - value) / value, "bottleneck": simulated["bottleneck"],
            "uncertain": simulated["uncertain"], "open": simulated["open"]}


def kind(measurement):
    """latency: the time of a whole kernel, or MFU, which is its inverse."""
    metric = measurement["metric"]
    if measurement["kind"] != "whole kernel":
        return "single"
    return "latency" if metric.startswith(("latency", "total_time", "mfu_percent")) else "figure"


def summary(rows):
    result = {}
    latencies = [r for r in rows if r["kind"] == "latency"]
    for name, part in (("kernel latencies", latencies),
                       ("single instructions and DMAs", [r for r in rows if r["kind"] == "single"]),
                       ("other figures of kernels", [r for r in rows if r["kind"] == "figure"])):
        if part:
            result[name] = spread(part)
    for field in ("hardware", "bound", "confidence"):
        for value in sorted({r[field] for r in latencies}):
            result[f"latencies, {value}"] = spread([r for r in latencies if r[field] == value])
    ranks = {}
    for group in dict.fromkeys(r["group"] for r in latencies if r["group"]):
        part = [r for r in latencies if r["group"] == group]
        if len(part) > 1:
            right, pairs = families.ordered([(group, r["measured"], r["simulated"]) for r in part])
            ranks[group] = {"variants": len(part), "right": right, "pairs": pairs,
                            "spearman": spearman([r["measured"] for r in part],
                                                 [r["simulated"] for r in part])}
    return {"errors": result, "ranks": ranks}


def spread(rows):
    errors = [abs(r["error"]) for r in rows]
    worst = max(rows, key=lambda r: abs(r["error"]))
    return {"points": len(rows), "mean": statistics.mean(errors),
            "median": statistics.median(errors), "worst": worst["error"], "worst_id": worst["id"],
            "within_8": sum(e <= 8 for e in errors), "within_20": sum(e <= 20 for e in errors)}


def number(value):
    return f"{value:.0f}" if abs(value) >= 10000 or value == int(value) else f"{value:.4g}"


def text(rows, result):
    lines = [f"{'measurement':58} {'metric':28} {'measured':>10} {'simulated':>10} {'error':>8}  "
             "bottleneck"]
    for r in rows:
        lines.append(f"{r['id']:58} {r['metric'][:28]:28} {number(r['measured']):>10} "
                     f"{number(r['simulated']):>10} {r['error']:+7.1f}%  {r['bottleneck']}")
    lines.append("")
    for name, s in result["errors"].items():
        lines.append(f"{name:32} {s['points']:3} points  mean {s['mean']:5.1f} %  median "
                     f"{s['median']:5.1f} %  worst {s['worst']:+6.1f} % ({s['worst_id']})")
    if result.get("sets"):
        lines += ["", *sets.lines(result["sets"])]
    for kind, s in result.get("spread", {}).items():
        name, least = min(s["left_out"].items(), key=lambda x: x[1])
        lines.append(f"measured / simulated, {kind:9} {s['low']:.2f} to {s['high']:.2f}  "
                     f"{100 * s['coverage']:.0f} % of {s['rows']} within, "
                     f"{100 * statistics.mean(s['left_out'].values()):.0f} % of a family that is left out, at least "
                     f"{100 * least:.0f} % ({name}){'' if kind == 'trace' else '  stored'}")
    for name, s in result["ranks"].items():
        lines.append(f"rank correlation, {name:28} {s['variants']} variants  {s['spearman']:.3f}  "
                     f"{s['right']} of {s['pairs']} pairs in order")
    if result.get("families"):
        lines += ["", *families.lines(result["families"])]
    return "\n".join(lines)


def write(rows, result, table, rates, folder):
    """docs/evidence.md and its plots; rates: of curve.measure()."""
    plotted = plot(rows, folder / "accuracy.png")
    parts = [words.INTRODUCTION]
    if plotted:
        parts.append("![Simulated against measured latency](accuracy.png)\n")
    parts += [words.NEW, families.left_out_markdown(families.left_out(_stored("public.json"))),
              "\n" + intervals.left_out_sentence(result["spread"]),
              "\n" + words.SETS, sets.markdown(result["sets"]), "\n" + words.FAMILIES,
              families.markdown(result["families"]), without_family(), "\n" + words.CHOSEN, chosen(),
              "\n" + words.TRUST, intervals.markdown(result["spread"])]
    parts.append("\n## The table of own programs\n\nAbsolute errors; MFU counts as the inverse of a latency.\n\n"
                 "| | points | mean | median | worst | | within 8 % | within 20 % |\n"
                 "|---|--:|--:|--:|--:|---|--:|--:|")
    for name, s in result["errors"].items():
        parts.append(f"| {name} | {s['points']} | {s['mean']:.1f} % | {s['median']:.1f} % | "
                     f"{s['worst']:+.1f} % | `{s['worst_id']}` | {s['within_8']} | {s['within_20']} |")
    parts.append("\n| variants of one kernel | number | Spearman rank correlation | pairs more than "
                 "3 % apart in order |\n|---|--:|--:|--:|")
    for name, s in result["ranks"].items():
        parts.append(f"| {name} | {s['variants']} | {s['spearman']:.3f} | {s['right']} of {s['pairs']} |")
    parts.append("\n" + words.COMPILER)
    titles = {"latency": "Kernel latencies", "single": "Single instructions and DMAs",
              "figure": "Other figures of kernels"}
    for part, title in titles.items():
        parts.append(f"## {title}\n\n| id | measures | confidence | measured | simulated | error | "
                     "bound |\n|---|---|---|--:|--:|--:|---|")
        for r in (r for r in rows if r["kind"] == part):
            error = f"{r['points']:+.1f} points" if r["points"] is not None and \
                r["kind"] == "figure" else f"{r['error']:+.1f} %"
            parts.append(f"| `{r['id']}` | {r['metric']} | {r['confidence']} | "
                         f"{number(r['measured'])} | {number(r['simulated'])} | {error} | "
                         f"{r['bound']} |")
        parts.append("")
    curve.plot(rates, folder / "dma.png")
    parts += [replays(), curve.text(rates), missing(rows, table), public(), trn3(), words.LIMITS]
    page = folder / "evidence.md"
    text = "\n".join(parts).strip() + "\n"
    page.write_text(between(page.read_text(encoding="utf-8"), *PAGE, text), encoding="utf-8")
    page = folder.parent / "README.md"
    page.write_text(with_figures(page.read_text(encoding="utf-8"), result["spread"]), encoding="utf-8")


BEGIN, END = "<!-- accuracy: from clients/validation/table/run --write -->\n", "<!-- end -->\n"
PAGE = "<!-- evidence: from clients/validation/table/run --write -->\n", "<!-- end of evidence -->\n"


def between(page, begin, end, text):
    """The page with a text between two marks."""
    before, rest = page.split(begin)
    return before + begin + text + end + rest.split(end, 1)[1]


def with_figures(page, found):
    """README's text with what a new kernel meets between its marks; found: the intervals."""
    return between(page, BEGIN, END, figures(found) + "\n")


def figures(found):
    """The error that a kernel meets with which nothing was chosen, for README: each family once, left out."""
    rows = families.left_out(_stored("public.json"))
    return (f"* A family of kernels that no number or rule was chosen with: median of {len(rows)} families "
            f"{statistics.median(r['mean'] for r in rows):.0f} % off, worst {rows[-1]['mean']:.0f} % "
            f"({rows[-1]['family']}). With all chosen: {statistics.median(r['calibrated'] for r in rows):.0f} % and "
            f"{max(r['calibrated'] for r in rows):.0f} %.\n"
            f"* {intervals.left_out_sentence(found)}")


def _stored(name):
    return json.loads((Path(__file__).parent / name).read_text(encoding="utf-8"))


def without_family():
    """The settings of families without their own measurements."""
    lines = ["\n| family | what its own column leaves out |\n|---|---|"]
    for f in _stored("held_out.json")["families"]:
        numbers = ", ".join(f"`{k}` {v}" for k, v in (*f["without"].items(),
                                                      *f["compiler"].items())) or "nothing"
        lines.append(f"| {f['family']} | {numbers}: {f['why']} |")
    return "\n".join(lines)


def chosen():
    """The choices and the measurements that they were made with."""
    table = _stored("held_out.json")
    named = lambda ids: ", ".join(f"`{i}*`" for i in ids) or "none of this table"  # noqa: E731
    lines = ["| chosen | with |\n|---|---|"]
    lines += [f"| config numbers whose source names \"{s['names']}\" | {named(s['measurements'])} |"
              for s in table["sources"] if s["measurements"]]
    lines += [f"| {r['rule']}{' (own programs)' * r.get('own', False)} | {named(r['measurements'])} |"
              for r in table["rules"]]
    return "\n".join(lines)


def replays():
    """The device profiles' section, from what `nkisim validate --replay --write` wrote."""
    found = _stored("replay.json")
    return words.REPLAYS + profiles.text(found) + "\n"


def public():
    """The public kernels' section, from what clients/validation/table/public wrote."""
    found = _stored("public.json")
    lines = [words.PUBLIC, "| kernel | measured | simulated | error |\n|---|--:|--:|--:|"]
    for r in found["kernels"]:
        mark = " (over capacity)" if r["over_capacity"] else ""
        lines.append(f"| `{r['id']}`{mark} | {number(r['measured_us'])} us | "
                     f"{number(r['simulated_us'])} us | {r['error_percent']:+.1f} % |")
    lines.append(other_figures(found["kernels"]))
    errors = {r["id"]: r["error_percent"] for r in found["kernels"]}
    small = next(iter(found["otherwise"].values()))
    ways = {"defaults": {i: e for i, e in errors.items() if i in small}, **found["otherwise"]}
    groups = dict.fromkeys(families.of(i)[0] for i in small)
    lines.append("\nMean absolute error (worst) of nki-autotune's kernels and Mamba up to 1024 steps with "
                 "one switch the other way (all families with the defaults: the table at the top):\n")
    lines.append("| | " + " | ".join(groups) + " |\n|---|" + "--:|" * len(groups))
    for way, errors in ways.items():
        cells = [_mean_and_worst([e for i, e in errors.items() if families.of(i)[0] == family])
                 for family in groups]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n" + words.PUBLIC_NOTES


def trn3():
    """The measurements of trn3, from what clients/validation/table/public wrote."""
    units = ("tensor_engine", "vector_engine", "scalar_engine", "gpsimd_engine", "dma")
    lines = [words.TRN3, "| kernel | measured | simulated | error | TensorE | VectorE | ScalarE | GpSimd | "
             "DMA |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for r in _stored("public.json")["kernels"]:
        if r["hardware"] != "trn3":
            continue
        shares = [r["figures"].get(f"{u}_active_percent") for u in units]
        cells = ["-" if s is None else f"{s[0]:.1f}, {s[1]:.1f}" for s in shares]
        lines.append(f"| `{r['id']}` | {number(r['measured_us'])} us | {number(r['simulated_us'])} us | "
                     f"{r['error_percent']:+.1f} % | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n\n" + words.TRN3_NOTES


def other_figures(kernels):
    """Bytes, flops and engines of the kernels whose profile is published."""
    lines = ["\nBytes of HBM in MB, flops of the PE array and those of its transposes in 10^9, active "
             "engines in percent of the total; each measured, then simulated:\n",
             "| kernel | read | written | flops | transposes | ScalarE | VectorE | GpSimd |\n|---|"
             + "--:|" * 7]
    for r in kernels:
        found = r.get("figures", {})
        if "hbm_read_bytes" not in found or "scalar_engine_active_percent" not in found:
            continue
        bytes_ = [f"{m / 1e6:.1f}, {s / 1e6:.1f}" for m, s in (
            found["hbm_read_bytes"], found["hbm_write_bytes"])]
        bytes_ += [f"{found[f][0] / 1e9:.3f}, {found[f][1] / 1e9:.3f}" if f in found else "-"
                   for f in ("hardware_flops", "transpose_flops")]
        engines = [f"{m:.1f}, {s:.1f}" for m, s in (
            found[f"{e}_engine_active_percent"] for e in ("scalar", "vector", "gpsimd"))]
        lines.append(f"| `{r['id']}` | " + " | ".join(bytes_ + engines) + " |")
    return "\n".join(lines)


def _mean_and_worst(errors):
    if not errors:
        return "-"
    worst = max(errors, key=abs)
    return f"{statistics.mean(map(abs, errors)):.1f} % ({worst:+.0f} %)"


def missing(rows, table):
    """Every counted latency without a program, with the reason."""
    run = {r["id"] for r in rows}
    lines = ["## Measurements without a program\n",
             "Latencies of high and medium confidence that this table does not reach:\n",
             "| measurements | number | why |\n|---|--:|---|"]
    absent = [m["id"] for m in table["single_core"] if m["id"] not in run
              and m["metric"].startswith(("latency", "total_time"))]
    for prefix, why in words.REASONS:
        ids = [i for i in absent if i.startswith(prefix)]
        absent = [i for i in absent if i not in ids]
        if ids:
            lines.append(f"| `{prefix}*` | {len(ids)} | {why} |")
    lines += [f"| `{i}` | 1 | not written |" for i in absent]
    lines.append(f"\nMeasured on two cores of a pair (LNC2), listed in `validation/"
                 f"measurements.json` and not counted: {len(table['two_cores'])} figures.\n")
    return "\n".join(lines)


def plot(rows, path):
    """True if the picture is there; matplotlib is optional."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return Path(path).exists()
    latencies = [r for r in rows if r["kind"] == "latency" and "mfu" not in r["metric"]]
    figure_, axes = plt.subplots(figsize=(5, 4.6), dpi=80)
    for hardware, mark in (("trn1", "o"), ("trn2", "^"), ("trn3", "s")):
        part = [r for r in latencies if r["hardware"] == hardware]
        if part:
            axes.loglog([r["measured"] for r in part], [r["simulated"] for r in part], mark,
                        markersize=5, alpha=0.7, label=hardware)
    ends = [10, 1e5]
    axes.loglog(ends, ends, "k-", linewidth=0.8)
    for factor in (0.8, 1.2):
        axes.loglog(ends, [factor * e for e in ends], "k:", linewidth=0.6)
    axes.set(xlabel="measured latency (us)", ylabel="simulated latency (us)",
             title="Dotted: 20 % either way")
    axes.legend()
    figure_.tight_layout()
    figure_.savefig(path)
    return True
