"""Reads and validates the columns of a profile file (.npz) that a simulated run saved.

Anybody may have written the file: no array is larger than its file says, no index
leaves its table, and a text is no number. Raises BadSession.
"""

import contextlib
import json
import lzma
import os
import struct
import zipfile
import zlib

import numpy as np
from numpy.lib import format as npy

MAX_BYTES = 8 << 30       # of all members, unpacked
MAX_FACTS = 1 << 30       # of the JSON
MAX_NESTING = 64
TEXT, ANY = "text", None  # kinds of columns; a table's name is an index into it


class BadSession(Exception):
    """The file is not a session, or of another version, or damaged."""


@contextlib.contextmanager
def reading(*paths):
    """Blames the sessions if their contents are wrong: BadSession."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
            ValueError) as error:
        if os.environ.get("NKISIM_DEBUG"):
            raise
        raise BadSession(f"{', '.join(map(str, paths))}: damaged, or of another version "
                         f"({type(error).__name__}: {error}; NKISIM_DEBUG=1 shows where)") from None


def _numbers(names, **kinds):
    return {**dict.fromkeys(names.split(), ANY), **kinds}


CAUSES = ("busy", "throttle", "fixed_latency", "wait_engine", "wait_dma", "hbm", "dma_latency",
          "dma_engines", "port", "semaphore", "own_path", "issue", "end", "wait_rank", "collective")
#: Column -> what it holds: any number, a text's number, an index into a table (-1: none where the
#: kind begins with "?"), or the number that it stays below.
TABLES = {
    "insts": _numbers("trace_line line", op=TEXT, engine=5, core="core", file=TEXT, label=TEXT, region="?text"),
    "parts": _numbers("sequence part start end busy_from busy_to throttled elements flops features "
                      "sbuf_read sbuf_write psum_read psum_write producer producer_sequence "
                      "producer_end visible semaphore", inst="insts", core="core", unit=6,
                      opcode=TEXT, mode=TEXT, operands=TEXT, engine=5),
    "transfers": _numbers("sequence queue mode bytes descriptors descriptor_bytes packets "
                          "trigger_start trigger_end first_packet last_packet visible transpose",
                          inst="insts", core="core", src=3, dst=3),
    "lanes": _numbers("engine queue sequence start end bytes packets packet_bytes", core="core"),
    "semaphores": _numbers("semaphore value time", core="core"),
    "queues": _numbers("index", core="core", name=TEXT),
    "tensors": _numbers("bytes address partition partitions", name=TEXT, space=TEXT, role=TEXT,
                        core="core", dtype=TEXT, shape=TEXT),
    "uses": {"inst": "insts", "tensor": "tensors", "write": 2},
    "charged": _numbers(" ".join(CAUSES)),
    "collectives": _numbers("sequence queue id stream elements trigger_start trigger_end start ready "
                            "end waited_for input output ranks", inst="insts", core="core",
                            engine=5, operation=TEXT, algorithm=TEXT, dtype=TEXT, group=TEXT),
    "cc_instructions": _numbers("cc_core start end", collective="collectives", description=TEXT),
    "path": _numbers("from to where sequence", core="core", cause=len(CAUSES), inst="?insts"),
}


#: Columns that earlier sessions did not have: without them, there were none.
LATER = ("insts.region", "collectives.", "cc_instructions.", "charged.wait_rank", "charged.collective")


class Table:
    """Columns as attributes."""

    def __init__(self, columns):
        self.columns = columns
        self.__dict__.update(columns)

    def __len__(self):
        return len(next(iter(self.columns.values()), ()))


class Columns:
    """The members of a session file."""

    def __init__(self, path):
        self._path = path
        self._bytes = 0  # of the numbers that were read
        try:
            self._zip = zipfile.ZipFile(path)
            members = self._zip.infolist()
        except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
            raise BadSession(f"{path}: not a session of `nkisim run --session` ({error})") from None
        if sum(m.file_size for m in members) > MAX_BYTES:
            self.fail(f"of more than {MAX_BYTES >> 30} GiB unpacked")
        self._members = {m.filename.removesuffix(".npy"): m for m in members}

    def fail(self, why):
        raise BadSession(f"{self._path}: not a session of `nkisim run --session`, or damaged: {why}")

    def read(self, key, dtypes):
        """A column as a one-dimensional array, of one of `dtypes`."""
        member = self._members.get(key)
        if member is None:
            self.fail(f"it has no {key}")
        try:
            with self._zip.open(member) as file:
                version = npy.read_magic(file)
                reader = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
                shape, _, found = reader[version](file)
                count = int(np.prod(shape, dtype=object)) if len(shape) == 1 else -1
                if found.str[1:] not in dtypes.split() or not 0 <= count * found.itemsize <= member.file_size:
                    self.fail(f"{key} is {found} of shape {shape}")
                data = file.read()
        except BadSession:
            raise
        except (OSError, ValueError, KeyError, EOFError, SyntaxError, TypeError, RuntimeError,
                NotImplementedError, RecursionError, MemoryError, OverflowError, zlib.error,
                struct.error, lzma.LZMAError, zipfile.BadZipFile) as error:
            self.fail(f"{key}: {type(error).__name__}: {error}")
        if len(data) != count * found.itemsize:
            self.fail(f"{key} is cut short")
        return np.frombuffer(data, found)

    def numbers(self, key):
        """A column of integers; they may be stored in fewer bytes."""
        stored = self.read(key, "i1 i2 i4 i8")
        self._bytes += stored.size * 8
        if self._bytes > MAX_BYTES:
            self.fail(f"of more than {MAX_BYTES >> 30} GiB unpacked")
        return stored.astype(np.int64)

    def facts(self):
        raw = self.read("facts", "u1")
        if len(raw) > MAX_FACTS:
            self.fail("its facts are too large")
        try:
            facts = json.loads(raw.tobytes())
        except (ValueError, RecursionError) as error:
            self.fail(f"its facts are no JSON ({error})")
        if not isinstance(facts, dict):
            self.fail("its facts are no object")
        return facts

    def texts(self):
        """Every text, by its number."""
        blob, ends = self.read("texts.bytes", "u1").tobytes(), self.numbers("texts.ends")
        if len(ends) and (ends[0] < 0 or ends[-1] > len(blob) or (np.diff(ends) < 0).any()):
            self.fail("texts.ends do not fit texts.bytes")
        starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        return [blob[a:b].decode(errors="replace") for a, b in zip(starts.tolist(), ends.tolist())]

    def _column(self, table, name, within=()):
        """A column, also one that is stored as differences, from the row before or from another column
        (whose own is wanted by `within`)."""
        key = f"{table}.{name}"
        if f"{key}.steps" in self._members:
            return np.cumsum(self.numbers(f"{key}.steps"))
        base = next((c for c in TABLES[table] if f"{key}.minus.{c}" in self._members and c not in within), None)
        if base is not None:
            differences, base_column = self.numbers(f"{key}.minus.{base}"), self._column(table, base, (*within, name))
            if len(differences) != len(base_column):
                self.fail(f"{key} has {len(differences)} rows; {table}.{base} has {len(base_column)}")
            return differences + base_column
        if key in self._members or not key.startswith(LATER):
            return self.numbers(key)
        if key == "insts.region":
            return np.full(len(self.numbers("insts.op")), -1)
        return np.zeros(len(self.numbers("charged.busy")) if key.startswith("charged") else 0,
                        np.int64)

    def tables(self, texts, cores):
        """Every table by its name, checked against each other."""
        found = {name: Table({c: self._column(name, c) for c in columns}) for name, columns in TABLES.items()}
        limits = {"text": texts, "core": cores,
                  **{name: len(table) for name, table in found.items()}}
        for name, columns in TABLES.items():
            table = found[name]
            rows = len(found["parts"]) if name == "charged" else len(table)
            for column, kind in columns.items():
                values = table.columns[column]
                if len(values) != rows:
                    self.fail(f"{name}.{column} has {len(values)} rows; {rows} are required")
                if kind is ANY or not rows:
                    continue
                low = -1 if str(kind).startswith("?") else 0
                limit = kind if isinstance(kind, int) else limits[kind.lstrip("?")]
                if values.min() < low or values.max() >= limit:
                    self.fail(f"{name}.{column} has {values.min()}..{values.max()}; "
                              f"{low}..{limit - 1} is required")
        return found
