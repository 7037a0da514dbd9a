"""Chooses shapes, number formats and values of the random tests, edge values included, from one
seed.
"""

import numpy as np

from .formats import FLOATS, INTEGERS, is_integer, numpy_type

EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -0.5,
    -1.5,
    -2.5,
    126.5,
    127.5,
    128.5,
    255.5,
    2.0**24,
    2.0**24 + 2,
    -(2.0**24),
    2.0**31,
    2.0**32,
    -(2.0**31),
    3.0e38,
    -3.0e38,
    65504.0,
    65520.0,
    240.0,
    248.0,
    57344.0,
    61440.0,
    2.0**-14,
    2.0**-24,
    2.0**-126,
    1e-40,
    -1e-40,
    np.inf,
    -np.inf,
    np.nan,
]


class Draw:
    """A source of random choices for one case."""

    def __init__(self, rng, generation):
        self.rng = rng
        self.generation = generation

    def pick(self, *choices):
        """One of `choices`."""
        return choices[int(self.rng.integers(len(choices)))]

    def coin(self, chance=0.5):
        """True with probability `chance`."""
        return bool(self.rng.random() < chance)

    def number(self, low, high):
        """An integer from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def partitions(self):
        """A number of partitions: small ones more often."""
        return self.pick(1, 2, 3, 5, 8, 16, 31, 32, 33, 64, 128)

    def shape(self, most=24):
        """A tile of two dimensions."""
        return (self.partitions(), self.number(1, most))

    def float_type(self):
        """A floating-point format of every generation."""
        return self.pick(*FLOATS, "float8_e4m3fn") if self.generation > 3 and self.coin(0.3) else self.pick(*FLOATS)

    def any_type(self):
        """Any format of one number an element."""
        return self.float_type() if self.coin(0.5) else self.pick(*INTEGERS)

    def values(self, shape, dtype, kind="any"):
        """Content of a tile: `any` has every edge value, `finite` none that is not finite, `tame` lies within +-4."""
        kind_of = numpy_type(dtype)
        if is_integer(dtype):
            return self.integers(shape, kind_of, kind)
        if kind == "tame":
            return self.rng.uniform(-4, 4, shape).astype(kind_of)
        data = self.rng.standard_normal(shape) * self.pick(1.0, 8.0, 300.0)
        data = np.where(self.rng.random(shape) < 0.15, np.rint(data * 2) / 2, data)
        edges = np.array(EDGES if kind == "any" else EDGES[:-3])
        drawn = edges[self.rng.integers(len(edges), size=shape)]
        data = np.where(self.rng.random(shape) < 0.25, drawn, data)
        with np.errstate(all="ignore"):
            result = data.astype(np.float32).astype(kind_of)
            bad = ~np.isfinite(result.astype(np.float32))
        return np.where(bad, np.zeros(1, kind_of), result) if kind == "finite" else result

    def integers(self, shape, kind_of, kind):
        """Integers: limits, 2^24 and beyond, small ones."""
        bounds = np.iinfo(kind_of)
        if kind == "tame":
            return self.rng.integers(max(bounds.min, -4), 5, shape).astype(kind_of)
        edges = [bounds.min, bounds.max, bounds.min + 1, bounds.max - 1, 0, 1, 2**24, 2**24 + 1, 2**24 + 3, 2**31 - 1]
        edges = np.array([e for e in edges if bounds.min <= e <= bounds.max], np.int64)
        full = self.rng.integers(bounds.min, bounds.max + 1, size=shape)
        small = self.rng.integers(max(bounds.min, -20), 21, size=shape)
        drawn = edges[self.rng.integers(len(edges), size=shape)]
        which = self.rng.random(shape)
        return np.where(which < 0.3, drawn, np.where(which < 0.6, full, small)).astype(kind_of)

    def booleans(self, shape, dtype):
        """Zeros and ones."""
        return self.rng.integers(0, 2, size=shape).astype(numpy_type(dtype))

    def scalar(self, kind="any"):
        """A float32 immediate."""
        value = float(np.asarray(self.values((1,), "float32", "finite" if kind == "any" else kind))[0])
        return value
