"""Writes the results of `nkisim sweep` (latency by settings): a table, CSV, JSON, a plot."""

import csv
import json
import os

from nkisim_work.files import replacing

from ..session import BadSession
from ..view import cell

COLUMNS = ("total_time", "tensor_engine_active_time_percent", "vector_engine_active_time_percent",
           "scalar_engine_active_time_percent", "gpsimd_engine_active_time_percent",
           "sync_engine_active_time_percent", "dma_active_time_percent",
           "mfu_estimated_percent", "mbu_estimated_percent")


def number(text):
    """The number a setting is, or its text."""
    try:
        return float(text)
    except ValueError:
        return text


def flat(rows):
    """A dictionary per point: its settings, then every metric of its summary."""
    return [{**r["point"], **r["summary"]} for r in rows]


def write_csv(table, path):
    """Writes dictionaries as CSV, a column for every key; text that a spreadsheet would take for a
    formula is quoted."""
    names = list(dict.fromkeys(name for row in table for name in row))
    with replacing(path) as partial, open(partial, "w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, names)
        writer.writeheader()
        writer.writerows({k: cell(v) for k, v in row.items()} for row in table)


def as_json(rows, failed):
    return json.dumps({"points": [{"settings": r["point"], "summary": r["summary"],
                                   "seconds": r["seconds"]} for r in rows],
                       "failed": [{"settings": r["point"], "error": r["error"]} for r in failed]},
                      indent=1)


def format_metric(metric, value):
    if metric.endswith("_time"):
        return f"{value * 1e6:.3f} us"
    return f"{value * 100:.1f} %" if metric.endswith("_percent") else f"{value:g}"


def aligned(lines):
    """Rows of texts as lines with columns flush right."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(f"{text:>{w}}" for text, w in zip(line, widths)).rstrip() for line in lines]


def table(rows, metric):
    """Lines: the settings that vary, the metric, and its change from the first row."""
    axes = list(rows[0]["point"])
    first = rows[0]["summary"][metric]
    lines = [[*axes, metric, "change"]]
    for row in rows:
        value = row["summary"][metric]
        change = f"{100 * (value / first - 1):+.1f} %" if first else ""
        lines.append([*map(str, row["point"].values()), format_metric(metric, value), change])
    return aligned(lines)


def plotter():
    """matplotlib.pyplot without a display. Raises BadSession if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise BadSession("--plot needs matplotlib: pip install matplotlib") from None
    matplotlib.use("agg")
    from matplotlib import pyplot
    return pyplot


def save(figure, path, dpi):
    """Writes a figure of plotter() in the format that the name ends with, PNG without one, and closes
    it. Text stands as it is given. Raises BadSession for a format that matplotlib does not write."""
    from matplotlib.text import Text

    kind = os.path.splitext(path)[1][1:].lower() or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise BadSession(f"--plot {path}: matplotlib writes no .{kind}")
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a value may hold a $
    with replacing(path) as partial:
        figure.savefig(partial, dpi=dpi, format=kind)
    plotter().close(figure)


def plot(rows, metric, path):
    """A line per combination of the other settings over the first one; texts are categories."""
    pyplot = plotter()
    axis, *others = max_first(rows)
    scale, unit = (1e6, "us") if metric.endswith("_time") else (100, "%") if metric.endswith(
        "_percent") else (1, "")
    series = {}
    for row in rows:
        name = ", ".join(f"{k} {row['point'][k]}" for k in others)
        series.setdefault(name, []).append((number(row["point"][axis]),
                                            row["summary"][metric] * scale))
    figure, area = pyplot.subplots(figsize=(8, 5), layout="constrained")
    for name, points in series.items():
        if not any(isinstance(x, str) for x, _ in points):
            points.sort()
        area.plot(*zip(*points), marker="o", label=name)
    area.set(xlabel=axis, ylabel=f"{metric} ({unit})" if unit else metric)
    area.set_ylim(bottom=0)
    area.grid(alpha=0.3)
    if others:
        area.legend()
    save(figure, path, dpi=120)


def max_first(rows):
    """The settings, first the one with most numeric values: it becomes the x axis."""
    def weight(name):
        values = {r["point"][name] for r in rows}
        return sum(not isinstance(number(v), str) for v in values)

    return sorted(rows[0]["point"], key=weight, reverse=True)
