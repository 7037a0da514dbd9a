"""Tests and times a submitted kernel once more and saves its instructions with the inputs of its first seed, for
`nkisim run` and its reports.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from .evaluator import Evaluator, Settings
from .judge import machine_options
from .reference import BadReference, Reference


def options(settings: Settings, reference: Reference) -> list[str]:
    """The machine of Settings, as options of `nkisim run`."""
    return machine_options(settings.target or reference.target, settings.config, settings.overrides,
                           settings.switches)


def save(candidate: Mapping[str, Any], known: Mapping[str, Any], folder: str | os.PathLike,
         settings: Settings) -> tuple[pathlib.Path, dict[str, Any]]:
    """Judges a candidate that has a record, once more, and writes FOLDER/program.nisa and its data: the path of the
    program, and its record. What is reported is what was judged. Raises BadReference, also for another program."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with Evaluator(settings, 1) as judge:
        record = judge.evaluate(candidate, folder)
    if record["status"] != "ok" or record["instructions"] != known["instructions"]:
        raise BadReference(f"{candidate['path']} is {record['status']} with {record.get('instructions')} instructions "
                           f"now and was ok with {known['instructions']}; a kernel that is the same each time is "
                           "required")
    return folder / "program.nisa", record
