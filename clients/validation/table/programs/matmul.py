"""Rebuilds measured matmul kernels: the tutorials' steps of hoisting and blocking, and versions of
the 2048^3 product.

The sources clear PSUM with memset before they accumulate. In resident() VectorE does so; the profile
of the single-bank kernel shows it: active for 18 % of 366 us, 4.2 us per row of tiles, of which a copy
out of PSUM takes half. Elsewhere the first product of a sum overwrites instead.
"""
from .common import N, P, Program
from .memory import fit


class _Product(Program):
    """out[M, N] = lhsT[K, M].T @ rhs[K, N] in tiles of 128 x 128 x 512."""

    def __init__(self, name, target, m, k, n, dtype, out_dtype, banks=8):
        super().__init__(name, target)
        self.m, self.k, self.n, self.dtype, self.out_dtype = m, k, n, dtype, out_dtype
        self.lhs = self.input("lhsT", (k, m), dtype)
        self.rhs = self.input("rhs", (k, n), dtype)
        self.out = self.output("out", (m, n), out_dtype)
        self.bank = self.ring("bank", banks, (P, N), space="psum")

    def load_lhs(self, tile, k, m, tiles=1):
        self.load(tile, self.lhs[k * P:(k + 1) * P, m * P:(m + tiles) * P])

    def load_rhs(self, tile, k, n, tiles=1):
        self.load(tile, self.rhs[k * P:(k + 1) * P, n * N:(n + tiles) * N])

    def drain(self, bank, result, m, n):
        self.tensor_copy(dst=result, src=bank, engine="vector")
        self.store(self.out[m * P:(m + 1) * P, n * N:(n + 1) * N], result)


def tiled(target="trn2", m=4096, k=8192, n=8192, dtype="float32", buffers=8, name="matmul tiled"):
    """Both operands of every nc_matmul are loaded just before it."""
    t = _Product(name, target, m, k, n, dtype, dtype)
    left, right = t.ring("l", buffers, (P, P), dtype), t.ring("r", buffers, (P, N), dtype)
    result = t.ring("o", 4, (P, N), dtype)
    for i in range(m // P):
        for j in range(n // N):
            bank = t.bank()
            for c in range(k // P):
                a, b = left(), right()
                t.load_lhs(a, c, i)
                t.load_rhs(b, c, j)
                t.nc_matmul(dst=bank, stationary=a, moving=b, accumulate=c > 0)
            t.drain(bank, result(), i, j)
    return t


def blocked(target="trn2", m=4096, k=8192, n=8192, dtype="float32", bm=1, bn=1):
    """Loads hoisted out of the product of bm x bn tiles (1 x 1: the tutorial's hoisting).

    SBUF holds lhsT's block and, in the rest, rhs tiles one after another. Where the rest is smaller than a
    block of rhs (FP32, 2 x 2: 256 KiB per partition), its tiles are loaded again for the second row
    of tiles. The tutorial's profile of that kernel shows this traffic: 8.7 GB at 42.55 % of 716 GB/s,
    while the source alone would move 4.6 GB.
    """
    t = _Product("matmul blocked", target, m, k, n, dtype, dtype)
    steps = k // P
    size = 4 if dtype == "float32" else 2
    block = steps * bm * P * size
    lefts = 2 if 2 * block + bn * steps * N * size <= 180 * 1024 else 1
    left = t.ring("l", lefts, (P, bm, steps, P), dtype)
    spare = (190 * 1024 - lefts * block - 4 * N * size) // (N * size)
    again = spare < bn * steps
    right = t.ring("r", min(spare, 2 * bn * steps), (P, N), dtype)
    result = t.ring("o", 4, (P, N), dtype)

    def row(a, i, j, x, tiles):
        for y in range(bn):
            bank = t.bank()
            for c in range(steps):
                if (y, c) not in tiles or again:
                    tiles[y, c] = right()
                    t.load_rhs(tiles[y, c], c, j * bn + y)
                t.nc_matmul(dst=bank, stationary=a[:, x, c, :], moving=tiles[y, c],
                            accumulate=c > 0)
            t.drain(bank, result(), i * bm + x, j * bn + y)

    for i in range(m // P // bm):
        a = left()
        for x in range(bm):
            for c in range(steps):
                t.load_lhs(a[:, x, c, :], c, i * bm + x)
        for j in range(n // N // bn):
            tiles = {}
            for x in range(bm):
                row(a, i, j, x, tiles)
    return t


def whole_blocks(target="trn1", m=4096, k=8192, n=8192, dtype="bfloat16", bm=1, bn=1):
    """As blocked(), for the tutorial's first API: a block of tiles is one tensor there.

    lhsT's and rhs's block take 128 KiB (1 x 1; lhsT's tensor is declared 512 wide) and 160 KiB (2 x 2)
    of the 192 KiB of a partition, so neither fits twice, and such a tensor is waited for and released
    as a whole: loads and products alternate. Traces depend on bytes, not on tensors; so the products
    begin with the tile that is loaded last and end with the one that is loaded first.
    """
    t = _Product("matmul whole blocks", target, m, k, n, dtype, dtype)
    steps = k // P
    left = t.sbuf("l", (P, bm, steps, P), dtype)
    right = t.sbuf("r", (P, bn, steps, N), dtype)
    result = t.ring("o", 4, (P, N), dtype)
    order = [steps - 1, *range(1, steps - 1), 0]
    for i in range(m // P // bm):
        for x in range(bm):
            for c in range(steps):
                t.load_lhs(left[:, x, c, :], c, i * bm + x)
        for j in range(n // N // bn):
            for y in range(bn):
                for c in range(steps):
                    t.load_rhs(right[:, y, c, :], c, j * bn + y)
            for y in reversed(range(bn)):
                for x in reversed(range(bm)):
                    bank = t.bank()
                    for step, c in enumerate(order):
                        t.nc_matmul(dst=bank, stationary=left[:, x, c, :],
                                    moving=right[:, y, c, :], accumulate=step > 0)
                    t.drain(bank, result(), i * bm + x, j * bn + y)
    return t


def _write_columns(t, j, sums):
    """Stores the j-th block of columns from its sums: a row of tiles per 128 rows."""
    width = len(sums[0]) * N
    for i, row in enumerate(sums):
        tile = t.tile("p", (P, width), row[0].dtype)
        for y, part in enumerate(row):
            t.tensor_copy(dst=tile[:, y * N:(y + 1) * N], src=part, engine="vector")
        t.store(t.out[i * P:(i + 1) * P, j * width:(j + 1) * width], tile)


def fully_blocked(target="trn2", m=4096, k=8192, n=8192, dtype="float32", bm=16, bn=2, bk=8,
                  piece=N, capacity=None):
    """All three dimensions blocked; partial sums over K blocks are added up in SBUF.

    Loads are cut into `piece` columns; a block's pieces come when those that they replace have been
    used. In FP32 one block of each operand and the sums take 224 KiB of `capacity` bytes per
    partition: what is used last is stored and comes back (memory.fit).
    """
    t = _Product("matmul fully blocked", target, m, k, n, dtype, dtype)
    rows, depth = m // P, k // P // bk
    order = [(j, block, i) for j in range(n // N // bn) for block in range(depth)
             for i in range(rows // bm)]

    def load(source, block, first):
        tiles = [t.tile("b", (P, piece), dtype) for _ in range(bk)]
        for c, tile in enumerate(tiles, block * bk):
            t.load(tile, source[c * P:(c + 1) * P, first:first + piece])
        return tiles

    def left(step, part):
        _, block, i = order[step]
        return load(t.lhs, block, i * bm * P + part * piece)

    def right(step, part):
        j, block, _ = order[step]
        return load(t.rhs, block, j * bn * N + part * piece)

    def products(step, a, b, sums):
        """Ends with the next block's pieces in `a` and `b`."""
        i, following = order[step][2], step + 1 if step + 1 < len(order) else None
        new_right = following and order[following][:2] != order[step][:2]
        for y in range(bn):
            for x in range(bm):
                bank, (q, at), (r, to) = t.bank(), divmod(x * P, piece), divmod(y * N, piece)
                for c in range(bk):
                    t.nc_matmul(dst=bank, stationary=a[q][c][:, at:at + P],
                                moving=b[r][c][:, to:to + N], accumulate=c > 0)
                tile = sums[i * bm + x][y]
                t.tensor_tensor(dst=tile, data1=tile, data2=bank, op="add", engine="vector")
                if following and y == bn - 1 and at + P == piece:
                    a[q] = left(following, q)
            if new_right and to + N == piece:
                b[r] = right(following, r)

    b, a = ([of(0, part) for part in range(columns // piece)]
            for of, columns in ((right, bn * N), (left, bm * P)))
    for step, (j, block, i) in enumerate(order):
        if block == i == 0:
            sums = [[t.tile("s", (P, N), dtype) for _ in range(bn)] for _ in range(rows)]
            for tile in (tile for row in sums for tile in row):
                t.memset(dst=tile, value=0.0, engine="vector")
        products(step, a, b, sums)
        if block == depth - 1 and i == rows // bm - 1:
            _write_columns(t, j, sums)
    return fit(t, capacity)


def inner_loads(target="trn2", size=2048, buffers=8):
    """The ladder's first rung: loads in the innermost loop.

    The source names one buffer per operand. In that order a product would take a DMA round trip of
    4 us (5 % MFU); the 16 % measured with the compiler's scheduling on need renamed buffers.
    """
    return tiled(target, size, size, size, "bfloat16", buffers, "ladder: inner loads")


def resident(target="trn2", size=2048, sets=1, skewed=False):
    """Operands loaded once; `sets` accumulators of four banks (one row of tiles) alternate.

    The compiler's instruction scheduling is on in these measurements: loads come in the order of
    their use, one slice of either operand after the other, and while they arrive the products of the
    rows that have an accumulator run slice by slice (else nothing could before the last slice).
    skewed: the row before is emptied after this row's products, as the pipelined kernel is written.
    """
    dtype, rows, columns, steps = "bfloat16", size // P, size // N, size // P
    t = Program(f"ladder: {sets} accumulator sets", target)
    lhs, rhs = t.input("lhsT", (size, size), dtype), t.input("rhs", (size, size), dtype)
    out = t.output("out", (size, size), dtype)
    left, right = (t.sbuf(name, (P, steps, size), dtype) for name in ("l", "r"))
    results = t.sbuf("o", (P, rows, size), dtype)
    banks = [t.psum(f"acc{s}", (P, size)) for s in range(sets)]

    def clear(i):
        if i < rows:
            t.memset(dst=banks[i % sets], value=0.0, engine="vector")

    def product(i, j, c):
        t.nc_matmul(dst=banks[i % sets][:, j * N:(j + 1) * N], accumulate=True,
                    stationary=left[:, c, i * P:(i + 1) * P],
                    moving=right[:, c, j * N:(j + 1) * N])

    def drain(i):
        """Empties the accumulator of row i and clears it for the row that is next."""
        t.tensor_copy(dst=results[:, i, :], src=banks[i % sets], engine="vector")
        clear(i + sets)

    for i in range(sets):
        clear(i)
    for c in range(steps):
        for tile, source in ((left, lhs), (right, rhs)):
            t.load(tile[:, c, :], source[c * P:(c + 1) * P, :])
        for i in range(sets):
            for j in range(columns):
                product(i, j, c)
    for i in range(sets):
        drain(i)
    for i in range(sets, rows):
        for j in range(columns):
            for c in range(steps):
                product(i, j, c)
        if not skewed:
            drain(i)
        elif i > sets:
            drain(i - 1)
    if skewed:
        drain(rows - 1)
    for i in range(rows):
        t.store(out[i * P:(i + 1) * P, :], results[:, i, :])
    return t


def two_stage(target="trn2", size=2048):
    """K in two halves, added up in SBUF; slices of both operands double-buffered."""
    dtype, half = "bfloat16", 8
    t = _Product("ladder: two-stage K", target, size, size, size, dtype, dtype)
    rows = size // P
    output = [[t.sbuf(f"out{j}_{i}", (P, N), dtype) for i in range(rows)] for j in range(4)]
    left = [[[t.sbuf(f"l{h}{q}_{c}", (P, N), dtype) for c in range(half)] for q in range(4)]
            for h in range(2)]
    right = [[t.sbuf(f"r{h}_{c}", (P, N), dtype) for c in range(half)] for h in range(2)]
    partial = t.ring("part", 4, (P, N), dtype)
    for j in range(4):
        for tile in output[j]:
            t.memset(dst=tile, value=0.0, engine="gpsimd")
        for h in range(2):
            for c in range(half):
                t.load_rhs(right[h][c], h * half + c, j)
            for q in range(4):
                for c in range(half):
                    t.load_lhs(left[h][q][c], h * half + c, q * 4, 4)
                for x in range(4):
                    bank = t.bank()
                    for c in range(half):
                        t.nc_matmul(dst=bank, stationary=left[h][q][c][:, x * P:(x + 1) * P],
                                    moving=right[h][c], accumulate=c > 0)
                    part, total = partial(), output[j][q * 4 + x]
                    t.tensor_copy(dst=part, src=bank)
                    t.tensor_tensor(dst=total, data1=total, data2=part, op="add")
        for i in range(rows):
            t.store(t.out[i * P:(i + 1) * P, j * N:(j + 1) * N], output[j][i])
    return t


def transposed_loads(target="trn2", size=2048):
    """lhs @ rhs: lhs arrives through dma_transpose; K in two halves, added up in SBUF.

    Blocks of 1024 x 1024 of lhs, loaded again for every 512 columns of rhs, as the source does.
    """
    dtype, tiles = "bfloat16", 8
    t = _Product("matmul transposed loads", target, size, size, size, dtype, dtype)
    half = tiles * P
    left = [[[t.sbuf(f"l{d}{h}_{c}", (P, half), dtype) for c in range(tiles)] for h in range(2)]
            for d in range(2)]
    right = t.ring("r", 4 * tiles, (P, N), dtype)
    output = [t.sbuf(f"out{x}", (P, size), dtype) for x in range(tiles)]
    partial = t.ring("part", 4, (P, N), dtype)

    def products(d, h, j, moving):
        for x in range(tiles):
            bank = t.bank()
            for c in range(tiles):
                t.nc_matmul(dst=bank, stationary=left[d][h][c][:, x * P:(x + 1) * P],
                            moving=moving[c], accumulate=c > 0)
            part, total = partial(), output[x][:, j * N:(j + 1) * N]
            t.tensor_copy(dst=part, src=bank)
            t.tensor_tensor(dst=total, data1=total, data2=part, op="add")

    for d in range(size // half):
        for tile in output:
            t.memset(dst=tile, value=0.0, engine="gpsimd")
        for j in range(size // N):
            for h in range(2):
                for c in range(tiles):
                    t.dma_transpose(dst=left[d][h][c], engine="sync",
                                    src=t.lhs[d * half:(d + 1) * half,
                                              h * half + c * P:h * half + (c + 1) * P])
                moving = [right() for _ in range(tiles)]
                for c in range(tiles):
                    t.load_rhs(moving[c], h * tiles + c, j)
                products(d, h, j, moving)
            for x in range(tiles):
                t.store(t.out[(d * tiles + x) * P:(d * tiles + x + 1) * P, j * N:(j + 1) * N],
                        output[x][:, j * N:(j + 1) * N])
    return t
