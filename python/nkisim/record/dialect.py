"""Describes how the two kernel APIs differ: nki (current) and neuronxcc.nki (before SDK 2.27)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True)
class Dialect:
    """The ways in which kernels of an API are recorded, compiled and run, where APIs differ."""

    #: Short name ("nki", "neuronxcc"), and the package that kernels import.
    name: str
    package: str
    #: True if neuronx-cc's own passes compiled its kernels, whose defaults differ (docs/compiler.md).
    neuronxcc: bool
    #: True if a launch grid of one axis of at most two is of the cores of a pair (LNC).
    grid_of_cores: bool
    #: True if nl.sbuf and its like are also keywords of every kernel (NKI 0.1 and 0.2).
    buffer_keywords: bool
    #: True if the compiler reads a kernel's source and so refuses Python (strict.py).
    reads_source: bool
    #: First SDK release, 2.`refused_since`, whose compiler takes such kernels no more; None: all do.
    refused_since: int | None
    #: True if kernels of several ranks may be launched.
    collectives: bool
    #: True if a selection may reach beyond its tensor, as a mask may still cut it, and `and` joins masks.
    masks: bool
    #: True if a number counts as int32 or float32 in the dtype of a result, else as its tile's dtype.
    wide_numbers: bool
    #: True if nl.var obeys keepdims=, which today's documents call ignored.
    var_drops_dimensions: bool
    #: True if a stored tile and its place are one where the kernel reads the tile again, until the place changes. Else
    #: the tile is copied there.
    shares_places: bool
    #: True if a kernel may return tiles, which are stored to HBM then.
    returns_tiles: bool
    #: True if the decorator's target and mode="simulation" say how a call runs.
    decorator_decides: bool
    #: True if an index out of bounds at run time is NumPy's IndexError, in flat elements.
    flat_index_errors: bool
    #: The reason why a run over capacity is no error.
    over_capacity: str


NKI = Dialect(
    name="nki", package="nki", neuronxcc=False, grid_of_cores=True, buffer_keywords=True,
    reads_source=True, refused_since=None, collectives=True, masks=False, wide_numbers=False,
    var_drops_dimensions=False, shares_places=False, returns_tiles=False, decorator_decides=False,
    flat_index_errors=False,
    over_capacity="AWS's simulator does not look; the device refuses it")

NEURONXCC = Dialect(
    name="neuronxcc", package="neuronxcc.nki", neuronxcc=True, grid_of_cores=False,
    buffer_keywords=False, reads_source=False, refused_since=30, collectives=False, masks=True,
    wide_numbers=True, var_drops_dimensions=True, shares_places=True, returns_tiles=True,
    decorator_decides=True, flat_index_errors=True,
    over_capacity="the legacy compiler would spill")


def dialect_of(function: Callable) -> Dialect:
    """The API of a function that no decorator says it of: neuronxcc.nki if it names modules of that package
    and none of nki, else nki."""
    found = inspect.getclosurevars(function) if inspect.isfunction(function) else None
    named = [] if found is None else [*found.globals.values(), *found.nonlocals.values()]
    packages = {value.__name__.split(".")[0] for value in named if isinstance(value, ModuleType)}
    return NEURONXCC if "neuronxcc" in packages and "nki" not in packages else NKI
