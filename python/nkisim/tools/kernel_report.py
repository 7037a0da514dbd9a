"""Writes the results of `nkisim kernel`: as lines, as JSON, and as files."""

import json
import os
import sys
import tempfile

import numpy as np

from nkisim_work.files import replace

from .. import _core
from ..run import comparing
from ..run.result import write_page
from ..values.errors import Error

#: Exit codes; 128 + signal where a signal ended the run.
OK, DIFFERS, USAGE, BAD_INPUT, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 130


def write_text(path, text):
    """Replaces the file only once everything is written."""
    replace(path, text.encode(errors="replace"))


def error_json(problem, code):
    """An error as the native commands print it with --json."""
    if not isinstance(problem, Error):
        ours = code == INTERNAL
        problem = Error(str(problem), code="internal" if ours else "bad_input",
                        rule="internal_error" if ours else "kernel_exception")
    kinds = {"usage": "usage", "internal": "internal"}
    out = {"code": problem.code, "kind": kinds.get(problem.code) or
           _core.kind_of_rule(problem.rule), "rule": problem.rule, "message": problem.message,
           "text": str(problem)}
    for key, value in (("instruction", problem.instruction), ("kernel_file", problem.kernel_file),
                       ("kernel_line", problem.kernel_line), ("source", problem.source),
                       ("operand", problem.operand), ("found", problem.found),
                       ("required", problem.required)):
        if value:
            out[key] = value
    return {"ok": False, "exit_code": code, "error": out}


def compare(outputs, expected, rtol, atol):
    """One row per output: {"output", "equal", "text", ...}."""
    outputs, expected = _tuple(outputs), _tuple(expected)
    if len(outputs) != len(expected):
        return [{"output": "all", "equal": False,
                 "text": f"{len(outputs)} outputs, {len(expected)} expected"}]
    return [_matches(i, *pair, rtol, atol) for i, pair in enumerate(zip(outputs, expected))]


def _tuple(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _matches(number, found, want, rtol, atol):
    found, want = np.asarray(found), np.asarray(want)
    row = {"output": str(number), "equal": False, "elements": int(found.size)}
    if found.shape != want.shape:
        return {**row, "text": f"output {number}: shape {found.shape}, expected {want.shape}"}
    off = comparing.compare(found, want, rtol, atol)
    text = (f"output {number}: {'matches' if off.equal else 'DIFFERS'}, largest difference "
            f"{off.max_abs:.3g}")
    row.update(equal=off.equal, mismatches=off.mismatches, max_abs_error=off.max_abs)
    if not off.equal:
        at = tuple(off.first)
        text += (f"; {off.mismatches} of {found.size} differ, first at {off.first}: "
                 f"{float(found[at]):.6g}, expected {float(want[at]):.6g}")
    return {**row, "text": text}


class Report:
    """Collects what is known of a run and prints it at the end."""

    def __init__(self, args):
        self.args = args
        self.outputs, self.budgets, self.files = [], [], {}
        self.folder = None  # of the session that only the HTML report needs

    def requested(self):
        """The reports that the run itself writes."""
        args = self.args
        files = {key: getattr(args, key) for key in ("accounting_json", "session", "perfetto",
                                                     "chrome", "vcd") if getattr(args, key)}
        if args.html and not args.session:
            self.folder = tempfile.TemporaryDirectory(prefix="nkisim-")
            files["session"] = os.path.join(self.folder.name, "session.npz")
        if args.html or args.explain:
            files["explain"] = "yes"
        self.files = files
        return files

    def finish(self, result):
        """Writes the files that are left, checks the budgets; the exit code."""
        args = self.args
        if args.save:
            result.save(args.save)
        if args.save_recorded:
            result.save(args.save_recorded, compiled=False)
        if args.summary_json:
            write_text(args.summary_json, json.dumps(result.summary, indent=1) + "\n")
        if args.html:
            self._html()
        self.budgets = _core.check_budgets(args.budget, json.dumps(result.summary),
                                           json.dumps(result.totals))
        if args.junit:
            self._junit(result)
        if result.partial:
            return INTERRUPTED
        good = all(row["equal"] for row in self.outputs) and all(kept for _, kept, _ in self.budgets)
        return OK if good else DIFFERS

    def _html(self):
        write_page([self.files["session"]], self.args.html, self.args.kernel.rpartition(":")[2])

    def _junit(self, result):
        cases = [("run", False, "the run was interrupted")] if result.partial else []
        cases += [(f"output {r['output']}", r["equal"], r["text"]) for r in self.outputs]
        cases += [(f"budget {text}", kept, message) for text, kept, message in self.budgets]
        cases = cases or [("run", True, "")]
        write_text(self.args.junit, _core.junit_xml(f"nkisim kernel {self.args.kernel}", cases,
                                                    result.record_seconds + result.run_seconds))

    def say(self, result, code):
        stop = result.stop
        if stop is not None and not self.args.json:
            print(stop, end="")
        if self.args.json:
            out = {"ok": code == OK, "exit_code": code, "partial": result.partial,
                   "target": result.recorder.target, "instructions": result.executed,
                   "summary": result.summary, "confidence": result.confidence}
            if self.outputs:
                out["outputs"] = self.outputs
            if self.budgets:
                out["budgets"] = [{"budget": b, "kept": k, "message": m}
                                  for b, k, m in self.budgets]
            if stop is not None:
                out["stop"] = stop.json
            if result.explanation:
                out["explanation"] = result.explanation
            print(json.dumps(out, indent=1))
        else:
            self._lines(result)
        for _, kept, message in self.budgets:
            if not kept:
                print(f"nkisim: over budget: {message}", file=sys.stderr)
        if result.partial:
            print(f"nkisim: interrupted after {result.executed} instructions; every report is of "
                  "this part", file=sys.stderr)

    def _lines(self, result):
        args = self.args
        print(result.report())
        for label, path in (("trace", args.save), ("recorded", args.save_recorded), ("timeline", args.perfetto),
                            ("timeline", args.chrome), ("waveforms", args.vcd), ("session", args.session),
                            ("report", args.html)):
            if path:
                print(f"{label:<14}{path}")
        if args.explain:
            print(result.explanation, end="")
        for row in self.outputs:
            print(row["text"])
        for text, kept, message in self.budgets:
            if kept:
                print(f"budget        {text}: kept, {message}")
