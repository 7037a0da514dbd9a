"""Reads a session: the events of one simulated run, as NumPy columns."""

import functools
import json
import pathlib
import zipfile

import numpy as np

FS_PER_NS = 1_000_000
ENGINES = ("Tensor", "Vector", "Scalar", "GpSimd", "Sync")
UNITS = ("Tensor", "TensorMatrix", "Vector", "Scalar", "GpSimd", "Sync")
SPACES = ("HBM", "SB", "PSUM")
CAUSES = ("busy", "throttle", "fixed_latency", "wait_engine", "wait_dma", "hbm", "dma_latency",
          "dma_engines", "port", "semaphore", "own_path", "issue", "end")


class BadSession(Exception):
    """The file is not a session, or of another version."""


class Table:
    """Columns as attributes."""

    def __init__(self, columns):
        self.columns = columns
        self.__dict__.update(columns)

    def __len__(self):
        return len(next(iter(self.columns.values()), ()))


class Session:
    """A saved run. `source_root` is a folder in which the kernel's sources are looked for first.

    Raises BadSession if the file is none.
    """

    def __init__(self, path, source_root=None):
        self._source_root = source_root
        try:
            with np.load(path) as arrays:
                data = {key: arrays[key] for key in arrays.files}
            self.facts = json.loads(data["facts"].tobytes())
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise BadSession(f"{path}: not a session of `nkisim run --session` ({error})") from None
        if self.facts.get("session_version") != 1:
            raise BadSession(f"{path}: session version {self.facts.get('session_version')}; "
                             "this program reads version 1")
        ends = data["texts.ends"]
        blob = data["texts.bytes"].tobytes()
        starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        self.texts = [blob[a:b].decode(errors="replace") for a, b in zip(starts, ends)]
        for name in ("insts", "parts", "transfers", "lanes", "semaphores", "queues", "tensors",
                     "uses", "charged", "path"):
            prefix = name + "."
            setattr(self, name, Table({k[len(prefix):]: v for k, v in data.items()
                                       if k.startswith(prefix)}))
        self.queue_names = {(int(c), int(i)): self.texts[n] for c, i, n in
                            zip(self.queues.core, self.queues.index, self.queues.name)}
        self.machine = self.facts["machine"]
        self.cores = self.machine["cores"]
        self.end_fs = int(self.facts["accounting"]["end_fs"])

    def text(self, ids):
        return [self.texts[i] for i in ids]

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
        """Text of the kernel's source files, by the name that the trace gives them.

        A relative name counts from the folder of the run, from the trace's or from one above it.
        """
        texts = dict(self.facts.get("sources", {}))
        trace = pathlib.Path(self.facts.get("trace") or ".").absolute()
        chosen = [pathlib.Path(self._source_root)] if self._source_root else []
        for name in {self.texts[f] for f in np.unique(self.insts.file).tolist()} - {""}:
            places = [f / n for f in chosen for n in (name, pathlib.Path(name).name)]
            if name not in texts:
                places += [folder / name for folder in trace.parents[:3]]
            found = next((p for p in places if p.is_file()), None)
            if found:
                texts[name] = found.read_text(errors="replace")
        return texts

    def summary(self, core=0):
        """Every metric of a core."""
        return self.facts["summary"][f"nc_{core}"]

    def summaries(self):
        """The summary of each core by its name, as summary-json has it."""
        return {f"nc_{core}": self.summary(core) for core in range(self.cores)}
