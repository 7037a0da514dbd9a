"""Shows the Result of a run in a notebook, as HTML."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .result import Result

#: A run that took longer on the host is not repeated for its picture.
PATIENCE_SECONDS = 10


def html(result: Result) -> str | None:
    """Summary, verdict and timeline of a run; text alone where there is no nkisim_profile."""
    try:
        from nkisim_profile import inline
        from nkisim_profile.session import Session
    except ImportError:
        return None
    title = f"{result.name} on {result.recorder.target}"
    if result.latency_ns is None:
        return inline.fragment(f"{title}, values only", [("instructions", f"{result.instructions}")])
    title += f": {inline.time_of(result.latency_ns)}" + (" (interrupted)" if result.partial else "")
    facts = [("instructions", f"{result.executed}")]
    for core, metrics in sorted(result.summary.items()):
        named = inline.rows(metrics)
        facts += named if len(result.summary) == 1 else [(f"{core} {k}", v) for k, v in named]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = _session(result, folder)
        if path is None:
            return inline.fragment(title, facts, note="The run took "
                                   f"{result.run_seconds:.0f} s; result.perfetto(FILE) repeats it "
                                   "for a timeline.")
        session = Session(path)
        said = [f"Trust: {result.confidence['text']}"] if result.confidence else []
        return inline.fragment(title, facts, [*said, *session.facts.get("verdict", ())],
                               inline.picture(session))


def _session(result, folder):
    """The session that the run wrote, or that of a repetition."""
    saved = result.files.get("session")
    if saved and os.path.exists(saved):
        return saved
    if result.run_seconds > PATIENCE_SECONDS or result.partial:
        return None
    path = os.path.join(folder, "run.npz")
    files, result.files = result.files, {}
    result.recorder.print = lambda line: None  # what the kernel prints has been printed
    try:
        result.write(session=path)
    finally:
        del result.recorder.print
        result.files = files
    return path
