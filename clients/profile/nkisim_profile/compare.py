"""Implements `nkisim compare A B`: what changed between two runs, two machine descriptions or two
generations.
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile

from nkisim_work import Ended, Worker, message, timed
from nkisim_work.options import Parser

from .session import ENGINES, FS_PER_NS, BadSession, Session, reading
from .sweep import job
from .versions import likely_faster, spread_of

EXAMPLES = """
nkisim compare a.npz b.npz              # sessions of nkisim run --session, or traces
nkisim compare k.nisa --targets trn1,trn2
nkisim compare k.nisa hw.json           # a run with a profile of the device"""
NOTES = """A trace is simulated first. --targets, --configs and --set compare A with itself. With a device profile the
options are those of `nkisim diff-profile --help-all`. --markdown writes the summary of a pull request, with a
picture."""

#: The number of named changes that cost most.
WORST = 3
_LABEL = 44  # characters next to a bar
TABLES = ("by_engine", "by_region", "by_opcode", "by_line")
METRICS = ("total_time", "total_active_time_percent", "tensor_engine_active_time_percent",
           "vector_engine_active_time_percent", "scalar_engine_active_time_percent",
           "gpsimd_engine_active_time_percent", "sync_engine_active_time_percent",
           "dma_active_time_percent", "dma_transfer_count",
           "hbm_read_bytes", "hbm_write_bytes", "mfu_estimated_percent", "mbu_estimated_percent")


def grouped(keys, *columns):
    """Per key the sums of the columns (fs) as ns, and the count."""
    out = {}
    for key, *values in zip(keys, *(c.tolist() for c in columns)):
        row = out.setdefault(key, [0] * (len(values) + 1))
        row[0] += 1
        for i, v in enumerate(values):
            row[i + 1] += v
    return {k: [v[0]] + [x / FS_PER_NS for x in v[1:]] for k, v in out.items()}


def by_opcode(s):
    keys = [f"{ENGINES[e]} {o}" for e, o in zip(s.parts.engine, s.text(s.parts.opcode))]
    return grouped(keys, s.parts.end - s.parts.start)


def by_region(s):
    """Per region that the kernel names (nkisim.region); empty if it names none."""
    if not s.has_regions:
        return {}
    names = s.text(s.insts.region.tolist())
    keys = [names[i] or "no region" for i in s.parts.inst.tolist()]
    return grouped(keys, s.parts.end - s.parts.start)


def by_line(s):
    """Per line of the source: its text is the key, so that a line which has moved is still itself. Of equal lines of
    a file the first is the first of the other run, too. Without the source: file and number."""
    names = _line_names(s)
    keys = [names[i] for i in s.parts.inst.tolist()]
    return grouped(keys, s.parts.end - s.parts.start)


def _line_names(s):
    """By instruction the key of its line."""
    texts, where = {}, s.source()
    out = []
    for file, line, place in zip(s.insts.file.tolist(), s.insts.line.tolist(), where):
        name = s.texts[file]
        if name not in texts:
            texts[name] = _numbered(s.sources.get(name, "")) if name else {}
        short = place.rsplit("/", 1)[-1]
        text = texts[name].get(line)
        out.append(f"{short.rsplit(':', 1)[0]}: {text}" if text else short)
    return out


def _numbered(source):
    """{line: its text}, with (2), (3), ... behind a text that was there before."""
    seen, out = {}, {}
    for number, text in enumerate(source.splitlines(), 1):
        text = text.strip()
        if text:
            seen[text] = seen.get(text, 0) + 1
            out[number] = text if seen[text] == 1 else f"{text} ({seen[text]})"
    return out


def line_numbers(s):
    """{key of a line, as by_line has it: its number}."""
    return dict(zip(_line_names(s), s.insts.line.tolist()))


def by_engine(s):
    """Per engine or queue and cause: nanoseconds."""
    out = {}
    for core in s.facts["accounting"]["cores"]:
        prefix = f"core {core['core']} " if s.cores > 1 else ""
        for who, x in list(core["engines"].items()) + list(core["dma_queues"].items()):
            for cause, fs in x["total_fs"].items():
                out[f"{prefix}{who}: {cause}"] = [1, fs / FS_PER_NS]
    return out


def changes(a, b):
    """Rows of keys whose sums differ, largest difference first."""
    rows = []
    for key in sorted(set(a) | set(b)):
        x, y = a.get(key, [0, 0.0]), b.get(key, [0, 0.0])
        if x != y:
            rows.append({"what": key, "a_count": x[0], "b_count": y[0], "a_ns": x[1],
                         "b_ns": y[1], "change_ns": y[1] - x[1]})
    return sorted(rows, key=lambda r: -abs(r["change_ns"]))


def order(a, b):
    """The probability that the faster of two sessions is the faster one on a chip too, if they are versions of one
    kernel: their errors differ by `versions` (docs/evidence.md), taken as normal. None if not known."""
    kinds, scales = zip(*(((f.get("confidence") or {}).get("origin"), spread_of(f.get("confidence")))
                          for f in (a.facts, b.facts)))
    x, y = (s.totals()["total_time"] for s in (a, b))
    machines = [f.get("machine") for f in (a.facts, b.facts)]
    if kinds[0] != kinds[1] or machines[0] != machines[1] or not all(scales):
        return None
    likely = likely_faster(min(x, y), max(x, y), max(scales))
    return likely and {"faster": "a" if x < y else "b" if y < x else None, "likely": likely}


def compare(a, b, names):
    """The differences between two sessions, as `--json` prints them; times in ns, `summary` as AWS's."""
    x, y = a.totals(), b.totals()
    result = {"a": names[0], "b": names[1], "order": order(a, b),
              "summary": [{"metric": m, "a": x[m], "b": y[m]} for m in METRICS],
              **differences(profile(a), profile(b))}
    numbers = line_numbers(a), line_numbers(b)
    for row in result["by_line"]:
        row["a_line"], row["b_line"] = (n.get(row["what"]) for n in numbers)
    return result


def profile(session):
    """The time of a run, in the tables that are compared; plain data."""
    return {"by_engine": by_engine(session), "by_region": by_region(session), "by_opcode": by_opcode(session),
            "by_line": by_line(session)}


def differences(a, b):
    """The tables of `compare` of two profiles, and under `cost_most` the three rows of each that grew most."""
    tables = {t: changes(a.get(t, {}), b.get(t, {})) for t in TABLES}  # by_region is not in older profiles
    # An engine that waits longer does so for something else, which has a row of its own.
    grew = {t: [r for r in rows if r["change_ns"] > 0 and "idle after" not in r["what"]] for t, rows in tables.items()}
    return {**tables, "cost_most": {t: rows[:WORST] for t, rows in grew.items()}}


def cost_most_lines(result):
    """The times that grew most, a line each."""
    out = []
    for title in TABLES:
        for row in result["cost_most"][title]:
            runs = "" if row["a_count"] == row["b_count"] else f", {row['a_count']} -> {row['b_count']} times"
            out.append(f"{title.replace('by_', ''):<7} {row['change_ns'] / 1e3:>+9.3f} us  {row['what']}{runs}")
    return out


def value(metric, number):
    if metric.endswith("_time"):
        return f"{number * 1e6:.3f} us"
    return f"{number * 100:.2f} %" if metric.endswith("_percent") else f"{number:,}"


def print_text(result, top):
    print(f"A {result['a']}\nB {result['b']}\n\n{'':<38} {'A':>17} {'B':>17}")
    for row in result["summary"]:
        a, b, metric = row["a"], row["b"], row["metric"]
        change = f"{100 * (b / a - 1):+.1f} %" if a else ""
        print(f"{metric:<38} {value(metric, a):>17} {value(metric, b):>17} {change:>10}")
    if result["order"] and result["order"]["faster"]:
        print(f"\nas versions of one kernel: {result['order']['faster'].upper()} is the faster one on a "
              f"chip with a likelihood of {100 * result['order']['likely']:.0f} %")
    worst = cost_most_lines(result)
    if worst:
        print("\nwhat cost most in B:\n" + "\n".join(f"  {line}" for line in worst))
    for title in TABLES:
        rows = result[title]
        if not rows:
            if title != "by_region":  # most kernels name none
                print(f"\n{title.replace('_', ' ')}: no change")
            continue
        print(f"\n{title.replace('_', ' ')}: {min(top, len(rows))} largest of {len(rows)} changes"
              f"\n{'':<50} {'A ns':>12} {'B ns':>12} {'change':>12}")
        for row in rows[:top]:
            count = "" if title == "by_engine" or row["a_count"] == row["b_count"] else \
                f"  ({row['a_count']} -> {row['b_count']} runs)"
            print(f"{format_row(row)[:50]:<50} {row['a_ns']:>12.1f} {row['b_ns']:>12.1f} "
                  f"{row['change_ns']:>+12.1f}{count}")


def format_row(row):
    """A row's name, with the number of its line in B, or in A if it is gone."""
    number = row.get("b_line") or row.get("a_line")
    file, separator, text = row["what"].partition(": ")
    return f"{file}:{number} {text}" if number and separator else row["what"]


def _label(text):
    """A text that a chart of mermaid takes within quotes."""
    text = " ".join(re.sub(r'["`\\;#&<>]', " ", text).split())
    return text if len(text) <= _LABEL else text[:_LABEL - 3] + "..."


def _chart(title, names, values):
    """Bars as GitHub draws them: from 0, each as high as a line of text or two."""
    settings = {"xyChart": {"width": 900, "height": 140 + 40 * len(names)},
                "themeVariables": {"xyChart": {"plotColorPalette": "#8250df"}}}
    return (f"```mermaid\n%%{{init: {json.dumps(settings)}}}%%\nxychart-beta horizontal\n  title \"{title}\"\n"
            f"  x-axis [{', '.join(map(json.dumps, names))}]\n  y-axis 0 --> {1.1 * max(values):.3f}\n"
            f"  bar [{', '.join(f'{v:.3f}' for v in values)}]\n```\n")


def print_markdown(result):
    """For the summary of a pull request: what it comes to, a picture, and what cost most."""
    before, after = (result["summary"][0][side] * 1e6 for side in ("a", "b"))
    change = f" ({100 * (after / before - 1):+.1f} %)" if before else ""
    print(f"### {before:.3f} us -> {after:.3f} us{change}\n")
    sign = 1 if after >= before else -1
    rows = [r for r in result["by_line"] if sign * r["change_ns"] > 0][:8]
    if rows:
        print(_chart("Lines that take more, us" if sign > 0 else "Lines that take less, us",
                     [_label(format_row(r)) for r in rows], [abs(r["change_ns"]) / 1e3 for r in rows]))
    for title in TABLES:
        for n, row in enumerate(result["cost_most"][title]):
            if n == 0:
                print(f"| {title.removeprefix('by_')}: what cost most | before us | after us | change us |\n"
                      "|---|--:|--:|--:|")
            what = format_row(row).replace("|", "\\|")
            print(f"| `{what}` | {row['a_ns'] / 1e3:.3f} | {row['b_ns'] / 1e3:.3f} | {row['change_ns'] / 1e3:+.3f} |")
        if result["cost_most"][title]:
            print()


def is_session(path):
    with open(path, "rb") as file:
        return file.read(2) == b"PK"  # an .npz; a trace is text, gzip or nkisim's own binary


def simulated(trace, settings, folder):
    """A session of the trace under settings as of a sweep's point."""
    path = pathlib.Path(folder) / "run.npz"
    try:
        with Worker() as worker:
            said = timed(worker, job.job_of(trace, settings, session=str(path)))
    except Ended as ended:
        raise BadSession(f"nkisim {ended}") from None
    if "error" in said:
        raise BadSession(message(said))
    return Session(path)


def opened(path, settings):
    """(name, Session) of a saved session, or of a trace that is simulated for it."""
    if is_session(path):
        if settings:
            raise BadSession(f"{path}: a session is of one run; a trace is required to vary it")
        return path, Session(path)
    name = " ".join([path, *(f"{k}={v}" for k, v in settings.items())])
    with tempfile.TemporaryDirectory(prefix="nkisim-compare-") as folder:
        return name, simulated(path, settings, folder)


def pair(text):
    values = text.split(",")
    if len(values) != 2 or not all(values):
        raise argparse.ArgumentTypeError(f"{text!r}; two, separated by a comma, are required")
    return values


def settings(args):
    """The settings of A and of B, from the options that vary one program."""
    sides = {}, {}
    for axis in ("target", "config"):
        for side, chosen in zip(sides, getattr(args, axis + "s") or ()):
            side[axis] = chosen
    for text in args.set:
        path, _, values = text.partition("=")
        for side, chosen in zip(sides, pair(values)):
            side[path] = chosen
    return sides


def arguments(words):
    parser = Parser("compare", "A [B] [options]",
                    "Shows what changed between two runs, configs or generations, or between a run and the device.",
                    EXAMPLES, NOTES)
    parser.add_argument("a", metavar="A")
    parser.add_argument("b", metavar="B", nargs="?")
    parser.option("targets", type=pair)
    parser.option("configs", type=pair)
    parser.option("set")
    parser.option("markdown")
    parser.option("top")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    varied = bool(args.targets or args.configs or args.set)
    if varied == (args.b is not None):
        parser.error("either two runs, or one trace and --targets, --configs or --set")
    return args


def main(words):
    args = arguments(words)
    try:
        sides = settings(args)
        with reading(*{args.a, args.b or args.a}):
            runs = [opened(path, side) for path, side in zip((args.a, args.b or args.a), sides)]
            result = compare(runs[0][1], runs[1][1], [name for name, _ in runs])
    except argparse.ArgumentTypeError as error:
        print(f"nkisim compare: --set: {error}", file=sys.stderr)
        return 2
    except (BadSession, OSError) as error:
        print(f"nkisim compare: {error}", file=sys.stderr)
        return 3
    if args.json:
        print(json.dumps(result, indent=1))
    elif args.markdown:
        print_markdown(result)
    else:
        print_text(result, args.top)
    return 0
