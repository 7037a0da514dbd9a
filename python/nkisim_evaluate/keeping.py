"""Keeps a candidate's program with the inputs of its first seed, for `nkisim run` and its reports."""

import json
import os
import pathlib

import numpy as np

from .evaluator import Zygote
from .judge import bits, spec
from .reference import BadReference


def options(args):
    """The machine, as options of `nkisim run`."""
    words = [w for name in ("target", "config") if getattr(args, name)
             for w in (f"--{name}", getattr(args, name))]
    return words + [w for k, v in args.set for w in ("--set", f"{k}={v}")]


def save(reference, candidate, folder, args):
    """Writes FOLDER/program.nisa and its data; the path of the program. Raises BadReference."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    case = reference.case(reference.seeds[0])
    job = {**candidate, "path": os.path.realpath(candidate["path"]), "folder": str(folder.resolve()),
           "reference": reference.path, "grid": args.grid or reference.grid,
           "target": args.target or reference.target, "args": [spec(a) for a in case.args],
           "kwargs": {k: spec(v) for k, v in case.kwargs.items()}}
    recorder = Zygote()
    try:
        said = recorder(job, args.timeout, args.memory)
        found = json.loads(said["result"]) if said["kind"] == "result" else {"ok": False}
    finally:
        recorder.close()
    if not found["ok"]:
        raise BadReference(f"{candidate['path']}: not recorded a second time "
                           f"({said.get('message') or found.get('error')})")
    constants = folder / "constants.npz"
    held = {}
    if constants.exists():
        with np.load(constants) as archive:
            held = {k: archive[k] for k in archive.files}
        constants.unlink()
    np.savez(folder / "data.npz", **held,
             **{f"arg{n}": bits(a) for n, a in enumerate(case.arrays)})
    return folder / "program.nisa"



