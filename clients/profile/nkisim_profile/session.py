"""Reads the profile file (.npz) of one simulated run: its events, as NumPy columns."""

import functools
import pathlib

import numpy as np

from .columns import CAUSES, BadSession, Columns, reading
from .files import source_text

__all__ = ["CAUSES", "BadSession", "Session", "reading"]
MAX_CORES = 256

FS_PER_NS = 1_000_000
ENGINES = ("Tensor", "Vector", "Scalar", "GpSimd", "Sync")
UNITS = ("Tensor", "TensorMatrix", "Vector", "Scalar", "GpSimd", "Sync")
SPACES = ("HBM", "SB", "PSUM")


class Session:
    """A saved run. `source_root` is a folder in which the kernel's sources are looked for first.

    Raises BadSession if the file is none, or damaged.
    """

    def __init__(self, path, source_root=None):
        self._source_root = source_root
        self._folder = pathlib.Path(path).absolute().parent
        columns = Columns(path)
        self.facts = columns.facts()
        if self.facts.get("session_version") not in {1, 2}:
            raise BadSession(f"{path}: session version {self.facts.get('session_version')}; "
                             "this program reads versions 1 and 2")
        try:
            self._read(columns)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            columns.fail(f"{type(error).__name__}: {error}")

    def _read(self, columns):
        self.machine = self.facts["machine"]
        self.cores = int(self.machine["cores"])
        self.end_fs = int(self.facts["accounting"]["end_fs"])
        if not 1 <= self.cores <= MAX_CORES or not 0 <= self.end_fs < 1 << 62:
            columns.fail("impossible facts")
        self.texts = columns.texts()
        for name, table in columns.tables(len(self.texts), self.cores).items():
            setattr(self, name, table)
        self.queue_names = {(c, i): self.texts[n] for c, i, n in
                            zip(self.queues.core.tolist(), self.queues.index.tolist(),
                                self.queues.name.tolist())}
        used = {*zip(self.transfers.core.tolist(), self.transfers.queue.tolist()),
                *zip(self.lanes.core.tolist(), self.lanes.queue.tolist())}
        if not used <= set(self.queue_names):
            columns.fail("a transfer's queue has no name")

    def text(self, ids):
        return [self.texts[i] if i >= 0 else "" for i in ids]

    @functools.cached_property
    def has_regions(self):
        """True if the kernel names regions (nkisim.region)."""
        return any(self.text(np.unique(self.insts.region).tolist()))

    def source(self):
        """`file.py:LINE` of every static instruction; the trace's own line where there is none."""
        trace = self.facts.get("trace") or "trace"
        return [f"{self.texts[f]}:{line}" if self.texts[f] else f"{trace}:{t}" for f, line, t in
                zip(self.insts.file, self.insts.line, self.insts.trace_line)]

    @functools.cached_property
    def frames(self):
        """Functions of the kernel's source, by instruction."""
        from .tables.source import Frames  # it reads sessions: not at the top

        return Frames(self)

    @functools.cached_property
    def sources(self):
        """Text of the kernel's source files, by the name that the trace gives them: what the run
        saved, or what is below the source root or the session's folder."""
        texts = {str(k): v for k, v in dict(self.facts.get("sources", {})).items()
                 if isinstance(v, str)}
        for name in {self.texts[f] for f in np.unique(self.insts.file).tolist()} - {""}:
            found = self._from_root(name) or texts.get(name) or source_text(self._folder, name)
            if found:
                texts[name] = found
        return texts

    def _from_root(self, name):
        if not self._source_root:
            return None
        return source_text(self._source_root, name) or source_text(self._source_root,
                                                                   pathlib.PurePath(name).name)

    def summary(self, core=0):
        """Every metric of a core."""
        return self.facts["summary"][f"nc_{core}"]

    def totals(self):
        """The metrics of all cores together: total_time is the run's latency."""
        said = self.facts.get("totals")  # sessions of older versions have none
        return said or max(self.summaries().values(), key=lambda m: m["total_time"])

    def summaries(self):
        """The summary of each core by its name, as summary-json has it."""
        return {f"nc_{core}": self.summary(core) for core in range(self.cores)}
