"""Runs one simulation of `nkisim sweep` (one combination of settings). It imports nkisim_work and
the standard library alone: Dask sends both to workers.
"""

import os
import pathlib
import tempfile
import threading
import time

from nkisim_work import Ended, Worker, machine, message, timed

_lock = threading.Lock()
_warm = []  # the worker of this process, where Dask calls


def job_of(trace, point, **wishes):
    """The job of a point: its settings are axis names and values."""
    own = {k: v for k, v in point.items() if k in ("target", "config")}
    return {"trace": str(trace), **wishes,
            **machine(**own, overrides={k: v for k, v in point.items() if k not in own})}


def run(worker, point, job):
    """The journal's entry of a finished run; `seconds` is how long simulating took."""
    start = time.monotonic()
    row = {"point": point}
    try:
        said = timed(worker, {**job, "reasons": False})
        row.update({"error": message(said)} if "error" in said else {"summary": said["totals"]})
    except Ended as ended:
        row["error"] = f"nkisim {ended}"
    return {**row, "seconds": round(time.monotonic() - start, 3)}


def simulate(point, trace, files):
    """A journal record, simulated where this is called.

    `files` are contents by name; `trace` and the point's config may be names in it.
    """
    with tempfile.TemporaryDirectory(prefix="nkisim-sweep-") as folder:
        paths = {}
        for number, (name, content) in enumerate(files.items()):
            # Data files keep their names, relative to the trace; anything else gets a new one.
            inside = not os.path.isabs(name) and ".." not in pathlib.PurePath(name).parts
            paths[name] = pathlib.Path(folder) / (name if inside else f"file{number}")
            paths[name].parent.mkdir(parents=True, exist_ok=True)
            paths[name].write_bytes(content)
        here = {k: str(paths.get(v, v)) if k == "config" else v for k, v in point.items()}
        with _lock:
            if not _warm:
                _warm.append(Worker())
            return run(_warm[0], point, job_of(paths[trace], here))
