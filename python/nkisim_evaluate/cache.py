"""Results that are known already: a run is deterministic, so equal text gives an equal record."""

import ast
import contextlib
import hashlib
import json
import sqlite3
import threading

from .reference import BadReference

#: Statuses that the same candidate has every time.
_CERTAIN = ("ok", "wrong", "illegal", "error")


def normalised(source):
    """A text's identity: what Python makes of it, without layout, comments and docstrings."""
    try:
        return hashlib.sha256(_without_words(ast.parse(source)).encode()).hexdigest()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def _without_words(tree):
    """A syntax tree as text, without docstrings."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and body and (
                isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
                and isinstance(body[0].value.value, str)):
            body.pop(0)
    return ast.dump(tree)


def is_record(value):
    """Whether what was read from a file is a result as the evaluator writes them: what is shown,
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
    """Records by key in an SQLite file, which several processes may use at once.

    An error names lines, so a record with one counts only for the very same text. Raises
    BadReference if the file is no such cache, or damaged.
    """

    def __init__(self, path):
        self._lock, self._path = threading.Lock(), path
        with self._reading():
            self._db = sqlite3.connect(path, timeout=60, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS records "
                             "(key TEXT PRIMARY KEY, text TEXT, record TEXT)")
            self._db.commit()

    @contextlib.contextmanager
    def _reading(self):
        try:
            yield
        except sqlite3.Error as problem:
            raise BadReference(f"--cache {self._path}: {problem}") from None

    def get(self, key, text):
        with self._lock, self._reading():
            row = self._db.execute("SELECT text, record FROM records WHERE key = ?",
                                   (key,)).fetchone()
        if row is None:
            return None
        try:
            record = json.loads(row[1])
        except (ValueError, TypeError, RecursionError):
            record = None
        if not is_record(record):
            raise BadReference(f"--cache {self._path}: a damaged record")
        return None if "error" in record and row[0] != text else record

    def put(self, key, text, record):
        if record["status"] not in _CERTAIN:
            return
        with self._lock, self._reading():
            self._db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?)",
                             (key, text, json.dumps(record)))
            self._db.commit()

    def close(self):
        self._db.close()
