"""Shows on one line of the terminal what a command is doing."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

FIRST_SECONDS, STEP_SECONDS = 1.0, 0.25


class _Stream:
    """A stream before which the line of a ProgressLine is taken away."""

    def __init__(self, stream: Any, progress: ProgressLine) -> None:
        self._stream, self._progress = stream, progress

    def write(self, text: str) -> int:
        with self._progress.lock:
            self._progress.clear()
            written = self._stream.write(text)
            if text:
                self._progress.at_margin = text.endswith(("\n", "\r"))
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class ProgressLine:
    """After a second one line on the terminal says what is being done and for how long; it is gone before anything
    else is printed, and at the end. Elsewhere, and in what is quicker, nothing is said.

        with ProgressLine("reading k.py") as progress:
            ...
            progress.say("simulating matmul on trn2")
    """

    def __init__(self, what: str) -> None:
        self._what, self._began = what, time.monotonic()
        self.lock, self.at_margin = threading.RLock(), True
        self._width, self._ended = 0, threading.Event()
        self._out: Any = None       # the terminal's stream, while there is one
        self._before: tuple = ()

    def say(self, what: str) -> None:
        """Something else is being done from here on."""
        self._what = what

    def clear(self) -> None:
        """Takes the line away."""
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0

    def _draw(self) -> None:
        what = "".join(c if c.isprintable() else "?" for c in self._what)[:70]
        text = f"{what} ({time.monotonic() - self._began:.0f} s)"
        self._out.write("\r" + text.ljust(self._width))
        self._out.flush()
        self._width = max(len(text), self._width)

    def _run(self) -> None:
        wait = FIRST_SECONDS
        while not self._ended.wait(wait):
            wait = STEP_SECONDS
            with self.lock:
                if self.at_margin and not self._ended.is_set():
                    self._draw()

    def __enter__(self) -> ProgressLine:
        stream = sys.__stderr__  # not what escapes control characters: the line has its own
        if not isinstance(sys.stderr, _Stream) and stream is not None and stream.isatty():  # the outermost says it
            self._out, self._before = stream, (sys.stdout, sys.stderr)
            sys.stdout, sys.stderr = _Stream(sys.stdout, self), _Stream(sys.stderr, self)
            threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._out is not None:
            with self.lock:
                self.clear()
            sys.stdout, sys.stderr = self._before
