"""Caches the results of `nkisim evaluate`: simulation is deterministic, so equal kernel texts have
equal results.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import uuid
from typing import Any

from .reference import BadReference

#: Statuses that the same candidate has every time.
_CERTAIN = ("ok", "wrong", "illegal", "error")


def is_record(value: Any) -> bool:
    """True if what was read from a file is a result as the evaluator writes them: what is shown,
    sorted and divided by has its type."""
    if not isinstance(value, dict) or not isinstance(value.get("status"), str):
        return False
    error = value.get("error", {})
    sizes = [value.get(f"{space}_partition_bytes", 0) for space in ("sbuf", "psum")]
    if not isinstance(error, dict) or not isinstance(error.get("message", ""), str):
        return False
    if not all(type(size) is int and abs(size) < 1 << 53 for size in sizes):
        return False
    if not _is_positive(value.get("speedup", 1)) and value.get("speedup") is not None:
        return False
    latency = value.get("latency_us")
    return _is_positive(latency) or latency is None and value["status"] != "ok"


def _is_positive(number):
    return type(number) in (int, float) and 0 < number < 1 << 53


class Cache:
    """Records by key in a folder, one file each, which any number of processes on any number of machines may
    use at once, also on a network file system: a file appears whole, under its name, once it is written, and is
    never changed. No lock; of several that come with one key the first counts. Raises BadReference if the folder
    cannot be used, or a file in it is damaged.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self._path = os.fspath(path)
        if os.path.exists(path) and not os.path.isdir(path):
            raise BadReference(f"--cache {path} is a file; a folder is required")
        with self._using():
            os.makedirs(path, exist_ok=True)

    @contextlib.contextmanager
    def _using(self):
        try:
            yield
        except OSError as problem:
            raise BadReference(f"--cache {self._path}: {problem}") from None

    def _file(self, key):
        """Where the record of a key is."""
        return os.path.join(self._path, key[:2], f"{key}.json")

    @staticmethod
    def _read(path: str) -> bytes | None:
        """The bytes of a file, or None. A server may say of a file that was replaced just now that it
        is stale: the new one is read then."""
        for attempt in range(5):
            try:
                with open(path, "rb") as file:
                    return file.read()
            except FileNotFoundError:
                return None
            except OSError as problem:
                if problem.errno != errno.ESTALE or attempt == 4:
                    raise
        return None

    def get(self, key: str) -> dict[str, Any] | None:
        """The record of a key, or None."""
        path = self._file(key)
        with self._using():
            found = self._read(path)
        if found is None:
            return None
        try:
            record = json.loads(found)
        except (ValueError, RecursionError):
            record = None
        if not is_record(record):
            raise BadReference(f"--cache {self._path}: {path} is damaged")
        return record

    def put(self, key: str, record: dict[str, Any]) -> None:
        """Keeps a record, if the same candidate has it every time."""
        if record["status"] not in _CERTAIN:
            return
        path = self._file(key)
        partial = f"{path}.{uuid.uuid4().hex}.part"  # a name that no other process on no other machine has
        with self._using():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                with open(partial, "x", encoding="utf-8") as file:
                    json.dump(record, file)
                    file.flush()
                    os.fsync(file.fileno())
                _name(partial, path)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(partial)


def _name(partial, path):
    """Gives a finished file its name, if no other has it: both are one step of any file system."""
    try:
        os.link(partial, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links: the last one counts, whole as well
        os.replace(partial, path)
