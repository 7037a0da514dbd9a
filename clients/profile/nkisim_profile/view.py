"""Implements `nkisim view`, which writes the profile of a simulated run in the formats of AWS's
profiler.
"""

import csv
import json
import pathlib
import re
import sys

import numpy as np

from nkisim_work.files import replace, replacing
from nkisim_work.options import Parser

from . import timeline, world
from .session import BadSession, Session, reading
from .tables import SCHEMA, TABLES

ARROW = {"integer (int64)": "int64", "integer (int32)": "int32", "boolean": "bool_",
         "number (float)": "float64", "number (double)": "float64"}


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")


def pyarrow():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadSession("Parquet needs the Python package pyarrow: pip install pyarrow") from None
    return pyarrow


def plain(values):
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def arrow_table(name, columns):
    """The table with every column of the schema, in its order and type; unknown ones null."""
    pa = pyarrow()
    rows = len(next(iter(columns.values()), ()))
    fields, data = [], []
    for column, kind, unit, required in SCHEMA[name]:
        known = column in columns
        arrow = getattr(pa, ARROW.get(kind, "string"))()
        fields.append(pa.field(column, arrow, nullable=not required,
                               metadata={"unit": unit} if unit else None))
        data.append(pa.array(plain(columns[column]) if known else [None] * rows, type=arrow))
    return pa.table(data, schema=pa.schema(fields))


def all_tables(session):
    """Name and columns of every table that has rows."""
    for name, make in TABLES.items():
        columns = make(session)
        if len(next(iter(columns.values()), ())):
            yield name, columns


def write_parquet(session, folder):
    pa = pyarrow()
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in all_tables(session):
        with replacing(folder / f"{name}.parquet") as partial:
            pa.parquet.write_table(arrow_table(name, columns), partial)


def cell(value):
    """A value for a CSV file. Spreadsheets compute a text that begins like a formula: a ' before it
    makes it a text there, too."""
    if not isinstance(value, str) or not value.startswith(FORMULA) or NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def write_csv(session, folder):
    """Every column of the schema, in its order; null is an empty field."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, columns in all_tables(session):
        names = [column[0] for column in SCHEMA[name]]
        rows = len(next(iter(columns.values())))
        data = [plain(columns[c]) if c in columns else [None] * rows for c in names]
        with replacing(folder / f"{name}.csv") as partial, open(
                partial, "w", newline="", encoding="utf-8", errors="replace") as out:
            writer = csv.writer(out)
            writer.writerow(names)
            writer.writerows([cell(v) for v in row] for row in zip(*data))


def _rows(columns, rename=()):
    names = [dict(rename).get(c, c) for c in columns]
    return [dict(zip(names, row)) for row in zip(*map(plain, columns.values()))]


LEGACY = {"start_ts": "timestamp", "duration_ns": "duration", "timeline_track": "label",
          "engine": "subgroup", "evt_wait_time_ns": "evt_wait_time", "tensor_elements": "elements"}
LEGACY_DMA = {"start_ts": "timestamp", "duration_ns": "duration"}


def events_json(session):
    """--output-format json: the names older scripts read."""
    meta = {k: v[0] for k, v in TABLES["Metadata"](session).items()}
    meta.update(pe_clock_freq=meta["tensor_engine_clock_freq"] * 1e9,
                pe_num_rows=meta["tensor_engine_num_rows"],
                pe_num_cols=meta["tensor_engine_num_cols"])
    instructions = _rows(TABLES["Instruction"](session), LEGACY.items())
    waited = {}
    flows = TABLES["Flow"](session)
    for producer, consumer in zip(plain(flows["in_id"]), plain(flows["out_id"])):
        waited.setdefault(consumer, []).append(producer)
    for row in instructions:
        row["inst_dep_ids"] = waited.get(row["id"], [])
    return {"summary": list(session.summaries().values()), "metadata": [meta], "instruction": instructions,
            "dma": _rows(TABLES["DmaPacketAggregated"](session), LEGACY_DMA.items()),
            "active_time": _rows(TABLES["ActiveTime"](session)),
            "semaphore_update": _rows(TABLES["SemaphoreUpdate"](session)),
            "dma_throughput": _rows(TABLES["DmaUsage"](session)),
            "pending_dma": _rows(TABLES["PendingDma"](session))}


def human(key, value):
    if not isinstance(value, (int, float)):
        return str(value)
    if key.endswith("_percent"):
        return f"{value * 100:.2f} %"
    if key.endswith("_ns"):
        return f"{value:.0f} ns"
    if key.endswith("_time"):
        return f"{value * 1e6:.3f} us" if value < 1e-3 else f"{value * 1e3:.3f} ms"
    if "bytes" in key or key.endswith("_dma_size"):
        for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= size:
                return f"{value / size:.2f} {unit}"
        return f"{value:.0f} B"
    if key.endswith("flops"):
        return f"{value / 1e9:.3f} GFLOPS"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


GROUPS = (("data_movement", ("dma", "hbm", "mbu", "sbuf", "spill", "inputs", "input_", "output_",
                             "weight", "psum")),
          ("tensor_engine", ("tensor_", "matmul", "mfu", "hfu", "hardware_flops",
                             "transpose_flops", "adjusted", "model_flops", "mm_", "peak")),
          ("vector_engine", ("vector_",)), ("scalar_engine", ("scalar_", "activate")),
          ("sync_engine", ("sync_",)), ("gpsimd_engine", ("gpsimd_",)), ("cc_engine", ("cc_",)),
          ("system", ("instance", "nc_idx", "nd_idx")), ("throttling_nc0", ("throttle",)))


def group_of(key):
    for group, starts in GROUPS:
        if key.startswith(starts) or group == "data_movement" and "_dma_" in key:
            return group
    return "overall_stats"


def summary_text(session):
    lines = [f"Summary metrics account for Logical NeuronCore config = {session.cores}"]
    nodes = session.summaries()
    if session.cores > 1:
        nodes = {"all cores": session.totals(), **nodes}
    for name, metrics in nodes.items():
        if session.cores > 1:
            lines.append(f"\n{name}")
        for group in ["overall_stats"] + [g for g, _ in GROUPS]:
            rows = [(k, human(k, v)) for k, v in metrics.items() if group_of(k) == group]
            if rows:
                lines.append(f"\n{group}")
                lines += [f"  {k:<48} {v}" for k, v in rows]
    return "\n".join(lines) + "\n"


EXAMPLES = """
nkisim run k.jsonl --session k.session.npz && nkisim view k.session.npz
nkisim view k.session.npz -o k.html
nkisim view k.session.npz --output-format parquet -o tables"""
NOTES = """Several sessions are the ranks of one run: perfetto, chrome or html. -o is a folder for csv and parquet. With
--json the result is summary-json, or what was written. `nkisim report SESSION -o FILE` is an older spelling of
`nkisim view SESSION -o FILE.html`."""
FORMATS = ("summary-text", "summary-json", "json", "parquet", "csv", "perfetto", "chrome")
TIMELINES = {"perfetto": "profile.pftrace", "chrome": "profile.trace.json"}  # default names


def write(session, output_format, output):
    """Writes one format to a file, a folder (parquet, csv) or, without one, standard output.

    Returns what was written, None for standard output."""
    if output_format in ("parquet", "csv"):
        folder = pathlib.Path(output or "profile_tables")
        (write_parquet if output_format == "parquet" else write_csv)(session, folder)
        return str(folder)
    if output_format in TIMELINES:
        return replace(output or TIMELINES[output_format],
                        getattr(timeline, output_format)(session))
    text = {"summary-text": lambda: summary_text(session),
            "summary-json": lambda: json.dumps(session.summaries(), indent=1) + "\n",
            "json": lambda: json.dumps(events_json(session)) + "\n"}[output_format]()
    return write_text(text, output)


def write_world(paths, output_format, output):
    """The sessions of several ranks as one timeline."""
    if output_format not in TIMELINES:
        raise BadSession(f"several sessions go together as {' or '.join(TIMELINES)}, not as "
                         f"{output_format}")
    ranks = world.read(paths)
    make = getattr(timeline, f"write_{output_format}")
    return replace(output or TIMELINES[output_format],
                   make(*world.timeline_of(ranks), title=world.title))


def write_text(text, output):
    """To a file, or to standard output without one or for "-"."""
    if not output or output == "-":
        sys.stdout.write(text)
        return None
    return replace(output, text.encode())


def page(args):
    """`nkisim view -o FILE.html`: the exit code."""
    from .report import main as report

    if not args.output_file:
        raise BadSession("--output-format html needs -o FILE")
    words = [*args.session, "-o", args.output_file, "--title", args.title]
    code = report(words)
    if args.json and code == 0:
        print(json.dumps({"ok": True, "format": "html", "output": args.output_file}))
    return code


def main(words):
    parser = Parser("view", "SESSION ... [-f FORMAT] [-o FILE] [options]",
                    "Shows a saved session as AWS's summary, or writes it as tables, a timeline or an HTML page.",
                    EXAMPLES, NOTES)
    parser.add_argument("session", nargs="+")
    parser.option("output-format", choices=(*FORMATS, "html"))
    parser.option("output", dest="output_file")
    parser.option("title", default="")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    if args.output_format == "html" or args.output_format is None and (args.output_file or "").endswith(".html"):
        return page(args)
    try:
        chosen = args.output_format or ("summary-json" if args.json else "summary-text")
        if len(args.session) > 1:
            written = write_world(args.session, chosen, args.output_file)
        else:
            with reading(args.session[0]):
                written = write(Session(args.session[0]), chosen, args.output_file)
        if args.json and written:
            print(json.dumps({"ok": True, "format": chosen, "output": written}))
    except (BadSession, OSError) as error:
        print(f"nkisim view: {error}", file=sys.stderr)
        return 3
    return 0
