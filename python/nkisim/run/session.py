"""Runs a kernel in four steps: collects its instructions, places its memory, simulates it, returns
results.
"""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..record import legacy_rules, strict
from ..record.dialect import NKI, Dialect
from ..record.recorder import ROLE_CONSTANT, ROLE_INPUT, ROLE_INPUT_OUTPUT, ROLE_OUTPUT, Recorder
from ..record.refusals import check_launch, check_size
from ..values.errors import Error
from ..values.findings import collecting_findings
from ..values.shape import Shape
from ..values.storage import shared_hbm
from ..values.tensor import NkiTensor
from . import hostarrays, inspecting, neff, notices
from .compiling import compile_program
from .execution import execute, restart
from .memory_bound import MemoryBound
from .options import Options
from .recording import Arguments, kernel_frames, record
from .result import Result


#: Called with function, args, kwargs and grid before each run: the language server looks for a file's example.
BEFORE: list[Callable[[Callable, Sequence, Mapping[str, Any], Any], object]] = []
#: Called with each finished Result: timelines, notebooks and NEURON_FRAMEWORK_DEBUG listen.
LISTENERS: list[Callable[[Result], object]] = [neff.keep, inspecting.keep]
#: The last gives the path of each run's session, as long as a timeline collects them.
SESSIONS: list[Callable[[], str]] = []


def run_function(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any,
                 options: Options, dialect: Dialect = NKI) -> Result:
    """Runs a plain kernel function as `options` say; arguments it writes are updated."""
    for listener in list(BEFORE):
        listener(function, args, kwargs, grid)
    hostarrays.settle((args, kwargs))
    notices.warn_gradient_lost(function, args, kwargs)
    try:
        with MemoryBound():
            result = _run(function, args, kwargs, grid, options, dialect)
    except Exception as problem:
        problem.__traceback__ = kernel_frames(problem.__traceback__)
        raise
    for on_result in list(LISTENERS):
        on_result(result)
    return result


class PreparedKernel:
    """A kernel that is recorded and compiled."""

    def __init__(self, recorder: Recorder, returned: Any, arguments: Arguments,
                 written: list[tuple[Any, NkiTensor]], result: Result) -> None:
        self.recorder, self.returned, self.arguments = recorder, returned, arguments
        self.written = written  # (host array, tensor) of the arguments that the kernel writes
        self.result = result


def prepare(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any,
            options: Options, dialect: Dialect = NKI) -> PreparedKernel:
    """Records and compiles a kernel; its arguments are to be loaded yet. An Error of all that --strict finds."""
    with collecting_findings():
        return _prepare(function, args, kwargs, grid, options, dialect)


def _prepare(function, args, kwargs, grid, options, dialect):
    checked = strict.enabled() and dialect.reads_source
    strict.check_dialect(function, dialect)
    if dialect.reads_source:
        strict.scan(function)
    if checked:
        strict.check_grid(function, grid, options.target)
        strict.check_arguments(function, args, kwargs)
    recorder, returned, arguments = record(function, args, kwargs, grid, options, dialect)
    for name, _, (file, line) in recorder.prepared.values():
        raise Error(f"{name}_prepare has no trigger; one is required after each prepare", rule="collective_split",
                    instruction=f"{name}_prepare", kernel_file=file, kernel_line=line)
    notices.warn_narrowed(function, [(host, t.st.name) for host, t in arguments.pairs])
    recorder.program.finish()
    check_size(function, recorder.program)
    if recorder.grid:
        check_launch(function, recorder)
    written = [(host, t) for host, t in arguments.pairs if recorder.program.written(t.st.id)]
    outputs = tensors_in(returned)
    if dialect.neuronxcc:
        legacy_rules.check_source(function, recorder)
        if options.fixed_arguments:
            legacy_rules.check_arguments(function, recorder, [t for _, t in written],
                                         {t.st.id for t in outputs})
    if checked:
        strict.check_release(recorder.program)
    if dialect.reads_source and (not outputs or returned is not outputs[0] or returned.st.buffer is not shared_hbm):
        strict.check_outputs(function, recorder, outputs, _plain_values(returned), written)
    set_roles(function, recorder, returned, [t for _, t in written])
    check_written(function, written, outputs)
    _check_overlaps(function, written, arguments.pairs)
    if SESSIONS and options.timing:
        options.files.setdefault("session", SESSIONS[-1]())
    inspecting.begin(options)
    result = Result(recorder, options, getattr(function, "__name__", "kernel"))
    result.compiled = compile_program(recorder, options)
    if checked:
        strict.check_defects(recorder.program)
    result.peak = result.compiled.peak
    recorder.placed = True
    return PreparedKernel(recorder, returned, arguments, written, result)


def _run(function, args, kwargs, grid, options, dialect):
    begin = time.perf_counter()
    kernel = prepare(function, args, kwargs, grid, options, dialect)
    recorder, arguments, result = kernel.recorder, kernel.arguments, kernel.result
    restart(recorder)
    for _, t in kernel.written:  # the caller's array is about to change
        if t.st.array is not None:
            t.st.array = t.st.array.copy()
        result.written.add(t.st.id)
    result.record_seconds = time.perf_counter() - begin
    execute(recorder, options, result)
    result.run_seconds = time.perf_counter() - begin - result.record_seconds
    if result.partial or options.timing == "only":  # no output is complete
        return result
    arguments.outdated = {t.st.id for host, t in kernel.written if not hostarrays.can_change(host)}
    for host, t in kernel.written:
        hostarrays.write_back(host, recorder.read_storage(t.st))
    result.outputs = to_host(kernel.returned, recorder, arguments)
    return result


_GIVEN = (ROLE_INPUT, ROLE_INPUT_OUTPUT, ROLE_CONSTANT)  # before the program starts


def set_roles(function: Callable[..., Any], recorder: Recorder, returned: Any,
              written: Sequence[NkiTensor]) -> None:
    """Marks what the program gives back; a kernel that gives nothing is an error."""
    outputs = tensors_in(returned)
    if not outputs and not written:
        raise Error("the kernel neither returns a tensor nor writes one of its arguments; its "
                    "result would be lost (return the tensor in nl.shared_hbm that it stores to)",
                    rule="kernel_result", instruction=getattr(function, "__name__", "kernel"),
                    **_definition(function))
    for t in outputs:
        if t.st.on_chip:
            raise _located(recorder, t.st.id, f"the kernel returns {t!r}; a tensor in HBM is required "
                           "(nl.ndarray with buffer=nl.shared_hbm, to which the tile is stored)")
        recorder.set_role(t.st, ROLE_INPUT_OUTPUT if t.st.role in _GIVEN else ROLE_OUTPUT)
    for t in written:
        recorder.set_role(t.st, ROLE_INPUT_OUTPUT)


def _located(recorder, tensor_id, message):
    """An error at the line that allocated the tensor."""
    file, line = recorder.program.tensor_location(tensor_id)
    return Error(message,
                 rule="kernel_result", instruction="ndarray", kernel_file=file, kernel_line=line)


def check_written(function: Callable[..., Any], written: Iterable[tuple[Any, NkiTensor]],
                  outputs: Sequence[NkiTensor]) -> None:
    """An argument that cannot change must be returned, else what is written to it is lost."""
    for host, t in written:
        if isinstance(host, Shape):  # time alone is asked
            continue
        if not hostarrays.can_change(host) and all(t.st is not out.st for out in outputs):
            raise lost_write_error(function, t.st.name, type(host).__module__.split('.')[0])


def lost_write_error(function: Callable[..., Any], argument: str, kind: str) -> Error:
    """The error of a kernel that writes an argument of a `kind` of array that cannot change."""
    return Error(f"the kernel writes its argument {argument}, whose array ({kind}) cannot change; "
                 "its result would be lost unless it is returned as well", rule="kernel_result",
                 instruction=getattr(function, "__name__", "kernel"), **_definition(function))


def _check_overlaps(function, written, pairs):
    """Arguments are tensors of their own on the device: what the kernel writes to one is not seen
    through another that shares its memory here."""
    pairs = [(host, t) for host, t in pairs if t.st.array is not None]  # None: known by its shape alone
    for _, t in written:
        if t.st.array is None:
            continue
        for _, other in pairs:
            if other.st is t.st or not np.may_share_memory(t.st.array, other.st.array):
                continue
            try:
                shared = np.shares_memory(  # its stub has two of the numbers that it takes
                    t.st.array, other.st.array, max_work=10 ** 6)  # type: ignore[arg-type]
            except np.exceptions.TooHardError:
                continue
            if shared:
                where = _definition(function)
                warnings.warn(f"arguments {t.st.name} and {other.st.name} share memory and the "
                              f"kernel writes {t.st.name}: on the device they are two tensors, and "
                              "which of them the array holds afterwards is not defined "
                              f"({where.get('kernel_file', '')}:{where.get('kernel_line', 0)})",
                              stacklevel=4)


def _definition(function):
    code = getattr(inspect.unwrap(function), "__code__", None)
    return {"kernel_file": code.co_filename, "kernel_line": code.co_firstlineno} if code else {}


def tensors_in(value: Any) -> list[NkiTensor]:
    """The tensors in nested lists, tuples and dictionaries, in their order."""
    if isinstance(value, NkiTensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in tensors_in(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in tensors_in(v)]
    return []


def _plain_values(value: Any) -> list[Any]:
    """Lists what a kernel returns and is neither a tensor nor None."""
    if value is None or isinstance(value, NkiTensor):
        return []
    if isinstance(value, (list, tuple)):
        return [v for each in value for v in _plain_values(each)]
    return [v for each in value.values() for v in _plain_values(each)] if isinstance(value, dict) else [value]


def to_host(value: Any, recorder: Recorder, arguments: Any) -> Any:
    """The value that a kernel returned, with host arrays in its tensors' places; `arguments` as Arguments has them."""
    if isinstance(value, NkiTensor):
        for host, t in arguments.pairs:
            if value is t or (t.st is value.st and value.is_identity() and t.shape == value.shape):
                if t.st.id not in arguments.outdated:
                    return host
        return hostarrays.from_numpy(recorder.read_view(value), arguments.kind, value.dtype,
                                     arguments.device)
    if isinstance(value, (list, tuple)):
        items = [to_host(v, recorder, arguments) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: to_host(v, recorder, arguments) for k, v in value.items()}
    return value
