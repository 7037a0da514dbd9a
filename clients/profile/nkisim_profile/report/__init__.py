"""Implements `nkisim report`: one HTML file about a simulated run, which opens without a network."""

import html
import pathlib
import re
import sys

import numpy as np

from nkisim_work.files import replace
from nkisim_work.options import Parser

from .. import world as ranks
from ..session import FS_PER_NS, BadSession, Session, reading
from ..tables import TABLES
from . import world
from .lines import regions, source_lines
from .occupancy import curves, maps
from .pack import Pack
from .timeline import Texts, timeline

PAGE = pathlib.Path(__file__).parent / "page"
SCRIPTS = ("data.js", "timeline.js", "draw.js", "charts.js", "panels.js", "source.js", "main.js")


def sizes(values, weights):
    """A histogram over powers of two without gaps: labels, how many, and bytes."""
    if not len(values):
        return {"x": [], "count": [], "bytes": []}
    powers = np.floor(np.log2(np.maximum(values, 1))).astype(int)
    low = min(powers.min(), 6)
    counts = np.bincount(powers - low, minlength=8)
    return {"x": [label(1 << int(p)) for p in range(low, low + len(counts))],
            "count": counts.tolist(),
            "bytes": np.bincount(powers - low, weights, len(counts)).tolist()}


def label(size):
    for unit, scale in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << scale:
            return f"{size >> scale} {unit}"
    return f"{size} B"


def stalls(s):
    """Time by cause of every engine and DMA queue that did anything."""
    return [{"who": (f"core {c['core']} " if s.cores > 1 else "") + who, "fs": x["total_fs"]}
            for c in s.facts["accounting"]["cores"]
            for who, x in list(c["engines"].items()) + list(c["dma_queues"].items())
            if set(x["total_fs"]) != {"idle after the end"}]


def opcodes(s):
    columns = TABLES["OpcodeSummary"](s)
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    return sorted(rows, key=lambda r: -r["active_time_ns"])


def hbm(s):
    """Bytes of the tensors in HBM by role."""
    columns = TABLES["HbmUsageSummaryByType"](s)
    return dict(zip(columns["usage_type"], columns["usage_bytes"]))


def trust(facts):
    """The trust in the latency, in a line; empty for a session that does not say."""
    return (facts.get("confidence") or {}).get("text", "")


def named(s):
    """The name of a session if no other is given: its trace's file."""
    return pathlib.Path(s.facts.get("trace") or "trace").name


def payload(s, pack):
    texts, t = Texts(s.texts), s.transfers
    facts = {
        "trace": s.facts.get("trace") or "trace", "end_ns": s.end_fs / FS_PER_NS,
        "end_fs": s.end_fs, "partial": s.facts.get("partial", False), "machine": s.machine,
        "summary": s.totals(), "verdict": s.facts.get("verdict", []),
        "trust": trust(s.facts),
        "what_if": s.facts.get("what_if", []), "warnings": TABLES["Warning"](s)["message"],
        "stalls": stalls(s), "opcodes": opcodes(s), "hbm": hbm(s), "lines": source_lines(s),
        "regions": regions(s),
        "timeline": timeline(s, pack, texts), "curves": curves(s, pack), "maps": maps(s, pack),
        "dma_elements": sizes(t.descriptor_bytes, t.bytes), "dma_transfers": sizes(t.bytes, t.bytes),
    }
    return {**facts, "texts": texts.all}


def advice_section(advice):
    """The section of what `nkisim advise` found, of its JSON form; empty without."""
    if advice is None:
        return ""
    rows = []
    for f in advice["findings"]:
        between = f["interval_percent"]
        said = f" ({-between[1]:+.1f} to {-between[0]:+.1f} % in 4 of 5 cases)" if between else ""
        rows.append(f"<li><b>{-f['gain_percent']:+.1f} %</b>{said} <span class=mono>"
                    f"{html.escape(f['line'].rsplit('/', 1)[-1])} {html.escape(f['instruction'])}</span><br>"
                    f"{html.escape(f['write'])}</li>")
    both = advice["combined"]
    last = ""
    if both and len(both["lines"]) > 1:
        last = f"<p>Together: {both['latency_us']:.3f} us, {-both['gain_percent']:+.1f} %.</p>"
    bounds = ", ".join(f"{html.escape(b['what'])} alone takes {b['us']:.1f} us" for b in advice["bounds"])
    return ('<section class="wide"><h2>Advice <small>each change simulated, with the same bits</small></h2>'
            f"<ol id=advice>{''.join(rows) or '<li>nothing that was tried helps</li>'}</ol>{last}"
            f"<p>Bounds: {bounds}.</p></section>\n")


def render(session, advice=None, title=""):
    """The page of a session; `advice`: what nkisim advise found, as its --json has it; `title`: instead of the trace's
    file, of which a kernel that was recorded has none."""
    pack = Pack()
    data = pack.finish(payload(session, pack))
    page = (PAGE / "page.html").read_text(encoding="utf-8")
    parts = {"@TITLE@": html.escape(title or named(session)),
             "@DATA@": data, "@ADVICE@": advice_section(advice),
             "@SCRIPT@": "\n".join((PAGE / s).read_text(encoding="utf-8") for s in SCRIPTS)}
    # In one pass: a name may look like a placeholder.
    return re.sub("|".join(parts), lambda found: parts[found[0]], page)


def main(words):
    parser = Parser("report", "SESSION ... -o FILE [options]", "Writes one HTML file that opens without a network.",
                    "nkisim run k.jsonl --session k.session.npz && nkisim report k.session.npz -o k.html",
                    "Several sessions are the ranks of one run. `nkisim view SESSION -o FILE.html` does the same.")
    parser.add_argument("session", nargs="+")
    parser.option("output", required=True)
    parser.option("title", default="")
    args = parser.parse_args(words)
    try:
        if len(args.session) > 1:
            page = world.render(ranks.read(args.session), args.title)
        else:
            with reading(args.session[0]):
                page = render(Session(args.session[0]), title=args.title)
        replace(args.output, page.encode(errors="replace"))
    except (BadSession, OSError) as error:
        print(f"nkisim report: {error}", file=sys.stderr)
        return 3
    return 0
