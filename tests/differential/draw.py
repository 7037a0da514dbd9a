"""Chooses tensors, views and values of random instruction tests: dtypes, memories, partitions,
strides.
"""

import random
import zlib

import numpy as np

from dtypes import COMPUTE, DTYPES, F32, encode
from machine import GENERATIONS, Dynamic, Tensor, View

TARGETS = ["trn1", "trn2", "trn3", "inf2"]
SBUF_BYTES = {"trn1": 192, "inf2": 192, "trn2": 192, "trn3": 256}  # KiB we place in; at most what is there
COLUMNS = [1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 31, 32, 48, 64, 65, 96, 128]
PARTS = [1, 1, 2, 3, 4, 7, 8, 16, 17, 31, 32, 33, 48, 64, 65, 96, 100, 127, 128]
SPECIALS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e-40, -1e-45, np.inf, -np.inf, np.nan, 127.5,
            128.0, -128.5, 255.5, 256.0, 32767.5, 65504.0, 65520.0, 448.0, 464.0, 465.0, 240.0, 248.0,
            57344.0, 61440.0, 2.0**24 + 2, 2.0**31, -(2.0**31), 2.0**32, 3.4e38, -3.4e38, 1e-30]  # fmt: skip


class Draw:
    """One case being drawn. `max_parts` and `max_columns` bound its size; `plain` forbids strides."""

    cores = 1

    def __init__(self, seed, target=None, max_parts=128, max_columns=512, plain=False):
        self.r = random.Random(seed)
        self.n = np.random.Generator(np.random.PCG64(zlib.crc32(str(seed).encode())))
        self.target = target or self.r.choices(TARGETS, [3, 5, 5, 1])[0]
        self.fixed = target is not None
        self.generation = GENERATIONS[self.target]
        self.max_parts, self.max_columns, self.plain = max_parts, max_columns, plain
        self.most_rank = 4
        self.tensors, self.virtual = [], self.r.random() < 0.2
        self.next_address = {"sbuf": self.r.choice([0, 64, 4096]), "psum": 0}

    # Choices ------------------------------------------------------------------------------------

    def require(self, generation):
        """Redraws until the target has `generation`."""
        if self.fixed and self.generation < generation:
            raise Full
        while self.generation < generation:
            self.target = self.r.choice(TARGETS)
            self.generation = GENERATIONS[self.target]

    def chance(self, p):
        return self.r.random() < p

    def pick(self, items):
        return self.r.choice(items)

    def dtype(self, items=None):
        if items is None:
            items = COMPUTE
            if self.chance(0.5):
                items = [DTYPES[n] for n in ("float32", "bfloat16", "float16", "int32", "float8_e4m3")]
        return self.pick([DTYPES[i] if isinstance(i, str) else i for i in items])

    def parts(self, limit=128):
        fit = [p for p in PARTS if p <= min(limit, self.max_parts)]
        return self.pick(fit) if self.chance(0.8) else self.r.randint(1, min(limit, self.max_parts))

    def columns(self, rows=1, limit=10**9, low=1):
        if self.chance(0.02) and self.max_columns >= 512:
            return self.r.randint(low, max(low, min(limit, 2048)))
        limit = min(limit, max(self.max_columns, low), max(low, 8192 // rows))
        fit = [c for c in COLUMNS if low <= c <= limit]
        return self.pick(fit) if fit and self.chance(0.8) else self.r.randint(low, max(low, min(limit, 80)))

    def start(self, parts):
        legal = [0] if parts > 64 else ([0, 64] if parts > 32 else [0, 32, 64, 96])
        return self.pick(legal)

    def space(self, on_chip=("sbuf", "psum")):
        return self.pick(on_chip) if self.chance(0.6) else on_chip[0]

    def spaces(self, count, engine=None, one_psum=None):
        """Spaces of `count` operands; of those listed in `one_psum` only one may be in PSUM."""
        out = [("sbuf" if engine == "gpsimd" else self.space()) for _ in range(count)]
        if one_psum and all(out[i] == "psum" for i in one_psum):
            out[self.pick(one_psum)] = "sbuf"
        return out

    # Values -------------------------------------------------------------------------------------

    def profile(self):
        return self.r.choices(["bits", "normal", "ints", "special", "wide"], [3, 4, 2, 2, 2])[0]

    def values(self, shape, profile):
        n = self.n
        if profile == "ints":
            return n.integers(-9, 10, shape).astype(F32)
        if profile == "special":
            return n.choice(np.array(SPECIALS, F32), shape)
        if profile == "wide":
            return (n.standard_normal(shape) * np.exp2(n.integers(-30, 31, shape))).astype(F32)
        if profile == "onezero":
            return n.integers(0, 2, shape).astype(F32)
        if profile == "unit":
            return n.uniform(-1, 1, shape).astype(F32)
        if profile == "positive":
            return (np.abs(n.standard_normal(shape)) + 0.01).astype(F32)
        return (n.standard_normal(shape) * self.pick([0.1, 1.0, 10.0, 200.0])).astype(F32)

    def raw(self, dtype, shape, profile=None):
        profile = profile or self.profile()
        if dtype.kind == "bool":
            return self.n.integers(0, 2, shape).astype(np.uint8)
        if profile == "bits":
            return self.n.integers(0, 1 << (8 * dtype.size), shape, dtype=np.uint64).astype(dtype.raw)
        if dtype.kind == "int" and profile in ("wide", "special"):
            info = np.iinfo(dtype.storage)
            edge = np.array([info.min, info.max, 0, 1, info.max - 1, info.max // 2], np.int64)
            return self.n.choice(edge, shape).astype(dtype.storage).view(dtype.raw)
        if dtype.kind in ("packed", "scale"):
            wide = (*shape[:-1], shape[-1] * dtype.pack)
            return encode(dtype, self.values(wide, profile))
        return encode(dtype, self.values(shape, profile))

    def constant(self, profile=None):
        """An FP32 constant."""
        return float(self.values((1,), profile or self.pick(["normal", "ints", "ints", "wide"]))[0])

    # Shapes -------------------------------------------------------------------------------------

    def factor(self, n, rank=None):
        """`n` as a product of one to four dimensions."""
        rank = rank or (1 if self.plain else min(self.most_rank, self.r.choices([1, 2, 3, 4], [6, 3, 2, 1])[0]))
        dims = []
        for _ in range(rank - 1):
            divisors = [k for k in range(1, min(n, 64) + 1) if n % k == 0]
            k = self.pick(divisors)
            dims.append(k)
            n //= k
        dims.insert(self.r.randint(0, len(dims)) if dims else 0, n)
        return dims

    def layout(self, dims, write):
        """Steps for `dims`: dense, gapped, reversed, broadcast or permuted. Returns the pattern, the
        lowest element it touches relative to its start and the elements it spans."""
        kind = "dense" if self.plain else self.r.choices(
            ["dense", "gaps", "negative", "zero", "permuted"], [4, 3, 2, 1, 2])[0]  # fmt: skip
        order = list(range(len(dims)))[::-1]  # innermost first
        if kind == "permuted":
            self.r.shuffle(order)
        step, steps = (self.pick([2, 3, 4, 5]) if kind == "gaps" else 1), [0] * len(dims)
        for i in order:
            steps[i] = step
            step = step * dims[i] + (self.pick([0, 1, 3]) if kind in ("gaps", "negative") else 0)
        for i in range(len(dims)):
            if kind == "negative" and self.chance(0.6):
                steps[i] = -steps[i]
            if kind == "zero" and not write and self.chance(0.6):
                steps[i] = 0
        low = sum(min(0, s * (k - 1)) for s, k in zip(steps, dims))
        high = sum(max(0, s * (k - 1)) for s, k in zip(steps, dims))
        return [[s, k] for s, k in zip(steps, dims)], low, high - low + 1

    # Operands -----------------------------------------------------------------------------------

    def address(self, space, row_bytes, align=4):
        at = -(-self.next_address[space] // align) * align
        limit = 16384 if space == "psum" else SBUF_BYTES[self.target] * 1024
        if at + row_bytes > limit:
            raise Full
        self.next_address[space] = at + row_bytes + self.pick([0, 0, 4, 64])
        return at

    def view(self, space, dtype, parts, columns=None, dims=None, write=False, profile=None, start=None,
             data=None, dense=False, align=None, rank=None):  # fmt: skip
        """A fresh on-chip tensor and a view of it. `data` are raw bits [parts, columns]."""
        dims = dims or self.factor(columns, rank)
        plain = self.plain
        self.plain = plain or dense
        ap, low, span = self.layout(dims, write)
        self.plain = plain
        lead, tail = (0, 0) if self.plain or dense or self.chance(0.5) else (self.r.randint(0, 5), 3)
        per_word = max(1, 4 // dtype.size)
        width = -(-(lead + span + tail) // per_word) * per_word
        start = self.start(parts) if start is None else start
        whole = self.plain or self.chance(0.6)
        base, rows = (start, parts) if whole else (0, 128 if self.chance(0.3) else start + parts)
        raw = self.raw(dtype, (rows, width), profile)
        tensor = Tensor(f"t{len(self.tensors)}", space, dtype, [rows, width], raw.view(np.uint8),
                        self.address(space, width * dtype.size, align or max(4, dtype.size)), base)  # fmt: skip
        view = View(tensor, ap, dtype, start - base, parts, (lead - low) * dtype.size)
        if data is not None:
            cells = tensor.data.view(dtype.raw)
            cells[start - base : start - base + parts, view.index()] = data
        if width == span and whole and len(dims) == 1 and ap[0][0] == 1 and self.chance(0.5):
            view.text = tensor.name
            view.offset = 0
        self.tensors.append(tensor)
        return view

    def hbm(self, dtype, dims, write=False, profile=None, data=None):
        ap, low, span = self.layout(dims, write)
        lead = 0 if self.plain else self.r.choice([0, 0, 3])
        width = -(-(lead + span) // 4) * 4
        raw = self.raw(dtype, (1, width), profile)
        if data is not None:
            view_index = View(Tensor("", "hbm", dtype, [width], None), ap, dtype).index() + lead - low
            raw[0, view_index] = data.reshape(-1)
        tensor = Tensor(f"t{len(self.tensors)}", "hbm", dtype, [width], raw.view(np.uint8))
        self.tensors.append(tensor)
        return View(tensor, ap, dtype, offset=(lead - low) * dtype.size)

    def column(self, parts, dtype="float32", profile=None, engine=None, start=None):
        """A [P, 1] operand."""
        space = "sbuf" if engine == "gpsimd" else self.space()
        return self.view(space, DTYPES[dtype], parts, 1, profile=profile, rank=1, start=start)

    def scalar(self, parts, engine=None, profile=None, dtype="float32"):
        """A constant or a [P, 1] FP32 operand."""
        if self.chance(0.5):
            return self.constant(profile)
        return self.column(parts, dtype, profile, engine)

    def indirect(self, view, group=16):
        """Makes of a dense one-dimensional view a v4 gather or scatter through a fresh index."""
        count = view.dims[0][1]
        columns = -(-count // group)
        order = self.n.permutation(count)
        table = np.zeros((group, columns), np.uint32)
        i = np.arange(count)
        table[i % group, i // group] = order
        index = self.view("sbuf", DTYPES["uint32"], group, columns, start=view.start, data=table,
                          dense=True, rank=1)  # fmt: skip
        view.dynamic, view.text = [Dynamic("indirect", index, group=group)], None
        return view


class Full(Exception):
    """The drawn operands do not fit; draw another case."""
