"""Implements latent attention (MLA) of a prompt: compressed keys and values of all tokens are expanded for each head.

The part is a function as library.py has them, of x [1, tokens, hidden]. The cache keeps the compressed rows, as
latent.py reads them.
"""

import nki.isa as nisa
import nki.language as nl

from . import attend, blocks, kernels, own, own_prompt
from .blocks import BANK, LANES, hbm, sbuf, transposed_tile


def attention(x, w, share, step):
    """RMSNorm, projections down and up, rotation, causal attention, cache update, output."""
    m, tokens = share.model.latent, x.shape[1]
    core, count = kernels.cores()
    packed, queries = _projected(x, w, share)
    prompt = _Latent(packed, queries, w, share, step)
    for t in range(tokens // LANES)[core::count]:
        prompt.rotate(t)
    kernels.meet(prompt.turned, count)
    for at, some in blocks.spans(tokens, BANK):
        prompt.expand(at, some, range(share.heads)[core::count])
    found = hbm((tokens, share.heads * m.value), x.dtype)
    return own_prompt.output(x, found, prompt, w.out)


def _projected(x, w, share):
    """Compressed rows [tokens, compressed and rotated elements] and queries [tokens, heads * elements], in HBM."""
    m, (_, tokens, hidden) = share.model.latent, x.shape
    core, count = kernels.cores()
    rows, width, size = x.reshape((tokens, 1, hidden)), m.plain + m.rotated, m.kv_rank + m.rotated
    packed, queries = hbm((tokens, size), x.dtype), hbm((tokens, share.heads * width), x.dtype)
    small = hbm((tokens, m.q_rank), x.dtype) if m.q_rank else None
    heads = blocks.halves(queries.shape[1], core, count, width)
    for at, some in own_prompt.chunks(tokens, 2 * hidden, own_prompt.ROW_BYTES):
        these = nl.ds(at, some)
        tiles = blocks.normed(rows[these, :, :], w.norm1, share)
        own.project(tiles, w.kv_a, *blocks.halves(size, core, count), packed[these, :])
        if small is None:
            own.project(tiles, w.q_b, *heads, queries[these, :])
        else:
            own.project(tiles, w.q_a, *blocks.halves(m.q_rank, core, count), small[these, :])
    if small is not None:
        kernels.meet(small, count)
        for at, some in own_prompt.chunks(tokens, 2 * m.q_rank, own_prompt.ROW_BYTES):
            tiles = blocks.normed_rows(small[nl.ds(at, some), :], w.q_a_norm, m.q_rank, share.model.eps)
            own.project(tiles, w.q_b, *heads, queries[nl.ds(at, some), :])
    kernels.meet(packed, count)
    kernels.meet(queries, count)
    return packed, queries


class _Latent(own_prompt.Prompt):
    """Expanded heads of a prompt; turned: the compressed rows [elements, tokens], the rotated part of the key last."""

    def __init__(self, packed, queries, w, share, step):
        m, dtype, tokens = share.model.latent, packed.dtype, packed.shape[0]
        self.packed, self.given, self.w, self.share, self.step = packed, queries, w, share, step
        self.m, self.one, self.qkv, self.tokens = share.model, m, packed, tokens
        self.d, self.value, self.group, self.window = m.plain + m.rotated, m.value, 1, 0
        self.queries = hbm((tokens, share.heads, self.d), dtype)
        self.keys, self.values = hbm((share.heads, self.d, tokens), dtype), hbm((share.heads, tokens, m.value), dtype)
        self.turned = hbm((packed.shape[1], tokens), dtype)

    def rotate(self, t):
        """Norm and rotation of a tile of 128 tokens; the compressed rows go to the cache too."""
        m, share, dtype = self.one, self.share, self.packed.dtype
        heads, rows, size = share.heads, nl.ds(t * LANES, LANES), m.kv_rank + m.rotated
        own_heads, new, even = sbuf((LANES, heads, self.d), dtype), sbuf((LANES, size), dtype), sbuf((LANES, size),
                                                                                                     dtype)
        nisa.dma_copy(dst=own_heads, src=self.given[rows, :].reshape((LANES, heads, self.d)))
        nisa.dma_copy(dst=new, src=self.packed[rows, :])
        gamma = sbuf((LANES, m.kv_rank), dtype)
        nisa.dma_copy(dst=gamma, src=self.w.kv_a_norm.ap([[0, LANES], [1, m.kv_rank]]))
        plain = blocks.scaled(new[:, nl.ds(0, m.kv_rank)], m.kv_rank, share.model.eps)
        nisa.tensor_tensor(dst=even[:, nl.ds(0, m.kv_rank)], data1=plain, data2=gamma, op=nl.multiply)
        turning = sbuf((LANES, heads + 1, m.rotated), dtype)
        nisa.tensor_copy(dst=turning[:, nl.ds(0, heads), :], src=own_heads[:, :, nl.ds(m.plain, m.rotated)])
        nisa.tensor_copy(dst=turning[:, heads, :], src=new[:, nl.ds(m.kv_rank, m.rotated)])
        turning = attend.rotated(turning, self.step, t * LANES, LANES)
        nisa.tensor_copy(dst=own_heads[:, :, nl.ds(m.plain, m.rotated)], src=turning[:, nl.ds(0, heads), :])
        nisa.tensor_copy(dst=even[:, nl.ds(m.kv_rank, m.rotated)], src=turning[:, heads, :])
        nisa.dma_copy(dst=self.queries[rows, :, :], src=own_heads)
        cast = sbuf(even.shape, self.w.latent.dtype)
        nisa.tensor_copy(dst=cast, src=even)
        nisa.dma_copy(dst=self.w.latent[0, rows, :], src=cast)
        for at, some in blocks.spans(size, LANES):
            nisa.dma_copy(dst=self.turned[nl.ds(at, some), rows], src=transposed_tile(even[:, nl.ds(at, some)]))

    def expand(self, first, count, heads):
        """Keys and values of these heads for `count` tokens from `first` on."""
        m, w, tokens = self.one, self.w, nl.ds(first, count)
        parts = blocks.spans(m.kv_rank, LANES)
        rows = [sbuf((some, count), self.turned.dtype) for _, some in parts]
        for (at, some), tile in zip(parts, rows):
            nisa.dma_copy(dst=tile, src=self.turned[nl.ds(at, some), tokens])
        for h in heads:
            for at, some in blocks.spans(m.plain, LANES):
                key = sbuf((some, m.kv_rank), w.k_b.dtype)
                nisa.dma_copy(dst=key, src=w.k_b[h, nl.ds(at, some), :])
                turned = [transposed_tile(key[:, nl.ds(a, n)]) for a, n in parts]
                bank, out = nl.ndarray((some, count), dtype=nl.float32, buffer=nl.psum), sbuf((some, count),
                                                                                              self.keys.dtype)
                for each, tile in zip(turned, rows):
                    nisa.nc_matmul(dst=bank, stationary=each, moving=tile)
                nisa.tensor_copy(dst=out, src=bank)
                nisa.dma_copy(dst=self.keys[h, nl.ds(at, some), tokens], src=out)
            nisa.dma_copy(dst=self.keys[h, nl.ds(m.plain, m.rotated), tokens],
                          src=self.turned[nl.ds(m.kv_rank, m.rotated), tokens])
            self._values(h, first, count, parts, rows)

    def _values(self, h, first, count, parts, rows):
        """The values of head h, from the compressed rows [elements, tokens]."""
        m, tiles = self.one, []
        for at, some in parts:
            tile = sbuf((some, m.value), self.w.v_b.dtype)
            nisa.dma_copy(dst=tile, src=self.w.v_b[h, nl.ds(at, some), :])
            tiles.append(tile)
        for t in range(0, count, LANES):
            bank, out = nl.ndarray((LANES, m.value), dtype=nl.float32, buffer=nl.psum), sbuf((LANES, m.value),
                                                                                             self.values.dtype)
            for each, tile in zip(rows, tiles):
                nisa.nc_matmul(dst=bank, stationary=each[:, nl.ds(t, LANES)], moving=tile)
            nisa.tensor_copy(dst=out, src=bank)
            nisa.dma_copy(dst=self.values[h, nl.ds(first + t, LANES), :], src=out)
