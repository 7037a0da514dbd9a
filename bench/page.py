#!/usr/bin/env python3
"""Draws the ratios of a history over commits, as one page of HTML.

    build/venv/bin/python bench/run.py --json build/ratios.jsonl     # after each commit of interest
    build/venv/bin/python bench/page.py build/ratios.jsonl -o build/ratios.html
"""
import argparse
import html
import json
import pathlib
import sys

WIDTH, HEIGHT, MARGIN = 300, 60, 6
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>nkisim's speed over commits</title><style>
body { font: 14px system-ui, sans-serif; margin: 1.5em; color-scheme: light dark; }
main { display: flex; flex-wrap: wrap; gap: 1em 2em; } figure { margin: 0; width: 300px; }
figcaption b { float: right; } path { fill: none; stroke: #2a6fb0; stroke-width: 2; } circle { fill: #2a6fb0; }
svg { background: #8881; border-radius: 4px; } small { opacity: .7; }
</style><h1>nkisim's speed over commits</h1>"""


def read(path):
    """The lines of a history: {"commit", "when", "ratios": {name: number}}. ValueError with the line."""
    rows = []
    for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            row = json.loads(line)
            rows.append((str(row["commit"]), str(row["when"]), {str(k): float(v) for k, v in row["ratios"].items()}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}:{n}: {type(error).__name__}: {error}; "
                             "a line of bench/run.py --json is required") from None
    return rows


def curve(points):
    """An SVG of (title, number), from 0 to the largest."""
    top = max((v for _, v in points), default=0) or 1
    across = (WIDTH - 2 * MARGIN) / max(1, len(points) - 1)
    at = [(MARGIN + i * across, HEIGHT - MARGIN - max(v, 0) / top * (HEIGHT - 2 * MARGIN))
          for i, (_, v) in enumerate(points)]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{html.escape(title)}: {v:.3g}</title></circle>'
                   for (x, y), (title, v) in zip(at, points))
    return f'<svg width="{WIDTH}" height="{HEIGHT}" role="img"><path d="{path}"/>{dots}</svg>'


def page(rows):
    """The page of a history."""
    names = list(dict.fromkeys(name for _, _, ratios in rows for name in ratios))
    first, last = html.escape(rows[0][0]), html.escape(rows[-1][0])
    parts = [HEAD, f"<p>{len(rows)} commits, {first} to {last}. \"a: b\" is the rate or the cost of a over that of b, "
                   "measured in the same run.</p><main>"]
    for name in names:
        points = [(f"{commit}, {when}", ratios[name]) for commit, when, ratios in rows if name in ratios]
        parts.append(f"<figure><figcaption>{html.escape(name)} <b>{points[-1][1]:.3g}</b></figcaption>{curve(points)}"
                     f"<small>{points[0][1]:.3g} at first</small></figure>")
    return "\n".join(parts) + "</main></html>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("history", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    try:
        rows = read(args.history)
    except (OSError, ValueError) as error:
        print(f"page: {error}", file=sys.stderr)
        return 3
    if not rows:
        print(f"page: {args.history} has no lines", file=sys.stderr)
        return 3
    args.output.write_text(page(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
