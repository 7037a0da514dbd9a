"""Runs a candidate (a submitted, untrusted kernel file) in its own process. The file is executed
and its kernel called on shapes alone. The result is a list of instructions as data, and the
memory layout of its outputs.

The process holds neither inputs nor reference, and nothing it says about values or time is used:
both are found by simulating the program elsewhere. What it does apart from describing a kernel is reported
by witness.py in it and overseer.py outside.
"""

import ast
import builtins
import json
import os
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nkisim import _core
from nkisim.lowering import copied_rows
from nkisim.run import session
from nkisim.run.hostarrays import bits
from nkisim.run.kernel import Kernel
from nkisim.run.options import Options
from nkisim.run.recording import record
from nkisim.tools.kernel_report import error_json
from nkisim.values.errors import Error
from nkisim.values.shape import Shape

from . import witness

#: Names of kernel functions that search loops use, tried in this order where several are there.
NAMES = ("kernel", "optimized_kernel", "nki_kernel", "solution")
_MOST_TEXT = 4000
_PROGRAM, _CONSTANTS = "program.nisa", "constants.bin"
_RECORDING = _core.Program
_SAVE = _RECORDING.save
#: Modules that no kernel needs, which may be loaded already when a candidate imports them.
_FOREIGN = {"ctypes": "memory", "_ctypes": "memory", "cffi": "memory", "_cffi_backend": "memory",
            "multiprocessing": "processes", "nkisim_evaluate": "introspection"}
_WATCHED = ("nkisim", "nki", "neuronxcc", "numpy", "time", "builtins", "json", "os", "sys", "gc",
            "ml_dtypes", "nki_cpu_simulator", "neuron_dtypes", "nkisim_evaluate")
with open(witness.__file__, encoding="utf-8") as _source:
    _WITNESS = compile(_source.read(), witness.__file__, "exec")


def _report(kind, text):
    sys.audit("nkisim_evaluate.flag", kind, text)


def _watched_functions():
    """The contents of modules and classes, by name, that a candidate might rebind: as the witness takes them."""
    held: list[tuple[Mapping[str, Any], str, Any, str]] = []
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in _WATCHED or not isinstance(module, types.ModuleType):
            continue
        space = vars(module)
        for key, value in list(space.items()):
            if callable(value):
                held.append((space, key, value, f"{name}.{key}"))
            if isinstance(value, type) and value.__module__.split(".")[0] == "nkisim":
                for inner, function in list(vars(value).items()):
                    if callable(function) or isinstance(function, property):
                        held.append((vars(value), inner, function, f"{name}.{key}.{inner}"))
    return held


def _foreign_imports(tree):
    """Modules of _FOREIGN that a text imports anywhere."""
    for node in ast.walk(tree):
        names = ([a.name for a in node.names] if isinstance(node, ast.Import) else
                 [node.module] if isinstance(node, ast.ImportFrom) and node.module else [])
        yield from (n for n in names if n.split(".")[0] in _FOREIGN)


def _module(path, text):
    """Executes the text that the judge read, whatever the file holds by now."""
    module = types.ModuleType("nkisim_candidate")
    module.__file__ = path
    sys.path.insert(0, os.path.dirname(path))
    sys.modules[module.__name__] = module
    sys.dont_write_bytecode = True
    tree = ast.parse(text, path)
    for name in _foreign_imports(tree):
        _report(_FOREIGN[name.split(".")[0]], f"import {name}")
    exec(compile(tree, path, "exec", dont_inherit=True), vars(module))
    return module


def find_kernel(module: types.ModuleType, name: str | None,
                parameters: dict[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """The kernel of a module: `name`, one of NAMES, or the only @nki.jit function there is; what a
    factory makes of `parameters` if there are any (or the kernel, which takes them itself)."""
    if name is None:
        known = [n for n in NAMES if callable(getattr(module, n, None))]
        jitted = [n for n, v in vars(module).items() if isinstance(v, Kernel)]
        if not known and len(jitted) != 1:
            raise Error(f"the file has {len(jitted)} kernels ({', '.join(jitted) or 'none'}); "
                        f"one of them by name, or a function called {NAMES[0]}, is required",
                        rule="kernel_choice", code="usage")
        name = (known or jitted)[0]
    function = getattr(module, name, None)
    if not callable(function):
        functions = [n for n, value in vars(module).items() if callable(value) and not isinstance(value, type)
                     and (isinstance(value, Kernel) or getattr(value, "__module__", "") == module.__name__)]
        there = ", ".join(functions) or "its functions (it has none)"
        raise Error(f"the file has no function {name}; one of {there} is required", rule="kernel_choice", code="usage")
    if not parameters or isinstance(function, Kernel):
        return function, parameters
    made = function(**parameters)
    if not callable(made):
        raise Error(f"{name}(...) gives {type(made).__name__}; a kernel is required",
                    rule="kernel_choice", code="usage")
    return made, {}


def _stand_in(spec):
    """An argument without its values: a shape, or the plain value."""
    return Shape(spec["shape"], spec["dtype"]) if "shape" in spec else spec["value"]


def _recorded(function, extra, job):
    """Records the kernel: (kernel, recorder, outputs, place of each argument's tensor)."""
    kernel = function if isinstance(function, Kernel) else Kernel(function)
    args = [_stand_in(s) for s in job["args"]]
    kwargs = {**{k: _stand_in(s) for k, s in job["kwargs"].items()}, **extra}
    options = Options(job.get("target"), timing=False)
    grid = job.get("grid") if job.get("grid") is not None else kernel.grid
    grid = tuple(grid) if isinstance(grid, list) else grid
    recorder, returned, arguments = record(kernel.func, args, kwargs, grid, options, kernel.dialect,
                                           values=False)
    recorder.program.finish()
    written = [(host, t) for host, t in arguments.pairs if recorder.program.written(t.st.id)]
    session.set_roles(kernel.func, recorder, returned, [t for _, t in written])
    order = [v for v in (*args, *kwargs.values()) if isinstance(v, Shape)]
    place = {id(host): n for n, host in enumerate(order)}
    given = {t.st.id: place[id(host)] for host, t in arguments.pairs if id(host) in place}
    return kernel, recorder, session.tensors_in(returned), given


def _constants(recorder, given, folder):
    """Writes the constants, one behind the other: what is where, and what the program calls its data by. Its inputs
    are arrays arg0, arg1, ..."""
    keys, constants = {}, []
    with open(os.path.join(folder, _CONSTANTS), "wb") as file:
        for st in recorder.storages:
            if st.id in given:
                keys[st.id] = f"arg{given[st.id]}"
            elif st.array is not None:
                array = np.ascontiguousarray(bits(st.array))
                keys[st.id] = f"const{st.id}"
                constants.append({"key": keys[st.id], "dtype": array.dtype.str,
                                  "shape": list(array.shape)})
                file.write(array.tobytes())
    recorder.program.keep(recorder.dialect.neuronxcc,
                          [st.id for st in recorder.storages if st.address is not None],
                          copied_rows(recorder))
    return constants, keys


def _layout(tensor):
    """The places of an output's elements in its storage: offset in bytes, strides in elements."""
    if tensor.dyn is not None:
        raise Error("the kernel returns a view with a dynamic address; a tensor is required",
                    rule="kernel_result")
    return {"tensor": tensor.st.name, "shape": list(tensor.shape), "dtype": str(tensor.dtype),
            "offset": int(tensor.off), "strides": [int(s) for s in tensor.strides]}


def _attempt(job):
    """A description of the recorded kernel, and the step that is left: (function, arguments, path) of the program's
    file, which the witness writes when none of the candidate's code can run any more."""
    module = _module(job["path"], job.pop("text"))
    function, extra = find_kernel(module, job.get("kernel"), job.get("params") or {})
    kernel, recorder, outputs, given = _recorded(function, extra, job)
    if type(recorder.program) is not _RECORDING:
        raise Error("the recorder was changed while the kernel was recorded", rule="kernel_result")
    said = {"ok": True, "outputs": [_layout(t) for t in outputs]}
    said["constants"], keys = _constants(recorder, given, job["folder"])
    path = os.path.join(job["folder"], _PROGRAM)
    return said, (_SAVE, (recorder.program, path, str(kernel.__name__), "data.npz", keys, False), path)


def _witnessed(job, roots, secret, channel, watched):
    """Puts the witness in place: no frame, module or list leads to what it is made of."""
    space: dict[str, Any] = {"__name__": "witness", "__builtins__": dict(vars(builtins))}
    exec(_WITNESS, space)
    space["install"](secret.pop(), channel, os.path.realpath(job["path"]),
                     tuple(r + os.sep for r in roots), _watched_functions(), dict(sys.modules),
                     not watched)


def describe(job: dict[str, Any], roots: tuple[str, ...], secret: list[bytes], channel: int,
             watched: bool) -> None:
    """Records the candidate of a job and lets the witness write the program and send bytes (JSON) that say what came
    of it, which ends the process. `secret`: a list with what the witness signs by. `watched`: whether
    system calls are."""
    finish, audit = witness.FINISH, sys.audit
    _witnessed(job, roots, secret, channel, watched)
    program = None
    try:
        found, program = _attempt(job)
    except MemoryError:
        raise
    except Exception as problem:
        found = {"ok": False, "error": _described(problem, job["path"])}
    said = json.dumps(found).encode()
    sys.stdout.flush()
    audit(finish, said, program)


def _described(problem, path):
    """An error as JSON; a Python exception with the last line of the candidate's that it passed."""
    if isinstance(problem, Error):
        return error_json(problem, 3)["error"]
    line, frame = None, problem.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == path:
            line = frame.tb_lineno
        frame = frame.tb_next
    if isinstance(problem, SyntaxError):
        line = problem.lineno
    try:
        text = f"{type(problem).__name__}: {problem}"[:_MOST_TEXT]
    except Exception:  # its own __str__ is the candidate's
        text = type(problem).__name__
    return {"code": "exception", "kind": type(problem).__name__, "rule": "kernel_exception", "message": text,
            "text": text, **({"kernel_line": line} if line else {})}


__all__ = ["describe", "find_kernel"]
