"""Reads the source files that a saved run names, as src/report/sources does."""

import pathlib
import stat

SOURCES = {".py", ".pyi", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".rs"}
MAX_SOURCE = 4 << 20


def source_text(folder, name):
    """Text of the source file `name` below `folder`, or None: as src/report/sources decides.

    A session names files that somebody wrote into a trace: only a regular file with the ending of
    a source file, of at most 4 MiB, whose links stay below `folder`, and no hidden one.
    """
    name = pathlib.PurePath(name)
    if name.is_absolute() or ".." in name.parts:
        return None
    try:
        root = pathlib.Path(folder).resolve(strict=True)
        file = (root / name).resolve(strict=True)
        inside = file.relative_to(root).parts
        if file.suffix not in SOURCES or any(part.startswith(".") for part in inside):
            return None
        status = file.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_SOURCE:
            return None
        return file.read_text(errors="replace")
    except (OSError, ValueError, RuntimeError):
        return None
