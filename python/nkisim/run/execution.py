"""Runs a recorded program, in simulated time or for its values only."""

from __future__ import annotations

import warnings
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from ..record import strict
from ..values.errors import Error
from . import stop
from .undefined import as_warning

if TYPE_CHECKING:
    from ..record.recorder import Recorder
    from .options import Options
    from .result import Result

#: A rule of the newest release only: earlier releases added the product.
NEWEST = "psum_written_by_two_engines"


def execute(recorder: Recorder, options: Options, result: Result) -> None:
    """Runs the program. What only the newest release forbids is a warning, unless under strict."""
    try:
        _execute(recorder, options, result)
    except Error as problem:
        if problem.rule != NEWEST or strict.refuses(32):
            raise
        warnings.warn(f"{problem}\nthis rule is in the documents since SDK 2.32 (NKI 0.6); before, "
                      "the product was added to what is there, and so it is here (NKISIM_STRICT=1 "
                      "makes it an error)", stacklevel=3)
        recorder.program.accumulate_onto_any()
        restart(recorder)
        _execute(recorder, options, result)


def _execute(recorder, options, result):
    """Runs the program. Undefined values in outputs are an error, or as the options say."""
    found: list[str] = []

    def take(text, only_order, rule=""):
        """True where this is a warning; else it is raised."""
        said = as_warning(options.undefined, text, only_order, rule)
        if said is not None:
            found.append(said)
        return said is not None

    undefined = False if options.undefined == "zeros" else take
    try:
        _attempt(recorder, options, result, undefined)
    except Error as problem:
        problem.recorder = recorder
        raise
    for text in found:
        warnings.warn(text, stacklevel=5)


def races(recorder: Recorder, options: Options, values: bool) -> list[str]:
    """Warnings of races; an Error that names the switch where they are errors."""
    try:
        return recorder.program.check_races(options.allow_races, values)
    except Error as problem:
        if problem.rule == "unordered_accesses":
            problem.say_also(" (allow_races=True or NKISIM_ALLOW_RACES=1 makes it a warning)")
        raise


def choices(options: Options, recorders: Sequence[Recorder]) -> dict[str, Any]:
    """How the extension is to run, as it takes it."""
    chosen = {"timed": bool(options.timing), "timing_only": options.timing == "only", "fold": options.fold,
              "keep_partial": options.keep_partial, "full_confidence": options.confidence == "full"}
    return {**chosen, **stop.choices(options, recorders)}


def restart(recorder: Recorder) -> None:
    """Fresh memory with the inputs in it."""
    recorder.program.restart()
    recorder.reload_inputs()


def keep_inputs(recorder: Recorder, written: Container[int]) -> None:
    """Makes the inputs what they were before the run, whatever became of the caller's arrays: memory has
    those that the program does not write, and of the others (`written`, by id) a copy was made."""
    for st in recorder.storages:
        if st.array is not None and st.id not in written:
            st.array = recorder.read_storage(st)


def _attempt(recorder, options, result, undefined):
    result.allowed_unwritten = options.undefined != "error"
    try:
        for line in races(recorder, options, options.timing != "only"):
            warnings.warn(line, stacklevel=5)
        found = recorder.program.run(options.config or options.target,
                                     options.set, result.files,
                                     undefined, recorder.print, choices(options, [recorder]))
        result.stop = stop.stops_of(found["stop"])[0]
        if options.timing:
            result.executed = found["instructions"]
            result.latency_ns = found["latency_ns"]
            result.take(found["figures"])
            result.partial = found["partial"]
            result.explanation = found.get("explanation", "")
    except Error as problem:
        raise problem.with_traceback(None) from None
