"""Holds a simulated run and the instant that the debugger shows; command, editor and notebook use
it.

An instant is a moment of simulated time, in femtoseconds. At it, the instructions and transfers that have ended are
complete. A step goes to the next instant at which one of them ends; values are those of exactly the complete ones.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nkisim import Error
from nkisim.values import dtypes

from .lines import html_of
from .opening import open_run
from .tile import Tile
from .watch import BadExpression, evaluate

FS = {"s": 10 ** 15, "ms": 10 ** 12, "us": 10 ** 9, "ns": 10 ** 6, "ps": 10 ** 3}
_TIME = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})\s*(s|ms|us|ns|ps)")


def time_of(text: str) -> int | None:
    """Femtoseconds of a text such as 12.3us; None if it is no time, or one of more than 64 bits."""
    found = _TIME.fullmatch(text.strip())
    fs = round(float(found[1]) * FS[found[2]]) if found else 1 << 63
    return fs if fs < 1 << 63 else None


@dataclasses.dataclass
class Breakpoint:
    """Stops where an instruction of a line is complete."""
    file: str
    line: int
    condition: str = ""   # an expression that must hold there
    skipped: int = 0      # so many executions are passed
    number: int = 0
    passed: int = 0


def _folders_of(program):
    """Where the sources of a program are looked for: next to its kernel's file, or to its trace."""
    if hasattr(program, "save"):
        return []
    return [os.path.dirname(os.path.abspath(os.fspath(program).rpartition(":")[0] or os.fspath(program)))]


class Debugger:
    def __init__(self, program: Any, words: Sequence[str] = (), **how: Any) -> None:
        """`program`, `words` and `how` as open_run takes them."""
        self.run = open_run(program, words, **how)
        times, places = self.run.moments()
        self._times = np.frombuffer(times, np.int64)
        _, self._files, self._lines, self._trace_lines = np.frombuffer(places, np.int64).reshape(-1, 4).T
        self._folders = _folders_of(program)
        self.files = [self._found(f) for f in self.run.files()]
        self.error: str = self.run.error           # that ended the run, or ""
        self.end: int = self.run.end
        self.time = 0
        self.breakpoints: list[Breakpoint] = []
        self.watches: list[str] = []
        self._numbers = 0
        self._state: dict[str, Any] | None = None
        self._tiles: dict[str, Tile] = {}
        #: name -> (space, dtype, shape, core, whether it is an input)
        self.tensors = {t[0]: t[1:] for t in self.run.tensors()}

    # ---- where

    @property
    def at_us(self) -> float:
        return self.time / 1e9

    @property
    def complete(self) -> int:
        """Instructions and transfers that have ended."""
        return int(np.searchsorted(self._times, self.time, "right"))

    @property
    def instructions(self) -> int:
        """All that the run completes."""
        return len(self._times)

    @property
    def at_end(self) -> bool:
        return self.complete == self.instructions

    def just_complete(self) -> list[dict[str, Any]]:
        """Instructions that ended at this instant: {"core", "engine", "instruction", "source", "file", "line"}."""
        first, last = (int(np.searchsorted(self._times, self.time, side)) for side in ("left", "right"))
        return [self._described(n) for n in range(first, last)]

    def _described(self, n):
        return {**json.loads(self.run.describe(n)), "file": self.files[self._files[n]], "line": int(self._lines[n])}

    def place(self, source: str) -> tuple[str, int]:
        """(file, line) of FILE:LINE as the state says it."""
        file, _, line = source.rpartition(":")
        return self._found(file), int(line) if line.isdigit() else 0

    def _found(self, file):
        """A program's file where it is; its name alone where it is not found. Traces name files without folders."""
        paths = [file, *(os.path.join(folder, file) for folder in self._folders)]
        return next((os.path.abspath(path) for path in paths if file and os.path.exists(path)), file)

    def go(self, time: int) -> None:
        """To an instant."""
        self.time = max(0, min(time, max(self.end, self.time)))
        self._state, self._tiles = None, {}

    # ---- steps

    def step(self, count: int = 1) -> None:
        """To the `count`-th next instant at which something ends; backwards if it is negative."""
        for _ in range(abs(count)):
            n = self.complete
            if count > 0 and n < self.instructions:
                self.go(int(self._times[n]))
            elif count < 0:
                before = int(np.searchsorted(self._times, self.time, "left"))
                self.go(int(self._times[before - 1]) if before else 0)

    def step_line(self, backwards: bool = False) -> None:
        """To the next instant at which an instruction of another line ends."""
        here = {(d["file"], d["line"]) for d in self.just_complete()}
        while not (self.time == 0 if backwards else self.at_end):
            self.step(-1 if backwards else 1)
            if {(d["file"], d["line"]) for d in self.just_complete()} - here:
                return

    def step_time(self, fs: int) -> None:
        self.go(self.time + fs)

    # ---- breakpoints

    def file_number(self, name: str) -> int | None:
        """The program's file of this path, or of the end of one path alone."""
        exact = [n for n, f in enumerate(self.files) if os.path.realpath(f) == os.path.realpath(name)]
        ends = exact or [n for n, f in enumerate(self.files) if f.endswith("/" + name.lstrip("./"))
                         or f and os.path.realpath(name).endswith("/" + f)]
        return ends[0] if ends else None

    def lines_of(self, file: str) -> list[int]:
        """Lines of a file that have instructions."""
        number = self.file_number(file)
        if number is None:
            return []
        return np.unique(self._lines[self._files == number] if number else self._trace_lines).tolist()

    def _times_of(self, point):
        number = self.file_number(point.file)
        own = (self._files == number) & (self._lines == point.line) if number else self._trace_lines == point.line
        return self._times[own]

    def add(self, file: str, line: int, condition: str = "", skipped: int = 0) -> Breakpoint:
        """A breakpoint at the line, or the next one that has an instruction. Error if there is none."""
        number = self.file_number(file)
        if number is None:
            named = [os.path.basename(f) for f in self.files if f]
            raise Error(f"{file} is not of this program; its files are {', '.join(named)}", rule="option_value",
                        code="usage")
        later = [at for at in self.lines_of(file) if at >= line]
        if not later:
            raise Error(f"{file}:{line}: no instruction at this line or behind it", rule="option_value", code="usage")
        self._numbers += 1
        point = Breakpoint(self.files[number], later[0], condition, skipped, self._numbers)
        self.breakpoints.append(point)
        return point

    def clear(self, file: str) -> None:
        number = self.file_number(file)
        self.breakpoints = [b for b in self.breakpoints if number is None or b.file != self.files[number]]

    def proceed(self, backwards: bool = False) -> list[Breakpoint]:
        """To the next instant of a breakpoint, else to the end (or the begin): the breakpoints there."""
        hits: dict[int, list[Breakpoint]] = {}
        for point in self.breakpoints:
            times = self._times_of(point)
            for time in np.unique(times[times < self.time] if backwards else times[times > self.time]).tolist():
                hits.setdefault(time, []).append(point)
        for time in sorted(hits, reverse=backwards):
            self.go(time)
            stopped = [point for point in hits[time] if self._holds(point)]
            if stopped:
                return stopped
        self.go(0 if backwards else self.end)
        return []

    def _holds(self, point):
        if point.condition:
            try:
                if not np.all(self.evaluate(point.condition)):
                    return False
            except BadExpression:
                pass  # where it has no answer one wants to look
        if point.passed < point.skipped:
            point.passed += 1
            return False
        return True

    # ---- what there is

    @property
    def state(self) -> dict[str, Any]:
        """The state as of --stop-at: "complete" of "instructions", "under_way", "engines" and "semaphores"."""
        if self._state is None:
            self._state = json.loads(self.run.state(self.time))
        return self._state

    def tiles(self, names: Iterable[str]) -> dict[str, Tile]:
        """Tensors as complete instructions have written them. Error for a name that the program does not have."""
        names = list(names)
        missing = [name for name in names if name not in self._tiles]
        if missing:
            if not self.run.has_values:
                raise Error("the program has no values; its time alone is simulated", rule="options_exclude",
                            code="usage")
            for name, (dtype, shape, data, valid, writers) in self.run.values(self.time, missing).items():
                array = np.frombuffer(data, dtypes.BY_NAME[dtype].dtype).reshape(shape)
                space, _, _, core, _ = self.tensors[name]
                self._tiles[name] = Tile(name, space, core, dtype, array,
                                         np.frombuffer(valid, np.bool_).reshape(shape), list(writers))
        return {name: self._tiles[name] for name in names}

    def tile(self, name: str) -> Tile:
        return self.tiles([name])[name]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of NumPy and tiles. Throws BadExpression."""
        return evaluate(expression, self.tensors, lambda name: self.tile(name))

    def watched(self) -> list[tuple[str, str]]:
        """Each watch expression with its value, or with what is wrong with it."""
        found = []
        for text in self.watches:
            try:
                found.append((text, str(self.evaluate(text))))
            except BadExpression as problem:
                found.append((text, f"({problem})"))
        return found

    def where(self) -> str:
        """One line: the instant, and what has just ended."""
        done = self.just_complete()
        said = "; ".join(f"{d['instruction']} {d['source']}" for d in done[:3]) + (" ..." if len(done) > 3 else "")
        return (f"{self.at_us:.3f} us: {self.complete} of {self.instructions} complete"
                + (f", the last: {said}" if said else ""))

    def _repr_html_(self) -> str:
        return html_of(self.where(), self.watched(), self.state)
