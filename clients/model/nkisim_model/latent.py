"""Implements multi-head latent attention (MLA) of a decode step: one compressed key and value for
all heads.

The cache has a row for each token: the compressed key and value after their norm, and the rotated part of the key. Each
head's projection of keys is applied to its query, that of values to what it found, so that the cache is never expanded.
"""

import nki.isa as nisa
import nki.language as nl

from . import attend, blocks, kernels, own, places
from .blocks import LANES, hbm, sbuf, transposed_tile

KEPT = 48 * 1024  # bytes of the cache that stay in a partition between the scores and the values


def attention(x, w, share, step):
    """RMSNorm, projections down and up, rotation, attention over compressed keys and values, cache update, output."""
    m, batch = share.model.latent, share.batch
    core, count = kernels.cores()
    tiles = blocks.normed(x, w.norm1, share)
    own_row = hbm((batch, m.kv_rank + m.rotated), x.dtype)
    queries = hbm((batch, share.heads * (m.plain + m.rotated)), x.dtype)
    own.project(tiles, w.kv_a, *blocks.halves(own_row.shape[1], core, count), own_row)
    if m.q_rank:
        small = hbm((batch, m.q_rank), x.dtype)
        own.project(tiles, w.q_a, *blocks.halves(m.q_rank, core, count), small)
        kernels.meet(small, count)
        tiles = blocks.normed_rows(small, w.q_a_norm, m.q_rank, share.model.eps)
    own.project(tiles, w.q_b, *blocks.halves(queries.shape[1], core, count, m.plain + m.rotated), queries)
    kernels.meet(queries, count)
    kernels.meet(own_row, count)
    lanes = blocks.lanes_for(m.value)
    found = hbm((lanes, m.value // lanes, share.heads, batch, 1), x.dtype)
    for (head, heads), (at, some) in _work(share, core, count):
        _sequences(own_row, queries, found, w, share, step, (head, heads), (at, some))
    kernels.meet(found, count)
    return attend.output(x, found, w, share)


def _work(share, core, count):
    """((first head, heads), (first sequence, sequences)) that a core computes: its part of the sequences, or of the
    heads where there are fewer sequences than cores."""
    heads, rows = (0, share.heads), (0, share.batch)
    if share.batch >= count:
        rows = blocks.halves(share.batch, core, count)
    else:
        heads = blocks.halves(share.heads, core, count)
    return [(heads, (rows[0] + at, some)) for at, some in blocks.spans(rows[1], LANES)] if heads[1] else []


def _sequences(own_row, queries, found, w, share, step, heads, rows):
    """Attention of some heads of some sequences."""
    m, dtype = share.model.latent, own_row.dtype
    (head, count), (at, some) = heads, rows
    width, size = m.plain + m.rotated, m.kv_rank + m.rotated
    own_heads = sbuf((some, count, width), dtype)
    nisa.dma_copy(dst=own_heads, src=queries[nl.ds(at, some), nl.ds(head * width, count * width)].reshape(
        (some, count, width)))
    new, even = sbuf((some, size), dtype), sbuf((some, size), dtype)
    nisa.dma_copy(dst=new, src=own_row[nl.ds(at, some), :])
    gamma = sbuf((some, m.kv_rank), dtype)
    nisa.dma_copy(dst=gamma, src=w.kv_a_norm.ap([[0, some], [1, m.kv_rank]]))
    plain = blocks.scaled(new[:, nl.ds(0, m.kv_rank)], m.kv_rank, share.model.eps)
    nisa.tensor_tensor(dst=even[:, nl.ds(0, m.kv_rank)], data1=plain, data2=gamma, op=nl.multiply)
    turning = sbuf((some, count + 1, m.rotated), dtype)
    nisa.tensor_copy(dst=turning[:, nl.ds(0, count), :], src=own_heads[:, :, nl.ds(m.plain, m.rotated)])
    nisa.tensor_copy(dst=turning[:, count, :], src=new[:, nl.ds(m.kv_rank, m.rotated)])
    turning = attend.rotated(turning, step, at, some)
    nisa.tensor_copy(dst=even[:, nl.ds(m.kv_rank, m.rotated)], src=turning[:, count, :])
    cores = kernels.cores()[1]
    if cores > 1 and (head == 0 or share.batch < cores):
        _keep(even, w, step, at, some)
    one_row = nl.ndarray((some, size), dtype=dtype, buffer=nl.private_hbm)
    nisa.dma_copy(dst=one_row, src=even)
    first = sbuf((1, some, size), dtype)  # the new tokens' rows, all in the first partition
    nisa.dma_copy(dst=first, src=one_row.reshape((1, some, size)))
    keys = [transposed_tile(even[:, nl.ds(a, n)]) for a, n in blocks.spans(size, LANES)]
    asked = _absorbed(own_heads, turning, w, m, head, count, dtype)
    attended = [sbuf((n, some, count), dtype) for _, n in blocks.spans(m.kv_rank, LANES)]
    _attend(attended, asked, keys, first, w, share, step, at)
    if cores == 1:  # after the reads, which so need not wait for the projection
        _keep(even, w, step, at, some)
    _expand(found, attended, w, m, head, at)


def _keep(rows, w, step, at, some):
    """Writes the new tokens' rows to the cache. Two cores that share a sequence write the same."""
    place, cast = sbuf((some, 1), nl.uint32), sbuf(rows.shape, w.latent.dtype)
    nisa.dma_copy(dst=place, src=step.positions[1][0, nl.ds(at, some), :])
    nisa.tensor_copy(dst=cast, src=rows)
    size, all_rows = rows.shape[1], w.latent.shape[0] * w.latent.shape[1]
    nisa.dma_copy(dst=w.latent.reshape((all_rows, size)).ap([[size, some], [1, size]], vector_offset=place,
                                                            indirect_dim=0), src=cast)


def _absorbed(heads, turning, w, m, head, count, dtype):
    """Queries of compressed keys: [lanes, sequences, heads] for each 128 elements of a row of the cache."""
    some = heads.shape[0]
    out = [sbuf((n, some, count), dtype) for _, n in blocks.spans(m.kv_rank, LANES)]
    for h in range(count):
        plain = [(first, transposed_tile(heads[:, h, nl.ds(first, width)]))
                 for first, width in blocks.spans(m.plain, LANES)]
        tiles = [sbuf((query.shape[0], m.kv_rank), w.k_b.dtype) for _, query in plain]
        for (first, _), keys in zip(plain, tiles):
            nisa.dma_copy(dst=keys, src=w.k_b[head + h, nl.ds(first, keys.shape[0]), :])
        for n, (a, size) in enumerate(blocks.spans(m.kv_rank, LANES)):
            bank = nl.ndarray((size, some), dtype=nl.float32, buffer=nl.psum)
            for (_, query), keys in zip(plain, tiles):
                nisa.nc_matmul(dst=bank, stationary=keys[:, nl.ds(a, size)], moving=query)
            nisa.tensor_copy(dst=out[n][:, :, h], src=bank)
    more = sbuf((m.rotated, some, count), dtype)
    for h in range(count):
        nisa.tensor_copy(dst=more[:, :, h], src=transposed_tile(turning[:, h, :]))
    return _joined(out, more, m)


def _joined(parts, more, m):
    """The parts of a row of the cache with the rotated elements after the others: they fill up the last part."""
    left = m.kv_rank % LANES
    if not left:
        return [*parts, more]
    fill = min(LANES - left, m.rotated)
    last = sbuf((left + fill, *more.shape[1:]), more.dtype)
    nisa.tensor_copy(dst=last[nl.ds(0, left), :, :], src=parts[-1])
    nisa.dma_copy(dst=last[nl.ds(left, fill), :, :], src=more[nl.ds(0, fill), :, :])
    if fill == m.rotated:
        return [*parts[:-1], last]
    rest = sbuf((m.rotated - fill, *more.shape[1:]), more.dtype)
    nisa.dma_copy(dst=rest, src=more[nl.ds(fill, m.rotated - fill), :, :])
    return [*parts[:-1], last, rest]


def _attend(out, asked, keys, first, w, share, step, at):
    """Softmax over the cache and the new token, and the sum of the compressed values, for groups of sequences and
    heads whose scores SBUF has space for."""
    some, heads = asked[0].shape[1:]
    tiles = w.latent.shape[1] // LANES + 1
    depth = places.depth(share.heads)
    most = max(1, min(heads, attend.SCORES // tiles, LANES))
    eye, one = blocks.identity(LANES), blocks.ones(LANES, LANES)
    for g, group in blocks.spans(heads, most):
        together = max(1, min(some, attend.SCORES // (tiles * group), LANES // group, blocks.BANK // (group * depth)))
        for b, count in blocks.spans(some, together):
            some_rows = nl.ds(b, count)
            unit = _Unit([q[:, some_rows, nl.ds(g, group)] for q in asked], [k[:, some_rows] for k in keys],
                         first[:, some_rows, :], w, step, share, depth, at + b)
            unit.score(None)
            unit.softmax(eye, one)
            for n, to in enumerate(out):
                unit.part(n, to[:, nl.ds(b, count), nl.ds(g, group)])


class _Unit(attend.Unit):
    """Some sequences and heads, whose scores are in SBUF together."""

    def __init__(self, queries, keys, first, w, step, share, depth, at):
        m = share.model.latent
        super().__init__(queries[0], keys, first, w, step, ((m.plain + m.rotated) ** -0.5, depth), 0, at)
        self.asked, self.dtype = queries, queries[0].dtype
        self.kept = {} if self.count * self.tiles * w.latent.shape[2] * first.itemsize <= KEPT else None

    def shape(self, queries, w):
        return (*queries.shape[1:], w.latent.shape[1])

    def rows(self, b, start, k):
        """A chunk of a sequence's rows: [128, k, elements], in the dtype of the queries."""
        if self.kept is not None and (b, start) in self.kept:
            return self.kept[b, start]
        size = self.w.latent.shape[2]
        tile = raw = sbuf((LANES, k, size), self.w.latent.dtype)
        nisa.dma_copy(dst=raw, src=self.w.latent[self.first + b, nl.ds(start * LANES, LANES * k), :].reshape(
            (LANES, k, size)))
        if raw.dtype != self.dtype:  # the Tensor engine does not transpose eight bits as they are
            tile = sbuf(raw.shape, self.dtype)
            nisa.tensor_copy(dst=tile, src=raw)
        if self.kept is not None:
            self.kept[b, start] = tile
        return tile

    def score_cache(self, shut):
        size = self.w.latent.shape[2]
        for start, k in self.chunks():
            for b in range(self.count):
                tile, to = self.rows(b, start, k), self.scores[:, b, nl.ds(start, k), :]
                more = shut.ap([[self.count * self.tiles, LANES], [1, k], [0, self.heads]],
                               offset=b * self.tiles + start)
                for n, (a, lanes) in enumerate(blocks.spans(size, LANES)):
                    bank = nl.ndarray((LANES, k, self.heads), dtype=nl.float32, buffer=nl.psum)
                    for t in range(k):
                        nisa.nc_matmul(dst=bank[:, t, :], stationary=transposed_tile(tile[:, t, nl.ds(a, lanes)]),
                                       moving=self.asked[n][:, b, :])
                    nisa.scalar_tensor_tensor(dst=to, data=bank, op0=nl.multiply, operand0=self.scale, op1=nl.add,
                                              operand1=more)
                    more = to

    def score_new(self, own_tile):
        for n, (asked, keys) in enumerate(zip(self.asked, self.keys)):
            bank = nl.ndarray((1, self.count, self.heads), dtype=nl.float32, buffer=nl.psum)
            for b in range(self.count):
                nisa.nc_matmul(dst=bank[:, b, :], stationary=keys[:, nl.ds(b, 1)], moving=asked[:, b, :])
            self.add_new(own_tile, bank, n)

    def part(self, n, to):
        """Elements 128 n ... of the sum of the values."""
        lanes = to.shape[0]
        some = nl.ds(n * LANES, lanes)
        for b in range(self.count):
            bank = nl.ndarray((lanes, self.heads), dtype=nl.float32, buffer=nl.psum)
            for start, k in self.chunks():
                tile = self.rows(b, start, k)
                for t in range(k):
                    nisa.nc_matmul(dst=bank, stationary=tile[:, t, some], moving=self.weights[:, b, start + t, :])
            nisa.nc_matmul(dst=bank, stationary=self.values[:, b, some],
                           moving=self.weights[nl.ds(0, 1), b, self.tiles, :])
            nisa.tensor_tensor(dst=to[:, b, :], data1=bank, data2=self.inverse[nl.ds(0, lanes), b, :], op=nl.multiply)


def _expand(found, attended, w, m, head, at):
    """Each head's values from the compressed ones."""
    some, count = attended[0].shape[1:]
    lanes = found.shape[0]
    for h in range(count):
        tiles = []
        for n, (a, size) in enumerate(blocks.spans(m.kv_rank, LANES)):
            tile = sbuf((size, m.value), w.v_b.dtype)
            nisa.dma_copy(dst=tile, src=w.v_b[head + h, nl.ds(a, size), :])
            tiles.append(tile)
        for v in range(m.value // lanes):
            bank, out = nl.ndarray((lanes, some), dtype=nl.float32, buffer=nl.psum), sbuf((lanes, some), found.dtype)
            for tile, values in zip(tiles, attended):
                nisa.nc_matmul(dst=bank, stationary=tile[:, nl.ds(v * lanes, lanes)], moving=values[:, :, h])
            nisa.tensor_copy(dst=out, src=bank)
            nisa.dma_copy(dst=found[:, v, head + h, nl.ds(at, some), 0], src=out)
