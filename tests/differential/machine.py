"""Defines the parts of an instruction test: tensors, views, instructions, and the reference's
memory.
"""

import json
import math

import numpy as np

from dtypes import F32, decode, decode_bits, encode, encode_bits

GENERATIONS = {"trn1": 2, "inf2": 2, "trn2": 3, "trn3": 4}


class Tensor:
    """`data` is uint8 [rows, row_bytes]; HBM tensors have one row. None: never written."""

    def __init__(self, name, space, dtype, shape, data, address=0, partition=0, role="input"):
        self.core = 0
        self.name, self.space, self.dtype, self.shape = name, space, dtype, list(shape)
        self.data, self.address, self.partition, self.role = data, address, partition, role

    def row_bytes(self):
        count = math.prod(self.shape[1:] if self.space != "hbm" else self.shape)
        return count * self.dtype.size

    def rows(self):
        return self.shape[0] if self.space != "hbm" else 1

    def json(self, virtual=False):
        out = {"name": self.name, "space": self.space, "dtype": self.dtype.name,
               "shape": self.shape}  # fmt: skip
        if self.space == "hbm":
            out["role"] = "inputoutput"
        else:
            if not virtual:
                out["address"] = self.address
            if self.partition:
                out["partition"] = self.partition
            if self.core:
                out["core"] = self.core
        return {"tensor": out}


class View:
    """An operand. On chip `dims` are free dimensions of `parts` partitions from tensor-relative
    `part`; in HBM they are all dimensions. `offset` in bytes, steps in elements."""

    def __init__(self, tensor, dims, dtype=None, part=0, parts=1, offset=0, dynamic=None, text=None):
        self.tensor, self.dims = tensor, [list(d) for d in dims]
        self.dtype = dtype or tensor.dtype
        self.part, self.parts, self.offset = part, parts, offset
        self.dynamic, self.text = dynamic, text

    @property
    def on_chip(self):
        return self.tensor.space != "hbm"

    @property
    def space(self):
        return self.tensor.space

    @property
    def rows(self):
        if self.on_chip:
            return self.parts
        return self.dims[0][1] if len(self.dims) > 1 else 1

    @property
    def columns(self):
        n = math.prod(d[1] for d in self.dims)
        return n if self.on_chip else n // max(self.rows, 1)

    @property
    def start(self):
        """Physical first partition."""
        return self.tensor.partition + self.part

    def contiguous(self):
        expect = 1
        for step, num in reversed(self.dims):
            if num != 1 and step != expect:
                return False
            expect *= num
        return True

    def index(self):
        """Element indices, one per element in order."""
        idx = np.zeros(1, np.int64)
        for step, num in self.dims:
            idx = (idx[:, None] + np.arange(num) * step).reshape(-1)
        return idx + self.offset // self.dtype.size

    def json(self):
        if self.text is not None:
            return self.text
        out = {"tensor": self.tensor.name}
        if self.on_chip:
            out["partition"], out["partitions"] = self.part, self.parts
        out["offset"], out["ap"] = self.offset, self.dims
        out["dtype"] = self.dtype.name
        if self.dynamic:
            return {**out, "dynamic": [d.json() for d in self.dynamic]}
        return out


class Dynamic:
    """A run-time offset: `kind` scalar, vector or indirect with `index` (a View), or register."""

    def __init__(self, kind, index, stride=1, limit=0, group=16):
        self.kind, self.index, self.stride = kind, index, stride
        self.limit, self.group = limit, group

    def json(self):
        out = {self.kind: self.index if self.kind == "register" else self.index.json()}
        if self.kind == "indirect":
            return {**out, "stride": self.stride, "group": self.group}
        out["stride"] = self.stride
        if self.limit:
            out["limit"] = self.limit
        return out


def real(value):
    """A number as the trace format writes it."""
    value = float(value)
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")


class Inst:
    def __init__(self, op, engine=None, /, **args):
        self.core = 0
        self.op, self.engine, self.args = op, engine, {k: v for k, v in args.items() if v is not None}

    def json(self):
        out = {"i": self.op}
        if self.engine:
            out["engine"] = self.engine
        if self.core:
            out["core"] = self.core
        for key, value in self.args.items():
            out[key] = json_value(value)
        return out

    def views(self):
        for key, value in self.args.items():
            if isinstance(value, View):
                yield key, value
            elif isinstance(value, list):
                for v in value:
                    if isinstance(v, View):
                        yield key, v


def json_value(value):
    if isinstance(value, View):
        return value.json()
    if isinstance(value, list):
        return [json_value(v) for v in value]
    if isinstance(value, (bool, int, str, dict)) or value is None:
        return value
    if isinstance(value, np.integer):
        return int(value)
    return real(value)


class Case:
    def __init__(self, target, tensors, insts, virtual=False):
        self.target, self.tensors, self.insts, self.virtual = target, tensors, insts, virtual
        self.cores = 1

    def header(self, name="case"):
        out = {"nisa": 1, "target": self.target, "name": name}
        if self.virtual:
            out["addresses"] = "virtual"
        if self.cores > 1:
            out["cores"] = self.cores
        return out

    def text(self):
        lines = [self.header()]
        lines += [t.json(self.virtual) for t in self.tensors]
        lines += [i.json() for i in self.insts]
        return "\n".join(json.dumps(line) for line in lines) + "\n"

    def sizes(self):
        return max((v.rows for i in self.insts for _, v in i.views()), default=0), max(
            (v.columns for i in self.insts for _, v in i.views()), default=0)  # fmt: skip


class Memory:
    """Bytes and engine registers as the reference sees them."""

    def __init__(self, case):
        self.generation = GENERATIONS[case.target]
        self.bytes = {t.name: t.data.copy() for t in case.tensors}
        self.ranges = []  # (view, its elements, low raw, high raw): results with a stated bound
        self.vector = np.zeros(128, F32)  # VectorE accumulators
        self.scalar = np.zeros((2, 128), F32)  # ScalarE accumulators: lowest and highest allowed
        self.xorwow = {}
        self.loose = []  # the same, where only the two values themselves are allowed
        self.free = []  # views whose contents no document defines
        self.checks = []  # callables (actual bytes by tensor) -> None or a message
        self.registers = {}
        self.printed = []  # texts of device_print
        self.received = {}  # core -> what the other core's sendrecv has sent it
        self.case = case
        self.numbers = []  # (seed, view) of what a seeded generator wrote

    def cells(self, view):
        data = self.bytes[view.tensor.name]
        rows = slice(view.part, view.part + view.parts) if view.on_chip else slice(0, 1)
        return data[rows].view(view.dtype.raw)

    def _indirect(self, view, idx):
        """Element indices per row once run-time offsets are applied: [rows, N]."""
        for d in view.dynamic or []:
            if d.kind == "scalar":
                idx = idx + int(self.integers(d.index)[0, 0]) * d.stride
            elif d.kind == "indirect":
                table = self.integers(d.index)  # [G, count]
                n = np.arange(view.columns if view.on_chip else len(idx))
                values = table[n % d.group, n // d.group]
                idx = idx[0] + values * d.stride
            elif d.kind == "vector":
                rows = self.integers(d.index).T.reshape(-1)[: view.dims[0][1]]
                inner = View(view.tensor, [[0, 1]] + view.dims[1:], view.dtype, offset=view.offset)
                idx = (inner.index()[None, :] + rows[:, None] * d.stride).reshape(-1)
        return idx

    def integers(self, view):
        return decode_bits(view.dtype, self.raw(view)).view(np.int32).astype(np.int64)

    def raw(self, view):
        """Raw bits [rows, columns]."""
        idx = self._indirect(view, view.index())
        got = self.cells(view)[:, idx]
        return got if view.on_chip else got.reshape(view.rows, -1)

    def load(self, view):
        return decode(view.dtype, self.raw(view))

    def bits(self, view):
        return decode_bits(view.dtype, self.raw(view))

    def store_raw(self, view, raw):
        idx = self._indirect(view, view.index())
        cells = self.cells(view)
        cells[:, idx] = raw.reshape(cells.shape[0], -1)

    def store_raw_where(self, view, raw, mask):
        old = self.raw(view)
        self.store_raw(view, np.where(mask, raw, old))

    def store(self, view, values):
        """FP32 values, or a (low, high) pair of what is allowed."""
        if isinstance(values, tuple):
            low, high = values
            raw = encode(view.dtype, low.reshape(view.rows, -1))
            if low is not high:
                if view.dtype.kind == "bool":  # zero may lie between two nonzero bounds
                    high = np.where((low <= 0) & (high >= 0), F32(0), high)
                other = encode(view.dtype, high.reshape(view.rows, -1))
                if (other != raw).any():
                    self.ranges.append((view, self._indirect(view, view.index()), raw, other))
            self.store_raw(view, raw)
        else:
            self.store_raw(view, encode(view.dtype, values.reshape(view.rows, -1)))

    def store_bits(self, view, bits):
        self.store_raw(view, encode_bits(view.dtype, bits.reshape(view.rows, -1)))

    def column(self, value, rows, absent=0.0):
        """A constant or [P,1] operand as FP32 [P]."""
        if isinstance(value, View):
            return self.load(value)[:, 0]
        return np.full(rows, absent if value is None else value, F32)

    def column_bits(self, value, rows):
        if isinstance(value, View):
            return self.bits(value)[:, 0]
        return np.full(rows, int(value or 0) & 0xFFFFFFFF, np.uint32)
