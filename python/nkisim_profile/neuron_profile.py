"""The command line of neuron-profile and neuron-explorer, answered from a simulated session.

A session of `nkisim run --session FILE` takes the place of the profile (-s, --session-file); the
NEFF (-n) is accepted and not read.
"""

import argparse
import json
import os
import pathlib
import sys

from .session import BadSession, Session
from .view import FORMATS, write


def show_session(args):
    session = Session(args.session_file)
    graphs = [{"NC": core, "CycleCount": session.summary(core)["neuroncore_cycle_count"]}
              for core in range(session.cores)]
    if args.json:
        print(json.dumps({"NeffNodes": [{"NodeInfo": {"Graphs": graphs}}]}))
        return 0
    for core in range(session.cores):
        print(f"Instruction trace for ND 0 NC {core}")
        mine = session.parts.core == core
        for op, start, end in zip(session.text(session.parts.opcode[mine]),
                                  session.parts.start[mine], session.parts.end[mine]):
            print(f"{op} {start // 1_000_000} START")
            print(f"{op} {end // 1_000_000} END")
    return 0


def view(args):
    path = args.session_file
    if args.session_dir:
        found = sorted(pathlib.Path(args.session_dir).glob("*.ntff")) + sorted(
            pathlib.Path(args.session_dir).glob("*.npz"))
        if not found:
            raise BadSession(f"{args.session_dir}: no session in this folder")
        path = found[0]
    if not path:
        raise BadSession("view needs a session (-s FILE or -d DIR)")
    session = Session(path)
    output = args.output_file
    if args.output_format == "parquet" and not output:
        name = args.display_name or pathlib.Path(path).stem
        output = os.path.join(args.data_path, "profiles", "global", f"{name}@latest")
    write(session, args.output_format, output)
    return 0


def capture(_args):
    print("neuron-profile: capture needs a NeuronCore; simulate with "
          "`nkisim run TRACE --session profile.ntff` instead", file=sys.stderr)
    return 3


def main(words=None):
    parser = argparse.ArgumentParser(prog="neuron-profile", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-n", "--neff-path")
    common.add_argument("-s", "--session-file")
    v = commands.add_parser("view", parents=[common])
    v.add_argument("-d", "--session-dir")
    v.add_argument("--output-format", choices=FORMATS, default="parquet")
    v.add_argument("--output-file")
    v.add_argument("--data-path", default=".")
    v.add_argument("--display-name")
    for flag in ("--ingest-only", "--disable-ui", "--show-perfetto-flows"):
        v.add_argument(flag, action="store_true")
    show = commands.add_parser("show-session", parents=[common])
    show.add_argument("-j", "--json", action="store_true")
    for flag in ("--show-trace", "--show-dma", "-i"):
        show.add_argument(flag, action="store_true")
    show.add_argument("-e", "--show-errors", action="store_true")
    commands.add_parser("capture", parents=[common])
    args, unknown = parser.parse_known_args(words)
    if unknown and args.command != "capture":
        parser.error("unknown arguments: " + " ".join(unknown))
    try:
        return {"view": view, "show-session": show_session, "capture": capture}[args.command](args)
    except (BadSession, OSError) as error:
        print(f"neuron-profile: {error}", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
