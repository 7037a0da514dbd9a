"""Draws a simulated run's timeline as a fragment of HTML for notebooks, without scripts, files or a
network.
"""

import html

from .session import FS_PER_NS, UNITS

WIDTH, LEFT, LANE, GAP = 900, 92, 20, 4  # pixels
COLOURS = {"Tensor": "#4e79a7", "Vector": "#59a14f", "Scalar": "#f28e2b", "GpSimd": "#b07aa1",
           "Sync": "#9c755f", "DMA": "#e15759"}


def lanes(s):
    """{(core, lane): [(start ns, end ns, text)]} of engines that did anything, and of DMA."""
    found, source, opcodes = {}, s.source(), s.text(s.parts.opcode)
    p, t = s.parts, s.transfers
    for i in range(len(p)):
        lane = "Tensor" if UNITS[p.unit[i]].startswith("Tensor") else UNITS[p.unit[i]]
        found.setdefault((int(p.core[i]), lane), []).append(
            (int(p.start[i]) / FS_PER_NS, int(p.end[i]) / FS_PER_NS,
             f"{opcodes[i]}, {source[p.inst[i]]}"))
    for i in range(len(t)):
        queue = s.queue_names[int(t.core[i]), int(t.queue[i])]
        found.setdefault((int(t.core[i]), "DMA"), []).append(
            (int(t.first_packet[i]) / FS_PER_NS, int(t.visible[i]) / FS_PER_NS,
             f"{int(t.bytes[i])} bytes on {queue}, {source[t.inst[i]]}"))
    order = list(COLOURS)
    return {key: sorted(found[key]) for key in sorted(found, key=lambda k: (k[0], order.index(k[1])))}


def merged(bars, least):
    """Bars less than `least` ns apart as one, whose text says how many: (start, end, text, count)."""
    out = []
    for start, end, text in bars:
        if out and start - out[-1][1] < least:
            first, until, said, count = out[-1]
            out[-1] = (first, max(until, end), said, count + 1)
        else:
            out.append((start, end, text, 1))
    return out


def time_of(ns):
    return f"{ns / 1e3:.3f} us" if ns < 1e6 else f"{ns / 1e6:.3f} ms"


def steps(end):
    """Round times for the axis, at most eight."""
    size = 10.0 ** (len(str(int(max(end, 1)))) - 2)
    size = next(size * k for k in (1, 2, 5, 10, 20, 50, 100) if end / (size * k) <= 8)
    return [i * size for i in range(int(end / size) + 1)]


def picture(s):
    """The timeline as SVG: a lane for each engine and one for DMA, of each core."""
    found, end = lanes(s), max(s.end_fs / FS_PER_NS, 1e-3)
    scale = (WIDTH - LEFT - 8) / end
    height = (LANE + GAP) * len(found) + 24
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="100%" '
           f'style="max-width:{WIDTH}px" font-family="sans-serif" font-size="11" '
           'fill="currentColor">']
    for row, ((core, lane), bars) in enumerate(found.items()):
        y = row * (LANE + GAP)
        name = lane if s.cores == 1 else f"{lane} {core}"
        out.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{name}</text>'
                   f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 8}" height="{LANE}" '
                   'fill="#888" fill-opacity=".1"/>')
        for start, until, text, count in merged(bars, 0.5 / scale):
            said = text if count == 1 else f"{count} {'transfers' if lane == 'DMA' else 'parts'}"
            out.append(
                f'<rect x="{LEFT + start * scale:.2f}" y="{y}" height="{LANE}" '
                f'width="{max((until - start) * scale, 0.5):.2f}" fill="{COLOURS[lane]}"><title>'
                f"{html.escape(said)}\n{time_of(start)} to {time_of(until)}</title></rect>")
    y = (LANE + GAP) * len(found)
    for at in steps(end):
        x = LEFT + at * scale
        out.append(f'<line x1="{x:.2f}" x2="{x:.2f}" y1="0" y2="{y}" stroke="currentColor" '
                   f'stroke-opacity=".25"/><text x="{x:.2f}" y="{y + 14}" text-anchor="middle">'
                   f"{at / 1e3:g}</text>")
    out.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">us</text></svg>')
    return "".join(out)


def rows(metrics):
    """(name, value) of the figures that say most, of one core."""
    engines = ", ".join(f"{e} {100 * metrics[e + '_engine_active_time_percent']:.0f} %" for e in
                        ("tensor", "vector", "scalar", "gpsimd", "sync")
                        if metrics[e + "_engine_active_time_percent"] > 0) or "none"
    return [("engines busy", engines),
            ("DMA", f"active {100 * metrics['dma_active_time_percent']:.0f} %, HBM read "
             f"{metrics['hbm_read_bytes'] / 1024:.1f} KiB, written "
             f"{metrics['hbm_write_bytes'] / 1024:.1f} KiB"),
            ("work", f"{metrics['hardware_flops'] / 1e9:.3f} GFLOP, MFU "
             f"{100 * metrics['mfu_estimated_percent']:.1f} %")]


def fragment(title, facts, verdict=(), drawing="", note=""):
    """One run: a line, the verdict, (name, value) rows and the picture."""
    table = "".join(f'<tr><td style="text-align:left;padding-right:1em">{html.escape(k)}</td>'
                    f'<td style="text-align:left">{html.escape(v)}</td></tr>' for k, v in facts)
    said = "".join(f"<p>{html.escape(v)}</p>" for v in verdict)
    small = f'<p style="font-size:85%;opacity:.7">{html.escape(note)}</p>' if note else ""
    return (f'<div class="nkisim"><p><b>{html.escape(title)}</b></p>{said}'
            f"<table>{table}</table>{drawing}{small}</div>")
