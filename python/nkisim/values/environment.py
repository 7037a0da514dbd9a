"""Reads environment variables fast: each launch asks for two dozen, most of which are not set."""

from __future__ import annotations

import os
from typing import overload

_environment = os.environ
#: CPython's, whose keys are bytes on POSIX; None: to be asked the long way.
_held = getattr(_environment, "_data", None) if os.name == "posix" else None


class _Keys(dict):
    """The keys in `_held` of names."""

    def __missing__(self, name: str) -> bytes:
        key = self[name] = os.fsencode(name)
        return key


_keys = _Keys()


@overload
def variable(name: str) -> str | None: ...


@overload
def variable(name: str, default: str) -> str: ...


def variable(name: str, default: str | None = None) -> str | None:
    """os.environ.get(name, default), in one call where it is not set."""
    if _held is not None and os.environ is _environment and _keys[name] not in _held:
        return default
    return os.environ.get(name, default)
