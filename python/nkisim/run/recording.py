"""Calls a kernel function once per program of its launch grid, on symbolic tensors in place of the
host's arrays.
"""

from __future__ import annotations

import builtins
import copy
import gc
import inspect
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import lowering
from ..record.dialect import NKI, Dialect
from ..record.instances import Instances
from ..record.launch import Launch
from ..record.misuse import as_error, is_library, unfitting
from ..record.recorder import Recorder, activate, recording, state
from ..record.traced import as_traced, with_loops_finished
from ..values.errors import Error, is_ours, is_strict, kernel_frame
from ..values.shape import Shape
from ..values.storage import BUFFERS
from ..values.tensor import NkiTensor
from . import hostarrays
from .options import Options


class Arguments:
    """Converts host arrays in (nested) arguments to tensors and remembers the pairs."""

    def __init__(self, recorder: Recorder | None, values: bool = True, shapes: bool = False) -> None:
        self.recorder: Any = recorder  # None where nothing is converted but by another class
        self.values = values   # else arguments count by their shapes alone
        self.shapes = shapes   # whether arguments may be a Shape: time alone is asked
        self.pairs: list[tuple[Any, Any]] = []  # (host array, tensor)
        self.kind = "numpy"
        self.device: Any = None  # where results go: the torch device of an argument
        self.seen: dict[int, Any] = {}
        self.outdated: set[int] = set()  # storages whose arrays cannot take what the kernel wrote

    def convert(self, value: Any, name: str) -> Any:
        if hostarrays.is_array(value):
            twin = self.seen.get(id(value))
            if twin is not None:
                return twin
            tensor = self._tensor(value, name)
            self.pairs.append((value, tensor))
            self.seen[id(value)] = tensor
            return tensor
        if isinstance(value, (list, tuple)) and any(self._holds(v) for v in value):
            items = [self.convert(v, f"{name}_{i}") for i, v in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict) and any(self._holds(v) for v in value.values()):
            return {k: self.convert(v, f"{name}_{k}") for k, v in value.items()}
        if hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
            held = {k: v for k, v in vars(value).items() if self._holds(v)}
            if held:
                value = copy.copy(value)
                for k, v in held.items():
                    object.__setattr__(value, k, self.convert(v, f"{name}_{k}"))
        return value

    def _tensor(self, value, name):
        if not self.values or (self.shapes and isinstance(value, Shape)):
            return self.recorder.shape_tensor(value.shape, value.dtype, name)
        kind, array = hostarrays.to_numpy(value)
        if kind != "numpy":
            self.kind = kind
            self.device = hostarrays.device_of(value) or self.device
        return self.recorder.host_tensor(array, name)

    def _holds(self, value):
        if hostarrays.is_array(value):
            return True
        if isinstance(value, (list, tuple)):
            return any(self._holds(v) for v in value)
        if isinstance(value, dict):
            return any(self._holds(v) for v in value.values())
        return False


class _Keywords:
    """`sbuf`, `hbm` and their like, which are keywords of every kernel in NKI 0.1 and 0.2: builtins
    while a kernel is recorded, in whatever thread, so that a module's own names come first."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.added: list[str] = []

    def add(self) -> None:
        with self.lock:
            self.users += 1
            if self.users > 1:
                return
            self.added = [name for name in BUFFERS if not hasattr(builtins, name)]
            for name in self.added:
                setattr(builtins, name, BUFFERS[name])

    def remove(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users > 0:
                return
            for name in self.added:
                delattr(builtins, name)


class _NoCollection:
    """Everything recorded stays alive: garbage collections would only cost time. The first of
    several threads disables them and the last one enables them again."""

    def __init__(self) -> None:
        self.lock, self.users, self.on = threading.Lock(), 0, False

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.on = gc.isenabled()
                gc.disable()
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.on:
                gc.enable()


_keywords, _no_collection = _Keywords(), _NoCollection()


def record(function: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any], grid: Any = None,
           options: Options | None = None, dialect: Dialect = NKI,
           values: bool = True) -> tuple[Recorder, Any, Arguments]:
    """Runs `function` once per program instance; (recorder, returned value, arguments). With
    `values` false, arguments are whatever has a shape and a dtype."""
    read = as_traced(function) if dialect.masks else function
    recorded = _record(read, args, kwargs, grid, options, dialect, values)
    if recorded[0].loops.left_traced:
        finished = with_loops_finished(function)
        if finished is not None:
            warnings.warn("a return at the end of an affine or sequential loop: the legacy compiler traced "
                          "the loop's body once, so all iterations run (assumed)", stacklevel=2)
            return _record(finished, args, kwargs, grid, options, dialect, values)
    return recorded


def _record(function, args, kwargs, grid, options, dialect, values):
    options = options or Options()
    recorder = Recorder(options.target, options, dialect)
    launch = Launch(grid, dialect, recorder.target)
    arguments = Arguments(recorder, values, options.timing == "only")
    names = _parameter_names(function, args)
    previous = state.recorder
    activate(recorder)
    token = recording.set(True)
    if dialect.buffer_keywords:
        _keywords.add()
    try:
        args = [arguments.convert(a, n) for a, n in zip(args, names)]
        kwargs = {k: arguments.convert(v, k) for k, v in kwargs.items()}
        recorder.grid = launch.grid
        recorder.instances = Instances(recorder, launch,
                                       lambda: _call(recorder, function, args, kwargs))
        with _no_collection:
            returned = recorder.instances.record()
        recorder.storages.settle()
        if recorder.held.made or recorder.held.lost:
            _note_unread(recorder, options)
    except Exception as problem:
        if recorder.held.lost:
            _note_unread(recorder, options, ended=False)
        misused = None if isinstance(problem, Error) else _of_launch(problem, function) or as_error(problem)
        _annotate(misused or problem)
        if misused is not None:
            raise misused from None
        raise
    finally:
        recorder.instances = None  # it holds the recorder
        if dialect.buffer_keywords:
            _keywords.remove()
        activate(previous)
        recording.reset(token)
    return recorder, returned, arguments


def _of_launch(problem, function):
    """An Error for a call of the kernel whose arguments are none of its own; None for any other exception."""
    tb = problem.__traceback__
    while tb.tb_next is not None:
        tb = tb.tb_next
    if type(problem) is not TypeError or tb.tb_frame.f_code is not _call.__code__:
        return None
    code = getattr(inspect.unwrap(function), "__code__", None)
    frame = kernel_frame()
    if frame is not None and not frame.f_code.co_filename.startswith("<"):
        place = frame.f_code.co_filename, frame.f_lineno
    else:  # a command calls the kernel
        place = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    return unfitting(problem, place, lambda name, _: (name, function))


def _call(recorder, function, args, kwargs):
    """Records one program instance; what it returns, if it is the first."""
    activate(recorder)  # an instance may have its own thread
    first = recorder.instance == 0
    value = function(*args, **kwargs)
    recorder.flush()
    _check_loops(recorder)
    return _stored(recorder, value) if recorder.dialect.returns_tiles and first else value


def _stored(recorder, value):
    """Tiles that a kernel returns are stored to HBM first."""
    if isinstance(value, NkiTensor) and value.st.on_chip:
        out = recorder.ndarray(value.shape, value.dtype, "hbm", value.st.name)
        lowering.store(out, value)
        return out
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)([_stored(recorder, v) for v in value])
    return value


def _check_loops(recorder):
    loops = recorder.loops
    if loops.open:
        site = loops.open[-1][0]
        if isinstance(site, tuple):  # a register asked for its truth
            code, line = site
            raise Error("the loop that begins here does not come back to its condition (break, "
                        "return, or a register in `if`); the device runs its body to the end",
                        rule="dynamic_loop",
                        instruction="while", kernel_file=code.co_filename, kernel_line=line)
        file, line = loops.left or ("", 0)
        raise Error("break or return inside a dynamic loop; the device runs its body to the end",
                    rule="dynamic_loop",
                    instruction="dynamic_range", kernel_file=file, kernel_line=line)


_registries: dict[str, dict] = {}  # of warnings, by file: Python's filters show each line of it once


def _note_unread(recorder, options, ended=True):
    """Notes results of nl's functions and operators that no instruction and no look of Python reads (result_unread).
    A look for all that is unread finds them as well; of loads, and in the older API, those that the kernel kept count
    as read. Of a kernel that has not `ended` but failed, what it kept might have been read, and its error stands."""
    suppressed, errors, everything = options.rules
    if "result_unread" in suppressed:
        return
    held = recorder.held
    places = {place for place in held.lost if place[0]}
    held.lost = set()  # each is noted once
    if ended and not (recorder.dialect.neuronxcc or everything or is_strict()):
        spans = recorder.program.lifetimes()
        for first, last, _ in (spans[tensor] for tensor in held.made if tensor not in held.shown):
            if first == last >= 0:  # its own instruction alone touches it
                places.add(recorder.program.instruction_location(first))
    text = ("nothing reads the result of this function or operator, which is a new tile: it is to be stored, or "
            "used [result_unread]")
    for file, line in sorted(places):
        if ended and "result_unread" in errors:
            raise Error(text, rule="result_unread", kernel_file=file, kernel_line=line)
        warnings.warn_explicit(text, UserWarning, file, line, registry=_registries.setdefault(file, {}))


def _parameter_names(function, args):
    if isinstance(function, types.FunctionType) and not vars(function):  # no decorator's
        code = function.__code__
        star = code.co_argcount + code.co_kwonlyargcount  # the place of *args
        star_end = star + bool(code.co_flags & inspect.CO_VARARGS)
        names = [*code.co_varnames[:code.co_argcount], *code.co_varnames[star:star_end]]
        if len(names) >= len(args):
            return names[:len(args)]
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return names[:len(args)] + [f"arg{i}" for i in range(len(names), len(args))]


def _annotate(problem):
    """Names the kernel's line in a Python exception and drops the front end's own frames."""
    if isinstance(problem, Error):
        problem.__traceback__ = kernel_frames(problem.__traceback__)
        _name_callers(problem)
        return
    tb, last = problem.__traceback__, None
    while tb is not None:
        if not is_ours(tb.tb_frame.f_code) and not is_library(tb.tb_frame):
            last = tb
        tb = tb.tb_next
    if last is not None:
        add_note(problem, f"in the kernel at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}")


_CALLERS = 4  # so many are named


def _name_callers(problem):
    """Names, in an error of a helper function, the calls by which the kernel came there."""
    places, tb = [], problem.__traceback__
    while tb is not None:
        if not is_library(tb.tb_frame):
            places.append((tb.tb_frame.f_code.co_filename, tb.tb_lineno))
        tb = tb.tb_next
    if len(places) > 1 and places[-1] == (problem.kernel_file, problem.kernel_line):
        problem.called_at(tuple(places[-2::-1][:_CALLERS]))


def add_note(problem: BaseException, text: str) -> None:
    """A line below an exception's message, where Python has such (since 3.11)."""
    if hasattr(problem, "add_note"):
        problem.add_note(text)


def kernel_frames(tb: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback without the front end's own frames and those of imports."""
    frames = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if not is_ours(code) and not code.co_filename.startswith("<frozen importlib"):
            frames.append(tb)
        tb = tb.tb_next
    chain = None
    for f in reversed(frames):
        chain = types.TracebackType(chain, f.tb_frame, f.tb_lasti, f.tb_lineno)
    return chain
