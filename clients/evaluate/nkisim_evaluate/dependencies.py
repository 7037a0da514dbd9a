"""Finds the files that a reference file opens and the modules that it imports, for the key of the
result cache.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import pathlib
import sys
import sysconfig
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from nkisim_work.program import homes

_SYSTEM = ("/proc/", "/dev/", "/sys/")


def _libraries() -> tuple[str, ...]:
    """Folders whose files belong to an installed package, which is known by its version, or to nkisim."""
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {p for p in sys.path if p.endswith(("site-packages", "dist-packages"))}
    return tuple(os.path.realpath(p) + os.sep for p in found) + tuple(str(home) + os.sep for home in homes())


class _Watch(threading.local):
    """The files that this thread opens while somebody looks."""

    opened: set[str] | None = None


_watch = _Watch()
_hooked: list[bool] = []


def _on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _watch.opened is not None and isinstance(arguments[0], (str, bytes)):
        _watch.opened.add(os.path.abspath(os.fsdecode(arguments[0])))


@contextlib.contextmanager
def watched(opened: set[str]) -> Iterator[None]:
    """Adds the files that are opened in this thread to a set."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_on_audit)
    before, _watch.opened = _watch.opened, opened
    try:
        yield
    finally:
        _watch.opened = before


def _imported(path: str) -> list[str]:
    """Names of the modules that a file's text imports anywhere."""
    try:
        tree = ast.parse(pathlib.Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _modules(path: str, libraries: tuple[str, ...]) -> tuple[set[str], dict[str, str]]:
    """Files of the user's own modules that a file imports, and those that they import; versions of others."""
    files, versions, left = set(), {}, [path]
    while left:
        for name in _imported(left.pop()):
            module = sys.modules.get(name)
            file = getattr(module, "__file__", None)
            if not isinstance(module, ModuleType) or not isinstance(file, str):
                continue
            file = os.path.realpath(file)
            if file.startswith(libraries):
                top = name.split(".")[0]
                versions[top] = str(getattr(sys.modules.get(top), "__version__", ""))
            elif file not in files:
                files.add(file)
                left.append(file)
    return files, versions


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            digest = hashlib.sha256()
            while data := file.read(1 << 20):
                digest.update(data)
            return digest.hexdigest()
    except OSError:
        return "none"


def digest_of(path: str, opened: set[str]) -> str:
    """Hash of a reference's file, of the modules that it imports and of the files that it opened."""
    libraries = _libraries()
    files, versions = _modules(path, libraries)
    data = {os.path.realpath(p) for p in opened if not p.startswith(_SYSTEM)}
    data = {p for p in data if not p.startswith(libraries) and not p.endswith(".pyc") and os.path.isfile(p)}
    parts = [(p, _content(p)) for p in sorted(files | data | {os.path.realpath(path)})]
    parts = [(os.path.basename(p), content) for p, content in parts]
    return hashlib.sha256(repr((sys.version, sorted(versions.items()), parts)).encode()).hexdigest()
