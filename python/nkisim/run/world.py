"""Runs a kernel on several ranks. Its instructions are collected once if possible, and run with
every rank's data.
"""

from __future__ import annotations

import functools
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..record.reading import as_bytes
from ..record.recorder import ROLE_INPUT_OUTPUT, ROLE_OUTPUT
from ..values.errors import Error
from ..values.hostcast import cast_checked
from ..values.storage import Storage
from . import hostarrays, inspecting
from .execution import choices, races, restart
from .options import Options
from .recording import Arguments, add_note
from .session import PreparedKernel, prepare, to_host
from .stop import stops_of
from .undefined import Found, warn_of, warning_collector
from .worldresult import RankResult, WorldResult


#: isa::World::kMostRanks
MOST_RANKS = 4096


class PerRank:
    """An argument that differs by rank: a list with one value for each, or a function of the rank."""

    def __init__(self, values: Sequence[Any] | Callable[[int], Any]) -> None:
        self.values = values

    def of(self, rank: int, ranks: int) -> Any:
        if callable(self.values):
            return self.values(rank)
        if len(self.values) != ranks:
            raise Error(f"per_rank has {len(self.values)} values; one for each of the {ranks} ranks is "
                        "required", rule="rank_arguments", code="usage")
        return self.values[rank]


def per_rank(values: Sequence[Any] | Callable[[int], Any]) -> PerRank:
    """Marks an argument of nkisim.run as a list of one value for each rank, or a function that gives
    a rank its value: nkisim.run(kernel, x, nkisim.per_rank(weights), ranks=4)."""
    return PerRank(values)


def run_world(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any,
              options: Options, rank_inputs: Any = None) -> WorldResult:
    """A WorldResult of options.ranks ranks. `rank_inputs`: a list of mappings, one for each rank, or
    a function from the rank to one: arguments by name, apart from args and kwargs."""
    begin = time.perf_counter()
    if not isinstance(options.ranks, int) or not 1 <= options.ranks <= MOST_RANKS:
        raise Error(rule="rank_arguments", operand="ranks", found=repr(options.ranks),
                    required=f"1 to {MOST_RANKS}", code="usage")
    world = _World(options, _processes(options))
    for rank in range(options.ranks):
        own_args, own_kwargs = _arguments_of(rank, options.ranks, args, kwargs, rank_inputs)
        try:
            world.add(function, own_args, own_kwargs, grid)
        except Error as problem:
            problem.of_rank(rank)
            raise
        except Exception as problem:
            add_note(problem, f"on rank {rank}")
            raise
    result = WorldResult(options, getattr(function, "__name__", "kernel"), world)
    result.record_seconds = time.perf_counter() - begin
    world.execute(result)
    result.run_seconds = time.perf_counter() - begin - result.record_seconds
    if not result.partial and options.timing != "only":
        world.give_back(result)
    inspecting.keep_world(result)
    return result


def _processes(options: Options) -> int:
    """Over how many processes the ranks are spread: all of a client's workers where nothing else is said."""
    if options.client is not None and not hasattr(options.client, "nthreads"):
        raise Error(rule="rank_arguments", operand="client", found=repr(options.client),
                    required="a dask.distributed.Client", code="usage")
    processes = options.processes
    if processes is None:
        processes = 1 if options.client is None else max(1, len(options.client.nthreads()))
    if not isinstance(processes, int) or processes < 1:
        raise Error(rule="rank_arguments", operand="processes", found=repr(processes),
                    required="at least 1", code="usage")
    if options.stop_at and (processes > 1 or options.client is not None):
        raise Error("stop_at looks at the events of all ranks, which one process has; processes is "
                    f"{processes}, and 1 is required", rule="options_exclude", code="usage")
    if options.keep_partial and (processes > 1 or options.client is not None):
        raise Error("keep_partial keeps what one process has; processes is "
                    f"{processes}, and 1 is required", rule="options_exclude", code="usage")
    return processes


def _arguments_of(rank, ranks, args, kwargs, rank_inputs):
    """(args, kwargs) of one rank."""
    def own(value):
        if isinstance(value, PerRank):
            return value.of(rank, ranks)
        if isinstance(value, (list, tuple)) and any(isinstance(v, PerRank) for v in value):
            return type(value)(own(v) for v in value)
        return value

    kwargs = {key: own(value) for key, value in kwargs.items()}
    if rank_inputs is not None:
        kwargs.update(PerRank(rank_inputs).of(rank, ranks))
    return tuple(own(value) for value in args), kwargs


class _Array:
    """An array as a recording sees it: not its values."""

    def __init__(self, number: int, array: Any) -> None:
        self.what = number, tuple(array.shape), str(array.dtype), type(array)


class _Arrays(Arguments):
    """The arrays in arguments, in the order in which recording meets them."""

    def __init__(self) -> None:
        super().__init__(None)

    def _tensor(self, value, name):
        return _Array(len(self.pairs), value)


def _same(a, b):
    """True if two ranks' converted arguments record the same; what cannot be compared does not."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _Array):
        return a.what == b.what
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(_same(a[key], b[key]) for key in a)
    try:
        if a == b:
            return True
    except (TypeError, ValueError):
        return False
    return hasattr(a, "__dict__") and not callable(a) and _same(vars(a), vars(b))


class _Memory:
    """One rank's values, as a recorder reads them."""

    def __init__(self, world: Any, rank: int) -> None:
        self.world, self.rank = world, rank

    def read(self, tensor: int, raw: np.ndarray) -> None:
        self.world.read(self.rank, tensor, raw)


class _Rank:
    """One rank: its kernel, as another rank may have recorded it, and its own arrays."""

    def __init__(self, kernel: PreparedKernel, arrays: list[Any]) -> None:
        self.kernel, self.arrays = kernel, arrays


class _World:
    """The ranks of a run."""

    core: Any  # the extension module's World, of the programs that add() recorded

    def __init__(self, options: Options, processes: int) -> None:
        self.options, self.processes = options, processes
        self.ranks: list[_Rank] = []
        self.recordings: list[tuple[Any, PreparedKernel]] = []  # (arguments to compare, kernel)
        #: (rank, tensor): an argument that the kernel writes, as it was before.
        self.before: dict[tuple[int, int], np.ndarray] = {}
        #: (rank, tensor): checksum of what another process began with.
        self.sent: dict[tuple[int, int], int] = {}

    # ---- recording ---------------------------------------------------------------------------
    def add(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
            grid: Any) -> None:
        """The next rank. It shares the recording of a rank with the same arguments but for the
        values of arrays, unless that one looked at values."""
        hostarrays.settle((args, kwargs))
        found = _Arrays()
        key = [[found.convert(a, "") for a in args],
               {k: found.convert(v, k) for k, v in kwargs.items()}]
        arrays = [host for host, _ in found.pairs]
        for known, kernel in self.recordings:
            if not kernel.recorder.looked and _same(known, key):
                self.ranks.append(_Rank(kernel, arrays))
                return
        options = self.options
        options.rank = len(self.ranks)
        kernel = prepare(function, args, kwargs, grid, options)
        self.recordings.append((key, kernel))
        self.ranks.append(_Rank(kernel, arrays))

    # ---- execution ---------------------------------------------------------------------------
    def execute(self, result: WorldResult) -> None:
        """Runs all ranks."""
        for kernel in self.kernels():
            self._check_races(kernel)
        self.core = self._new_core()
        self._attempt(result)

    def _new_core(self):
        return _core.World([r.kernel.recorder.program for r in self.ranks], self.options.ring_order,
                           self.options.any_world)

    def kernels(self) -> list[PreparedKernel]:
        """Recordings, each once."""
        return [kernel for _, kernel in self.recordings]

    def _check_races(self, kernel):
        # Other ranks decide no order within one; their values are taken to be its own.
        recorder, options = kernel.recorder, self.options
        values = options.timing != "only" and recorder.program.may_race()
        if values:
            restart(recorder)
        rank = next(r for r, one in enumerate(self.ranks) if one.kernel is kernel)
        try:
            warn_of(races(recorder, options, values), f"rank {rank}: ")
        except Error as problem:
            problem.of_rank(rank)
            raise
        recorder.program.restart()

    def _data(self) -> Iterator[tuple[list[int], int, Any]]:
        """(ranks, tensor, bytes) of the inputs: what several ranks have in common comes once."""
        if self.options.timing == "only":
            return
        for kernel in self.kernels():
            ranks = [r for r, rank in enumerate(self.ranks) if rank.kernel is kernel]
            tensors = [t for _, t in kernel.arguments.pairs]
            for i, t in enumerate(tensors):
                by_array: dict[int, list[int]] = {}
                for r in ranks:
                    by_array.setdefault(id(self.ranks[r].arrays[i]), []).append(r)
                for own in by_array.values():
                    array = hostarrays.to_numpy(self.ranks[own[0]].arrays[i])[1]
                    yield own, t.st.id, as_bytes(cast_checked(array, t.st.dtype, f"{t.st.name} of rank {own[0]}"))
            given = {t.st.id for t in tensors}
            for st in kernel.recorder.storages:
                if st.array is not None and st.id not in given:  # the program's constants
                    yield ranks, st.id, as_bytes(st.array)

    def _same_inputs(self):
        """A number for each rank: the same for the same inputs."""
        classes: dict[tuple[int, ...], int] = {}
        return [classes.setdefault((id(r.kernel), *map(id, r.arrays)), 1 + len(classes))
                for r in self.ranks]

    def _load(self, ranks, tensor, data):
        if len(ranks) == 1:
            self.core.load(ranks[0], tensor, data)
        else:
            self.core.load_all(ranks, tensor, data)

    def write(self, result: WorldResult) -> None:
        """Runs all ranks once more, from what they began with, for the reports of result.files."""
        copies: dict[int, np.ndarray] = {}  # what several ranks have in common stays one array
        for number, rank in enumerate(self.ranks if self.options.timing != "only" else ()):
            for i, array in enumerate(rank.arrays):
                if id(array) not in copies:
                    copies[id(array)] = self.given(number, i)
            rank.arrays = [copies[id(array)] for array in rank.arrays]
        for kernel in self.kernels():
            kernel.recorder.program.restart()
        self.core = self._new_core()
        self._run(result)

    def _run(self, result):
        options = self.options
        how = options.config or options.target, options.set
        run = self._run_shards if self._several else self._run_here
        return run(result, *how, choices(options, [kernel.recorder for kernel in self.kernels()]))

    def _attempt(self, result):
        chosen = choices(self.options, [kernel.recorder for kernel in self.kernels()])
        try:
            out, found = self._run(result)
        except Error as problem:
            problem.stops = stops_of(chosen.get("stop"), len(self.ranks))
            problem.recorder = self.ranks[0].kernel.recorder
            raise problem.with_traceback(None) from None
        warn_of(found)
        result.timed_as, result.values_of = out["timed_as"], out["values_of"]
        result.ranks = [RankResult(r, self.ranks[r].kernel.recorder, each)
                        for r, each in enumerate(out["ranks"])]
        for rank, here in zip(result.ranks, stops_of(out.get("stop"), len(result.ranks))):
            rank.stop = here

    @property
    def _several(self):
        return self.processes > 1 or self.options.client is not None

    def _print(self, rank, line):
        self.ranks[rank].kernel.recorder.print(f"rank {rank}: {line}")

    def _run_here(self, result, config, overrides, chosen):
        found: list[Found] = []
        numbers = range(len(self.ranks))
        for data in self._data():
            self._load(*data)
        self.core.same_inputs(self._same_inputs())
        out = self.core.run(config, overrides, result.rank_files(),
                            [warning_collector(self.options.undefined, f"rank {r}: ", found) for r in numbers],
                            [functools.partial(self._print, r) for r in numbers], chosen, None)
        return out, found

    def _run_shards(self, result, config, overrides, chosen):
        """The same in several processes. Outputs come back into the ranks' memories here."""
        from . import shards  # needs what talks to processes

        options, kernels = self.options, self.kernels()
        config = os.fspath(config)
        programs = [kernel.recorder.program for kernel in kernels]
        outputs = [[(st.id, st.pitch_bytes)
                    for st in kernel.recorder.storages if st.role in (ROLE_OUTPUT, ROLE_INPUT_OUTPUT)]
                   for kernel in kernels]
        if options.timing == "only":
            outputs = [[] for _ in kernels]
        files = [{key: path if isinstance(path, bool) else os.path.abspath(path)
                  for key, path in own.items()} for own in result.rank_files()]
        share = programs[0].ranks_per_stack(config, overrides)
        job = {"programs": [program.to_bytes() for program in programs],
               "ring": options.ring_order, "any_world": options.any_world, "config": config,
               "config_text": shards.config_text(config), "overrides": overrides,
               "undefined": options.undefined, "rules": options.policy(), "choices": chosen,
               "outputs": outputs,
               "files": files or [{} for _ in self.ranks], "same_inputs": self._same_inputs()}
        run = shards.Run(self.processes, options.client, share)
        owner, results = run.results(job, [kernels.index(r.kernel) for r in self.ranks],
                                       self._noted(self._data()), self._print)
        values_of = results[0]["values_of"]
        for (rank, tensor), data in (item for own in results for item in own["outputs"].items()):
            self._load([r for r, of in enumerate(values_of) if of == rank], tensor, data)
        for own in results:
            for name, content in own["contents"].items():
                shards.write(name, content)
        found = [each for own in results for each in own["found"]]
        ranks = [results[shard]["ranks"][rank] for rank, shard in enumerate(owner)]
        return {"ranks": ranks, "timed_as": results[0]["timed_as"], "values_of": values_of}, found

    def _noted(self, data):
        """`data`, of which checksums are kept: only the processes that it goes to have it all."""
        for ranks, tensor, values in data:
            self.sent.update(dict.fromkeys([(rank, tensor) for rank in ranks], zlib.crc32(values)))
            yield ranks, tensor, values

    # ---- results -----------------------------------------------------------------------------
    def give_back(self, result: WorldResult) -> None:
        """Outputs of every rank. An argument that a kernel writes is updated if it is this rank's
        alone; one that ranks share stays as it was."""
        count: dict[int, int] = {}
        for rank in self.ranks:
            for array in rank.arrays:
                count[id(array)] = count.get(id(array), 0) + 1
        self._keep_before()
        for number, rank in enumerate(self.ranks):
            kernel = rank.kernel
            recorder = kernel.recorder
            recorder.memory = _Memory(self.core, number)
            try:
                written = {t.st.id for _, t in kernel.written}
                pairs: list[tuple[Any, Any]] = []
                outdated: set[int] = set()
                for array, (_, t) in zip(rank.arrays, kernel.arguments.pairs):
                    pairs.append((array, t))
                    if t.st.id not in written:
                        continue
                    if count[id(array)] == 1 and hostarrays.can_change(array):
                        hostarrays.write_back(array, recorder.read_storage(t.st))
                    else:
                        outdated.add(t.st.id)
                arguments = _Pairs(pairs, outdated, kernel.arguments)
                result.ranks[number].outputs = to_host(kernel.returned, recorder, arguments)
            finally:
                recorder.memory = None

    def _keep_before(self):
        """Copies the arguments that kernels write: the callers' arrays are about to change."""
        copies: dict[tuple[int, int], np.ndarray] = {}
        for number, rank in enumerate(self.ranks):
            written = {t.st.id for _, t in rank.kernel.written}
            for array, (_, t) in zip(rank.arrays, rank.kernel.arguments.pairs):
                if t.st.id not in written:
                    continue
                key = id(array), t.st.id
                if key not in copies:
                    copies[key] = _stored(array, t.st).copy()
                self.before[number, t.st.id] = copies[key]

    def given(self, number: int, argument: int) -> np.ndarray:
        """The values of an argument on one rank as they were before the run, whatever became of the
        caller's array."""
        rank = self.ranks[number]
        st = rank.kernel.arguments.pairs[argument][1].st
        before = self.before.get((number, st.id))
        if before is not None:
            return before
        here = self.options.timing != "only" and not self._several
        if here and all(t.st is not st for _, t in rank.kernel.written):
            return self.values(number, st)
        array = _stored(rank.arrays[argument], st)
        if self.sent.get((number, st.id), zlib.crc32(as_bytes(array))) != zlib.crc32(as_bytes(array)):
            raise Error(f"argument {st.name} of rank {number} is another than the run in several processes "
                        "began with; the same values are required", rule="rank_arguments", code="usage",
                        instruction="save")
        return array

    def values(self, number: int, st: Storage) -> np.ndarray:
        """All of a tensor of one rank."""
        recorder = self.ranks[number].kernel.recorder
        recorder.memory = _Memory(self.core, number)
        try:
            return recorder.read_storage(st)
        finally:
            recorder.memory = None

    def outputs(self, number: int) -> list[tuple[Storage, np.ndarray]]:
        """(storage, array) of the program's outputs on one rank."""
        storages = self.ranks[number].kernel.recorder.storages
        return [(st, self.values(number, st)) for st in storages
                if st.role in (ROLE_OUTPUT, ROLE_INPUT_OUTPUT)]


def _stored(host, st):
    """An argument's values as its tensor has them."""
    return np.ascontiguousarray(hostarrays.to_numpy(host)[1], st.dtype.dtype).reshape(st.shape)


class _Pairs:
    """One rank's arguments, as to_host wants them."""

    def __init__(self, pairs: list[tuple[Any, Any]], outdated: set[int], first: Arguments) -> None:
        self.pairs, self.outdated = pairs, outdated
        self.kind, self.device = first.kind, first.device
