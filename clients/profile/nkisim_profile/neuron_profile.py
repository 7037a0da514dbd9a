"""The command line of neuron-profile and neuron-explorer, answered from the profile of a simulated
run.

The profile (-s, --session-file) is a file of `nkisim run --session FILE`. The NEFF
(-n) is a program that a simulated run saved; `capture` runs it, `view` accepts it and does not read it.
"""

import argparse
import json
import os
import pathlib
import sys

from . import container, serve
from .session import FS_PER_NS, BadSession, Session, reading
from .tables import SCHEMA, VERSION
from .view import FORMATS, summary_text, write, write_text


# Options of the real tools that choose among what a simulated run does not have.
NO_EFFECT = ("--show-perfetto-flows", "--enable-memory-tracker",
             "--ignore-device-profile", "--ignore-system-profile")
NO_EFFECT_WITH_VALUE = (
    "--db-bucket", "--db-endpoint", "--framework-source-root",
    "--system-trace-filter-neuron-core", "--system-trace-filter-instance-id",
    "--system-trace-filter-event-type", "--system-trace-primary-group",
    "--system-trace-secondary-group")
DEFAULT_FILES = {"json": "ntff.json", "perfetto": "ntff.pftrace"}  # others: standard output


def show_trace(session, core):
    """An engine's instructions, a line at the start and one at the end of each."""
    print(f"Instruction trace for ND 0 NC {core}")
    parts, mine = session.parts, session.parts.core == core
    for op, start, end in zip(session.text(parts.opcode[mine]), parts.start[mine],
                              parts.end[mine]):
        print(f"{op} {start // FS_PER_NS} START")
        print(f"{op} {end // FS_PER_NS} END")


def show_dma(session, core):
    print(f"DMA trace for ND 0 NC {core}")
    t, mine = session.transfers, session.transfers.core == core
    for queue, start, end in zip(t.queue[mine].tolist(), t.first_packet[mine],
                                 t.last_packet[mine]):
        name = session.queue_names[core, queue]
        print(f"{name} {start // FS_PER_NS} START")
        print(f"{name} {end // FS_PER_NS} END")


def show_session(args):
    session = Session(args.session_file)
    graphs = [{"NC": core, "CycleCount": session.summary(core)["neuroncore_cycle_count"]}
              for core in range(session.cores)]
    if args.json:
        print(json.dumps({"NeffNodes": [{"NodeInfo": {"Graphs": graphs}}]}))
        return 0
    for core in range(session.cores):
        if args.show_trace or not args.show_dma:
            show_trace(session, core)
        if args.show_dma:
            show_dma(session, core)
    return 0


def of_execution(path):
    """The session itself, or the one that capture --profile-nth-exec=N named after it."""
    if path.exists():
        return path
    others = sorted(path.parent.glob(f"{path.stem}_exec_*{path.suffix}"))
    if len(others) != 1:
        return path
    print(f"neuron-profile: {path} is not there; {others[0].name} is taken", file=sys.stderr)
    return others[0]


def sessions(args):
    """The sessions to view: one file, or those in a folder."""
    if args.session_file:
        return [of_execution(pathlib.Path(args.session_file))]
    if not args.session_dir:
        raise BadSession("view needs a session (-s FILE or -d DIR)")
    folder = pathlib.Path(args.session_dir)
    found = sorted(folder.glob("*.ntff")) + sorted(folder.glob("*.npz"))
    # NEURON_RT_INSPECT_OUTPUT_DIR has a folder per process (nkisim/run/inspecting.py).
    found = found or sorted(folder.glob("i-*_pid_*/*.ntff"))
    if not found:
        raise BadSession(f"{folder}: no session in this folder")
    return found


def view_folder(args, paths):
    """Several sessions: a summary of all, or tables of each in a folder of its own."""
    if args.output_format == "summary-json":
        nodes = {f"{p.stem}_{name}": metrics for p in paths
                 for name, metrics in Session(p).summaries().items()}
        write_text(json.dumps(nodes, indent=1) + "\n", args.output_file)
    elif args.output_format in ("parquet", "csv") and not args.output_file:
        for path in paths:
            write(Session(path), args.output_format, table_folder(args, path.stem))
    elif args.output_format == "summary-text":
        text = "".join(f"{p.name}\n{summary_text(Session(p))}\n" for p in paths)
        write_text(text, args.output_file)
    else:
        raise BadSession(f"{args.session_dir}: {len(paths)} sessions; -s must name one of "
                         + ", ".join(p.name for p in paths))


def table_folder(args, name):
    return os.path.join(args.data_path, "profiles", "global", f"{name}@latest")


def view(args):
    paths = sessions(args)
    if len(paths) > 1:
        view_folder(args, paths)
        return finish(args)
    output = args.output_file or DEFAULT_FILES.get(args.output_format)
    if args.output_format in ("parquet", "csv") and not output:
        output = table_folder(args, args.display_name or paths[0].stem)
    session = Session(paths[0], args.nki_source_root)
    write(session, args.output_format, output)
    return finish(args)


def finish(args):
    """After the tables are written: a server of them, where one is asked for."""
    if args.disable_ui and not args.ingest_only and args.output_format == "parquet":
        print("Processing is complete", flush=True)
        try:
            serve.serve(os.path.expanduser(args.data_path), args.port)
        except KeyboardInterrupt:
            return 0
    return 0


def show_schema():
    """The tables as YAML files, one behind the other, as --show-profile-schema prints them."""
    for name, columns in SCHEMA.items():
        print(f"---\n{name}:\n  type: object\n  properties:")
        for column, kind, unit, _ in columns:
            print(f"    {column}:\n      type: {json.dumps(kind)}")
            if unit:
                print(f"      unit: {json.dumps(unit)}")
    return 0


def capture(args):
    """Simulates a program that a run saved. Every execution takes the same time; the one asked for
    is in the session's name, as with the real tool."""
    if not args.neff_path:
        raise BadSession("capture needs a program (-n FILE)")
    path = pathlib.Path(args.session_file or "profile.ntff")
    nth = args.profile_nth_exec
    if nth is not None:
        path = path.with_name(f"{path.stem}_exec_{nth}{path.suffix}")
    container.capture(args.neff_path, path)
    print(f"{args.neff_path}: simulated; {path}")
    return 0


def arguments(words):
    parser = argparse.ArgumentParser(prog="neuron-profile", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-n", "--neff-path")
    common.add_argument("-s", "--session-file")
    v = commands.add_parser("view", parents=[common])
    v.add_argument("-d", "--session-dir")
    v.add_argument("--output-format", choices=FORMATS, default="parquet")
    v.add_argument("--output-file", help="- is standard output")
    v.add_argument("--data-path", default=".")
    v.add_argument("--display-name")
    v.add_argument("--nki-source-root", help="where the kernel's sources are")
    v.add_argument("--ingest-only", action="store_true", help="write the tables (default)")
    v.add_argument("--disable-ui", action="store_true", help="then answer SQL about them over HTTP, on this machine")
    v.add_argument("--port", type=int, default=serve.PORT)
    for flag in NO_EFFECT:
        v.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    for option in NO_EFFECT_WITH_VALUE:
        v.add_argument(option, help=argparse.SUPPRESS)
    show = commands.add_parser("show-session", parents=[common])
    show.add_argument("-j", "--json", action="store_true")
    for flag in ("--show-trace", "--show-dma", "-i"):
        show.add_argument(flag, action="store_true")
    show.add_argument("-e", "--show-errors", action="store_true")
    c = commands.add_parser("capture", parents=[common])
    c.add_argument("--profile-nth-exec", type=int)
    args, unknown = parser.parse_known_args(words)
    if unknown and args.command != "capture":
        parser.error("unknown arguments: " + " ".join(unknown))
    if args.command == "show-session" and not args.session_file:
        parser.error("show-session needs a session (-s FILE)")
    return args


def main(words=None):
    words = sys.argv[1:] if words is None else words
    if words == ["--version"]:
        print(f"neuron-explorer of nkisim, profile schema {VERSION}")
        return 0
    if words == ["--show-profile-schema"]:
        return show_schema()
    args = arguments(words)
    try:
        command = {"view": view, "show-session": show_session, "capture": capture}[args.command]
        with reading(args.session_file or getattr(args, "session_dir", None) or ""):
            return command(args)
    except (BadSession, OSError) as error:
        print(f"neuron-profile: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
