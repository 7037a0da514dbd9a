"""Computes in a kernel the attention of a decode step over the KV caches, for any number of heads
and sequences.

A cache of a head is keys [d, tokens] and values [tokens, d]. Scores are transposed: a partition has tokens, so that the
softmax of several sequences is few wide instructions, and its product with the values needs no transpose. The new
token's key and value are taken from the projection, not from the cache, which can so be read before it is written.
Tokens lie on partitions in chunks: of a chunk of 128 k tokens partition p has the k from p * k on (places.py).
"""

from typing import NamedTuple

import nki.isa as nisa
import nki.language as nl

from . import blocks, kernels, places
from .blocks import BANK, LANES, hbm, sbuf

SHUT = -30000.0
SCORES = 12 * 1024  # scores of a partition that SBUF holds at a time


def results(share, dtype, place):
    """A tensor for the results of all heads: [d, parts of d, heads of keys and values, batch, query heads of each].
    place: hbm, through which two cores exchange them, or sbuf."""
    d = share.model.head_dim
    lanes = blocks.lanes_for(d)
    return place((lanes, d // lanes, share.kv_heads, share.batch, share.heads // share.kv_heads), dtype)


class Projected(NamedTuple):
    """Queries, keys and values of all sequences. tiles: [up to 128 sequences, columns] in SBUF, by the number of the
    first one; None where two cores made them. rows: [batch, columns] in HBM; None where SBUF has all that is read."""

    tiles: dict | None
    rows: object

    def columns(self, at, some, first, width):
        """Columns of some sequences in SBUF."""
        if self.tiles is not None:
            return self.tiles[at][:, nl.ds(first, width)]
        out = sbuf((some, width), self.rows.dtype)
        nisa.dma_copy(dst=out, src=self.rows[nl.ds(at, some), nl.ds(first, width)])
        return out

    def in_one(self, at, some, first, width):
        """The same of all these sequences in one partition: [1, sequences, width]."""
        if self.rows is None:  # of one sequence
            return self.tiles[at][:, nl.ds(first, width)].reshape((1, 1, width))
        out, whole = sbuf((1, some, width), self.rows.dtype), self.rows.shape[1]
        nisa.dma_copy(dst=out, src=self.rows.ap([[width, 1], [whole, some], [1, width]], offset=at * whole + first))
        return out


def work(share, core, count):
    """(head of keys and values, first sequence, sequences) that a core computes, at most 128 sequences at a time."""
    first, mine = blocks.halves(share.kv_heads * share.batch, core, count)
    out = []
    while mine:
        kv, at = divmod(first, share.batch)
        some = min(mine, share.batch - at, LANES)
        out.append((kv, at, some))
        first, mine = first + some, mine - some
    return out


def sequences(qkv, found, w, share, step, kv, at, some):
    """Attention of `some` sequences from `at` on, of one head of keys and values; gives what keep() writes."""
    m, d = share.model, share.model.head_dim
    group = share.heads // share.kv_heads
    queries = qkv.columns(at, some, kv * group * d, group * d)
    heads = sbuf((some, group + 1, d), queries.dtype)
    nisa.tensor_copy(dst=heads[:, nl.ds(0, group), :], src=queries.reshape((some, group, d)))
    nisa.tensor_copy(dst=heads[:, group, :], src=qkv.columns(at, some, (share.heads + kv) * d, d))
    start = (share.heads + share.kv_heads + kv) * d
    values = qkv.columns(at, some, start, d)
    if m.qk_norm:
        heads = head_norm(heads, w, m)
    heads = rotated(heads, step, at, some)
    turned = [transposed(heads, g, d) for g in range(group + 1)]
    queries = sbuf((*turned[0].shape[:2], some, group), heads.dtype)
    for g in range(group):
        nisa.tensor_copy(dst=queries[:, :, :, g], src=turned[g])
    own = qkv.in_one(at, some, start, d)
    sink = w.sink[nl.ds(kv * group, group), :] if m.sinks else None
    new = [fresh(heads[:, group, :], w.keys, step.positions[0][kv, nl.ds(at, some), :]),
           fresh(values, w.values, step.positions[1][kv, nl.ds(at, some), :])]
    attended(found, queries, turned[group], own, w, step, sink, d ** -0.5, kv, at)
    return new


def head_norm(heads, w, m):
    """RMSNorm of each head's elements; the last head is the key."""
    some, count, d = heads.shape
    squares, total = sbuf(heads.shape, nl.float32), sbuf((some, count), nl.float32)
    nisa.activation(dst=squares, op=nl.square, data=heads)
    nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=(2,))
    factor = blocks.factor(total, d, m.eps)
    even, out, gamma = sbuf(heads.shape, nl.float32), sbuf(heads.shape, heads.dtype), sbuf((some, 2, d), heads.dtype)
    for n, each in enumerate((w.q_norm, w.k_norm)):
        nisa.dma_copy(dst=gamma[:, n, :], src=each.ap([[0, some], [1, d]]))
    nisa.tensor_tensor(dst=even, data1=heads, data2=factor.ap([[count, some], [1, count], [0, d]]), op=nl.multiply)
    for first, number, n in ((0, count - 1, 0), (count - 1, 1, 1)):
        nisa.tensor_tensor(dst=out[:, nl.ds(first, number), :], data1=even[:, nl.ds(first, number), :],
                           data2=gamma.ap([[2 * d, some], [0, number], [1, d]], offset=n * d), op=nl.multiply)
    return out


def rotated(heads, step, at, some):
    """The rotation of all heads, whose halves are pairs; step.cos and step.sin are [d / 2, batch, 1]."""
    _, count, d = heads.shape
    half = d // 2
    tables = []
    for table in (step.cos, step.sin):
        to, whole = sbuf((some, half), nl.float32), table.reshape((half, table.shape[1]))
        for first, rows in blocks.spans(half, LANES):
            own, bank = sbuf((rows, some), table.dtype), nl.ndarray((some, rows), dtype=table.dtype, buffer=nl.psum)
            nisa.dma_copy(dst=own, src=whole[nl.ds(first, rows), nl.ds(at, some)])
            nisa.nc_transpose(dst=bank, data=own)
            nisa.tensor_copy(dst=to[:, nl.ds(first, rows)], src=bank)
        tables.append(to.ap([[half, some], [0, count], [1, half]]))
    cos, sin = tables
    out = sbuf(heads.shape, heads.dtype)
    left, right = sbuf((some, count, half), nl.float32), sbuf((some, count, half), nl.float32)
    a, b = heads[:, :, nl.ds(0, half)], heads[:, :, nl.ds(half, half)]
    for first, one, other, op in ((0, a, b, nl.subtract), (half, b, a, nl.add)):
        nisa.tensor_tensor(dst=left, data1=one, data2=cos, op=nl.multiply)
        nisa.tensor_tensor(dst=right, data1=other, data2=sin, op=nl.multiply)
        nisa.tensor_tensor(dst=out[:, :, nl.ds(first, half)], data1=left, data2=right, op=op)
    return out


def transposed(heads, g, d):
    """Head g of all sequences as [lanes, parts of d, sequences]."""
    some, lanes = heads.shape[0], blocks.lanes_for(d)
    out = sbuf((lanes, d // lanes, some), heads.dtype)
    for n in range(d // lanes):
        bank = nl.ndarray((lanes, some), dtype=heads.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=bank, data=heads[:, g, nl.ds(n * lanes, lanes)])
        nisa.tensor_copy(dst=out[:, n, :], src=bank)
    return out


def fresh(rows, cache, slots):
    """(places in the cache, rows in its type) of new keys or values [sequences, d]; slots are these places in HBM."""
    place, cast = sbuf((rows.shape[0], 1), nl.uint32), sbuf(rows.shape, cache.dtype)
    nisa.dma_copy(dst=place, src=slots)
    nisa.tensor_copy(dst=cast, src=rows)
    return place, cast


def keep(new, w):
    """Writes what fresh() made of keys and of values to the caches."""
    for (place, cast), cache in zip(new, (w.keys, w.values)):
        some, d = cast.shape
        rows = cache.shape[0] * cache.shape[1] * w.keys.shape[3]
        shape, pattern = (rows, d), [[d, some], [1, d]]
        if cache is w.keys:
            shape, pattern = (rows * d,), [[1, some], [w.keys.shape[3], d]]
        nisa.dma_copy(dst=cache.reshape(shape).ap(pattern, vector_offset=place, indirect_dim=0), src=cast)


def attended(found, queries, keys, values, w, step, sink, scale, kv, at):
    """Softmax of queries [lanes, parts of d, sequences, heads] over the cache and the new token (keys [lanes, parts,
    sequences], values [1, sequences, d]), and the sum of the values, into found."""
    parts, some, heads = queries.shape[1:]
    tokens = w.keys.shape[3]
    tiles = tokens // LANES + 1
    most = max(1, min(heads, SCORES // tiles, LANES))
    eye, one = blocks.identity(LANES), blocks.ones(LANES, LANES)
    depth = places.depth(heads)
    for g, group in blocks.spans(heads, most):
        # Fewer keys of large heads are read together, which leaves space for the rest.
        whole = BANK // (max(group, parts * parts) * depth)
        together = max(1, min(some, SCORES // (tiles * group), LANES // group, whole))
        for b, count in blocks.spans(some, together):
            unit = Unit(queries[:, :, nl.ds(b, count), nl.ds(g, group)], keys[:, :, nl.ds(b, count)],
                         values[:, nl.ds(b, count), :], w, step, (scale, depth), kv, at + b)
            unit.score(None if sink is None else sink[nl.ds(g, group), :])
            unit.softmax(eye, one)
            unit.weigh(found[:, :, kv, nl.ds(at + b, count), nl.ds(g, group)])


class Unit:
    """Some sequences and heads of one head of keys and values, whose scores are in SBUF together."""

    def __init__(self, queries, keys, values, w, step, how, kv, first):
        self.queries, self.keys, self.values, self.w, self.step = queries, keys, values, w, step
        (self.scale, self.depth), self.kv, self.first = how, kv, first
        self.count, self.heads, self.tokens = self.shape(queries, w)
        self.tiles = self.tokens // LANES
        self.scores = sbuf((LANES, self.count, self.tiles + 1, self.heads), nl.float32)

    def shape(self, queries, w):
        """(sequences, heads, tokens of the cache)."""
        self.lanes, self.parts = queries.shape[:2]
        return (*queries.shape[2:], w.keys.shape[3])

    def chunks(self):
        return places.chunks(self.tokens, self.depth)

    def score(self, sink):
        """Scores of the cache under the mask, and of the new token in the last tile."""
        count, heads = self.count, self.heads
        shut = sbuf((LANES, count, self.tiles), self.step.mask.dtype)
        nisa.dma_copy(dst=shut, src=self.step.mask[:, nl.ds(self.first, count), :])
        self.score_cache(shut)
        last = self.scores[:, :, self.tiles, :]
        nisa.memset(dst=last, value=SHUT)
        self.score_new(last[nl.ds(0, 1), :, :])
        if sink is not None:
            own = sbuf((LANES, heads), sink.dtype)  # of partition 1, for every sequence
            nisa.dma_copy(dst=own[nl.ds(1, 1), :], src=sink.reshape((1, heads)))
            some = sbuf((LANES, heads), nl.float32)
            nisa.memset(dst=some, value=SHUT)
            nisa.dma_copy(dst=some[nl.ds(1, 1), :], src=own[nl.ds(1, 1), :])
            nisa.tensor_tensor(dst=last, data1=last, data2=some.ap([[heads, LANES], [0, count], [1, heads]]),
                               op=nl.maximum)

    def score_cache(self, shut):
        """The scores of the cache; shut [128, sequences, tiles] is added."""
        w, count, heads = self.w, self.count, self.heads
        for start, k in self.chunks():
            tile = sbuf((self.lanes, self.parts, count, LANES * k), w.keys.dtype)
            for n in range(self.parts):
                nisa.dma_copy(dst=tile[:, n, :, :], src=w.keys[nl.ds(self.first, count), self.kv, nl.ds(
                    n * self.lanes, self.lanes), nl.ds(start * LANES, LANES * k)].permute((1, 0, 2)))
            to = self.scores[:, :, nl.ds(start, k), :]
            more = shut.ap([[count * self.tiles, LANES], [self.tiles, count], [1, k], [0, heads]], offset=start)
            for n in range(self.parts):  # a bank for each: no two sums are open in one
                bank = nl.ndarray((LANES, count, k, heads), dtype=nl.float32, buffer=nl.psum)
                for b in range(count):
                    for t in range(k):
                        nisa.nc_matmul(dst=bank[:, b, t, :], stationary=tile.ap(
                            [[self.parts * count * LANES * k, self.lanes], [k, LANES]],
                            offset=(n * count + b) * LANES * k + t), moving=self.queries[:, n, b, :])
                nisa.scalar_tensor_tensor(dst=to, data=bank, op0=nl.multiply, operand0=self.scale, op1=nl.add,
                                          operand1=more)
                more = to

    def score_new(self, own):
        """The scores of the new token, into own [1, sequences, heads]."""
        for n in range(self.parts):
            bank = nl.ndarray((1, self.count, self.heads), dtype=nl.float32, buffer=nl.psum)
            for b in range(self.count):
                nisa.nc_matmul(dst=bank[:, b, :], stationary=self.keys[:, n, nl.ds(b, 1)],
                               moving=self.queries[:, n, b, :])
            self.add_new(own, bank, n)

    def add_new(self, own, bank, n):
        """own (+)= scale * bank, of the n-th part."""
        if n:
            nisa.scalar_tensor_tensor(dst=own, data=bank, op0=nl.multiply, operand0=self.scale, op1=nl.add,
                                      operand1=own)
        else:
            nisa.tensor_scalar(dst=own, data=bank, op0=nl.multiply, operand0=self.scale)

    def _over_tiles(self, op, data):
        """The reduction over a partition's tokens: [128, sequences, heads]."""
        out = sbuf((LANES, self.count, self.heads), nl.float32)
        tiles, heads = self.tiles + 1, self.heads
        nisa.tensor_reduce(dst=out, op=op, axis=(3,), data=data.ap(
            [[self.count * tiles * heads, LANES], [tiles * heads, self.count], [1, heads], [heads, tiles]]))
        return out

    def softmax(self, eye, one):
        """exp of the scores less the largest of each sequence and head, and the inverse of their sum."""
        count, heads, tiles = self.count, self.heads, self.tiles + 1
        pairs = count * heads
        own = self._over_tiles(nl.maximum, self.scores)
        bank = nl.ndarray((pairs, LANES), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(dst=bank, data=own.reshape((LANES, pairs)))
        top, spread = sbuf((pairs, 1), nl.float32), sbuf((pairs, pairs), nl.float32)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=bank, axis=(1,))
        nisa.tensor_scalar(dst=spread, data=eye[nl.ds(0, pairs), nl.ds(0, pairs)], op0=nl.multiply, operand0=top)
        all_tops = nl.ndarray((LANES, pairs), dtype=nl.float32, buffer=nl.psum)  # of each pair in every partition
        nisa.nc_matmul(dst=all_tops, stationary=one[nl.ds(0, pairs), :], moving=spread)
        less = sbuf((LANES, pairs), nl.float32)
        nisa.tensor_copy(dst=less, src=all_tops)
        nisa.tensor_tensor(dst=self.scores, data1=self.scores, op=nl.subtract, data2=less.ap(
            [[pairs, LANES], [heads, count], [0, tiles], [1, heads]]))
        self.weights = sbuf(self.scores.shape, self.queries.dtype)
        nisa.activation(dst=self.weights, op=nl.exp, data=self.scores)
        sums = self._over_tiles(nl.add, self.weights)
        total = nl.ndarray((LANES, pairs), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=one, moving=sums.reshape((LANES, pairs)))
        self.inverse = sbuf((LANES, count, heads), nl.float32)
        nisa.reciprocal(dst=self.inverse.reshape((LANES, pairs)), data=total)

    def weigh(self, found):
        """The values by the weights of the softmax, into found [lanes, parts, sequences, heads]."""
        own = found.buffer == nl.sbuf
        out = found if own else sbuf((self.lanes, self.parts, self.count, self.heads), found.dtype)
        chunks = self.chunks()
        # With one chunk the values of all sequences are one transfer.
        whole = self._values(0, self.count, *chunks[0]) if len(chunks) == 1 else None
        for b in range(self.count):
            self._weigh(out, b, chunks, whole)
        if not own:
            nisa.dma_copy(dst=found, src=out)

    def _values(self, first, count, start, k):
        """A chunk of the values of some sequences."""
        w, d = self.w, self.values.shape[2]
        tile = sbuf((LANES, count, k, d), w.values.dtype)
        nisa.dma_copy(dst=tile, src=w.values[nl.ds(self.first + first, count), self.kv, nl.ds(
            start * LANES, LANES * k), :].reshape((count, LANES, k, d)).permute((1, 0, 2, 3)))
        return tile

    def _weigh(self, out, b, chunks, whole):
        """The values that sequence b finds: a bank for each part of d holds one sum, which is read before the next."""
        banks = [nl.ndarray((self.lanes, self.heads), dtype=nl.float32, buffer=nl.psum) for _ in range(self.parts)]
        parts = [nl.ds(n * self.lanes, self.lanes) for n in range(self.parts)]
        for start, k in chunks:
            tile, at = (self._values(b, 1, start, k), 0) if whole is None else (whole, b)
            for t in range(k):
                for bank, some in zip(banks, parts):
                    nisa.nc_matmul(dst=bank, stationary=tile[:, at, t, some], moving=self.weights[:, b, start + t, :])
        for n, (bank, some) in enumerate(zip(banks, parts)):
            nisa.nc_matmul(dst=bank, stationary=self.values[:, b, some],
                           moving=self.weights[nl.ds(0, 1), b, self.tiles, :])
            nisa.tensor_tensor(dst=out[:, n, b, :], data1=bank, data2=self.inverse[nl.ds(0, self.lanes), b, :],
                               op=nl.multiply)


def output(x, found, w, share, gates=None):
    """The product of all that the heads found with the output projection: each core has a half of the columns. gates
    [batch, heads * d]: their sigmoid multiplies what the heads found."""
    lanes, parts, kvs, batch, group = found.shape
    core, count = kernels.cores()
    own = found
    if found.buffer != nl.sbuf:
        own = sbuf(found.shape, found.dtype)
        nisa.dma_copy(dst=own, src=found)
    if gates is not None:
        _gate(own, gates)
    out = hbm(x.shape, x.dtype)

    def of(kv, g, n):
        return lambda at, some: own[:, n, kv, nl.ds(at, some), g]

    functions = [of(kv, g, n) for kv in range(kvs) for g in range(group) for n in range(parts)]
    project_heads(out, functions, lanes, w.out, batch, core, count, w.out_bias if share.model.sinks else None)
    return out


def _gate(own, gates):
    """Multiplies what heads found by the sigmoid of their gates."""
    lanes, parts, kvs, batch, group = own.shape
    d = lanes * parts
    for at, some in blocks.spans(batch, LANES):
        rows = sbuf((some, kvs * group, d), own.dtype)
        nisa.dma_copy(dst=rows, src=gates[nl.ds(at, some), :].reshape((some, kvs * group, d)))
        for head in range(kvs * group):
            factor = sbuf((lanes, parts, some), nl.float32)
            nisa.activation(dst=factor, op=nl.sigmoid, data=transposed(rows, head, d))
            to = own[:, :, head // group, nl.ds(at, some), head % group]
            nisa.tensor_tensor(dst=to, data1=to, data2=factor, op=nl.multiply)


def project_heads(out, functions, lanes, weights, batch, core, count, bias=None):
    """The product of heads, each a function of (first row, rows), with weights whose rows are lanes of each."""
    hidden = out.shape[2]
    first, mine = blocks.halves(hidden, core, count, BANK)
    if not mine:
        return
    rows = [(at, sbuf((some, mine), out.dtype)) for at, some in blocks.spans(batch, LANES)]

    def kept(bank, row, column):
        nisa.tensor_copy(dst=rows[row // LANES][1][:, nl.ds(column, bank.shape[1])], src=bank)

    blocks.multiply([blocks.Piece(lanes, functions, 0, 1, lanes)], batch, weights, first, mine, kept)
    if bias is not None:
        more = sbuf((min(batch, LANES), mine), bias.dtype)
        nisa.dma_copy(dst=more, src=bias.ap([[0, min(batch, LANES)], [1, mine]], offset=first))
        for _, own in rows:
            nisa.tensor_tensor(dst=own, data1=own, data2=more[nl.ds(0, own.shape[0]), :], op=nl.add)
    for at, own in rows:
        nisa.dma_copy(dst=out.reshape((batch, hidden))[nl.ds(at, own.shape[0]), nl.ds(first, mine)], src=own)
