"""Compares simulated collective operations with published measurements, also when these are left
out of the fit.

clients/validation/table/collectives.json holds the measurements. The algorithms of 64 ranks have three numbers each:
latency of a step, and the shares of the bounding rate when data is gathered and reduced. Time is linear
in the first and in the inverse of the others, so that they are found by least squares of the relative
errors, from all points of an algorithm or from those that are left when some are held out.
"""

import json
import statistics

FITTED = "trn2 64 ranks"  # the sets whose numbers are found here
BEGIN, END = "<!-- figures: nkisim validate --collectives --write -->\n", "<!-- end of figures -->\n"
US = 1e3  # ns


def points(folder, only=""):
    table = json.loads((folder / "collectives.json").read_text(encoding="utf-8"))
    return [p for p in table["points"] if only in p["id"]]


def simulate(program, point, config, overrides=()):
    """The output of `nkisim collective` for a point."""
    words = ["collective", point["operation"], point["bytes"], "--ranks", point["ranks"],
             "--lnc", point["lnc"], "--target", config(point["hardware"]), "--json"]
    if "group" in point:
        words += ["--group", point["group"]]
    if "repeat" in point:  # as nccom-test: the mean of operations that are triggered ahead
        words += ["--repeat", point["repeat"]]
    for item in (*overrides, *point.get("override", ())):
        words += ["--set", item]
    return json.loads(program.call(*words))


def rows(program, found, config, overrides=()):
    """[{point, simulated_us, algorithm, error, parts}]"""
    result = []
    for point in found:
        answer = simulate(program, point, config, overrides)
        simulated = answer["duration_ns"] / US
        result.append({**point, "simulated_us": simulated, "algorithm": answer["algorithm"],
                       "error": 100 * (simulated / point["measured_us"] - 1), "answer": answer})
    return result


def equation(row, numbers):
    """(constant, [steps, gathered ns, reduced ns at a share of 1]) of an operation's time.

    numbers: collectives.algorithms of the config. What happens on the chip keeps its shares.
    """
    parts = row["answer"]["parts"]
    main = max(parts, key=lambda p: p["algorithm"] != "on_chip")["algorithm"]
    known = row["answer"]["duration_ns"]
    factors = [0.0, 0.0, 0.0]
    for part in parts:
        factors[0] += part["steps"]
        known -= part["steps"] * numbers[part["algorithm"]]["step"]["value"]
        if part["algorithm"] == main:
            share = numbers[main]["reduce_share" if part["reduces"] else "gather_share"]["value"]
            factors[2 if part["reduces"] else 1] += part["data_ns"] * share
            known -= part["data_ns"]
    return known, factors


def fit(rows_, numbers):
    """step in ns, and 1 / share of gathering and of reducing, from these rows of one algorithm."""
    import numpy as np
    left, right = [], []
    for row in rows_:
        known, factors = equation(row, numbers)
        measured = row["measured_us"] * US
        left.append([f / measured for f in factors])
        right.append(1 - known / measured)
    return np.linalg.lstsq(np.array(left), np.array(right), rcond=None)[0]


def predict(row, numbers, found):
    known, factors = equation(row, numbers)
    return (known + sum(f * x for f, x in zip(factors, found))) / US


def held_out(rows_, numbers):
    """{way: [(row, error in percent)]} of the 64 ranks, each predicted with numbers found without it.

    by curve: an operation and dtype at a time; by size: every second size at a time.
    """
    ways = {"by curve": [], "by size": []}
    for algorithm in sorted({r["algorithm"] for r in rows_}):
        part = [r for r in rows_ if r["algorithm"] == algorithm]
        curves = sorted({r["set"] for r in part})
        sizes = {c: sorted(r["bytes"] for r in part if r["set"] == c) for c in curves}
        folds = {"by curve": [[r for r in part if r["set"] == c] for c in curves],
                 "by size": [[r for r in part if sizes[r["set"]].index(r["bytes"]) % 2 == k]
                             for k in (0, 1)]}
        for way, groups in folds.items():
            for group in groups:
                rest = [r for r in part if r not in group]
                if len({r["bytes"] for r in rest}) < 2:
                    continue  # the only size of its algorithm
                found = fit(rest, numbers)
                ways[way] += [(r, 100 * (predict(r, numbers, found) / r["measured_us"] - 1))
                              for r in group]
    return ways


def spread(errors):
    worst = max(errors, key=abs)
    return {"points": len(errors), "median": statistics.median(map(abs, errors)), "worst": worst}


def summary(rows_, ways):
    """[{set, part, points, median, worst}]"""
    result = []
    for name in dict.fromkeys(r["set"] for r in rows_):
        result.append({"set": name, "part": "calibrated",
                       **spread([r["error"] for r in rows_ if r["set"] == name])})
        for way, found in ways.items():
            errors = [e for r, e in found if r["set"] == name]
            if errors:
                result.append({"set": name, "part": f"held out {way}", **spread(errors)})
    return result


def text(rows_, result):
    lines = [f"{'measurement':44} {'algorithm':10} {'measured':>11} {'simulated':>11} {'error':>8}"]
    lines += [f"{r['id']:44} {r['algorithm']:10} {r['measured_us']:8.2f} us {r['simulated_us']:8.2f} us "
              f"{r['error']:+7.1f}%" for r in rows_]
    lines.append("")
    lines += [f"{s['set']:36} {s['part']:18} {s['points']:3} points  median {s['median']:5.1f} %  worst "
              f"{s['worst']:+6.1f} %" for s in result]
    return "\n".join(lines)


def markdown(rows_, result, ways):
    lines = ["| | | points | median | worst |\n|---|---|--:|--:|--:|"]
    lines += [f"| {s['set']} | {s['part']} | {s['points']} | {s['median']:.1f} % | {s['worst']:+.1f} % |"
              for s in result]
    lines.append("\n| measurement | algorithm | measured, us | simulated, us | error | held out by curve "
                 "| by size |\n|---|---|--:|--:|--:|--:|--:|")
    out = {way: {r["id"]: f"{e:+.1f} %" for r, e in found} for way, found in ways.items()}
    lines += [f"| `{r['id']}` | {r['algorithm']} | {r['measured_us']:g} | {r['simulated_us']:.2f} | "
              f"{r['error']:+.1f} % | " + " | ".join(out[w].get(r["id"], "") for w in out) + " |"
              for r in rows_]
    return "\n".join(lines) + "\n"


def numbers_of(program, config, overrides=()):
    return program.config(config("trn2"), overrides)["collectives"]["algorithms"]


def write(rows_, result, ways, docs):
    """The figures of docs/timing.md and its plot."""
    page = docs / "timing.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(before + BEGIN + "\n" + markdown(rows_, result, ways) + "\n" + END + after,
                    encoding="utf-8")
    plot(rows_, docs / "collective-timing.png")


def plot(rows_, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4), dpi=80)
    for panel, start in zip(axes, (FITTED, "trn1")):
        for number, name in enumerate(dict.fromkeys(r["set"] for r in rows_
                                                    if r["set"].startswith(start))):
            part = sorted((r for r in rows_ if r["set"] == name), key=lambda r: r["bytes"])
            sizes = [r["bytes"] for r in part]
            panel.plot(sizes, [r["simulated_us"] for r in part], color=f"C{number}", linewidth=1.2)
            panel.plot(sizes, [r["measured_us"] for r in part], "o", color=f"C{number}", markersize=4,
                       label=name.removeprefix(start).strip())
        panel.set(xscale="log", yscale="log", xlabel="bytes", ylabel="us",
                  title=f"{start}; dots: measured, lines: simulated")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
