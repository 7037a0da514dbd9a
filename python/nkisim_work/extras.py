"""Gives the pip command to type where an optional package is missing."""

from __future__ import annotations

import shlex
import sys

#: Packages as pip takes them (pyproject.toml has the same), by their names.
PACKAGES = {"pytest": "pytest>=7", "pyarrow": "pyarrow>=15", "tqdm": "tqdm>=4.60",
            "matplotlib": "matplotlib>=3.6", "distributed": "dask[distributed]>=2024.1", "optuna": "optuna>=4",
            "scipy": "scipy>=1.9", "pygls": "pygls>=2", "lsprotocol": "pygls>=2", "mcp": "mcp>=2",
            "torch": "torch>=2.10", "jax": "jax>=0.6"}


def install_hint(*names: str) -> str:
    """A command that brings packages to this interpreter: it works wherever nkisim came from."""
    wanted = [PACKAGES.get(name, name) for name in names]
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *wanted])
