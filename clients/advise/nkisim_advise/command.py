"""Implements `nkisim advise`: it proposes changes that make a kernel faster, each of them
simulated.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

from nkisim_profile.report import render
from nkisim_profile.session import BadSession, Session
from nkisim_work import machine, program
from nkisim_work.files import replace
from nkisim_work.options import Parser

from . import search, text
from .program import BadProgram

EXAMPLES = """
nkisim advise k.py:matmul --arg a=bf16[1024,1024]:normal --arg b=bf16[1024,1024]:normal
nkisim advise recorded.nisa --json      # of nkisim kernel --save-recorded
nkisim advise traces/softmax.jsonl --set dma.bytes_per_ns=54"""
NOTES = """
A program as recorded can be changed in all ways, a placed trace in its engines and queues alone. Options that are
not named here are those of nkisim kernel. docs/advise.md says what is tried."""


def arguments(words):
    parser = Parser("advise", "KERNEL.py:FUNCTION|TRACE [--arg NAME=SPEC] [options]",
                    "Says what to change in a kernel; each change is simulated.", EXAMPLES, NOTES)
    parser.add_argument("program", metavar="KERNEL.py:FUNCTION|TRACE")
    parser.option("target")
    parser.option("config")
    parser.option("set")
    parser.option("effort", dest="budget")
    parser.option("top")
    parser.option("html")
    parser.add_argument("--json", action="store_true")
    args, rest = parser.parse_known_args(words)
    if rest and ".py:" not in args.program:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.budget <= 0 or args.top < 1:
        parser.error("--effort and --top are positive")
    return args, rest


def recorded(args, rest, folder):
    """The kernel's program, recorded in `folder`."""
    path = pathlib.Path(folder) / "kernel.jsonl"
    words = [program(), "kernel", args.program, *rest, "--save-recorded", str(path)]
    words += ["--target", args.target] if args.target else []
    said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if said.returncode or not path.exists():
        raise BadProgram((said.stderr.strip() or said.stdout.strip()).removeprefix("nkisim: "))
    return path


def run(args, rest):
    overrides = dict(s.split("=", 1) for s in args.set)
    with tempfile.TemporaryDirectory(prefix="nkisim-advise-") as folder:
        path = recorded(args, rest, folder) if ".py:" in args.program else args.program
        fields = machine(None if ".py:" in args.program else args.target, args.config, overrides)
        session = pathlib.Path(folder) / "run.npz" if args.html else None
        advice = search.advise(path, fields, args.budget, args.top, _say, session)
        advice.trace = args.program
        if args.html:
            replace(args.html, _page(session, advice).encode(errors="replace"))
    _say("")
    print(json.dumps({"ok": True, "exit_code": 0, **advice.as_json()}, indent=1) if args.json else
           "\n".join(text.lines(advice)))
    return 0


def _page(session, advice):
    run = Session(session)
    run.facts["trace"] = advice.trace  # not the file that was simulated for it
    return render(run, advice.as_json())


def _say(line):
    if sys.stderr.isatty():
        print(f"\r{line:<70}\r", end="", file=sys.stderr, flush=True)


def main(words):
    args, rest = arguments(words)
    try:
        return run(args, rest)
    except (BadProgram, BadSession, OSError) as error:
        if args.json:
            print(json.dumps({"ok": False, "exit_code": 3, "error": {
                "code": "bad_input", "message": str(error), "text": f"nkisim advise: {error}"}}, indent=1))
        print(f"nkisim advise: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("nkisim advise: interrupted", file=sys.stderr)
        return 130
