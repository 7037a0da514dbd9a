"""Runs the program collected from a kernel: simulated with timing, or for its values only."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

from ..values.errors import Error
from . import stop
from .undefined import Found, warn_of, warning_collector

if TYPE_CHECKING:
    from ..record.recorder import Recorder
    from .options import Options
    from .result import Result


def execute(recorder: Recorder, options: Options, result: Result) -> None:
    """Runs the program. Its policy of rules (Options.policy) says which findings are warnings."""
    found: list[Found] = []
    try:
        _attempt(recorder, options, result, warning_collector(options.undefined, "", found))
    except Error as problem:
        problem.recorder = recorder
        raise
    if found:
        warn_of(found)


def races(recorder: Recorder, options: Options, values: bool) -> list[Found]:
    """Warnings of races; an Error that names the switch where they are errors."""
    try:
        return recorder.program.check_races(options.allow_races, values)
    except Error as problem:
        if problem.rule == "unordered_accesses":
            problem.say_also(" (allow_races=True or NKISIM_ALLOW_RACES=1 makes it a warning)")
        raise


def choices(options: Options, recorders: Sequence[Recorder]) -> dict[str, Any]:
    """The choices of a run, as the extension takes them."""
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


def _attempt(recorder, options, result, warn):
    result.allowed_unwritten = options.undefined != "error"
    chosen: dict[str, Any] = {}
    try:
        if racing := races(recorder, options, options.timing != "only"):
            warn_of(racing)
        chosen = choices(options, [recorder])
        found = recorder.program.run(options.config or options.target,
                                     options.set, result.files,
                                     warn, recorder.print, chosen)
        result.stop = stop.stops_of(found["stop"])[0]
        if options.timing:
            result.executed = found["instructions"]
            result.latency_ns = found["latency_ns"]
            result.take(found["figures"])
            result.partial = found["partial"]
            result.explanation = found.get("explanation", "")
    except Error as problem:
        problem.stop = stop.stops_of(chosen.get("stop"))[0]
        raise problem.with_traceback(None) from None
