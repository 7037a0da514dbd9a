"""Holds the list of instruction tests and the helpers that add a test to it (make_cases.py)."""
import ml_dtypes
import numpy as np

F32 = np.float32
DTYPES = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3, "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16,
    "int32": np.int32, "uint32": np.uint32, "int64": np.int64,
}
TABLES = {}


def plain(values):
    """JSON numbers; null where None, names for what JSON cannot say."""
    out = []
    for v in np.asarray(values, dtype=object).reshape(-1):
        if v is None:
            out.append(None)
            continue
        x = float(v)
        if np.isnan(x):
            out.append("nan")
        elif np.isinf(x):
            out.append("inf" if x > 0 else "-inf")
        else:
            out.append(int(x) if x == int(x) and not (x == 0 and np.signbit(x)) else x)
    return out


class T:
    """A tensor of a case: values (an input) or a shape (an output). `address` where the case has
    physical addresses, `core` where it has two cores."""

    def __init__(self, dtype, values=None, shape=None, space="sbuf", partition=0, address=None,
                 core=0):
        self.dtype, self.space, self.partition, self.address = dtype, space, partition, address
        self.core = core
        self.values = None if values is None else np.asarray(values).astype(DTYPES[dtype])
        self.shape = list(self.values.shape if shape is None else shape)

    def declare(self, name):
        d = {"name": name, "space": self.space, "dtype": self.dtype, "shape": self.shape}
        if self.partition:
            d["partition"] = self.partition
        if self.address is not None:
            d["address"] = self.address
        if self.core:
            d["core"] = self.core
        return d


def case(op, title, tensors, program, target="trn2", expect=None, **rest):
    """Appends a case; `program` is one instruction's arguments or a list of whole lines."""
    if isinstance(program, dict):
        program = [{"i": op, **program}]
    c = {"case": title, "target": target,
         "tensors": [t.declare(n) for n, t in tensors.items()],
         "set": {n: plain(t.values) for n, t in tensors.items() if t.values is not None},
         "program": program}
    if expect is not None:
        c["expect"] = {n: plain(v) for n, v in expect.items()}
    c.update(rest)
    TABLES.setdefault(op, []).append(c)


def out(dtype, *shape, **kw):
    return T(dtype, shape=shape, **kw)


def cast(x, dtype):
    """The value that the engines store: round to nearest even; saturating integers."""
    kind = np.dtype(DTYPES[dtype])
    if kind.kind in "iu":
        info = np.iinfo(kind)
        return np.clip(np.rint(np.asarray(x, np.float64)), info.min, info.max).astype(kind)
    return np.asarray(x, F32).astype(kind)


def as_f32(x):
    return np.asarray(x).astype(F32)


def rng(seed):
    return np.random.default_rng(seed)


def tile(seed, rows, cols, dtype="float32", low=-4, high=4):
    return rng(seed).uniform(low, high, (rows, cols)).astype(F32).astype(DTYPES[dtype])
