"""nkisim demo [FOLDER]: writes a kernel with its reference, runs it, opens its report, says what to try next.

FOLDER (default: the current one) gets softmax_kernel.py. A file of that name with other contents is
never overwritten: it is run as it is, so that the demo may be repeated after a change. Next to it the run's
report is written, softmax_report.html, and shown by the browser in a terminal.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import shlex
import sys
import webbrowser

from nkisim_work.options import Parser

from ..values.errors import Error
from .kernel_cli import main as kernel_main
from .kernel_report import INTERRUPTED, OK, USAGE, error_json, write_text

FILE, REPORT = "softmax_kernel.py", "softmax_report.html"
KERNEL = '''"""Softmax over the last dimension, one row per partition: a kernel and its NumPy reference.

Rows are worked on 128 at a time, as many as SBUF has partitions.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def softmax(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, rows, 128):
        part = nl.ds(start, min(128, rows - start))
        tile = nl.load(x[part, :])
        negative_max = nl.ndarray((part.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((part.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        powers = nl.ndarray((part.size, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=negative_max, op=nl.maximum, data=tile, axis=1, negate=True)
        # One pass of the scalar engine: exp(x - max), and its sum along the row.
        nisa.activation_reduce(dst=powers, op=nl.exp, data=tile, bias=negative_max,
                               reduce_op=nl.add, reduce_res=total)
        nisa.reciprocal(dst=total, data=total)
        result = nl.ndarray((part.size, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=powers, op0=nl.multiply, operand0=total)
        nl.store(out[part, :], result)
    return out


def reference(x):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
'''
ARGUMENTS = ["--arg", "x=f32[512,2048]:normal", "--expect", "reference"]


def next_commands(path):
    """The commands to try next, each with why: [(why, words), ...]."""
    run = ["nkisim", "kernel", f"{path}:softmax", *ARGUMENTS]
    return [("where every nanosecond goes, and what would help", [*run, "--explain"]),
            ("a timeline for https://ui.perfetto.dev", [*run, "--perfetto", "softmax.pftrace"]),
            ("the same kernel on Trainium 1", [*run, "--target", "trn1"])]


class _Parser(Parser):
    def error(self, message):
        raise Error(f"{message}; see `nkisim demo --help`", rule="command_line", code="usage")


def _parser():
    parser = _Parser("demo", "[FOLDER] [options]", "Writes a kernel with its reference, runs it, and opens its report.",
                     "nkisim demo\nnkisim demo first --no-open", __doc__)
    parser.add_argument("folder", nargs="?", default=".")
    parser.option("open", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--json", action="store_true")
    return parser


def _report(path):
    """The place of the report."""
    return os.path.join(os.path.dirname(path), REPORT)


def _show(report, opening):
    """Says where the report is, once a browser has been asked to show it."""
    if opening is None:
        opening = sys.stdout.isatty()
    shown = opening and webbrowser.open(pathlib.Path(report).absolute().as_uri())
    print(f"\nreport        {report}{' (shown in the browser)' if shown else ': open it in a browser'}")


def _write(folder):
    """Path of the kernel in the folder, and whether it was written now."""
    if not os.path.isdir(folder):
        raise Error(f"{folder} is no folder", rule="option_value", code="usage")
    path = os.path.normpath(os.path.join(folder, FILE))
    if os.path.exists(path):
        return path, False
    try:
        write_text(path, KERNEL)
    except OSError as problem:
        raise Error(f"cannot write {path}: {problem.strerror}", rule="file_unwritable",
                        code="usage") from None
    return path, True


def _say(path, written, opening):
    """Runs the kernel and prints as a person reads it; the exit code of the run."""
    words, report = [f"{path}:softmax", *ARGUMENTS], _report(path)
    print(f"{'wrote' if written else 'kept'} {path}: a softmax in NKI with its NumPy reference\n"
          f"$ nkisim kernel {shlex.join(words)}\n", flush=True)
    code = kernel_main([*words, "--html", report])
    if code == OK:
        _show(report, opening)
        print("\ntry next:")
        for why, command in next_commands(path):
            print(f"\n  # {why}\n  {shlex.join(command)}")
    return code


def _say_json(path, written, opening):
    """The same as one JSON object; what `nkisim kernel --json` prints is its "run"."""
    said, report = io.StringIO(), _report(path)
    with contextlib.redirect_stdout(said):
        code = kernel_main([f"{path}:softmax", *ARGUMENTS, "--json", "--html", report])
    if code == OK and opening:
        webbrowser.open(pathlib.Path(report).absolute().as_uri())
    print(json.dumps({"ok": code == OK, "file": path, "written": written, "report": report,
                      "run": json.loads(said.getvalue()),
                      "next": [{"why": why, "command": shlex.join(command)}
                               for why, command in next_commands(path)]}, indent=1))
    return code


def main(words=None):
    """Runs `nkisim demo`; returns its exit code."""
    try:
        args = _parser().parse_args(words)
        path, written = _write(args.folder)
        return (_say_json if args.json else _say)(path, written, args.open)
    except Error as problem:
        if "--json" in (sys.argv[1:] if words is None else words):
            print(json.dumps(error_json(problem, USAGE), indent=1))
        print(f"nkisim demo: {problem}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("nkisim: interrupted", file=sys.stderr)
        return INTERRUPTED
