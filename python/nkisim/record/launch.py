"""Launch grids: which program instances run, and on which core."""

import itertools

import numpy as np

from ..values.errors import Error


class nc:
    """nl.nc(n): distribute a grid dimension over n cores."""

    def __init__(self, size):
        self.size = int(size)

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
            out.append((max(int(g), 1), None))
    return out


def _spmd(dim):
    sizes = [p.size if isinstance(p, nc) else int(p) for p in dim.parts]
    total = int(np.prod(sizes))

    def core_of(i):
        core = 0
        for p, n in zip(reversed(dim.parts), reversed(sizes)):
            if isinstance(p, nc):
                core = i % n
            i //= n
        return core

    return total, core_of


class Launch:
    """The program instances that run, and the core of each."""

    def __init__(self, grid, dialect):
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
            if dialect.grid_of_cores and len(self.grid) == 1 and self.grid[0] <= 2:
                core = ids[0]
            self.instances.append((ids, core))
