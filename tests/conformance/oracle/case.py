"""Holds one random test: its tiles, the nki.isa calls of its kernel, and the results that AWS's
documents promise.
"""

from dataclasses import dataclass, field

import numpy as np

from .formats import narrow, numpy_type

GENERATIONS = {2: "trn1", 3: "trn2", 4: "trn3"}


@dataclass
class Tile:
    """A tensor of a case: where it lies, and its first content (None: never written)."""

    name: str
    shape: tuple
    dtype: str
    buffer: str = "sbuf"
    data: np.ndarray | None = None
    step: int = 1
    made: bool = False


@dataclass
class Ref:
    """An operand of a call: a tile, and the views taken of it one after the other: (method, arguments, keywords)."""

    name: str
    steps: tuple = ()

    def __getitem__(self, key):
        return Ref(self.name, self.steps + (("__getitem__", (key,), {}),))

    def do(self, method, *arguments, **keywords):
        """The view that `method` of a tensor gives."""
        return Ref(self.name, self.steps + ((method, arguments, keywords),))


@dataclass
class Name:
    """A name of nki.language or nki.isa, as `nl.add` or `nisa.engine.vector`."""

    path: str


def nl(name):
    """The name `name` of nki.language."""
    return Name("nl." + name)


def nisa(name):
    """The name `name` of nki.isa."""
    return Name("nisa." + name)


@dataclass
class Expect:
    """The bounds of a result: between `low` and `high` (the same array where it is exact), except where `unknown`."""

    low: np.ndarray
    high: np.ndarray
    unknown: np.ndarray
    payload: bool = False
    check: object = None

    def wrong(self, got):
        """True where `got` is not allowed, whether or not a document decides that element."""
        if self.check is not None:
            return self.check(got)
        got = np.asarray(got).reshape(self.low.shape)
        if self.payload:
            size = np.dtype(f"u{self.low.dtype.itemsize}")
            return np.ascontiguousarray(got).view(size) != np.ascontiguousarray(self.low).view(size)
        if self.low.dtype.kind in "iu":
            return (got < self.low) | (got > self.high)
        value, low, high = (np.asarray(a).astype(np.float64) for a in (got, self.low, self.high))
        with np.errstate(all="ignore"):
            good = (value >= low) & (value <= high)
            point = (low == high) & (low == 0) & (np.signbit(low) == np.signbit(high))
            good &= ~point | (np.signbit(value) == np.signbit(low))
        return ~(good | (np.isnan(value) & np.isnan(low) & np.isnan(high)))


def exact(value, dtype, unknown=False):
    """An exact float32 result, cast to the format of the destination."""
    result, silent = narrow(value, dtype)
    return Expect(result, result, silent | unknown)


def within(value, tolerance, dtype, unknown=False):
    """A result within `tolerance` (absolute, float64) of `value`, then cast: the casts of both ends bound it. A zero
    may have either sign: no page gives the order of a sum, nor the sign of what a function rounds to zero."""
    value = np.asarray(value, np.float64)
    with np.errstate(all="ignore"):
        spread = np.where(np.isfinite(value), tolerance, 0)
        low, below = narrow(value - spread, dtype)
        high, above = narrow(value + spread, dtype)
    if low.dtype.kind not in "iu":
        low, high = np.where(low == 0, -np.abs(low), low), np.where(high == 0, np.abs(high), high)
    return Expect(low, high, below | above | unknown)


def bits(value, unknown=False):
    """A result that is known bit by bit, the payload of a NaN included."""
    value = np.ascontiguousarray(value)
    return Expect(value, value, np.zeros(value.shape, bool) | unknown, payload=True)


def as_stored(value, unknown=False):
    """A result in its own format already; any NaN equals any other."""
    value = np.asarray(value)
    return Expect(value, value, np.zeros(value.shape, bool) | unknown)


def satisfies(check, shape):
    """A result of which only a property is documented: `check` gives the elements that break it."""
    return Expect(np.zeros(shape), np.zeros(shape), np.zeros(shape, bool), check=check)


@dataclass
class Case:
    """A small kernel with what the documents say of its results."""

    function: str
    generation: int
    option: str = ""
    tiles: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)
    expect: dict = field(default_factory=dict)
    start: int = 0
    split: tuple = ()

    def load(self, name, data, dtype, buffer="sbuf", step=1):
        """A tile that holds `data` before the calls."""
        data = np.ascontiguousarray(data)
        assert data.dtype == numpy_type(dtype), (self.function, name, data.dtype, dtype)
        self.tiles[name] = Tile(name, data.shape, dtype, buffer, data, step)
        return Ref(name)

    def new(self, name, shape, dtype, buffer="sbuf", step=1):
        """A tile that no one has written before the calls."""
        self.tiles[name] = Tile(name, tuple(shape), dtype, buffer, step=step)
        return Ref(name)

    def call(self, function, **keywords):
        """Appends a call of nki.isa, or of nki.language if the name starts with `nl.`."""
        self.calls.append((function, keywords))

    def make(self, name, shape, kind, function, /, *arguments, buffer="sbuf", **keywords):
        """Appends a call of nki.language whose result is a new tile."""
        self.tiles[name] = Tile(name, tuple(shape), kind, buffer, made=True)
        self.calls.append(("nl." + function, {"out": name, "arguments": list(arguments), **keywords}))
        return Ref(name)

    def body(self, function):
        """Appends a piece of kernel that is Python: a function of nisa, nl and the tiles by name."""
        self.calls.append(("body", {"function": function}))

    def result(self, ref, expect):
        """States what the tile holds after the calls."""
        self.expect[ref.name] = expect


CASES = {}


def draws(function, since=2):
    """Registers a drawer of cases of `function`, which generation `since` has first."""

    def register(drawer):
        CASES.setdefault(function, []).append((drawer, since))
        return drawer

    return register
