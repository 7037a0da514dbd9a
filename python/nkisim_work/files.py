"""Writes files that appear complete or not at all, as the C++ program does (src/files/atomic_file)."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from typing import TypeVar

Path = TypeVar("Path", bound="str | os.PathLike[str]")


def _is_special(path: str) -> bool:
    """True if something other than a regular file is behind a name: it is written directly."""
    if os.path.normpath(path).startswith(("/dev/", "/proc/")):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[str]:
    """The name to write to in place of `path`, which takes its place if the block succeeds.

    A new file next to it, so that of two writers each leaves a whole file; a link to a file is
    replaced, not followed. A device or pipe is written to directly. OSError for a folder.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a directory; a file is required")
    if _is_special(path):
        yield path
        return
    folder, name = os.path.split(path)
    try:
        handle, partial = tempfile.mkstemp(prefix=f"{name}.part", dir=folder or ".")
    except OSError as problem:
        raise OSError(f"{path} cannot be written: {problem.strerror}") from None
    try:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        os.close(handle)
        yield partial
        os.replace(partial, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)


def replace(path: Path, content: bytes) -> Path:
    """Writes bytes to a file; its name."""
    with replacing(path) as partial, open(partial, "wb") as out:
        out.write(content)
    return path
