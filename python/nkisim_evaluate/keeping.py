"""Keeps a candidate's program with the inputs of its first seed, for `nkisim run` and its reports."""

import os
import pathlib
import tempfile

from .evaluator import Zygote
from .judge import Judge, machine_options, scratch_of
from .reference import BadReference
from .testimony import Stop


def options(settings, reference):
    """The machine of Settings, as options of `nkisim run`."""
    return machine_options(settings.target or reference.target, settings.config, settings.overrides,
                           settings.switches)


def save(reference, candidate, folder, settings):
    """Writes FOLDER/program.nisa and its data; the path of the program. Raises BadReference."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    job = {**candidate, "path": os.path.realpath(candidate["path"]),
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
