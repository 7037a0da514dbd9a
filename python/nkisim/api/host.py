"""Provides functions that newer NKI releases dropped (nki.benchmark, nki.profile, ...), and reports
their use where a program is checked against a release.
"""

from ..record import strict
from . import jit

_NAMES = ("simulate_kernel", "baremetal", "benchmark", "profile", "trace")


def names_of(module, since=0):
    """The __getattr__ of package `module`, which SDK 2.`since` and later releases are asked for."""
    def found(name):
        if name not in _NAMES:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        strict.report_host_name(module, name, since)
        return getattr(jit, name)

    return found
