"""Analyses a kernel file for the editor in a process of its own. The file is executed, and its
kernels are simulated on their example arguments. The process ends with it.

Each answer is a dict with "stage":

    kernels   the kernels found, and what is wrong with the file itself
    time      one kernel on its target: errors, warnings, latency, time by line
    values    what only values show: unwritten outputs, races
    target    the same kernel's time by line on another generation
"""

import contextlib
import inspect
import linecache
import os
import re
import sys
import types
import warnings

import numpy as np

import nkisim
from nkisim.record.launch import chosen_grid
from nkisim.record.targets import default_target
from nkisim.run import session as running
from nkisim.run.kernel import Kernel
from nkisim.run.options import Options
from nkisim.tools.example_call import Call, calls
from nkisim.tools.kernel_cli import argument
from nkisim.values.errors import Error
from nkisim_profile.session import Session

from .lines import by_line

TARGETS = ("trn1", "trn2", "trn3")
#: Rules of runs that compute no values though the program's course depends on some.
_NEEDS_VALUES = "timing_only_values"


#: The rule of a warning, at the end of its text.
_SHOWN = re.compile(r" \[([a-z][a-z_]+)\]$")


class _Called(BaseException):
    """The example call of a file: ends the file, which goes no further."""

    def __init__(self, function, args, kwargs, grid):
        super().__init__("called")
        self.function, self.args_, self.kwargs, self.grid = function, args, kwargs, grid


def _problem(error, path, line=1, severity="error"):
    """An exception or warning as a diagnostic: at its own line of the file, else at `line`."""
    if isinstance(error, Error):
        here = bool(error.kernel_file) and os.path.realpath(error.kernel_file) == os.path.realpath(path)
        message = f"{error.instruction}: {error.message}" if error.instruction else error.message
        if error.kernel_file and not here:
            message += f" ({error.kernel_file}:{error.kernel_line})"
        return {"line": error.kernel_line if here else line, "message": message, "rule": error.rule,
                "severity": severity, "instruction": error.instruction}
    return {"line": _line_in(error, path) or line, "message": f"{type(error).__name__}: {error}",
            "rule": "kernel_exception", "severity": severity, "instruction": ""}


def _problems(error, path, line=1):
    """An exception as diagnostics: of an error of --strict one for each of its findings."""
    findings = getattr(error, "findings", ())
    alone = {"severity": "error", "rule": "sdk_refuses", "instruction": ""}
    found = [{"line": at if os.path.realpath(file) == os.path.realpath(path) else line,
              "message": text if os.path.realpath(file) == os.path.realpath(path) else f"{text} ({file}:{at})", **alone}
             for file, at, text in findings]
    return found if found and error.rule == "sdk_refuses" else [_problem(error, path, line), *found]


def _line_in(error, path):
    """The innermost line of the file that an exception passed, or None."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    line, tb = None, error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == path:
            line = tb.tb_lineno
        tb = tb.tb_next
    return line


def _warnings(caught, path, line):
    """Warnings as diagnostics, each once."""
    found = {}
    for w in caught:
        text, here = str(w.message), w.filename == path
        at = w.lineno if here else _named_line(text, path) or line
        shown = _SHOWN.search(text)
        found[at, text] = {"line": at, "message": text[:shown.start()] if shown else text,
                           "rule": shown[1] if shown else "", "severity": "warning", "instruction": ""}
    return list(found.values())


def _named_line(text, path):
    """The first line of the file that a message names, or None."""
    for name in (path, os.path.basename(path)):
        _, found, rest = text.partition(name + ":")
        digits = rest[:len(rest) - len(rest.lstrip("0123456789"))]
        if found and digits:
            return int(digits)
    return None


def _execute(text, path, name):
    """The module that a text makes."""
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(text, path, "exec"), vars(module))
    return module


def _kernels(module, path, called):
    """{name: Kernel} of the file's own kernels: @nki.jit functions, and functions with a comment."""
    found = {n: v for n, v in vars(module).items() if isinstance(v, Kernel) and
             inspect.unwrap(v.func).__code__.co_filename == path}
    for name in called:
        value = vars(module).get(name)
        if name not in found and inspect.isfunction(value):
            found[name] = Kernel(value)
    return found


def _commented(name, kernel, line, said):
    """(args, kwargs, options) of a comment. Raises Error or ValueError."""
    call = Call(line, said)
    rng = np.random.default_rng(call.options.get("seed", 0))
    given = dict(argument(word, rng) for word in call.words)
    inspect.signature(kernel.func).bind(**given)
    return (), given, call.options


def _example(text, path):
    """The first call of a kernel that the file makes when it is run as a script, or None."""
    if "__main__" not in text:
        return None

    def caught(function, args, kwargs, grid):
        raise _Called(function, args, kwargs, grid)

    running.BEFORE.append(caught)
    sys.argv = [path]
    try:
        _execute(text, path, "__main__")
    except _Called as call:
        return call
    except (Exception, SystemExit):  # an example that fails is no example; the file itself was run before
        return None
    finally:
        running.BEFORE.remove(caught)
    return None


class Study:
    """One text. `say` takes each answer; `folder` is empty, and whoever gives it removes it."""

    def __init__(self, path, text, folder, say):
        self.path, self.text, self.folder, self.say = path, text, folder, say
        self.calls = {}  # of the comments, as example_call.calls gives them

    def run(self):
        lines = self.text.splitlines(keepends=True)
        linecache.cache[self.path] = (len(self.text), None, lines, self.path)
        sys.path.insert(0, os.path.dirname(self.path))
        sys.dont_write_bytecode = True
        problems, found, given = [], {}, {}
        with contextlib.suppress(SyntaxError):
            self.calls = calls(self.text)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = _kernels(_execute(self.text, self.path, "nkisim_kernel_file"), self.path, self.calls)
                given = self._calls(found, problems)
            except (Exception, SystemExit) as problem:
                problems += _problems(problem, self.path)
        problems += _warnings([w for w in caught if w.filename == self.path], self.path, 1)
        self.say({"stage": "kernels", "problems": problems, "kernels": {
            name: {"line": self._line(k), "def": self._def(k), "parameters": list(inspect.signature(k.func).parameters),
                   "called": given[name][3] if name in given else ""} for name, k in found.items()}})
        targets = {name: self._time(name, found[name], *given[name][:3]) for name in given}
        for name, target in targets.items():
            if target is not None:
                self._values(name, found[name], *given[name][:3])
        for name, first in targets.items():
            for target in TARGETS if first is not None else ():
                if target != first:
                    self._target(name, found[name], *given[name][:3], target)

    def _line(self, kernel):
        return inspect.unwrap(kernel.func).__code__.co_firstlineno

    def _def(self, kernel):
        """The line of a kernel's `def`, below its decorators."""
        first, lines = self._line(kernel), self.text.splitlines()
        return next((n for n in range(first, len(lines) + 1) if lines[n - 1].lstrip().startswith("def ")), first)

    def _calls(self, found, problems):
        """{name: (args, kwargs, options, where from)}: of comments, and of one example call."""
        given = {}
        for name, (line, said) in self.calls.items():
            if name in found:
                try:
                    given[name] = (*_commented(name, found[name], line, said), "comment")
                except (Error, ValueError, TypeError) as problem:
                    problems.append({**_problem(problem, self.path, line), "line": line, "rule": "option_value",
                                     "message": f"# nkisim: {getattr(problem, 'message', problem)}"})
        if set(found) - set(given):
            call = _example(self.text, self.path)
            code = call and inspect.unwrap(call.function).__code__
            for name, kernel in found.items():
                if call and name not in given and _same(inspect.unwrap(kernel.func).__code__, code):
                    options = {} if call.grid is None else {"grid": call.grid}
                    given[name] = call.args_, call.kwargs, options, "example"
        return given

    def _session(self, kernel, args, kwargs, options, target, timing):
        """(result, session) of one timed run."""
        path = os.path.join(self.folder, "run.npz")
        grid = chosen_grid(options.get("grid", kernel.grid), options.get("lnc"), target or default_target())
        result = running.run_function(kernel.func, args, kwargs, grid, Options(
            target, timing=timing, files={"session": path}), kernel.dialect)
        return result, Session(path)

    def _timed(self, kernel, args, kwargs, options, target):
        try:
            return self._session(kernel, args, kwargs, options, target, "only")
        except Error as problem:
            if problem.rule != _NEEDS_VALUES:
                raise
            return self._session(kernel, args, kwargs, options, target, True)

    def _time(self, name, kernel, args, kwargs, options):
        """Says the time on the kernel's own target; that target, or None where it is not run."""
        answer = {"stage": "time", "kernel": name, "problems": []}
        target = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result, session = self._timed(kernel, args, kwargs, options, options.get("target"))
                target = result.recorder.target
                answer.update(target=target, latency_us=result.latency_us, instructions=result.executed,
                              trust=(result.confidence or {}).get("text", ""), lines=by_line(session, self.path))
            except (Exception, SystemExit) as problem:
                answer["problems"] += _problems(problem, self.path, self._line(kernel))
        answer["problems"] += _warnings(caught, self.path, self._line(kernel))
        self.say(answer)
        return target

    def _values(self, name, kernel, args, kwargs, options):
        problems = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                nkisim.run(kernel, *args, target=options.get("target"), grid=options.get("grid"),
                           lnc=options.get("lnc"), timing=False, **kwargs)
            except (Exception, SystemExit) as problem:
                problems += _problems(problem, self.path, self._line(kernel))
        self.say({"stage": "values", "kernel": name,
                  "problems": problems + _warnings(caught, self.path, self._line(kernel))})

    def _target(self, name, kernel, args, kwargs, options, target):
        answer = {"stage": "target", "kernel": name, "target": target}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result, session = self._timed(kernel, args, kwargs, options, target)
                answer.update(latency_us=result.latency_us, lines=by_line(session, self.path))
            except (Exception, SystemExit) as problem:
                answer.update(error=_problem(problem, self.path, self._line(kernel)))
        self.say(answer)


def _same(a, b):
    return a.co_name == b.co_name and a.co_firstlineno == b.co_firstlineno and a.co_filename == b.co_filename
