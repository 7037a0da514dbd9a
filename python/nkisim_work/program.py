"""Finds the C++ program nkisim, which runs the simulations."""

import os
import pathlib
import shutil
import sysconfig


def program() -> str:
    """The nkisim program of this machine: $NKISIM_PROGRAM if it exists, else the one in PATH, else
    that of this Python's environment or of this checkout. Raises FileNotFoundError."""
    chosen = os.environ.get("NKISIM_PROGRAM", "")
    found = (chosen if os.path.exists(chosen) else shutil.which("nkisim") or
             shutil.which("nkisim", path=sysconfig.get_path("scripts")) or _of_this_tree())
    if not found:
        raise FileNotFoundError("no nkisim program in PATH; set NKISIM_PROGRAM")
    return found


def homes() -> list[pathlib.Path]:
    """The folders that hold our packages: one of an installation; of a checkout python/ and those of its clients."""
    own = pathlib.Path(__file__).resolve().parents[1]
    clients = sorted((own.parent / "clients").glob("*/")) if own.name == "python" else []
    return [own, *(folder for folder in clients if folder.is_dir())]


def _of_this_tree() -> str | None:
    built = pathlib.Path(__file__).resolve().parents[2] / "build" / "release" / "nkisim"
    return str(built) if built.exists() else None
