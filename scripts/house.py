#!/usr/bin/env python3
"""Draws docs/images/house.svg: the rooms of scripts/layers.py, each on those that it may include or import.

    scripts/house.py [--check]
"""

import sys
from pathlib import Path

import layers

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "house.svg"
#: What a storey is for; a storey is the first part of a room's name.
CPP = {"isa": ("what an instruction is and computes", "#dbe9f6"), "models": ("when things happen (SystemC)", "#e2f0d9"),
       "compiler": ("places and orders programs", "#fff2cc"), "checks": ("races, without running", "#fde9d9"),
       "src": ("files, configs, runs, reports, commands", "#ead1dc"), "python": ("binding: nkisim._core", "#d9d2e9")}
WIDTH, ROW, GAP, SIDE = 460, 46, 8, 24


def storeys(rooms, separator):
    """[(storey, its rooms)], lowest first; rooms that follow each other under one name are on one storey."""
    found = []
    for room in rooms:
        name, _, rest = room.partition(separator)
        if not found or found[-1][0] != name:
            found.append((name, []))
        found[-1][1].append(rest)
    return found


def box(x, y, title, rooms, about, colour):
    detail = "  ←  ".join(r for r in rooms if r)
    lines = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{ROW}" rx="4" fill="{colour}" stroke="#555"/>',
             f'<text x="{x + 10}" y="{y + 19}" font-weight="bold">{title}</text>']
    if about:
        lines.append(f'<text x="{x + WIDTH - 10}" y="{y + 19}" text-anchor="end" fill="#444">{about}</text>')
    if detail:
        lines.append(f'<text x="{x + 10}" y="{y + 37}" font-size="12">{detail}</text>')
    return lines


def column(x, bottom, floors):
    lines = []
    for number, (title, rooms, about, colour) in enumerate(floors):
        lines += box(x, bottom - (number + 1) * (ROW + GAP), title, rooms, about, colour)
    return lines


def python_floors():
    """nkisim's packages in one storey each half; what stands on them in the order of the list."""
    rooms = layers.PYTHON_ROOMS
    inside = [r.partition(".")[2] for r in rooms if r.startswith("nkisim.")]
    above = rooms[rooms.index("nkisim") + 1:]
    half = (len(inside) + 1) // 2
    third = (len(above) + 2) // 3
    return [("nkisim_profile", [], "tables, views, sweeps of sessions", "#e2f0d9"),
            ("nkisim", inside[:half], "a kernel becomes a program", "#dbe9f6"),
            ("nkisim", inside[half:], "what users import", "#dbe9f6"),
            *((title, above[n * third:(n + 1) * third], "", colour) for n, (title, colour) in enumerate(
                (("stand-ins", "#fff2cc"), ("beside", "#fde9d9"), ("on top", "#ead1dc"))))]


def drawing():
    left = [(name, rooms, *CPP.get(name, ("", "#eee"))) for name, rooms in storeys(layers.CPP_ROOMS, "/")]
    right = python_floors()
    height = 70 + max(len(left), len(right)) * (ROW + GAP)
    bottom = height - 20
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH + 3 * SIDE}" height="{height}" '
             'font-family="sans-serif" font-size="14">',
             "<!-- Made by scripts/house.py from the rooms of scripts/layers.py. -->",
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{SIDE}" y="28" font-size="16">C++: a storey includes those below it</text>',
             f'<text x="{2 * SIDE + WIDTH}" y="28" font-size="16">Python: a storey imports those below it, '
             "and nkisim._core</text>",
             *column(SIDE, bottom, left), *column(2 * SIDE + WIDTH, bottom, right), "</svg>"]
    return "\n".join(lines) + "\n"


def main():
    text = drawing()
    if "--check" not in sys.argv:
        PICTURE.write_text(text, encoding="utf-8")
    elif not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != text:
        sys.exit("docs/images/house.svg is out of date: run scripts/fresh --write")


if __name__ == "__main__":
    main()
