"""Writes predictions for a model as one HTML page: time per token by part with roofs, memory per
rank, throughput against latency, a layer's timeline, roofline, comparisons.
"""

from __future__ import annotations

import html
import math

from nkisim_work.files import replace

from . import report
from .between import PARTS_BETWEEN
from .predict import Prediction
from .step import PARTS

COLOURS = dict(zip((*PARTS, *PARTS_BETWEEN), (
    "#8c8c8c", "#3b78c2", "#84b3e6", "#b9d2ee", "#d9752b", "#efae7c", "#f6d4b8", "#4f9d5d", "#a8539b", "#c9b13c")))
WIDTH, ROW, LABEL = 960, 26, 150  # of a picture in pixels: its width, a row's height, the column of names
STYLE = """
:root { color-scheme: light dark; --back: #fff; --ink: #1d2430; --soft: #596273; --line: #d5dae2; }
@media (prefers-color-scheme: dark) { :root { --back: #15181e; --ink: #e6e9ef; --soft: #a7b0bf; --line: #3a414d; } }
body { background: var(--back); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 1000px; padding: 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.wide { overflow-x: auto; } svg { display: block; min-width: 640px; width: 100%; height: auto; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .soft { fill: var(--soft); }
svg .axis { stroke: var(--line); } svg .roof { stroke: var(--ink); fill: none; stroke-width: 1.5; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .15rem .5rem; text-align: right;
  border-bottom: 1px solid var(--line); white-space: nowrap; } th:first-child, td:first-child { text-align: left; }
.facts th, .facts td { text-align: left; vertical-align: top; border: 0; } .facts td { white-space: normal; }
pre { overflow-x: auto; }
.bar { display: flex; height: 18px; margin: .1rem 0 .5rem; } .bar div { position: relative; min-width: 1px; }
.bar .roof { position: absolute; bottom: 0; left: 0; height: 5px; min-width: 0; background: #0009; }
.small { min-width: 0; max-width: 560px; } @media (max-width: 600px) { .more { display: none; } }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .4em; border-radius: 2px; }
p { color: var(--soft); }
"""


def write(points, path, on="") -> None:
    """The page of the Points of a sweep, or of one. on: the name of the instance."""
    found = [p for p in points if p.found is not None]
    first = found[0].found
    m, on = first.share.model, on or first.share.target
    body = [f"<h1>{html.escape(m.kind)}, {m.layers} layers of {m.hidden}, on {on}</h1>",
            _facts([line for line in report.lines(first, found[0].prompt) if line.startswith(FACTS)]),
            "<h2>Time per token</h2>", "<p>The dark strip is the part's roof: no kernel with its reads and products is "
            "faster.</p>", _keys(first), _stacks([(_where(p), p.found) for p in found]),
            "<h2>Memory of a rank</h2>", _memory([(_where(p), p.found.share) for p in found]), _throughput(found),
            f"<h2>One layer ({_where(found[0])})</h2>", "<p>What the engines of the first core, its transfers and its "
            "collectives do while one layer of the steady state runs.</p>", _timeline(first),
            f"<h2>Parts ({_where(found[0])})</h2>", _table(first),
            f"<h2>Roofline ({_where(found[0])})</h2>", "<p>Products of each part against the bytes that it reads from "
            "HBM, in one rank; what stands below the line waits for something else.</p>", _roofline(first)]
    if found[0].prompt is not None:
        body += [f"<h2>A prompt of {found[0].prompt.prompt} tokens ({_where(found[0])})</h2>",
                 _stacks([(_where(p), p.prompt) for p in found]), _table(found[0].prompt)]
    if len(points) > 1:
        body += ["<h2>All configurations</h2>", f"<pre>{html.escape(chr(10).join(report.table(points)))}</pre>"]
    replace(path, (
        f"<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(m.kind)} on {on}</title><style>{STYLE}</style></head><body>\n"
        + "\n".join(body) + "\n</body></html>\n").encode())


#: The lines of the report that the page begins with.
FACTS = ("per token", "interval", "served", "per layer", "memory", "kernels", "routing", "padded", "left out",
         "not known", "first token", "next")
MEMORY = {"weights": "#3b78c2", "cache": "#d9752b"}


def _facts(lines):
    """Lines of a report as a table: the name of each, and what it says, which may be long."""
    said = (html.escape(line).partition("  ") for line in lines)
    rows = "".join(f"<tr><th>{name}</th><td>{words.strip()}</td></tr>" for name, _, words in said)
    return f"<table class=facts>{rows}</table>"


def _where(point):
    return f"tp {point.tp}, batch {point.batch}, context {point.context}"


def _keys(p):
    return "<div>" + " ".join(
        f"<span style='margin-right:1em;display:inline-block'>{_key(name)}</span>"
        for name, part in p.parts.items() if part.us) + "</div>"


def _key(part, colour=""):
    return f"<span class=key style='background:{colour or COLOURS[part]}'></span>{part}"


def _picture(height, inside, what):
    return (f"<div class=wide><svg viewBox='0 0 {WIDTH} {height}' role=img aria-label='{html.escape(what)}'>"
            + "".join(inside) + "</svg></div>")


def _box(x, y, width, height, part, said):
    return (f"<rect x='{x:.2f}' y='{y}' width='{max(width, 0.4):.2f}' height='{height}' fill='{COLOURS[part]}'>"
            f"<title>{html.escape(said)}</title></rect>")


def _text(x, y, text, more=""):
    return f"<text x='{x:.1f}' y='{y:.1f}' {more}>{html.escape(text)}</text>"


def _stacks(predictions: list[tuple[str, Prediction]]) -> str:
    """A bar of parts for each configuration, each with its roof."""
    longest, out = max(p.step_us for _, p in predictions), []
    for name, p in predictions:
        rate = "" if p.prompt else f", {p.tokens_per_second:.0f} tokens/s"
        parts = [(part, each.us / longest, COLOURS[part], min(1.0, each.roof_us / each.us),
                  f"{part}: {each.us:.1f} us, {each.us / p.step_us:.1%}, roof {each.roof_us:.1f}")
                 for part, each in p.parts.items() if each.us]
        out.append(f"<div>{name}: <b>{p.step_us / 1e3:.2f} ms</b>{rate}</div>" + _bar(parts))
    return "".join(out)


def _bar(parts):
    """A bar of (name, share of the whole width, colour, share of it below its roof, words)."""
    inside = "".join(f"<div title='{html.escape(said)}' style='width:{share:.3%};background:{colour}'>"
                     + (f"<div class=roof style='width:{roof:.1%}'></div>" if roof else "") + "</div>"
                     for _, share, colour, roof, said in parts)
    return f"<div class=bar>{inside}</div>"


def _memory(shares) -> str:
    """A bar of each configuration's memory: weights and cache, of what a rank has."""
    out = []
    for name, s in shares:
        sizes = {"weights": s.weight_bytes, "cache": s.cache_bytes}
        whole = max(s.memory_bytes, sum(sizes.values()))
        said = ", ".join(f"{_key(part, MEMORY[part])} {size / report.GIB:.2f}" for part, size in sizes.items())
        parts = [(part, size / whole, MEMORY[part], 0, f"{part}: {size / report.GIB:.2f} GiB")
                 for part, size in sizes.items()]
        parts.append(("free", 1 - sum(sizes.values()) / whole, "var(--line)", 0, "free"))
        less = "" if s.fits else ", which is too little"
        out.append(f"<div>{name}: {said} of {s.memory_bytes / report.GIB:.0f} GiB{less}</div>" + _bar(parts))
    return "".join(out)


def _throughput(points) -> str:
    """Tokens per second against time per token, a line over the batches of each tp and context; "" for one point."""
    if len(points) < 2:
        return ""
    width, height, left, bottom = 480, 250, 60, 210
    most = max(p.found.step_us for p in points) / 1e3, max(p.found.tokens_per_second for p in points)

    def place(p):
        return (left + p.found.step_us / 1e3 / most[0] * (width - left - 70),
                bottom - p.found.tokens_per_second / most[1] * (bottom - 20))

    out = [f"<line class=axis x1='{left}' y1='{bottom}' x2='{width - 60}' y2='{bottom}'/>",
           f"<line class=axis x1='{left}' y1='10' x2='{left}' y2='{bottom}'/>",
           _text(left, height - 24, "0", "class=soft text-anchor=middle"),
           _text(left - 6, 24, f"{most[1]:.0f}", "class=soft text-anchor=end"),
           _text(width - 70, height - 24, f"{most[0]:.1f} ms", "class=soft text-anchor=middle"),
           _text(width / 2, height - 8, "time per token", "class=soft text-anchor=middle"),
           _text(left - 6, 38, "tokens/s", "class=soft text-anchor=end")]
    lines: dict[tuple[int, int], list] = {}
    for p in points:
        lines.setdefault((p.tp, p.context), []).append(p)
    for (tp, context), of_one in lines.items():
        corners = [place(p) for p in sorted(of_one, key=lambda p: p.batch)]
        out.append(f"<polyline class=roof points='{' '.join(f'{x:.1f},{y:.1f}' for x, y in corners)}'/>")
        labelled = None
        for p, (x, y) in zip(sorted(of_one, key=lambda p: p.batch), corners):
            said = f"tp {tp}, batch {p.batch}, context {context}: {p.found.step_us / 1e3:.2f} ms, " \
                f"{p.found.tokens_per_second:.0f} tokens/s"
            out.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='4' fill='#3b78c2'><title>{said}</title></circle>")
            if labelled is None or abs(y - labelled) > 12:  # else it would cover the one before
                out.append(_text(x + 7, y + 4, f"tp {tp}, {p.batch}"))
                labelled = y
    return (f"<h2>Tokens per second against time per token</h2><p>Each point has its tp and batch.</p>"
            f"<svg class=small viewBox='0 0 {width} {height}' role=img aria-label='tokens against time'>"
            + "".join(out) + "</svg>")


def _timeline(p: Prediction) -> str:
    """One layer: a row for each engine, the transfers and the collectives."""
    begin, end = min(s.begin for s in p.timeline), max(s.end for s in p.timeline)
    scale = (WIDTH - LABEL - 10) / (end - begin)
    rows = list(dict.fromkeys(s.row for s in p.timeline))
    out, boxes = [_text(0, n * ROW + 18, row) for n, row in enumerate(rows)], []
    for s in p.timeline:
        boxes.append(_box(LABEL + (s.begin - begin) * scale, rows.index(s.row) * ROW + 4, (s.end - s.begin) * scale,
                        ROW - 8, s.part, f"{s.part}: {s.begin - begin:.2f} to {s.end - begin:.2f} us"))
    bottom = len(rows) * ROW + 4
    step = 10 ** math.floor(math.log10(end - begin))
    step = step / 5 if end - begin < 4 * step else step
    for at in range(int((end - begin) / step) + 1):
        x = LABEL + at * step * scale
        out += [f"<line class=axis x1='{x:.1f}' y1='0' x2='{x:.1f}' y2='{bottom}'/>",
                _text(x, bottom + 14, f"{at * step:g} us", "class=soft text-anchor=middle")]
    return _picture(bottom + 20, out + boxes, "timeline of one layer")


MORE = ("HBM MiB", "GFLOP")  # columns that a narrow window leaves out


def _table(p: Prediction) -> str:
    head = "".join(f"<th{' class=more' if name in MORE else ''}>{name}</th>" for name in (
        "part", "us", "share", *MORE, "roof us", "gain us", "bound"))
    rows = "".join(
        f"<tr><td>{_key(n)}</td><td>{e.us:.1f}</td>"
        f"<td>{e.us / p.step_us:.1%}</td><td class=more>{e.read_bytes / 2**20:.1f}</td>"
        f"<td class=more>{e.flops / 1e9:.2f}</td>"
        + (f"<td>{e.roof_us:.1f}</td><td>{e.gain_us:.1f}</td>" if e.has_roof else "<td>-</td><td>-</td>")
        + f"<td>{html.escape(report.bound(e))}</td></tr>"
        for n, e in p.parts.items() if e.us or e.read_bytes)
    return f"<div class=wide><table><tr>{head}</tr>{rows}</table></div>"


def _roofline(p: Prediction) -> str:
    """The parts that multiply: GFLOP/s by flops per byte, in logarithms."""
    seen = {n: e for n, e in p.parts.items() if e.flops and e.read_bytes and e.us}
    if not seen:
        return "<p>No part multiplies.</p>"
    peak = max(e.flops / e.flops_us for e in seen.values()) * 1e-3    # GFLOP/s
    rate = max(e.read_bytes / e.read_us for e in seen.values()) * 1e-3  # GB/s
    points = {n: (e.flops / e.read_bytes, e.flops / e.us * 1e-3) for n, e in seen.items()}
    left, right = (f(math.log10(v)) for f, v in ((math.floor, min(0.5, *(x for x, _ in points.values()))),
                                                 (math.ceil, 10 * peak / rate)))
    low, high = math.floor(math.log10(min(y for _, y in points.values()))), math.ceil(math.log10(peak))
    height, floor = 320, 280

    def place(x, y):
        return (LABEL + (math.log10(x) - left) / (right - left) * (WIDTH - LABEL - 170),
                floor - (math.log10(y) - low) / (high - low) * (floor - 14))

    out = []
    for power in range(left, right + 1):
        x = place(10.0 ** power, 10.0 ** low)[0]
        out += [f"<line class=axis x1='{x:.1f}' y1='14' x2='{x:.1f}' y2='{floor}'/>",
                _text(x, floor + 16, f"{10.0 ** power:g}", "class=soft text-anchor=middle")]
    for power in range(low, high + 1):
        y = place(10.0 ** left, 10.0 ** power)[1]
        out += [f"<line class=axis x1='{LABEL}' y1='{y:.1f}' x2='{WIDTH - 170}' y2='{y:.1f}'/>",
                _text(LABEL - 6, y + 4, f"{10.0 ** power:,.0f} GFLOP/s", "class=soft text-anchor=end")]
    start = max(10.0 ** left, 10.0 ** low / rate)
    corners = [place(start, start * rate), place(peak / rate, peak), place(10.0 ** right, peak)]
    out += [f"<polyline class=roof points='{' '.join(f'{x:.1f},{y:.1f}' for x, y in corners)}'/>",
            _text((LABEL + WIDTH - 170) / 2, floor + 34, "flops per byte read from HBM",
                  "class=soft text-anchor=middle")]
    for n, (name, (x, y)) in enumerate(points.items()):
        said, (x, y) = f"{name}: {y:,.0f} GFLOP/s", place(x, y)
        out += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='6' fill='{COLOURS[name]}'><title>{said}</title></circle>",
                f"<circle cx='{WIDTH - 158}' cy='{24 + n * 20}' r='6' fill='{COLOURS[name]}'/>",
                _text(WIDTH - 146, 28 + n * 20, said)]
    return _picture(height, out, "roofline of the parts")
