"""Works out from a kernel's launch grid which program instances run, and on which core."""

import itertools
import math

import numpy as np

from ..values.errors import Error
from .targets import cores_of_rank


class nc:
    """nl.nc(n): distribute a grid dimension over n cores."""

    def __init__(self, size):
        self.size = _size(size, f"nl.nc({size!r})")

    def __mul__(self, other):
        return spmd_dim(self, other)

    def __rmul__(self, other):
        return spmd_dim(other, self)


class spmd_dim:
    """A grid dimension made of an outer and an inner part, one of which may be nl.nc(n)."""

    def __init__(self, *parts):
        self.parts = parts

    def __mul__(self, other):
        return spmd_dim(*self.parts, other)

    __rmul__ = __mul__


def _grid_parts(grid):
    """Each dimension as (size, function index -> core or None)."""
    if grid is None:
        return []
    if not isinstance(grid, (tuple, list)):
        grid = (grid,)
    out = []
    for g in grid:
        if isinstance(g, nc):
            g = spmd_dim(g, 1)
        if isinstance(g, spmd_dim):
            out.append(_spmd(g))
        else:
            out.append((max(_size(g, grid), 1), None))  # 0 is one instance: AWS's samples launch kernel[0]
    return out


def instances_of(grid):
    """The number of program instances of a launch grid."""
    return math.prod(size for size, _ in _grid_parts(grid))


def _size(extent, grid):
    """One extent of a launch grid."""
    if isinstance(extent, (bool, np.bool_)) or not hasattr(extent, "__index__") or extent.__index__() < 0:
        raise Error(rule="launch_grid", operand="the launch grid", found=repr(grid),
                    required="an integer of at least 1 along each axis", code="usage")
    return extent.__index__()


def _spmd(dim):
    sizes = [p.size if isinstance(p, nc) else _size(p, dim.parts) for p in dim.parts]
    total = int(np.prod(sizes))

    def core_of(i):
        core = 0
        for p, n in zip(reversed(dim.parts), reversed(sizes)):
            if isinstance(p, nc):
                core = i % n
            i //= n
        return core

    return total, core_of


def chosen_grid(grid, lnc, target):
    """The launch grid of a run that names the physical cores of a rank (`lnc`), a grid, both or neither. An Error
    where the target has no rank of so many cores, or the two differ."""
    if lnc is None:
        return grid
    most = cores_of_rank(target)
    if type(lnc) is not int or not 1 <= lnc <= most:
        raise Error(rule="launch_grid", operand="lnc", found=f"{lnc!r} on {target}",
                    required="1" if most == 1 else f"1 to {most}", code="usage")
    if grid is None:
        return lnc
    size = math.prod(n for n, _ in _grid_parts(grid))
    if size != lnc:
        raise Error(f"lnc is {lnc} and the kernel's launch grid {grid!r}; one size is required",
                    rule="launch_grid", code="usage")
    return grid


class Launch:
    """The program instances that run, and the core of each."""

    def __init__(self, grid, dialect, target):
        parts = _grid_parts(grid)
        self.grid = tuple(n for n, _ in parts)
        if 0 in self.grid:
            raise Error(f"the launch grid {self.grid} has no program instance; at least 1 along each axis is "
                        "required", rule="launch_grid", code="usage")
        self.instances = []
        for ids in itertools.product(*(range(n) for n in self.grid)):
            core = 0
            for i, (_, core_of) in zip(ids, parts):
                if core_of is not None:
                    core = core_of(i)
            if dialect.grid_of_cores and len(self.grid) == 1 and self.grid[0] <= cores_of_rank(target):
                core = ids[0]
            self.instances.append((ids, core))
