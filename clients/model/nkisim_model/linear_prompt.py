"""Implements linear attention of a prompt, 128 tokens at a time: what the tokens of a tile do to each other is a
product of matrices, and the state goes from tile to tile.

With G the sum of the logarithms of the state's factors up to a token, S the state before the tile, and k, q, v a tile's
keys, queries and values as rows:

    u = v time                                               (Mamba 2)
    u = (I + A)^-1 beta (v - e^G k S),  A[t, s] = beta_t e^(G_t - G_s) k_t k_s  for s < t   (the gated delta rule)
    y = e^G q S + P u,                  P[t, s] = e^(G_t - G_s) q_t k_s         for s <= t
    S' = e^G_last S + sum over s of e^(G_last - G_s) k_s u_s

The inverse is made of blocks on the diagonal, each time twice as large (X - X A' X, A' what lies between two of them),
so that no power of A is needed. Matrices are kept transposed where the Tensor engine wants them so: [s, t]. The part is
a function as library.py has them, of x [1, tokens, hidden].
"""

import nki.isa as nisa
import nki.language as nl

from . import attend, blocks, kernels, linear, own, own_prompt
from .blocks import BANK, LANES, hbm, sbuf

TOGETHER = 8  # heads whose states go through the tokens side by side
COLUMNS = 1024  # of the convolution, or of the gate, at a time


def attention(x, w, share, step):
    """RMSNorm, projection, convolution, the state's way through all tokens, gated norm, output."""
    tokens, hidden = x.shape[1], x.shape[2]
    core, count = kernels.cores()
    one, columns = share.model.linear, w.linear_in.shape[1]
    rows = x.reshape((tokens, 1, hidden))
    given, found = hbm((tokens, columns), x.dtype), hbm((tokens, share.value_heads * one.value_dim), x.dtype)
    for at, some in own_prompt.chunks(tokens, 2 * hidden, own_prompt.ROW_BYTES):
        own.project(blocks.normed(rows[nl.ds(at, some), :, :], w.norm1, share), w.linear_in,
                    *blocks.halves(columns, core, count), given[nl.ds(at, some), :])
    kernels.meet(given, count)
    first, mine = blocks.halves(share.value_heads, core, count)
    for at, some in blocks.spans(mine, TOGETHER):
        _Tiles(given, w, share, (first + at, some)).run(found)
    kernels.meet(found, count)
    gated, group = hbm(found.shape, x.dtype), share.value_heads // share.key_heads * one.value_dim
    for at, some in blocks.spans(tokens, LANES)[core::count]:
        for keys in blocks.spans(share.key_heads, max(1, COLUMNS // group)):
            linear.gate(gated, found, given, w, share, keys, (at, some))
    kernels.meet(gated, count)
    out = hbm(x.shape, x.dtype)
    for at, some in own_prompt.chunks(tokens, 2 * gated.shape[1], own_prompt.ROW_BYTES):
        own.project(blocks.transposed_rows(gated[nl.ds(at, some), :], gated.shape[1]), w.linear_out,
                    *blocks.halves(hidden, core, count, BANK), out.reshape((tokens, hidden))[nl.ds(at, some), :])
    return out


class _Tiles(linear.Heads):
    """Some heads of values, with the heads of keys that they share, of all tokens; at, some: the tile's tokens."""

    def __init__(self, given, w, share, heads):
        super().__init__(given, w, share, heads, (0, LANES))
        self.dtype, n = given.dtype, self.one.value_dim
        self.state = sbuf((self.lanes, self.parts, self.count, n), nl.float32)
        nisa.memset(dst=self.state, value=0.0)
        self.before = blocks.triangle(LANES)  # [s, t]: 1 where t is not before s
        self.shut = sbuf((LANES, LANES), nl.float32)
        nisa.tensor_scalar(dst=self.shut, data=self.before, op0=nl.subtract, operand0=1.0, op1=nl.multiply,
                           operand1=-attend.SHUT)
        self.between = [_between(size) for size in _sizes()] if self.one.delta else []
        self.even = blocks.identity(LANES)
        self.skip = sbuf((LANES, self.count), nl.float32)
        if not self.one.delta:
            nisa.dma_copy(dst=self.skip, src=w.linear_skip.ap([[0, LANES], [1, self.count]], offset=self.first))

    def run(self, found):
        places = self.places()
        for at in range(0, self.given.shape[0], LANES):
            self.at = at
            self._tile(found, [self._mixed(*place) for place in places])
        another = (-(-self.first // self.each) - self.key) * self.one.key_dim  # of a key that others begin with
        for (first, size), skipped in zip(places, (another, another, 0)):
            if size > skipped:
                self._keep(first + skipped, size - skipped)
        for p in range(self.parts):
            nisa.dma_copy(dst=self.w.state[0, nl.ds(p * self.lanes, self.lanes), nl.ds(self.first, self.count), :],
                          src=self.state[:, p, :, :])

    def _mixed(self, first, size):
        """The convolution of columns of the projection: [tokens, size] in float32."""
        out = sbuf((LANES, size), nl.float32)
        for at, some in blocks.spans(size, COLUMNS):
            part = self.convolved(first + at, self._window(first + at, some))
            nisa.tensor_copy(dst=out[:, nl.ds(at, some)], src=part)
        return out

    def _window(self, first, size):
        """The tokens of the convolution: [tokens, taps, size]; those before the prompt are 0."""
        taps = self.one.convolution
        out = sbuf((LANES, taps, size), self.dtype)
        for tap in range(taps):
            early = max(0, taps - 1 - tap - self.at)
            if early:
                nisa.memset(dst=out[nl.ds(0, early), tap, :], value=0.0)
            begin = self.at + tap - taps + 1 + early
            nisa.dma_copy(dst=out[nl.ds(early, LANES - early), tap, :],
                          src=self.given[nl.ds(begin, LANES - early), nl.ds(first, size)])
        return out

    def _keep(self, first, size):
        """Keeps the last tokens of the convolution."""
        taps, tokens = self.one.convolution, self.given.shape[0]
        nisa.dma_copy(dst=self.w.convolved[0, :, nl.ds(first, size)],
                      src=self.given[nl.ds(tokens - taps + 1, taps - 1), nl.ds(first, size)])

    def _tile(self, found, rows):
        one, n, count = self.one, self.one.value_dim, self.count
        queries, keys, values = rows
        rate, beta = self.gates()
        nisa.tensor_scalar(dst=rate, data=rate, op0=nl.multiply, operand0=-1.0)
        if one.delta:
            queries, keys = self.length_one(queries, one.key_dim ** -0.5), self.length_one(keys, 1)
        own_rows = [self._cast(each) for each in (queries, keys)]
        turned = [self.turned(each) for each in own_rows]
        state = sbuf(self.state.shape, self.dtype)
        nisa.tensor_copy(dst=state, src=self.state)
        values = values.reshape((LANES, count, n))
        passed = _Passed(self, rate)
        new = sbuf((LANES, count, n), nl.float32)
        nisa.tensor_tensor(dst=new, data1=values, op=nl.multiply,
                           data2=beta.ap([[count, LANES], [1, count], [0, n]]))
        if one.delta:
            new = self._solved(new, beta, keys, turned[1], state, passed)
        new = self._cast(new)
        out = sbuf((LANES, count, n), found.dtype)
        for h in range(count):
            self._answer(out[:, h, :], h, turned, new, state, passed, values)
            self._move_state(h, own_rows[1], new, passed)
        nisa.dma_copy(dst=found[nl.ds(self.at, LANES), nl.ds(self.first * n, count * n)],
                      src=out.reshape((LANES, count * n)))

    def _cast(self, rows):
        out = sbuf(rows.shape, self.dtype)
        nisa.tensor_copy(dst=out, src=rows)
        return out

    def _product(self, h, left, right, to):
        """Sums over the elements of h's key, of tiles [lanes, heads of keys and parts, tokens] or functions of a part:
        left^T right, into a bank."""
        for p in range(self.parts):
            nisa.nc_matmul(dst=to, stationary=left(h, p), moving=right(h, p))
        return to

    def _of(self, turned):
        return lambda h, p: turned[:, self.key_of(h) * self.parts + p, :]

    def _solved(self, values, beta, keys, turned, state, passed):
        """u of the gated delta rule, from values times beta: [tokens, heads, values] in float32."""
        count, n, d = self.count, self.one.value_dim, self.one.key_dim
        out = sbuf(values.shape, nl.float32)
        scale = sbuf((LANES, count), nl.float32)  # - beta e^G
        nisa.scalar_tensor_tensor(dst=scale, data=beta, op0=nl.multiply, operand0=-1.0, op1=nl.multiply,
                                  operand1=passed.factor)
        known = []
        for h in range(count):
            some, bank = sbuf((LANES, n), nl.float32), _bank(n)
            self._product(h, self._of(turned), lambda h, p: state[:, p, h, :], bank)
            nisa.scalar_tensor_tensor(dst=some, data=bank, op0=nl.multiply, operand0=scale[:, nl.ds(h, 1)], op1=nl.add,
                                      operand1=values[:, h, :])
            known.append(some)
        systems = []
        for h in range(count):
            weighted = sbuf((LANES, d), self.dtype)
            nisa.tensor_scalar(dst=weighted, data=keys[:, nl.ds(self.key_of(h) * d, d)], op0=nl.multiply,
                               operand0=beta[:, nl.ds(h, 1)])
            other = [blocks.transposed_tile(weighted[:, nl.ds(p * self.lanes, self.lanes)]) for p in range(self.parts)]
            bank, system = _bank(LANES), sbuf((LANES, LANES), nl.float32)
            self._product(h, self._of(turned), lambda h, p, other=other: other[p], bank)
            nisa.tensor_tensor(dst=system, data1=bank, data2=passed.between[h], op=nl.multiply)
            systems.append(system)
        for h, inverse in enumerate(self._inverses(systems)):
            bank = _bank(n)
            nisa.nc_matmul(dst=bank, stationary=inverse, moving=known[h])
            nisa.tensor_copy(dst=out[:, h, :], src=bank)
        return out

    def _inverses(self, systems):
        """The inverses of I + A, transposed, from each A transposed (of which what is above the diagonal counts); all
        heads block size by block size, so that none waits for its own last product."""
        both = [[self.even, self.even] for _ in systems]  # the inverse of what is in blocks, and the same transposed
        for n, mask in enumerate(self.between):
            for h, system in enumerate(systems):
                plain, turned = both[h]
                some = sbuf((LANES, LANES), nl.float32)
                nisa.tensor_tensor(dst=some, data1=system, data2=mask, op=nl.multiply)
                bank, left = _bank(LANES), sbuf((LANES, LANES), nl.float32)
                nisa.nc_matmul(dst=bank, stationary=some, moving=plain)
                nisa.tensor_copy(dst=left, src=bank)
                last = n + 1 == len(self.between)
                both[h] = [plain if last else _less(plain, turned, left), _less(turned, left, turned)]
        return [turned for _, turned in both]

    def _answer(self, out, h, turned, new, state, passed, values):
        """y of a head: [tokens, values]."""
        n = self.one.value_dim
        bank, seen = _bank(LANES), sbuf((LANES, LANES), self.dtype)
        self._product(h, self._of(turned[1]), self._of(turned[0]), bank)
        nisa.tensor_tensor(dst=seen, data1=bank, data2=passed.between[h], op=nl.multiply)
        here, far, both = _bank(n), _bank(n), sbuf((LANES, n), nl.float32)
        nisa.nc_matmul(dst=here, stationary=seen, moving=new[:, h, :])
        self._product(h, self._of(turned[0]), lambda h, p: state[:, p, h, :], far)
        nisa.tensor_scalar(dst=both, data=far, op0=nl.multiply, operand0=passed.factor[:, nl.ds(h, 1)])
        to = out if self.one.delta else sbuf((LANES, n), nl.float32)
        nisa.tensor_tensor(dst=to, data1=both, data2=here, op=nl.add)
        if not self.one.delta:
            nisa.scalar_tensor_tensor(dst=out, data=values[:, h, :], op0=nl.multiply,
                                      operand0=self.skip[:, nl.ds(h, 1)], op1=nl.add, operand1=to)

    def _move_state(self, h, keys, new, passed):
        """The state after the tile."""
        d, lanes, n = self.one.key_dim, self.lanes, self.one.value_dim
        left = sbuf((LANES, d), self.dtype)
        nisa.tensor_scalar(dst=left, data=keys[:, nl.ds(self.key_of(h) * d, d)], op0=nl.multiply,
                           operand0=passed.between[h][:, nl.ds(LANES - 1, 1)])
        for p in range(self.parts):
            bank = nl.ndarray((lanes, n), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=bank, stationary=left[:, nl.ds(p * lanes, lanes)], moving=new[:, h, :])
            some = self.state[:, p, h, :]
            nisa.scalar_tensor_tensor(dst=some, data=some, op0=nl.multiply, operand0=passed.last[nl.ds(0, lanes), nl.ds(
                h, 1)], op1=nl.add, operand1=bank)


class _Passed:
    """The factors of the state after some tokens: factor [tokens, heads], from before the tile; between, of each head
    [s, t], from token s to t and 0 where t is before s; last [128, heads], of the whole tile in every partition."""

    def __init__(self, tiles, rate):
        count = tiles.count
        bank, total = _bank(count), sbuf((LANES, count), nl.float32)
        nisa.nc_matmul(dst=bank, stationary=tiles.before, moving=rate)
        nisa.tensor_copy(dst=total, src=bank)
        self.factor, self.last, self.between = sbuf((LANES, count), nl.float32), sbuf((LANES, count), nl.float32), []
        nisa.activation(dst=self.factor, op=nl.exp, data=total)
        for h in range(count):
            wide, less, out = sbuf((LANES, LANES), nl.float32), *(sbuf((LANES, LANES), nl.float32) for _ in range(2))
            nisa.tensor_copy(dst=wide, src=rate.ap([[count, LANES], [0, LANES]], offset=h))
            sums = _bank(LANES)
            nisa.nc_matmul(dst=sums, stationary=wide, moving=tiles.before)
            nisa.scalar_tensor_tensor(dst=less, data=sums, op0=nl.subtract, operand0=total[:, nl.ds(h, 1)], op1=nl.add,
                                      operand1=tiles.shut)
            nisa.activation(dst=out, op=nl.exp, data=less)
            nisa.activation(dst=self.last[:, nl.ds(h, 1)], op=nl.exp, data=sums[:, nl.ds(LANES - 1, 1)])
            self.between.append(out)


def _bank(columns):
    return nl.ndarray((LANES, columns), dtype=nl.float32, buffer=nl.psum)


def _less(data, left, right):
    """data - left^T right, of [128, 128]."""
    bank, out = _bank(LANES), sbuf((LANES, LANES), nl.float32)
    nisa.nc_matmul(dst=bank, stationary=left, moving=right)
    nisa.tensor_tensor(dst=out, data1=data, data2=bank, op=nl.subtract)
    return out


def _sizes():
    """The blocks' sizes: 1, 2, ... 64."""
    return [1 << n for n in range(LANES.bit_length() - 1)]


def _mask(op, block):
    """[s, t] in float32: 1 where s and t, in whole blocks, are so ordered."""
    s, t, out = _numbers(1, block), _numbers(0, block), sbuf((LANES, LANES), nl.float32)
    nisa.tensor_tensor(dst=out, data1=s, data2=t, op=op)
    return out


def _numbers(of_row, block):
    """The number of each row's block, or each column's: [128, 128]."""
    number, out = sbuf((LANES, LANES), nl.int32), sbuf((LANES, LANES), nl.float32)
    nisa.iota(dst=number, pattern=[[1 - of_row, LANES]], offset=0, channel_multiplier=of_row)
    shifted = sbuf((LANES, LANES), nl.int32)
    nisa.tensor_scalar(dst=shifted, data=number, op0=nl.right_shift, operand0=block.bit_length() - 1)
    nisa.tensor_copy(dst=out, src=shifted)
    return out


def _between(size):
    """[s, t]: 1 where s is in an even block of `size`, and t in the one after it."""
    pair, one, out = _mask(nl.equal, 2 * size), _mask(nl.less, size), sbuf((LANES, LANES), nl.float32)
    nisa.tensor_tensor(dst=out, data1=pair, data2=one, op=nl.multiply)
    return out
