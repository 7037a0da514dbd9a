"""Implements linear attention of a decode step, with a state of [key, value] elements for each
head, in float32.

Two kinds: the gated delta rule (Qwen3-Next: the state's own value for a key is taken from it first), and Mamba 2, whose
C, B and x are queries, keys and values here. Before it is a convolution over a few tokens, after it a gated norm.
"""

import nki.isa as nisa
import nki.language as nl

from . import blocks, kernels, own
from .blocks import BANK, LANES, hbm, sbuf

EPS = 1e-6  # of the length of a key


def attention(x, w, share, step):
    """RMSNorm, projection, convolution, the state's step, gated norm, output."""
    batch = share.batch
    core, count = kernels.cores()
    one, columns = share.model.linear, w.linear_in.shape[1]
    given, found = hbm((batch, columns), x.dtype), hbm((batch, share.value_heads * one.value_dim), x.dtype)
    own.project(blocks.normed(x, w.norm1, share), w.linear_in, *blocks.halves(columns, core, count), given)
    kernels.meet(given, count)
    heads, rows = (0, share.value_heads), (0, batch)
    if share.value_heads >= count:
        heads = blocks.halves(share.value_heads, core, count)
    else:
        rows = blocks.halves(batch, core, count)
    for at, some in blocks.spans(rows[1], LANES):
        Heads(given, w, share, heads, (rows[0] + at, some)).run(found)
    kernels.meet(found, count)
    first, mine = blocks.halves(share.key_heads, core, count)
    gated = hbm(found.shape, x.dtype)
    for at, some in blocks.spans(batch if mine else 0, LANES):
        gate(gated, found, given, w, share, (first, mine), (at, some))
    kernels.meet(gated, count)
    out = hbm(x.shape, x.dtype)
    own.project(blocks.transposed_rows(gated, gated.shape[1]), w.linear_out,
                *blocks.halves(x.shape[2], core, count, BANK), out.reshape((batch, x.shape[2])))
    return out


class Heads:
    """Some heads of values, with the heads of keys that they share, of some sequences."""

    def __init__(self, given, w, share, heads, rows):
        self.given, self.w, self.share, self.one = given, w, share, share.model.linear
        (self.first, self.count), (self.at, self.some) = heads, rows
        self.lanes = blocks.lanes_for(self.one.key_dim)
        self.parts = self.one.key_dim // self.lanes
        self.each = share.value_heads // share.key_heads  # values of a key
        self.key = self.first // self.each
        self.keys = (self.first + self.count - 1) // self.each - self.key + 1

    def run(self, found):
        one, some, places = self.one, self.some, self.places()
        windows = [self._window(*place) for place in places]
        if self.count < self.share.value_heads:  # the cores share a key's tokens, which one of them moves up
            kernels.meet(self.w.convolved, kernels.cores()[1])
        another = (-(-self.first // self.each) - self.key) * one.key_dim  # columns of a key that begins in another core
        for (first, count), window, skipped in zip(places, windows, (another, another, 0)):
            self._move(first + skipped, window[:, :, nl.ds(skipped, count - skipped)] if count > skipped else None)
        queries, keys, values = (self.convolved(first, window) for (first, _), window in zip(places, windows))
        rate, beta = self.gates()
        decay = sbuf(rate.shape, nl.float32)
        nisa.activation(dst=decay, op=nl.exp, data=rate, scale=-1.0)
        if one.delta:
            queries, keys = self.length_one(queries, one.key_dim ** -0.5), self.length_one(keys, 1)
        turned = [self.turned(rows) for rows in (queries, keys)]
        rows = [self._kept(each) for each in (keys, values, decay, beta)]
        for b in range(some):
            self._step(found, b, turned, rows)
        if not one.delta:
            self._skip(found, values)

    def places(self):
        """(first column, columns) of the projection that hold queries, keys and values of these heads."""
        one = self.one
        width, size = self.share.key_heads * one.key_dim, (self.keys * one.key_dim, self.count * one.value_dim)
        places = [(n * width + self.key * one.key_dim, size[0]) for n in (0, 1)]
        return [*places, (2 * width + self.first * one.value_dim, size[1])]

    def _window(self, first, size):
        """The tokens of the convolution, of columns of the projection: [sequences, tokens, size]."""
        some, taps = self.some, self.one.convolution
        out, rows = sbuf((some, taps, size), self.given.dtype), nl.ds(self.at, some)
        nisa.dma_copy(dst=out[:, nl.ds(0, taps - 1), :], src=self.w.convolved[rows, :, nl.ds(first, size)])
        nisa.dma_copy(dst=out[:, taps - 1, :], src=self.given[rows, nl.ds(first, size)])
        return out

    def _move(self, first, window):
        """Keeps the tokens of a window but the oldest."""
        if window is not None:
            nisa.dma_copy(dst=self.w.convolved[nl.ds(self.at, self.some), :, nl.ds(first, window.shape[2])],
                          src=window[:, nl.ds(1, window.shape[1] - 1), :])

    def convolved(self, first, window):
        """SiLU of the convolution of a window: [sequences, size] in float32."""
        w, (some, taps, size) = self.w, window.shape
        factors = sbuf((some, taps, size), self.given.dtype)
        nisa.dma_copy(dst=factors, src=w.linear_conv.ap([[0, some], [w.linear_conv.shape[1], taps], [1, size]],
                                                        offset=first))
        parts, total = sbuf((some, taps, size), nl.float32), sbuf((some, size), nl.float32)
        nisa.tensor_tensor(dst=parts, data1=window, data2=factors, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, axis=(2,),
                           data=parts.ap([[taps * size, some], [1, size], [size, taps]]))
        nisa.activation(dst=total, op=nl.silu, data=total)
        return total

    def gates(self):
        """The logarithm of one over the state's factor, and the weight of the new value: [sequences, heads] each."""
        w, one, some, count = self.w, self.one, self.some, self.count
        start = 2 * self.share.key_heads * one.key_dim + 2 * self.share.value_heads * one.value_dim + self.first
        pieces = []
        for n in range(2 if one.delta else 1):
            own_rows = sbuf((some, count), self.given.dtype)
            nisa.dma_copy(dst=own_rows, src=self.given[nl.ds(self.at, some), nl.ds(
                start + n * self.share.value_heads, count)])
            pieces.append(own_rows)
        bias, rate = sbuf((some, count), nl.float32), sbuf((some, count), nl.float32)
        for to, each in ((bias, w.linear_bias), (rate, w.linear_rate)):
            nisa.dma_copy(dst=to, src=each.ap([[0, some], [1, count]], offset=self.first))
        time, decay = sbuf((some, count), nl.float32), sbuf((some, count), nl.float32)
        nisa.tensor_tensor(dst=time, data1=pieces[-1], data2=bias, op=nl.add)
        nisa.activation(dst=time, op=nl.softplus, data=time)
        nisa.tensor_tensor(dst=decay, data1=time, data2=rate, op=nl.multiply)
        if not one.delta:
            return decay, time
        beta = sbuf((some, count), nl.float32)
        nisa.activation(dst=beta, op=nl.sigmoid, data=pieces[0])
        return decay, beta

    def length_one(self, rows, scale):
        """Each head's key over its length, times scale."""
        some, d = self.some, self.one.key_dim
        heads, squares = rows.reshape((some, self.keys, d)), sbuf((some, self.keys, d), nl.float32)
        total, root = (sbuf((some, self.keys), nl.float32) for _ in range(2))
        out = sbuf(rows.shape, nl.float32)
        nisa.activation(dst=squares, op=nl.square, data=heads)
        nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=(2,))
        nisa.tensor_scalar(dst=total, data=total, op0=nl.add, operand0=EPS, op1=nl.multiply, operand1=scale ** -2)
        nisa.activation(dst=root, op=nl.rsqrt, data=total)
        nisa.tensor_tensor(dst=out.reshape((some, self.keys, d)), data1=heads, op=nl.multiply,
                           data2=root.ap([[self.keys, some], [1, self.keys], [0, d]]))
        return out

    def turned(self, rows):
        """[lanes, heads of keys and parts of each, sequences]."""
        some, lanes = self.some, self.lanes
        out = sbuf((lanes, self.keys * self.parts, some), rows.dtype)
        for n in range(self.keys * self.parts):
            bank = nl.ndarray((lanes, some), dtype=rows.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=bank, data=rows[:, nl.ds(n * lanes, lanes)])
            nisa.tensor_copy(dst=out[:, n, :], src=bank)
        return out

    def _kept(self, rows):
        """Rows in HBM, from where each comes to the first partition."""
        out = nl.ndarray(rows.shape, dtype=nl.float32, buffer=nl.private_hbm)
        nisa.dma_copy(dst=out, src=rows)
        return out

    def _step(self, found, b, turned, rows):
        """The state of one sequence, and what its queries find there."""
        one, count = self.one, self.count
        lanes, parts, n = self.lanes, self.parts, one.value_dim
        state = sbuf((lanes, parts, count, n), nl.float32)
        places = [self.w.state[self.at + b, nl.ds(p * lanes, lanes), nl.ds(self.first, count), :]
                  for p in range(parts)]
        for p, place in enumerate(places):
            nisa.dma_copy(dst=state[:, p, :, :], src=place)
        decay, (key, value, beta) = sbuf((lanes, count), nl.float32), (
            sbuf((1, each.shape[1]), nl.float32) for each in (rows[0], rows[1], rows[3]))
        nisa.dma_copy(dst=decay, src=rows[2].ap([[0, lanes], [1, count]], offset=b * count))
        for to, each in ((key, rows[0]), (value, rows[1]), (beta, rows[3])):
            nisa.dma_copy(dst=to, src=each[nl.ds(b, 1), :])
        nisa.tensor_tensor(dst=state, data1=state, op=nl.multiply,
                           data2=decay.ap([[count, lanes], [0, parts], [1, count], [0, n]]))
        new = value.reshape((1, count, n))
        if one.delta:
            nisa.tensor_tensor(dst=new, data1=new, data2=self._asked(state, turned[1], b), op=nl.subtract)
        nisa.tensor_tensor(dst=new, data1=new, data2=beta.ap([[count, 1], [1, count], [0, n]]), op=nl.multiply)
        for h, group, p in ((*span, p) for span in blocks.spans(count, BANK // n) for p in range(parts)):
            bank = nl.ndarray((lanes, group, n), dtype=nl.float32, buffer=nl.psum)
            for j in range(group):
                columns = nl.ds((self.key_of(h + j) * parts + p) * lanes, lanes)
                nisa.nc_matmul(dst=bank[:, j, :], stationary=key[:, columns], moving=new[:, h + j, :])
            some = state[:, p, nl.ds(h, group), :]
            nisa.tensor_tensor(dst=some, data1=some, data2=bank, op=nl.add)
        out = sbuf((1, count, n), found.dtype)
        nisa.tensor_copy(dst=out, src=self._asked(state, turned[0], b))
        for p, place in enumerate(places):
            nisa.dma_copy(dst=place, src=state[:, p, :, :])
        nisa.dma_copy(dst=found[nl.ds(self.at + b, 1), nl.ds(self.first * n, count * n)],
                      src=out.reshape((1, count * n)))

    def key_of(self, h):
        """The head of keys of the h-th head of values, counted from the first of both."""
        return (self.first + h) // self.each - self.key

    def _asked(self, state, turned, b):
        """The values that each head's state has for a key or query of sequence b: [1, heads, values]."""
        count, n = self.count, self.one.value_dim
        out = sbuf((1, count, n), nl.float32)
        for h, group, p in ((*span, p) for span in blocks.spans(count, BANK // n) for p in range(self.parts)):
            bank, some = nl.ndarray((1, group, n), dtype=nl.float32, buffer=nl.psum), out[:, nl.ds(h, group), :]
            for j in range(group):
                asked = turned[:, self.key_of(h + j) * self.parts + p, nl.ds(b, 1)]
                nisa.nc_matmul(dst=bank[:, j, :], stationary=asked, moving=state[:, p, h + j, :])
            if p:  # a bank for each part: no two sums are open in one
                nisa.tensor_tensor(dst=some, data1=some, data2=bank, op=nl.add)
            else:
                nisa.tensor_copy(dst=some, src=bank)
        return out

    def _skip(self, found, values):
        """Adds each head's own value by its weight."""
        some, count, n = self.some, self.count, self.one.value_dim
        weight, own_rows = sbuf((some, count), nl.float32), sbuf((some, count, n), found.dtype)
        place = found[nl.ds(self.at, some), nl.ds(self.first * n, count * n)]
        nisa.dma_copy(dst=weight, src=self.w.linear_skip.ap([[0, some], [1, count]], offset=self.first))
        nisa.dma_copy(dst=own_rows.reshape((some, count * n)), src=place)
        more = sbuf((some, count, n), nl.float32)
        nisa.tensor_tensor(dst=more, data1=values.reshape((some, count, n)), op=nl.multiply,
                           data2=weight.ap([[count, some], [1, count], [0, n]]))
        nisa.tensor_tensor(dst=own_rows, data1=own_rows, data2=more, op=nl.add)
        nisa.dma_copy(dst=place, src=own_rows.reshape((some, count * n)))


def gate(out, found, given, w, share, keys, rows):
    """The norm and the gate of what heads of some keys found: the delta rule's norm is of each head, before the gate;
    Mamba's is of a key's heads together, after it."""
    one, (first, count), (at, some) = share.model.linear, keys, rows
    each = share.value_heads // share.key_heads
    width = count * each * one.value_dim
    begin = first * each * one.value_dim
    gate = 2 * share.key_heads * one.key_dim + share.value_heads * one.value_dim + begin
    own_rows, gates, even = (sbuf((some, width), out.dtype), sbuf((some, width), out.dtype),
                             sbuf((some, width), nl.float32))
    nisa.dma_copy(dst=own_rows, src=found[nl.ds(at, some), nl.ds(begin, width)])
    nisa.dma_copy(dst=gates, src=given[nl.ds(at, some), nl.ds(gate, width)])
    factor = sbuf((some, width), nl.float32)
    nisa.activation(dst=factor, op=nl.silu, data=gates)
    groups, size = (count * each, one.value_dim) if one.delta else (count, each * one.value_dim)
    gamma = sbuf((some, size), w.linear_norm.dtype)
    nisa.dma_copy(dst=gamma, src=w.linear_norm.ap([[0, some], [1, size]]))
    if one.delta:
        nisa.tensor_copy(dst=even, src=own_rows)
    else:
        nisa.tensor_tensor(dst=even, data1=own_rows, data2=factor, op=nl.multiply)
    squares, total = sbuf((some, groups, size), nl.float32), sbuf((some, groups), nl.float32)
    nisa.activation(dst=squares, op=nl.square, data=even.reshape((some, groups, size)))
    nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=(2,))
    scale = blocks.factor(total, size, share.model.eps)
    heads = even.reshape((some, groups, size))
    nisa.tensor_tensor(dst=heads, data1=heads, data2=scale.ap([[groups, some], [1, groups], [0, size]]), op=nl.multiply)
    nisa.tensor_tensor(dst=heads, data1=heads, data2=gamma.ap([[size, some], [0, groups], [1, size]]), op=nl.multiply)
    if one.delta:
        nisa.tensor_tensor(dst=own_rows, data1=even, data2=factor, op=nl.multiply)
    else:
        nisa.tensor_copy(dst=own_rows, src=even)
    nisa.dma_copy(dst=out[nl.ds(at, some), nl.ds(begin, width)], src=own_rows)
