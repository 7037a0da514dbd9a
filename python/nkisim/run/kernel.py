"""Defines the kernel objects that @nki.jit makes of functions, and nkisim.run, which simulates one."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np

from ..record.dialect import NEURONXCC, NKI, Dialect, dialect_of
from ..record.launch import chosen_grid, instances_of
from ..record.ordering import pairs_of, schedule
from ..record.recorder import current, recording
from ..record.refusals import report_refused
from ..values.errors import Error, hint, kernel_frame
from .compiling import Choices
from .layers import LayersResult, wants_layers, run_layers
from .memory_bound import MemoryBound
from .options import Options
from .recording import kernel_frames
from .result import Result
from .session import run_function
from .world import run_world
from .worldresult import WorldResult


#: Asked one after another to make a call whose arguments have no values yet (a framework traces): each is
#: called with the kernel, args and kwargs and gives the result or NotImplemented.
CALLS: list[Callable[[Kernel, tuple, dict], Any]] = []


#: Every kernel, at its `number`, by which torch's graphs know it.
KERNELS: list[Kernel] = []


@overload
def run(function: Callable[..., Any], *args: Any, layers: int, timing: Literal["only"],
        **kwargs: Any) -> LayersResult: ...


@overload
def run(function: Callable[..., Any], *args: Any, ranks: int, **kwargs: Any) -> WorldResult: ...


@overload
def run(function: Callable[..., Any], *args: Any, target: str | None = None, grid: Any = None,
        options: Options | None = None, legacy: bool | None = None,
        timing: bool | Literal["only"] | None = None, config: str | os.PathLike | None = None,
        overrides: Mapping[str, Any] | None = None, over_capacity: bool | None = None,
        allow_unwritten: bool | None = None, allow_races: bool | None = None,
        compiler: Mapping[str, Any] | None = None, ranks: None = None, lnc: int | None = None,
        confidence: Literal["quick", "full"] | None = None, rules: Mapping[str, Any] | None = None,
        stop_at: str | None = None, dump: Sequence[str] | None = None, **kwargs: Any) -> Result: ...


def run(function: Callable[..., Any], *args: Any, target: str | None = None, grid: Any = None,
        options: Options | None = None, legacy: bool | None = None,
        timing: bool | Literal["only"] | None = None, config: str | os.PathLike | None = None,
        overrides: Mapping[str, Any] | None = None, over_capacity: bool | None = None,
        allow_unwritten: bool | None = None, allow_races: bool | None = None,
        compiler: Mapping[str, Any] | None = None, ranks: int | None = None, lnc: int | None = None,
        rank_inputs: Any = None, ring_order: str = "group", fold: bool = True,
        any_world: bool = False, processes: int | None = None, client: Any = None,
        confidence: Literal["quick", "full"] | None = None, rules: Mapping[str, Any] | None = None,
        stop_at: str | None = None, dump: Sequence[str] | None = None,
        **kwargs: Any) -> Result | WorldResult | LayersResult:
    """Runs a kernel and returns a Result: r = nkisim.run(kernel, x, y, target="trn2").
    legacy: whether the function is one of neuronxcc.nki; None: if it names modules of that alone.
    allow_races: accesses of two cores that nothing orders are a warning instead of an error.
    timing: False gives values only, "only" the latency without values (outputs is None); arguments may be
    an nkisim.Shape then, which takes no memory.
    compiler: a dict of compiling.Choices' switches, such as {"schedule": "program"}.
    confidence: "full" also tries which of the compiler's switches would change the latency by more than
    5 % (about 20 timed runs; one core or LNC2).
    rules: what is done about rules that are warnings, {"suppress": ids, "error": ids, "unread": bool}; with
    "unread" also results and parts of inputs that nothing reads are named (docs/hazards.md).
    ranks: that many ranks run the kernel and give a WorldResult (docs/collectives.md), each of `lnc`
    cores (the launch grid). Arguments that differ by rank are nkisim.per_rank(list or function) or
    come by name from rank_inputs, a list of mappings or a function from the rank to one.
    ring_order of implicit permutes: "group", "reverse" or "shuffle:SEED". fold=False simulates every
    rank, also those that cannot differ. any_world: takes what the device refuses (groups of one, any
    number of ranks, arguments as operands of collectives).
    processes: spreads the ranks over so many processes of this machine, or with client=, a dask.distributed.Client,
    over so many of its workers (all, without processes). Values, times and errors are those of one process.
    stop_at: "12.3us", or "FILE.py:LINE#N", the end of the N-th execution of an instruction of that line:
    result.stop (nkisim.Stop) shows the run there, with values of the tensors in `dump` (None: all in HBM).
    layers: with timing="only", how many the kernel's loop has; few are run for a LayersResult (docs/python.md).
    """
    if options is None:
        options = Options(target, over_capacity, allow_unwritten, timing, config, overrides,
                          compiler=Choices(_flags(function), **(compiler or {})), allow_races=allow_races,
                          ranks=1 if ranks is None else ranks, ring_order=ring_order, fold=fold,
                          any_world=any_world, confidence=confidence, processes=processes,
                          client=client, rules=rules, stop_at=stop_at, dump=dump)
    else:
        _change(options, ranks=ranks, processes=processes, client=client, confidence=confidence,
                stop_at=stop_at, dump=dump)
    dialect = _dialect(function, legacy)
    if isinstance(function, Kernel):
        grid = function.grid if grid is None else grid
        function = function.func
    grid = chosen_grid(grid, lnc, options.target)
    world = ranks is not None or rank_inputs is not None
    _check_world(world, dialect, processes, client)

    def one(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Result | WorldResult:
        if world:
            with MemoryBound():
                return run_world(function, args, kwargs, grid, options, rank_inputs)
        return run_function(function, args, kwargs, grid, options, dialect)

    few = wants_layers(function, kwargs, options.timing == "only")
    return run_layers(one, function, args, kwargs) if few else one(args, kwargs)


def _dialect(function, legacy):
    """A kernel's own, else as the caller says, else as the function's modules do."""
    if isinstance(function, Kernel):
        return function.dialect
    if legacy is None:
        return dialect_of(function)
    return NEURONXCC if legacy else NKI


def _change(options, **given):
    """Sets the options that a call names."""
    for name, value in given.items():
        if value is not None:
            setattr(options, name, value)


def _check_world(world, dialect, processes, client):
    """True if a world was asked for as it can be."""
    if world and not dialect.collectives:
        raise Error(f"{dialect.package} has no collectives; several ranks run kernels of nki",
                    rule="legacy_ranks", code="usage")
    if not world and (processes is not None or client is not None):
        raise Error("processes= and client= spread the ranks of a world; ranks= is required",
                    rule="options_exclude", code="usage")


class Kernel:
    """A function under @nki.jit: call it with arrays, index it with a launch grid."""

    __test__ = False  # a kernel called test_... is no test

    def __init__(self, function: Callable[..., Any], grid: Any = None, target: str | None = None,
                 dialect: Dialect | None = None, **settings: Any) -> None:
        functools.update_wrapper(self, function)
        self.func = function
        self.grid = grid
        self.target = target
        self.dialect = dialect_of(function) if dialect is None else dialect
        self.settings = settings
        self.result: Result | None = None
        self.number = len(KERNELS)
        KERNELS.append(self)

    def __getitem__(self, grid: Any) -> Kernel:
        return LaunchedKernel(self, grid)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if recording.get():  # a kernel called inside a kernel is a plain function
            if self.grid is not None:
                self._note_nested_grid()
            return self.func(*args, **kwargs)
        for call in CALLS:
            value = call(self, args, kwargs)
            if value is not NotImplemented:
                return value
        try:
            self.result = run_function(self.func, args, kwargs, self.grid, self.options(),
                                       self.dialect)
        except Error as problem:
            if self.dialect.flat_index_errors:
                _raise_flat_index_error(problem)
            raise problem.with_traceback(kernel_frames(problem.__traceback__)) from None
        return self.result.outputs

    def _note_nested_grid(self) -> None:
        """Says that a kernel within a kernel runs in the instances of the outer one, if these are not as many."""
        name, outer = getattr(self, "__name__", "kernel"), math.prod(current().grid)
        report_refused("nested_grid", name=name, grid=self.grid)
        if not current().dialect.neuronxcc and instances_of(self.grid) != outer:
            hint(f"{name}[{self.grid}] is called within a kernel, in whose {outer} program instances it runs: its grid "
                 "is ignored; the same grid for the outer kernel is required, or a call outside of kernels")

    def with_schedule(self, edges: Any) -> Kernel:
        """The kernel with an order of instructions by their names, as pairs (later, earlier) or (later,
        [earlier, ...]) (SDK 2.28's guide of scheduling): `later` starts when `earlier` has completed,
        on every core. Values do not change. Further calls add to it. A name that no instruction or
        more than one has, or an order that is a circle, is an error of the run."""
        frame = kernel_frame()
        place = (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)
        scheduled = _scheduled(self.func, pairs_of(edges, place), place)
        return Kernel(scheduled, self.grid, self.target, self.dialect, **self.settings)

    def options(self) -> Options:
        """The options of a call: from the environment and, in some dialects, the decorator. What is undefined in an
        output is an error, but where nothing wrote a part of it; a warning with mode="simulation": AWS's simulator does
        not look for it, and two of its own one-instruction tests leave a part of an output unwritten and compare the
        rest (nc_match_replace8, load_store_indirect)."""
        decides = self.dialect.decorator_decides
        simulated = decides and self.settings.get("mode") == "simulation"
        options = Options(self.target if decides and self.target else None,
                          undefined=self.settings.get("undefined", "warn" if simulated else "partly"),
                          compiler=Choices(_flags(self)))
        options.fixed_arguments = "mode" in self.settings  # of nki.jit, not of nki.trace
        return options

    def run(self, *args: Any, **kwargs: Any) -> Result | WorldResult | LayersResult:
        """Like a call, but returns the Result."""
        return run(self, *args, **kwargs)


def _scheduled(function, pairs, place):
    """`function`, with what one call of it records ordered as `pairs` of names say."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        first = len(current().program)
        value = function(*args, **kwargs)
        schedule(pairs, first, place)
        return value

    return call


class LaunchedKernel(Kernel):
    """kernel[grid]: the kernel with a launch grid. Short, as torch.compile follows it."""

    def __init__(self, kernel: Kernel, grid: Any) -> None:
        for name in ("func", "target", "dialect", "settings", "number", "__name__", "__doc__",
                     "__wrapped__"):
            if hasattr(kernel, name):
                setattr(self, name, getattr(kernel, name))
        self.grid = grid
        self.result = None


def _flags(function):
    """The compiler flags of a decorator (nki.jit(additional_compile_opt="--disable-dge"))."""
    return str(getattr(function, "settings", {}).get("additional_compile_opt") or "")


def _raise_flat_index_error(problem):
    """NumPy's IndexError, in flat elements, for an indirect address out of bounds."""
    recorder = problem.__dict__.get("recorder")
    if problem.rule != "index_out_of_bounds" or not problem.limit or recorder is None:
        return
    index, rows = int(problem.found), problem.limit
    for st in recorder.storages:
        if not st.on_chip and st.shape[0] == rows:
            row = int(np.prod(st.shape[1:]))
            raise IndexError(f"index {index * row} is out of bounds for axis 0 with size "
                             f"{rows * row}") from problem
