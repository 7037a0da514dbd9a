#!/usr/bin/env python3
"""Draws two pictures of docs/images: house.svg, the folders by which may include which
(scripts/layers.py), and run.svg, the steps of a run.

    scripts/house.py [--check]
"""

import itertools
import sys
from pathlib import Path

import layers

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
#: The purpose of each storey; a storey is the first part of a folder's name.
CPP = {"isa": ("what an instruction is and computes", "#dbe9f6"), "models": ("when things happen (SystemC)", "#e2f0d9"),
       "compiler": ("places and orders programs", "#fff2cc"), "checks": ("races, without running", "#fde9d9"),
       "src": ("files, configs, runs, reports, commands", "#ead1dc"), "python": ("binding: nkisim._core", "#d9d2e9")}
WIDTH, ROW, GAP, SIDE = 460, 46, 8, 24


def storeys(folders, separator):
    """[(storey, its folders)], lowest first; folders that follow each other under one name are on one storey."""
    found = []
    for folder in folders:
        name, _, rest = folder.partition(separator)
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].append(rest)
    return found


def box(x, y, title, folders, about, colour):
    detail = "  ←  ".join(r for r in folders if r)
    lines = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{ROW}" rx="4" fill="{colour}" stroke="#555"/>',
             f'<text x="{x + 10}" y="{y + 19}" font-weight="bold">{title}</text>']
    if about:
        lines.append(f'<text x="{x + WIDTH - 10}" y="{y + 19}" text-anchor="end" fill="#444">{about}</text>')
    if detail:
        lines.append(f'<text x="{x + 10}" y="{y + 37}" font-size="12">{detail}</text>')
    return lines


def column(x, bottom, floors):
    lines = []
    for number, (title, folders, about, colour) in enumerate(floors):
        lines += box(x, bottom - (number + 1) * (ROW + GAP), title, folders, about, colour)
    return lines


def python_floors():
    """nkisim's packages in one storey each half; what stands on them in the order of the list."""
    folders = layers.PYTHON_FOLDERS
    inside = [r.partition(".")[2] for r in folders if r.startswith("nkisim.")]
    above = folders[folders.index("nkisim") + 1:]
    half = (len(inside) + 1) // 2
    clients = iter(above)
    return [("nkisim_work", [], "warm workers, and pools of them", "#fff2cc"),
            ("clients", ["nkisim_profile", "nkisim_advise"], "of programs and sessions as data", "#ead1dc"),
            ("nkisim", inside[:half], "a kernel becomes a program", "#dbe9f6"),
            ("nkisim", inside[half:], "what users import", "#dbe9f6"),
            *((title, list(itertools.islice(clients, count)), about, colour) for title, count, about, colour in (
                ("nki", 3, "what kernels import", "#dbe9f6"), ("legacy", 3, "neuronxcc.nki, the older API", "#fde9d9"),
                ("torch, jax", 4, "kernels within frameworks", "#fde9d9"), ("clients", 3, "", "#ead1dc"),
                ("clients", len(above), "", "#ead1dc")))]


def drawing():
    left = [(name, folders, *CPP.get(name, ("", "#eee"))) for name, folders in storeys(layers.CPP_FOLDERS, "/")]
    right = python_floors()
    height = 70 + max(len(left), len(right)) * (ROW + GAP)
    bottom = height - 20
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH + 3 * SIDE}" height="{height}" '
             'font-family="sans-serif" font-size="14">',
             "<!-- Made by scripts/house.py from the folders of scripts/layers.py. -->",
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{SIDE}" y="28" font-size="16">C++: a storey includes those below it</text>',
             f'<text x="{2 * SIDE + WIDTH}" y="28" font-size="16">Python: a storey imports those below it, '
             "and nkisim._core</text>",
             *column(SIDE, bottom, left), *column(2 * SIDE + WIDTH, bottom, right), "</svg>"]
    return "\n".join(lines) + "\n"


#: The stages of a run, a row each from the front ends down: (what, about it, where, colour).
ENTRIES = (("nkisim run", "options"), ("evaluate, tune", "candidates"), ("sweep, compare, validate", "points"),
           ("nkisim.run, pytest, torch", "a kernel in memory"))
STEPS = (("Job", "what is to be run, as plain data (JSON)", "src/job/data", "#fff2cc"),
         ("run(job)", "the one place where a run is put together", "src/job/runner", "#ead1dc"),
         ("program", "read, checked, compiled; kept by a worker", "src/job/programs", "#fde9d9"),
         ("run_world", "ranks in time or for values; one is a world of one", "src/run/world", "#e2f0d9"),
         ("observers", "summary, accounting, session, timelines", "src/report", "#dbe9f6"),
         ("Outcome", "what came of it, as plain data (JSON)", "src/job/data", "#fff2cc"))


def arrow(points):
    path = " ".join(f"{x},{y}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="#555" marker-end="url(#head)"/>'


def labelled(x, y, width, title, about, where, colour):
    return [f'<rect x="{x}" y="{y}" width="{width}" height="{ROW}" rx="4" fill="{colour}" stroke="#555"/>',
            f'<text x="{x + 10}" y="{y + 19}" font-weight="bold">{title}</text>',
            f'<text x="{x + 10}" y="{y + 37}" font-size="12" fill="#444">{about}</text>',
            f'<text x="{x + width - 10}" y="{y + 19}" font-size="12" text-anchor="end" fill="#444">{where}</text>']


def run_drawing():
    """The front ends on top, one step below the other, and where each front end joins them."""
    quarter, step = 200, ROW + 26
    width = 4 * quarter + 5 * SIDE
    left, middle = 2 * SIDE + quarter, 2 * quarter + SIDE
    top, pool = 20, 20 + step
    first = pool + step
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{first + len(STEPS) * step}" '
             'font-family="sans-serif" font-size="14">', "<!-- Made by scripts/house.py. -->",
             '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="8" refY="4" orient="auto">'
             '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
             '<rect width="100%" height="100%" fill="white"/>']
    places = [SIDE + n * (quarter + SIDE) for n in range(len(ENTRIES))]
    for x, (title, about) in zip(places, ENTRIES):
        lines += labelled(x, top, quarter, title, about, "", "#d9d2e9")
    lines += labelled(left, pool, middle, "nkisim worker", "a line in, a line out; by nkisim_work's pool, or Dask's",
                      "src/cli/worker", "#d9d2e9")
    for x in places[1:3]:
        lines.append(arrow([(x + quarter / 2, top + ROW), (x + quarter / 2, pool)]))
    heights = [first + n * step for n in range(len(STEPS))]
    for y, row in zip(heights, STEPS):
        lines += labelled(left, y, middle, *row)
    for y in [pool, *heights[:-1]]:
        lines.append(arrow([(left + middle / 2, y + ROW), (left + middle / 2, y + step)]))
    ours, theirs = places[0] + quarter / 2, places[3] + quarter / 2
    lines.append(arrow([(ours, top + ROW), (ours, heights[0] + ROW / 2), (left, heights[0] + ROW / 2)]))
    joins = heights[3] + ROW / 2
    lines.append(arrow([(theirs, top + ROW), (theirs, joins), (left + middle, joins)]))
    lines.append(f'<text x="{theirs - 8}" y="{joins - 8}" text-anchor="end" font-size="12" fill="#444">binding</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    for name, text in (("house.svg", drawing()), ("run.svg", run_drawing())):
        picture = IMAGES / name
        if "--check" not in sys.argv:
            picture.write_text(text, encoding="utf-8")
        elif not picture.exists() or picture.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/images/{name} is out of date: run scripts/fresh --write")


if __name__ == "__main__":
    main()
