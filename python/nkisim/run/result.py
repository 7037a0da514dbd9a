"""Defines Result, which a run of a kernel returns: outputs, latency, reports."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..record.recorder import ROLE_INPUT_OUTPUT, ROLE_OUTPUT
from ..values.errors import Error
from . import display, hostarrays, neff
from .execution import execute, keep_inputs, restart
from .memory_bound import MemoryBound
from .options import report_files

if TYPE_CHECKING:
    from .. import _core
    from ..record.recorder import Recorder
    from .compiling import Outcome
    from .options import Options
    from .stop import Stop


#: The forms of a trace, whose data are in the .npz of its name.
_TRACES = (".nisa", ".jsonl", ".nisa.gz", ".jsonl.gz")


def _mapped(storage):
    """The file in memory that an input is, or a part of; None if it is none."""
    array = storage.array
    while array is not None and not (isinstance(array, np.memmap) and array.filename):
        array = getattr(array, "base", None)
    return array


def mapped_files(recorder: Recorder) -> list[str]:
    """The files that a program's inputs are mapped from."""
    return [array.filename for array in map(_mapped, recorder.storages) if array is not None]


def require_apart(written: Sequence[tuple[str, str]], mapped: Sequence[str], options: Options) -> None:
    """Throws an Error if one of the files [(word, path), ...] is an input, a config or the data of a trace."""
    from nkisim_work.file_roles import clash  # whose package starts pools

    read = [("the kernel", name) for name in mapped]
    if options.config and os.path.exists(options.config):
        read.append(("config=", options.config))
    for _, path in written:
        if path.endswith(".npz"):
            stem = path.removesuffix(".npz")
            read += [(stem + end, path) for end in _TRACES if os.path.exists(stem + end)]
    lost = clash(written, read)
    if lost:
        raise Error(lost, rule="file_lost", code="usage")


def write_page(sessions: Sequence[str], page: str, title: str) -> None:
    """The report of a session, or of those of all ranks, as a page for browsers."""
    from nkisim_profile.report import main as report  # for pages alone

    if report([*sessions, "-o", page, "--title", title]) != 0:
        raise Error(f"cannot write {page}", rule="file_unwritable")


class Result:
    """The result of a run: outputs, latency and everything that can be written to files."""

    def __init__(self, recorder: Recorder, options: Options, name: str) -> None:
        self.recorder = recorder
        self.outputs: Any = None   # the kernel's arrays: NumPy, torch or JAX as its arguments
        #: From the first start to the last end of anything on any core.
        self.latency_ns: float | None = None
        self._figures: _core.Figures | None = None  # of a run in time
        self.executed = 0          # dynamic instructions
        self.files = options.files  # reports that the run writes (see _core's simulate)
        self.explanation = ""      # where the time went, if files has "explain"
        self.stop: Stop | None = None  # the run as it was at stop_at
        self.partial = False       # interrupted: everything is about what ran until then
        self.options = options
        self.allowed_unwritten = False  # never-written bytes were read as zeros
        self.record_seconds = 0.0
        self.run_seconds = 0.0
        self.peak: dict[tuple[int, str], int] = {}
        self.compiled: Outcome | None = None  # what the compiler did
        self.printed = recorder.printed
        self.written: set[int] = set()        # ids of the inputs that the kernel writes: copied before the run
        self._inputs_kept = False   # else their arrays may still be the caller's
        self.name = name

    def take(self, figures: _core.Figures) -> None:
        """Takes the figures of a run that has ended, which are read only when asked for."""
        self._figures = figures
        for name in ("summary", "totals", "bottleneck", "summary_text", "confidence"):
            vars(self).pop(name, None)

    @functools.cached_property
    def summary(self) -> dict[str, dict[str, Any]]:
        """The profiler's metrics, one entry per core."""
        return {} if self._figures is None else json.loads(self._figures.summary())

    @functools.cached_property
    def totals(self) -> dict[str, Any]:
        """The metrics of all cores together."""
        return {} if self._figures is None else json.loads(self._figures.totals())

    @functools.cached_property
    def bottleneck(self) -> str:
        """The bottleneck in words, as `nkisim run` and `nkisim advise` say it; "" without time."""
        return "" if self._figures is None else self._figures.bottleneck()

    @functools.cached_property
    def summary_text(self) -> str:
        """The metrics for people."""
        return "" if self._figures is None else self._figures.text()

    @functools.cached_property
    def confidence(self) -> dict[str, Any] | None:
        """The trust in the latency: the interval that measurements of such kernels leave, and why (docs/evidence.md);
        its "text" is all that in a line. None of a run that was stopped."""
        return None if self._figures is None else json.loads(self._figures.confidence())

    @property
    def latency_us(self) -> float | None:
        """Simulated latency in microseconds; None for a run without time."""
        return None if self.latency_ns is None else self.latency_ns / 1e3

    @property
    def output(self) -> Any:
        """The only output, or all of them."""
        return self.outputs

    @property
    def instructions(self) -> int:
        """Static instructions of the program."""
        return len(self.recorder.program)

    def save(self, path: str | os.PathLike, compiled: bool = True) -> str:
        """Writes the program as a trace (.nisa binary, else JSON Lines): as it ran, or with
        compiled=False as it was recorded, for `nkisim compile` and `nkisim run`, which compiles it.

        A path that ends in .neff gets both in one file for `neuron-profile capture`. Otherwise,
        next to STEM.nisa go the inputs as they were before the run, STEM.npz, and what this run gave,
        STEM.expected.npz, with which `nkisim run STEM.nisa --expect STEM.expected.npz` compares.
        """
        path = os.fspath(path)
        if path.endswith(".neff"):
            return neff.save(self, path)
        archive = f"{_stem(path)}.npz"
        arrays, expected, keys = {}, {}, {}
        self._keep_inputs()
        for st in self.recorder.storages:
            if st.array is not None:
                keys[st.id] = st.name
                arrays[st.name] = hostarrays.bits(st.array)
            if st.role in (ROLE_OUTPUT, ROLE_INPUT_OUTPUT):
                expected[st.name] = hostarrays.bits(self.recorder.read_storage(st))
        folder = os.path.dirname(path) or "."
        for name, content in ((archive, arrays), (f"{_stem(path)}.expected.npz", expected)):
            hostarrays.save_archive(os.path.join(folder, name), content)
        self.recorder.program.save(path, self.name, archive, keys, compiled)
        return path

    @functools.cached_property
    def _mapped_files(self):
        """The files that inputs are mapped from."""
        return mapped_files(self.recorder)

    def _keep_inputs(self):
        """Once: what is saved, or run again, begins with what this run began with."""
        _ = self._mapped_files  # before copies take the places of arrays
        if not self._inputs_kept and self.options.timing != "only":
            keep_inputs(self.recorder, self.written)
        self._inputs_kept = True

    def perfetto(self, path: str | os.PathLike) -> str | os.PathLike:
        """Writes the run's timeline for ui.perfetto.dev (runs the program again)."""
        self.write(perfetto=path)
        return path

    def write(self, **files: str | os.PathLike) -> None:
        """Runs the program again and writes reports: html= (the page of `nkisim report`), perfetto=, chrome=, vcd=
        (waveforms), accounting_json=, or session= for `nkisim view`, `nkisim report` and `nkisim compare`. Error for
        any other kind."""
        paths = report_files(files, ("html",))
        require_apart([(f"{key}=", path) for key, path in paths.items()], self._mapped_files, self.options)
        page = paths.pop("html", None)
        import tempfile  # for reports alone

        with contextlib.ExitStack() as stack:
            if page is not None and "session" not in paths:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nkisim-"))
                paths["session"] = os.path.join(folder, "session.npz")
            self._keep_inputs()
            restart(self.recorder)
            self.files = paths
            with MemoryBound():
                execute(self.recorder, self.options, self)
            if page is not None:
                write_page([paths["session"]], page, self.name)

    def report(self) -> str:
        """A few lines for people."""
        from nkisim_work.times import time_text  # whose package starts pools

        lines = [f"kernel        {self.name} on {self.recorder.target}"]
        if self.partial:
            lines.append("PARTIAL       interrupted: all figures are of what ran until then")
        if self.latency_ns is not None:
            lines.append(f"latency       {time_text(self.latency_ns / 1e3)}")
        if self.bottleneck:
            lines.append(f"bottleneck    {self.bottleneck}")
        if self.confidence:
            lines.append(f"trust         {self.confidence['text']}")
        lines.append(f"instructions  {self.instructions}")
        if self.compiled is not None and self.compiled.delay:
            packing = ", narrow tensors side by side" if self.compiled.packed else ""
            lines.append(f"memory        the kernel's order does not fit; delay={self.compiled.delay}"
                         f"{packing} does")
        if self.compiled is not None and self.compiled.moved:
            lines.append(f"schedule      list: {self.compiled.moved} instructions moved before "
                         "earlier ones (--schedule program keeps the kernel's order)")
        for core, m in sorted(self.summary.items()):
            lines += _core_lines("" if len(self.summary) == 1 else f" {core}", m)
        for (number, space), peak in sorted(self.peak.items()):
            capacity = self.recorder.machine[f"{space.lower()}_partition_bytes"]
            lines.append(f"{space} core {number}   {peak} of {capacity} bytes per partition")
        return "\n".join(lines)

    def _repr_html_(self) -> str | None:
        """The view of a notebook: summary, verdict and timeline, without scripts or a network."""
        return display.html(self)

    def __repr__(self) -> str:
        latency = "" if self.latency_ns is None else f", {self.latency_ns / 1e3:.3f} us"
        return f"<nkisim result: {self.instructions} instructions{latency}>"


def _core_lines(core, m):
    """The time of one core, in three lines."""
    busy = "  ".join(f"{e} {100 * m[e + '_engine_active_time_percent']:.1f} %"
                     for e in ("tensor", "vector", "scalar", "gpsimd", "sync"))
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
