"""Wraps standard output for a pipe whose reader may end early, as in `nkisim view k.session.npz |
head`.
"""

import io
import os
import signal
from collections.abc import Callable
from typing import Any, TextIO


class Piped(io.TextIOBase):
    """A stream whose program ends as one that SIGPIPE ends, and says nothing, when its reader has gone."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return int(self._unless_closed(self._stream.write, text))

    def flush(self) -> None:
        self._unless_closed(self._stream.flush)

    def _unless_closed(self, what: Callable[..., Any], *args: Any) -> Any:
        try:
            return what(*args)
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())  # for the interpreter's own flush
            raise SystemExit(128 + signal.SIGPIPE) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()
