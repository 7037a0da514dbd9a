"""Writes a simulated run's files for neuron-profile: a program in place of a NEFF, and a profile."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..values.environment import variable
from .profile_warnings import warn_on_error

if TYPE_CHECKING:
    from .result import Result


def _container():
    """nkisim_profile's module, which a build tree's python/ lacks and only saving needs."""
    from nkisim_profile import container

    return container


def save(result: Result, path: str) -> str:
    """Writes a run's program in the place of a NEFF (nkisim_profile/container.py)."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        result.save(os.path.join(folder, "program.nisa"))
        _container().write(path, folder, _manifest(result))
    return path


def _manifest(result):
    options = result.options
    words = ["--config", options.config] if options.config else []
    for key, value in options.overrides.items():
        words += ["--set", f"{key}={value}"]
    words += ["--allow-over-capacity"] if options.over_capacity else []
    words += ["--allow-unwritten"] if result.allowed_unwritten else []
    return {"kernel": result.name, "target": result.recorder.target, "options": words}


def enabled() -> bool:
    return variable("NEURON_FRAMEWORK_DEBUG", "0").lower() not in ("", "0", "false")


@warn_on_error
def keep(result: Result) -> None:
    """With NEURON_FRAMEWORK_DEBUG=1, saves each program that runs in the current folder, one that is
    there already not again."""
    if not enabled() or result.partial:
        return
    import hashlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.nisa")
        result.save(program)
        with open(program, "rb") as file:
            digest = int.from_bytes(hashlib.sha256(file.read()).digest()[:8], "big")
        name = f"MODULE_0_SyncTensorsGraph.{result.instructions}_{digest}.neff"
        if not os.path.exists(name):
            _container().write(name, folder, _manifest(result))
