"""Checks that no file that a command writes is also read or written twice (as src/files/file_roles
does).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence

Files = Sequence[tuple[str, str]]  # the option or argument that names it, and the path

_TRACE = re.compile(r"^(.+)\.(nisa|jsonl)(\.gz)?$")


def _data_of(trace, ending):
    """The files written next to a trace under its name; "" for a file that is none."""
    found = _TRACE.match(trace)
    return found[1] + ending if found else ""


def written_next_to(command: str, option: str, path: str) -> list[str]:
    """The files that `nkisim kernel` writes next to a program that it saves: inputs and results."""
    if command != "kernel" or option not in ("output", "save-recorded"):
        return []
    stem = re.sub(r"(\.json|\.jsonl|\.nisa)?(\.gz)?$", "", path)
    return [] if path == "-" or path.endswith(".neff") else [f"{stem}.npz", f"{stem}.expected.npz"]


def files_in(word: str) -> list[str]:
    """The files that a word of a command line may stand for and that exist."""
    parts = dict.fromkeys([word, *re.split("[,=]", word)])
    names = [name for part in parts for name in (part, *part.rpartition(":")[::2], _data_of(part, ".npz"))]
    return [name for name in dict.fromkeys(names) if name and "\0" not in name and os.path.exists(name)]


def _is_stream(path):
    """True if writing to it replaces nothing: standard output, a device or a pipe."""
    if path in ("", "-") or path.startswith(("/dev/", "/proc/")):
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _identities(path):
    """The identity of a file: its path without links, and of one that exists what all its names share."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return [os.path.realpath(path)]
    return [os.path.realpath(path), f"{state.st_dev}:{state.st_ino}"]


def clash(written: Files, read: Files) -> str:
    """The reason why a command must not begin: a file of `written` is one of `read`, or is there twice. Else ""."""
    readers = {identity: option for option, path in reversed(read) for identity in _identities(path)}
    writers: dict[str, str] = {}
    for option, path in written:
        if _is_stream(path):
            continue
        for identity in _identities(path):
            lost = (f"what {readers[identity]} reads" if identity in readers else
                    f"what {writers[identity]} writes" if identity in writers else
                    "a Python source" if path.endswith(".py") and os.path.isfile(path) and not os.path.islink(path)
                    else "")
            if lost:
                return f"{option} {path} would replace {lost}; another name is required"
        writers.update(dict.fromkeys(_identities(path), option))
    return ""
