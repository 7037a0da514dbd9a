"""Runs a recorded program, in simulated time or for its values only."""

import json
import warnings

from ..record import strict
from ..values.errors import Error

#: Instructions that only move bytes: what they carry of never-written memory may never be used.
_MOVES = {"dma_copy", "tensor_copy", "nc_transpose", "dma_transpose", "nc_stream_shuffle",
          "tensor_copy_predicated", "sendrecv"}


def execute(recorder, options, result):
    """Runs the program. What only the newest release forbids is a warning, unless under strict."""
    try:
        _execute(recorder, options, result)
    except Error as problem:
        if "another engine wrote last" not in problem.message or strict.enabled():
            raise
        warnings.warn(f"{problem}\nthis rule is in the documents since SDK 2.32 (NKI 0.6); before, "
                      "the product was added to what is there, and so it is here (NKISIM_STRICT=1 "
                      "makes it an error)", stacklevel=3)
        recorder.program.accumulate_onto_any()
        restart(recorder)
        _execute(recorder, options, result)


def _execute(recorder, options, result):
    """Runs the program. Moving never-written bytes is a warning, computing with them an error."""
    allow = options.allow_unwritten or recorder.allow_unwritten
    try:
        _attempt(recorder, options, result, allow)
    except Error as problem:
        moved = problem.instruction in _MOVES or (
            (problem.kernel_file, problem.kernel_line) in recorder.transposes)
        if allow or not moved or "never written" not in problem.message:
            problem.recorder = recorder
            raise
        warnings.warn(f"{problem}\nthe bytes are moved as zeros; only such instructions may read "
                      "what nobody wrote", stacklevel=4)
        restart(recorder)
        _attempt(recorder, options, result, True)


def _total_times(summary):
    nodes = [summary, *(v for v in summary.values() if isinstance(v, dict))]
    return [n["total_time"] for n in nodes if "total_time" in n]


def restart(recorder):
    """Fresh memory with the inputs in it."""
    recorder.program.restart()
    recorder.loaded.clear()
    recorder.load_inputs()


def _attempt(recorder, options, result, allow):
    try:
        if options.timing:
            overrides = [f"{k}={v}" for k, v in options.overrides.items()]
            found = recorder.program.simulate(options.config or options.target, overrides,
                                              result.files, allow, recorder.print,
                                              options.keep_partial, options.timing == "only")
            result.executed = found["instructions"]
            result.summary = json.loads(found["json"])
            # As `nkisim run` says it: from the first start to the last end, on the slowest core.
            result.latency_ns = 1e9 * max(_total_times(result.summary), default=0.0)
            result.summary_text = found["text"]
            result.partial = found["partial"]
            result.explanation = found.get("explanation", "")
        else:
            recorder.program.interpret(allow, recorder.print)
    except Error as problem:
        raise problem.with_traceback(None) from None
