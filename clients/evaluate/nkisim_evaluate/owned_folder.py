"""Makes temporary folders that the next process removes if their own was killed."""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import tempfile
import time
import weakref

_LOCK = "owner"  # a file that the owner's process keeps locked
_YOUNG = 60  # seconds in which a folder may have no lock yet


class OwnedFolder(tempfile.TemporaryDirectory):
    """A temporary folder as tempfile's. Making one removes those of the same prefix whose processes are gone."""

    def __init__(self, prefix: str) -> None:
        _remove_abandoned(prefix)
        super().__init__(prefix=prefix)
        lock = _locked(os.path.join(self.name, _LOCK), os.O_CREAT)
        self._unlock = weakref.finalize(self, os.close, lock) if lock is not None else None

    def cleanup(self) -> None:
        super().cleanup()
        if self._unlock is not None:
            self._unlock()


def _locked(path: str, flags: int = 0) -> int | None:
    """The descriptor of a file that is locked by this process alone, or None."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_abandoned(prefix: str) -> None:
    for folder in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), f"{prefix}*")):
        try:
            found = os.lstat(folder)
        except OSError:
            continue
        if found.st_uid != os.getuid() or time.time() - found.st_mtime < _YOUNG:
            continue
        lock = _locked(os.path.join(folder, _LOCK))
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
