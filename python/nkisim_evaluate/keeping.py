"""Saves a submitted kernel's instructions with the inputs of its first seed, for `nkisim run` and
its reports.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

from .evaluator import Settings, Zygote, source_text
from .judge import Judge, machine_options, scratch_of
from .reference import BadReference, Reference
from .testimony import Stop


def options(settings: Settings, reference: Reference) -> list[str]:
    """The machine of Settings, as options of `nkisim run`."""
    return machine_options(settings.target or reference.target, settings.config, settings.overrides,
                           settings.switches)


def save(reference: Reference, candidate: Mapping[str, Any], folder: str | os.PathLike,
         settings: Settings) -> pathlib.Path:
    """Writes FOLDER/program.nisa and its data; the path of the program. Raises BadReference."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    job = {**candidate, "path": os.path.realpath(candidate["path"]), "text": source_text(candidate["path"]),
           "target": settings.target or reference.target}
    with tempfile.TemporaryDirectory(prefix="nkisim-evaluate-") as own:
        recorder = Zygote(scratch_of(own))
        judge = Judge(reference, recorder, None, own, settings.target, settings.config,
                      seconds=settings.timeout, memory_bytes=settings.memory)
        try:
            return pathlib.Path(judge.record(job, str(folder)))
        except Stop as stop:
            raise BadReference(f"{candidate['path']}: not recorded a second time "
                               f"({stop.error['message']})") from None
        finally:
            recorder.close()
