"""One simulation of a sweep. Standard library only: Dask sends this module to workers as it is."""

import json
import os
import pathlib
import shutil
import subprocess
import sysconfig
import tempfile
import time


def program():
    """The nkisim program of this machine: $NKISIM_PROGRAM if it exists, else the one in PATH, else
    that of this Python's environment or of this checkout. Raises FileNotFoundError."""
    chosen = os.environ.get("NKISIM_PROGRAM", "")
    found = (chosen if os.path.exists(chosen) else shutil.which("nkisim") or
             shutil.which("nkisim", path=sysconfig.get_path("scripts")) or _of_this_tree())
    if not found:
        raise FileNotFoundError("no nkisim program in PATH; set NKISIM_PROGRAM")
    return found


def _of_this_tree():
    built = pathlib.Path(__file__).resolve().parents[3] / "build" / "release" / "nkisim"
    return str(built) if built.exists() else None


def words(trace, point, options):
    """The command line that simulates a point: settings are axis names and values."""
    line = [program(), "run", str(trace), "--json", *options]
    for name, value in point.items():
        if name in ("target", "config"):
            line += [f"--{name}", value]
        else:
            line += ["--set", f"{name}={value}"]
    return line


def record(point, code, out, err, seconds):
    """What the journal says of a finished run; `seconds` is how long simulating took."""
    row = {"point": point, "seconds": round(seconds, 3)}
    if code == 0:
        row["summary"] = json.loads(out)["totals"]
    else:
        row["error"] = err.strip() or f"nkisim ended with code {code}"
    return row


def simulate(point, trace, files, options):
    """A journal record, simulated where this is called.

    `files` are contents by name; `trace` and the point's config may be names in it.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nkisim-sweep-") as folder:
        paths = {}
        for number, (name, content) in enumerate(files.items()):
            # Data files keep their names, relative to the trace; anything else gets a new one.
            inside = not os.path.isabs(name) and ".." not in pathlib.PurePath(name).parts
            paths[name] = pathlib.Path(folder) / (name if inside else f"file{number}")
            paths[name].parent.mkdir(parents=True, exist_ok=True)
            paths[name].write_bytes(content)
        here = {k: str(paths.get(v, v)) if k == "config" else v for k, v in point.items()}
        done = subprocess.run(words(paths[trace], here, options), capture_output=True, text=True,
                              check=False)
    return record(point, done.returncode, done.stdout, done.stderr, time.monotonic() - start)
