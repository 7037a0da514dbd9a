"""Runs kernels: records them, places memory, executes, and hands results back."""

import functools
import gc
import inspect
import itertools
import json
import os
import re
import time
import warnings

import numpy as np

from . import _core, allocator, hostarrays, lowering, strict
from .errors import Error, PACKAGE_DIRS
from .language import nc, spmd_dim
from .recorder import (ROLE_INPUT_OUTPUT, ROLE_OUTPUT, Recorder, state)
from .storage import PSUM, SBUF
from .tensor import NkiTensor

_TARGETS = {
    "trn1": "trn1", "trn1n": "trn1", "inf2": "inf2", "trn2": "trn2", "trn2n": "trn2",
    "trn2u": "trn2", "trn3": "trn3", "trn3pre": "trn3", "trn3u": "trn3", "gen2": "trn1",
    "gen3": "trn2", "gen4": "trn3", "core_v2": "trn1", "core_v3": "trn2", "core_v4": "trn3",
    "v2": "trn1", "v3": "trn2", "v4": "trn3", "2": "trn1", "3": "trn2", "4": "trn3",
}


def resolve_target(name):
    """The target's canonical name, from any spelling of an instance type or generation."""
    key = str(getattr(name, "name", name)).lower()
    if key not in _TARGETS:
        raise Error(f"target is {name!r}; one of {', '.join(_TARGETS)} is required", code="usage")
    return _TARGETS[key]


def default_target():
    for variable in ("NEURON_PLATFORM_TARGET_OVERRIDE", "NKISIM_TARGET", "NKI_NC_VERSION"):
        value = os.environ.get(variable)
        if value:
            return resolve_target(value)
    return "trn2"


def generation_of(target):
    return _core.machine(target)["generation"]


class Options:
    """How to run. Environment variables give the defaults."""

    def __init__(self, target=None, over_capacity=None, allow_unwritten=None, timing=None,
                 config=None, overrides=None):
        env = os.environ.get
        self.target = default_target() if target is None else resolve_target(target)
        if over_capacity is None:  # without rounding tensors take more room than on the device
            over_capacity = bool(env("NKISIM_OVER_CAPACITY")) or env("NKI_PRECISE_FP") == "0"
        self.over_capacity = over_capacity
        self.allow_unwritten = bool(env("NKISIM_ALLOW_UNWRITTEN")) if allow_unwritten is None else (
            allow_unwritten)
        self.timing = env("NKISIM_TIMING", "1") != "0" if timing is None else timing
        self.config = config or env("NKISIM_CONFIG")
        self.overrides = dict(overrides or {})


class Result:
    """What a run gives: outputs, latency and everything that can be written to files."""

    def __init__(self, recorder, outputs):
        self.recorder = recorder
        self.outputs = outputs
        self.latency_ns = None
        self.summary = {}          # the profiler's metrics, one entry per core
        self.summary_text = ""
        self.executed = 0          # dynamic instructions
        self.timeline = ""
        self.options = None
        self.record_seconds = 0.0
        self.run_seconds = 0.0
        self.peak = {}
        self.printed = recorder.printed
        self.name = "kernel"

    @property
    def latency_us(self):
        return None if self.latency_ns is None else self.latency_ns / 1e3

    @property
    def output(self):
        """The only output, or all of them."""
        return self.outputs

    @property
    def instructions(self):
        return len(self.recorder.program)

    def save(self, path, expected=True):
        """Writes the program as a trace (.nisa binary, else JSON Lines), its inputs beside it."""
        path = os.fspath(path)
        archive = f"{_stem(path)}.npz"
        arrays, keys = {}, {}
        for st in self.recorder.storages:
            if st.array is not None:
                keys[st.id] = st.name
                arrays[st.name] = st.array
        np.savez(os.path.join(os.path.dirname(path) or ".", archive), **arrays)
        self.recorder.program.save(path, self.name, archive, keys)
        return path

    def perfetto(self, path):
        """Writes the run's timeline for ui.perfetto.dev (runs the program again)."""
        _restart(self.recorder, self.options)
        self.timeline = os.fspath(path)
        try:
            _execute(self.recorder, self.options, self)
        finally:
            self.timeline = ""
        return path

    def report(self):
        """A few lines for people."""
        lines = [f"kernel        {self.name} on {self.recorder.target}"]
        if self.latency_ns is not None:
            lines.append(f"latency       {self.latency_ns / 1e3:.3f} us")
        lines.append(f"instructions  {self.instructions}")
        for core, m in sorted(self.summary.items()):
            lines += _core_lines("" if len(self.summary) == 1 else f" {core}", m)
        for (core, space), peak in sorted(self.peak.items()):
            capacity = self.recorder.machine[f"{space.lower()}_partition_bytes"]
            lines.append(f"{space} core {core}   {peak} of {capacity} bytes per partition")
        return "\n".join(lines)

    def __repr__(self):
        latency = "" if self.latency_ns is None else f", {self.latency_ns / 1e3:.3f} us"
        return f"<nkisim result: {self.instructions} instructions{latency}>"


def _core_lines(core, m):
    """Where one core's time went, in three lines."""
    busy = "  ".join(f"{e} {100 * m[e + '_engine_active_time_percent']:.1f} %"
                     for e in ("tensor", "vector", "scalar", "gpsimd"))
    return [f"busy{core:9} {busy}",
            f"DMA{core:10} active {100 * m['dma_active_time_percent']:.1f} %, read "
            f"{m['hbm_read_bytes'] / 1024:.1f} KiB, written {m['hbm_write_bytes'] / 1024:.1f} KiB",
            f"flops{core:8} {m['hardware_flops'] / 1e9:.3f} GFLOP, "
            f"MFU {100 * m['mfu_estimated_percent']:.1f} %"]


def _stem(path):
    name = os.path.basename(path)
    for end in (".gz", ".nisa", ".jsonl", ".json"):
        if name.endswith(end):
            name = name[:-len(end)]
    return name


last_result = None


# ---- grids -----------------------------------------------------------------------------------
def _grid_parts(grid):
    """Each dimension as (size, function index -> core or None)."""
    if grid is None:
        return []
    if not isinstance(grid, (tuple, list)):
        grid = (grid,)
    out = []
    for g in grid:
        if isinstance(g, nc):
            g = spmd_dim(g, 1)
        if isinstance(g, spmd_dim):
            out.append(_spmd(g))
        else:
            out.append((max(int(g), 1), None))
    return out


def _spmd(dim):
    sizes = [p.size if isinstance(p, nc) else int(p) for p in dim.parts]
    total = int(np.prod(sizes))

    def core_of(i):
        core = 0
        for p, n in zip(reversed(dim.parts), reversed(sizes)):
            if isinstance(p, nc):
                core = i % n
            i //= n
        return core

    return total, core_of


class Launch:
    """Which program instances run, and on which core."""

    def __init__(self, grid, legacy):
        parts = _grid_parts(grid)
        self.grid = tuple(n for n, _ in parts)
        self.instances = []
        for ids in itertools.product(*(range(n) for n in self.grid)):
            core = 0
            for i, (_, core_of) in zip(ids, parts):
                if core_of is not None:
                    core = core_of(i)
            if not legacy and len(self.grid) == 1 and self.grid[0] <= 2:
                core = ids[0]
            self.instances.append((ids, core))


# ---- recording -------------------------------------------------------------------------------
class _Arguments:
    """Converts host arrays in (nested) arguments to tensors and remembers the pairs."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.pairs = []
        self.kind = "numpy"
        self.seen = {}

    def convert(self, value, name):
        if hostarrays.is_array(value):
            twin = self.seen.get(id(value))
            if twin is not None:
                return twin
            kind, array = hostarrays.to_numpy(value)
            if kind != "numpy":
                self.kind = kind
            tensor = self.recorder.host_tensor(array, name)
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
                import copy

                value = copy.copy(value)
                for k, v in held.items():
                    object.__setattr__(value, k, self.convert(v, f"{name}_{k}"))
        return value

    def _holds(self, value):
        if hostarrays.is_array(value):
            return True
        if isinstance(value, (list, tuple)):
            return any(self._holds(v) for v in value)
        if isinstance(value, dict):
            return any(self._holds(v) for v in value.values())
        return False


def record(function, args, kwargs, grid=None, options=None, legacy=False):
    """Runs `function` once per program instance; (recorder, returned value, arguments)."""
    options = options or Options()
    recorder = Recorder(options.target, options)
    launch = Launch(grid, legacy)
    arguments = _Arguments(recorder)
    names = _parameter_names(function, args)
    previous = state.recorder, state.emit
    state.recorder, state.emit = recorder, recorder.emit
    returned = None
    collecting = gc.isenabled()
    gc.disable()  # everything recorded stays alive: collections only cost time
    try:
        args = [arguments.convert(a, n) for a, n in zip(args, names)]
        kwargs = {k: arguments.convert(v, k) for k, v in kwargs.items()}
        for number, (ids, core) in enumerate(launch.instances):
            recorder.instance, recorder.core = number, core
            recorder.grid, recorder.program_ids = launch.grid, ids
            recorder.shared_count = 0
            value = function(*args, **kwargs)
            recorder.flush()
            _check_loops(recorder)
            if number == 0:
                returned = _stored(recorder, value) if legacy else value
    except Exception as problem:
        _annotate(problem)
        raise
    finally:
        state.recorder, state.emit = previous
        if collecting:
            gc.enable()
    return recorder, returned, arguments


def _stored(recorder, value):
    """The legacy simulator also hands back tiles: they are stored to HBM first."""
    if isinstance(value, NkiTensor) and value.st.on_chip:
        out = recorder.ndarray(value.shape, value.dtype, "hbm", value.st.name)
        lowering.store(out, value)
        return out
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)([_stored(recorder, v) for v in value])
    return value


def _check_loops(recorder):
    if recorder.loops:
        file, line = recorder.left_loop or ("", 0)
        raise Error("break or return inside a dynamic loop; the device runs its body to the end",
                    instruction="dynamic_range", kernel_file=file, kernel_line=line)


def _parameter_names(function, args):
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return names[:len(args)] + [f"arg{i}" for i in range(len(names), len(args))]


def _annotate(problem):
    """Names the kernel's line in a Python exception and drops the front end's own frames."""
    if isinstance(problem, Error):
        problem.__traceback__ = _kernel_frames(problem.__traceback__)
        return
    tb, last = problem.__traceback__, None
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(PACKAGE_DIRS):
            last = tb
        tb = tb.tb_next
    if last is not None and hasattr(problem, "add_note"):
        problem.add_note(f"in the kernel at {last.tb_frame.f_code.co_filename}:{last.tb_lineno}")


def _kernel_frames(tb):
    frames = []
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith((*PACKAGE_DIRS, "<nkisim")):
            frames.append(tb)
        tb = tb.tb_next
    import types

    chain = None
    for f in reversed(frames):
        chain = types.TracebackType(chain, f.tb_frame, f.tb_lasti, f.tb_lineno)
    return chain


# ---- memory ----------------------------------------------------------------------------------
def place(recorder, options):
    """Gives every on-chip tensor its address; Error lists the largest live tensors."""
    spans = recorder.program.lifetimes()
    peaks = {}
    for core in sorted({st.core for st in recorder.storages}):
        for space, label in ((SBUF, "SBUF"), (PSUM, "PSUM")):
            items = [_item(recorder, st, spans[st.id]) for st in recorder.storages
                     if st.space == space and st.core == core and (
                         spans[st.id][0] >= 0 or st.address is not None)]
            if items:
                peaks[(core, label)] = _place_space(recorder, items, label, options)
    return peaks


def _place_or_warn(recorder, options, legacy):
    """Legacy kernels relied on the compiler to spill what does not fit: they run all the same."""
    try:
        return place(recorder, options)
    except Error as problem:
        if not legacy or options.over_capacity:
            raise
        warnings.warn(f"{problem}\nrunning over capacity (the legacy compiler would spill)",
                      stacklevel=4)
        options.over_capacity = True
        return place(recorder, options)


def _item(recorder, st, span):
    first, last = span[0], span[1]
    for core, begin, end in recorder.loop_spans:
        if core != st.core or first < 0:
            continue
        # What is allocated before a loop and used inside must live through all iterations.
        if st.born <= begin and first <= end and last >= begin:
            first, last = min(first, begin), max(last, end)
    return allocator.Item(st.id, st.pitch_bytes, max(first, 0), max(last, 0), st.name,
                          "", -1 if st.address is None else st.address)


def _place_space(recorder, items, label, options):
    machine = recorder.machine
    capacity = machine[f"{label.lower()}_partition_bytes"]
    bank = machine["psum_partition_bytes"] // machine["psum_banks"] if label == "PSUM" else 0
    try:
        placed = allocator.place(items, capacity, bank, strict=not options.over_capacity)
    except allocator.OutOfSpace as problem:
        raise _capacity_error(recorder, problem, label, capacity) from None
    if placed.peak > capacity and not options.over_capacity:
        worst = max(items, key=lambda i: placed.addresses[i.id] + i.bytes)
        raise _located(recorder, worst.id, f"{worst.name} ends at byte {placed.peak} of a "
                       f"partition; {label} has {capacity}")
    for item in items:
        recorder.program.set_address(item.id, placed.addresses[item.id])
    return placed.peak


def _located(recorder, tensor_id, message):
    file, line = recorder.program.tensor_location(tensor_id)
    return Error(message, instruction="ndarray", kernel_file=file, kernel_line=line)


def _capacity_error(recorder, problem, label, capacity):
    live = sorted([*problem.live, problem.item], key=lambda i: -i.bytes)
    total = sum(i.bytes for i in live)
    lines = [f"{label} is full: {problem.item.name} needs {problem.item.bytes} bytes per partition "
             f"while {len(live) - 1} other tensors are live ({total} bytes together, {capacity} "
             "exist). The largest live tensors:"]
    for i in live[:8]:
        file, line = recorder.program.tensor_location(i.id)
        lines.append(f"    {i.bytes:>8} bytes  {i.name:<20} {os.path.basename(file)}:{line}")
    lines.append("    (over_capacity=True or NKISIM_OVER_CAPACITY=1 runs it all the same)")
    return _located(recorder, problem.item.id, "\n".join(lines))


# ---- execution -------------------------------------------------------------------------------
def run(function, *args, target=None, grid=None, options=None, legacy=False, timing=None,
        config=None, overrides=None, over_capacity=None, allow_unwritten=None, **kwargs):
    """Runs a kernel and returns a Result: r = nkisim.run(kernel, x, y, target="trn2")."""
    global last_result
    if options is None:
        options = Options(target, over_capacity, allow_unwritten, timing, config, overrides)
    if isinstance(function, Kernel):
        grid = function.grid if grid is None else grid
        legacy = function.legacy
        function = function.func
    begin = time.perf_counter()
    checked = strict.enabled() and not legacy  # the legacy compiler traced plain Python
    if checked:
        strict.scan(function)
        strict.check_arguments(function, args, kwargs)
    recorder, returned, arguments = record(function, args, kwargs, grid, options, legacy)
    recorder.program.finish()
    spans = recorder.program.lifetimes()
    written = [(host, t) for host, t in arguments.pairs if spans[t.st.id][2]]
    outputs = _tensors_in(returned)
    if checked:
        strict.check_outputs(function, outputs)
    if not outputs and not written:
        raise Error("the kernel neither returns a tensor nor writes one of its arguments; its "
                    "result would be lost", instruction=getattr(function, "__name__", "kernel"),
                    **_definition(function))
    for t in outputs:
        if t.st.on_chip:
            raise _located(recorder, t.st.id, f"the kernel returns {t!r}; a tensor in HBM is "
                           "required")
        recorder.program.set_role(t.st.id, ROLE_INPUT_OUTPUT if t.st.array is not None
                                  else ROLE_OUTPUT)
    for _, t in written:
        recorder.program.set_role(t.st.id, ROLE_INPUT_OUTPUT)
    peaks = _place_or_warn(recorder, options, legacy)
    recorder.placed = True
    result = Result(recorder, None)
    result.options = options
    _restart(recorder, options)
    result.name = getattr(function, "__name__", "kernel")
    for _, t in written:  # the caller's array is about to change
        t.st.array = t.st.array.copy()
    result.record_seconds = time.perf_counter() - begin
    result.peak = peaks
    _execute(recorder, options, result)
    result.run_seconds = time.perf_counter() - begin - result.record_seconds
    for host, t in written:
        hostarrays.write_back(host, recorder.read_storage(t.st))
    result.outputs = _to_host(returned, recorder, arguments)
    last_result = result
    return result


#: Instructions that only move bytes: what they carry of never-written memory may never be used.
_MOVES = {"dma_copy", "tensor_copy", "nc_transpose", "dma_transpose", "nc_stream_shuffle",
          "tensor_copy_predicated", "sendrecv"}


def _definition(function):
    code = getattr(inspect.unwrap(function), "__code__", None)
    return {"kernel_file": code.co_filename, "kernel_line": code.co_firstlineno} if code else {}


def _execute(recorder, options, result):
    """Runs the program. Moving never-written bytes is a warning, computing with them an error."""
    allow = options.allow_unwritten or recorder.allow_unwritten
    try:
        _attempt(recorder, options, result, allow)
    except Error as problem:
        moved = problem.instruction in _MOVES or (
            (problem.kernel_file, problem.kernel_line) in recorder.transposes)
        if allow or not moved or "never written" not in problem.message:
            problem.recorder = recorder
            raise
        warnings.warn(f"{problem}\nthe bytes are moved as zeros; only such instructions may read "
                      "what nobody wrote", stacklevel=4)
        _restart(recorder, options)
        _attempt(recorder, options, result, True)


def _total_times(summary):
    nodes = [summary, *(v for v in summary.values() if isinstance(v, dict))]
    return [n["total_time"] for n in nodes if "total_time" in n]


def _restart(recorder, options):
    """Fresh memory with the inputs in it."""
    recorder.program.place(options.over_capacity)
    recorder.loaded.clear()
    recorder.load_inputs()


def _attempt(recorder, options, result, allow):
    try:
        if options.timing:
            overrides = [f"{k}={v}" for k, v in options.overrides.items()]
            found = recorder.program.simulate(options.config or options.target, overrides,
                                              result.timeline, allow, recorder.print)
            result.executed = found["instructions"]
            result.summary = json.loads(found["json"])
            # As `nkisim run` says it: from the first start to the last end, on the slowest core.
            result.latency_ns = 1e9 * max(_total_times(result.summary), default=0.0)
            result.summary_text = found["text"]
        else:
            recorder.program.interpret(allow, recorder.print)
    except Error as problem:
        raise problem.with_traceback(None) from None


def _tensors_in(value):
    if isinstance(value, NkiTensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors_in(v)]
    if isinstance(value, dict):
        return [t for v in value.values() for t in _tensors_in(v)]
    return []


def _to_host(value, recorder, arguments):
    if isinstance(value, NkiTensor):
        for host, t in arguments.pairs:
            if t.st is value.st and t.shape == value.shape:
                return host
        return hostarrays.from_numpy(recorder.read_view(value), arguments.kind)
    if isinstance(value, (list, tuple)):
        items = [_to_host(v, recorder, arguments) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {k: _to_host(v, recorder, arguments) for k, v in value.items()}
    return value


def _raise_legacy_index_error(problem):
    """The legacy simulator raised NumPy's IndexError, in flat elements, for indirect addresses."""
    found = re.search(r"index \d+ of tensor \S+ is (-?\d+); an index in 0\.\.(\d+)",
                      problem.message)
    recorder = problem.__dict__.get("recorder")
    if found is None or recorder is None:
        return
    index, rows = int(found[1]), int(found[2]) + 1
    for st in recorder.storages:
        if not st.on_chip and st.shape[0] == rows:
            row = int(np.prod(st.shape[1:]))
            raise IndexError(f"index {index * row} is out of bounds for axis 0 with size "
                             f"{rows * row}") from problem


class Kernel:
    """What @nki.jit makes of a function: call it with arrays, index it with a launch grid."""

    __test__ = False  # a kernel called test_... is no test

    def __init__(self, function, grid=None, target=None, legacy=False, **settings):
        functools.update_wrapper(self, function)
        self.func = function
        self.grid = grid
        self.target = target
        self.legacy = legacy
        self.settings = settings
        self.result = None

    def __getitem__(self, grid):
        return Kernel(self.func, grid, self.target, self.legacy, **self.settings)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if state.recorder is not None:  # a kernel called inside a kernel is a plain function
            return self.func(*args, **kwargs)
        target = self.target if self.legacy and self.target else None
        options = Options(target)
        try:
            return self._run(args, kwargs, options)
        except Error as problem:
            if self.legacy:
                _raise_legacy_index_error(problem)
            raise problem.with_traceback(_kernel_frames(problem.__traceback__)) from None

    def _run(self, args, kwargs, options):
        self.result = run(self.func, *args, grid=self.grid, options=options, legacy=self.legacy,
                          **kwargs) if not _clashes(kwargs) else _run_clashing(self, args, kwargs,
                                                                               options)
        return self.result.outputs

    def run(self, *args, **kwargs):
        """Like a call, but returns the Result."""
        return run(self, *args, **kwargs)


_OWN = {"target", "grid", "options", "legacy", "timing", "config", "overrides", "over_capacity",
        "allow_unwritten"}


def _clashes(kwargs):
    return bool(_OWN & kwargs.keys())


def _run_clashing(kernel, args, kwargs, options):
    function = functools.wraps(kernel.func)(functools.partial(kernel.func, **kwargs))
    return run(function, *args, grid=kernel.grid, options=options, legacy=kernel.legacy)



