"""Opens the program to debug: a Python kernel, a file of instructions (trace), or the Result of a
run.
"""

from __future__ import annotations

import ast
import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

from nkisim import Error, _core
from nkisim_work import program as nkisim_program


def _refused(message: str) -> Error:
    return Error(message, rule="option_value", code="usage")


def _is_kernel(node):
    if not isinstance(node, ast.FunctionDef):
        return False
    names = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any((d.attr if isinstance(d, ast.Attribute) else getattr(d, "id", "")) == "jit" for d in names)


def kernel_of(path: str) -> str:
    """FILE.py:FUNCTION of a file that has one kernel."""
    try:
        tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"), path)
    except OSError as problem:
        raise _refused(f"cannot read {path}: {problem.strerror}") from None
    except SyntaxError as problem:
        raise Error(f"{path}:{problem.lineno}: {problem.msg}", rule="kernel_source", code="bad_input") from None
    kernels = [node.name for node in tree.body if _is_kernel(node)]
    if len(kernels) != 1:
        found = f"has the kernels {', '.join(kernels)}" if kernels else "has no function with @nki.jit"
        raise _refused(f"{path} {found}; FILE.py:FUNCTION is required")
    return f"{path}:{kernels[0]}"


def _recorded(program, words, folder):
    """The compiled program of a kernel as a trace in `folder`. Its own process: what a kernel prints is not ours."""
    path = os.path.join(folder, "kernel.nisa")
    done = subprocess.run([nkisim_program(), "kernel", program, *words, "-o", path], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not os.path.exists(path):
        said = (done.stderr.strip() or done.stdout.strip()).removeprefix("nkisim kernel: ").removeprefix("error: ")
        first, rule, rest = re.fullmatch(r"(.*?)(?: \[(\w+)\])?((?:\n.*)?)", said, re.S).groups()
        raise Error(first + rest, rule=rule or "", code="usage" if done.returncode == 2 else "bad_input")
    return path


def open_run(program: Any, words: Sequence[str] = (), *, target: str = "", config: str = "", inputs: str = "",
             overrides: Sequence[str] = (), values: bool = True) -> _core.Debugged:
    """The run of `program`: FILE.py:FUNCTION (with `words`, the options of nkisim kernel), FILE.py with one kernel,
    a trace, or a Result of nkisim.run. What it needs of files is read here."""
    with contextlib.ExitStack() as files:
        folder = files.enter_context(tempfile.TemporaryDirectory(prefix="nkisim-debug-"))
        if hasattr(program, "save"):
            path = os.path.join(folder, "kernel.nisa")
            program.save(path)
            return _core.Debugged(path, config=config, set=list(overrides), values=values)
        program = os.fspath(program)
        if program.endswith(".py"):
            program = kernel_of(program)
        if ".py:" in program:
            words = [*words, *(["--target", target] if target else []), *(["--config", config] if config else []),
                     *(word for one in overrides for word in ("--set", one))]
            return _core.Debugged(_recorded(program, words, folder), config=config, set=list(overrides), values=values)
        if words:
            raise _refused(f"unrecognized arguments: {' '.join(words)}")
        if not os.path.exists(program):
            raise _refused(f"{program!r} is not a file; a trace or FILE.py:FUNCTION is required")
        return _core.Debugged(program, target=target, config=config, set=list(overrides), inputs=inputs, values=values)
