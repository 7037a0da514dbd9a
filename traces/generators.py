"""Implements the input data generators of program files (docs/trace-format.md), as nkisim makes them."""
import ml_dtypes
import numpy as np


def splitmix64(seed, count, first=0):
    """Outputs first, first + 1, ... of splitmix64 seeded with `seed`."""
    with np.errstate(over="ignore"):
        i = np.arange(first + 1, first + 1 + count, dtype=np.uint64)
        z = np.uint64(seed) + i * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(count, seed=0, low=0.0, high=1.0):
    return low + (high - low) * ((splitmix64(seed, count) >> np.uint64(11)) * 2.0 ** -53)


def normal(count, seed=0, mean=0.0, scale=1.0):
    """Sum of twelve uniforms minus six: in integers until the end, so the same everywhere."""
    z = splitmix64(seed, 6 * count)
    halves = (z >> np.uint64(32)) + (z & np.uint64(0xFFFFFFFF))
    total = halves.reshape(count, 6).sum(axis=1)
    return mean + scale * (total * 2.0 ** -32 - 6.0)


def arange(count, start=0.0, step=1.0):
    return start + np.arange(count) * step


def integers(count, seed=0, low=0, high=1):
    span = np.uint64(int(high) - int(low))
    return (int(low) + (splitmix64(seed, count) % span).astype(np.int64)).astype(np.float64)


def zeros(count):
    return np.zeros(count)


def ones(count):
    return np.ones(count)


GENERATORS = {f.__name__: f for f in (uniform, normal, arange, integers, zeros, ones)}


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def tensor_data(tensor):
    """The array of a tensor declaration with generator or values; files are not read here."""
    data = dict(tensor["data"])
    count = int(np.prod(tensor["shape"]))
    if "values" in data:
        values = np.resize(np.asarray(data["values"], np.float64), count)
    else:
        values = GENERATORS[data.pop("generator")](count, **data)
    dtype = numpy_dtype(tensor["dtype"])
    if dtype.kind in "iu":
        return values.astype(np.int64).astype(dtype).reshape(tensor["shape"])
    return values.astype(np.float32).astype(dtype).reshape(tensor["shape"])
