"""Keeps a candidate's program with the inputs of its first seed, for `nkisim run` and its reports."""

import json
import os
import pathlib

from .evaluator import Zygote
from .judge import machine_options, read_constants, recording_job, write_data
from .reference import BadReference


def options(settings, reference):
    """The machine of Settings, as options of `nkisim run`."""
    return machine_options(settings.target or reference.target, settings.config, settings.overrides,
                           settings.switches)


def save(reference, candidate, folder, settings):
    """Writes FOLDER/program.nisa and its data; the path of the program. Raises BadReference."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    case = reference.case(reference.seeds[0])
    job = {**candidate, "path": os.path.realpath(candidate["path"]),
           "target": settings.target or reference.target}
    recorder = Zygote()
    try:
        said = recorder(recording_job(reference, case, job, str(folder.resolve())),
                        settings.timeout, settings.memory)
        found = json.loads(said["result"]) if said["kind"] == "result" else {"ok": False}
    finally:
        recorder.close()
    if not found["ok"]:
        raise BadReference(f"{candidate['path']}: not recorded a second time "
                           f"({said.get('message') or found.get('error')})")
    constants = read_constants(folder)
    (folder / "constants.npz").unlink(missing_ok=True)
    write_data(folder / "data.npz", case, constants)
    return folder / "program.nisa"
