"""Implements nkisim's own prompt (prefill) kernels: attention of every token to those before it,
MLP, and experts.

They are used where nki-library's kernels for context encoding do not take a share (prefill.py). A part is a function as
library.py has them, of x [1, tokens, hidden]: rows of tokens are what sequences are in a decode step, so that products
and norms are those of own.py, for some hundred rows at a time.
"""

import dataclasses

import nki.isa as nisa
import nki.language as nl

from . import attend, blocks, formats_on_chip, kernels, mixture, own
from .blocks import BANK, LANES, hbm, sbuf

MOST_TOKENS = 8192       # of a prompt: a partition has the scores of one token
ROWS = 512               # tokens whose rows are multiplied together
ROW_BYTES = 64 * 1024    # of a partition, for these rows turned
BETWEEN_BYTES = 96 * 1024  # of a partition, for what lies between the products of an MLP


def chunks(tokens, bytes_of_128, most):
    """(first, length) of rows that are multiplied together: whole tiles of 128, with so many bytes of SBUF each."""
    return blocks.spans(tokens, LANES * max(1, min(ROWS // LANES, most // bytes_of_128)))


def attention(x, w, share, step):
    """RMSNorm, projections, (norms,) rotation, causal attention, cache update, output."""
    m, tokens, hidden = share.model, x.shape[1], x.shape[2]
    core, count = kernels.cores()
    rows, columns = x.reshape((tokens, 1, hidden)), formats_on_chip.columns(w.qkv)
    qkv, found = hbm((tokens, columns), x.dtype), hbm((tokens, share.heads * m.head_dim), x.dtype)
    first, mine = blocks.halves(columns, core, count, m.head_dim)
    for at, some in chunks(tokens, 2 * hidden, ROW_BYTES):
        own.project(blocks.normed(rows[nl.ds(at, some), :, :], w.norm1, share, w.qkv), w.qkv, first, mine,
                    qkv[nl.ds(at, some), :], w.qkv_bias)
    kernels.meet(qkv, count)
    prompt = Prompt(qkv, w, share, step)
    tiles = range(tokens // LANES)
    for t in tiles[core::count]:
        prompt.rotate(t)
    return output(x, found, prompt, w.out, w.out_bias if m.sinks else None)


def output(x, found, prompt, weights, bias=None):
    """The attention of a Prompt whose tensors are written, into found [tokens, heads * d], and its projection."""
    core, count = kernels.cores()
    _, tokens, hidden = x.shape
    for tensor in (prompt.queries, prompt.keys, prompt.values):
        kernels.meet(tensor, count)
    for kv in range(prompt.keys.shape[0]):
        # The cores alternate from the end, where a tile attends to most.
        prompt.attend(found, kv, range(tokens // LANES)[::-1][core::count])
    kernels.meet(found, count)
    out = hbm(x.shape, x.dtype)
    for at, some in chunks(tokens, 2 * found.shape[1], ROW_BYTES):
        own.project(blocks.transposed_rows(found[nl.ds(at, some), :], found.shape[1], weights), weights,
                    *blocks.halves(hidden, core, count, BANK), out.reshape((tokens, hidden))[nl.ds(at, some), :], bias)
    return out


class Prompt:
    """Heads of a prompt in HBM: queries [tokens, heads, d], keys [heads, d, tokens], values [heads, tokens, elements of
    a value]."""

    def __init__(self, qkv, w, share, step):
        self.qkv, self.w, self.share, self.step, self.m = qkv, w, share, step, share.model
        self.tokens, d, dtype = qkv.shape[0], share.model.head_dim, qkv.dtype
        self.d = self.value = d
        self.window = self.m.window if self.m.has_window(step.layer) else 0
        self.queries = hbm((self.tokens, share.heads, d), dtype)
        self.keys = hbm((share.kv_heads, d, self.tokens), dtype)
        self.values = hbm((share.kv_heads, self.tokens, d), dtype)
        self.group = share.heads // share.kv_heads

    def rotate(self, t):
        """Norms and rotation of a tile of 128 tokens; its keys and values go to the caches too."""
        share, m, w = self.share, self.m, self.w
        d, heads, kvs = m.head_dim, share.heads, share.kv_heads
        rows = nl.ds(t * LANES, LANES)
        for kv in range(kvs):
            tile = sbuf((LANES, self.group + 1, d), self.qkv.dtype)
            for to, first, width in ((nl.ds(0, self.group), kv * self.group * d, self.group * d),
                                     (nl.ds(self.group, 1), (heads + kv) * d, d)):
                some = self.qkv[rows, nl.ds(first, width)]
                nisa.dma_copy(dst=tile[:, to, :], src=some.reshape((LANES, width // d, d)))
            values = sbuf((LANES, d), self.qkv.dtype)
            nisa.dma_copy(dst=values, src=self.qkv[rows, nl.ds((heads + kvs + kv) * d, d)])
            if m.qk_norm:
                tile = attend.head_norm(tile, w, m)
            tile = attend.rotated(tile, self.step, t * LANES, LANES)
            nisa.dma_copy(dst=self.queries[rows, nl.ds(kv * self.group, self.group), :],
                          src=tile[:, nl.ds(0, self.group), :])
            self._keep(kv, t, attend.transposed(tile, self.group, d), values)

    def _keep(self, kv, t, turned, values):
        """Writes a tile's keys [lanes, parts of d, tokens] and values [tokens, d]; a window's cache is cyclic."""
        w, rows = self.w, nl.ds(t * LANES, LANES)
        lanes, parts, _ = turned.shape
        nisa.dma_copy(dst=self.values[kv, rows, :], src=values)
        for n in range(parts):
            nisa.dma_copy(dst=self.keys[kv, nl.ds(n * lanes, lanes), rows], src=turned[:, n, :])
        cached = w.keys.shape[3]
        if t * LANES < self.tokens - cached:
            return
        slot = nl.ds(t * LANES % cached, LANES)
        own_keys, own_values = sbuf(turned.shape, w.keys.dtype), sbuf(values.shape, w.values.dtype)
        nisa.tensor_copy(dst=own_keys, src=turned)
        nisa.tensor_copy(dst=own_values, src=values)
        nisa.dma_copy(dst=w.values[0, kv, slot, :], src=own_values)
        for n in range(parts):
            nisa.dma_copy(dst=w.keys[0, kv, nl.ds(n * lanes, lanes), slot], src=own_keys[:, n, :])

    def attend(self, found, kv, tiles):
        """Attention of these tiles of queries, of one head of keys and values."""
        d, value, tokens = self.d, self.value, self.tokens
        lanes = blocks.lanes_for(d)
        keys = sbuf((lanes, d // lanes, tokens), self.keys.dtype)
        values = sbuf((LANES, tokens // LANES, value), self.values.dtype)
        for n in range(d // lanes):
            nisa.dma_copy(dst=keys[:, n, :], src=self.keys[kv, nl.ds(n * lanes, lanes), :])
        nisa.dma_copy(dst=values, src=self.values[kv, :, :].reshape((tokens // LANES, LANES, value)).permute((1, 0, 2)))
        masks = {}
        for t in tiles:
            rows = nl.ds(t * LANES, LANES)
            heads = sbuf((LANES, self.group, d), self.queries.dtype)
            nisa.dma_copy(dst=heads, src=self.queries[rows, nl.ds(kv * self.group, self.group), :])
            for g in range(self.group):
                out = self._head(attend.transposed(heads, g, d), keys, values, t, masks, kv * self.group + g)
                nisa.dma_copy(dst=found[rows, nl.ds((kv * self.group + g) * value, value)], src=out)

    def _head(self, query, keys, values, t, masks, head):
        """A head's result for a tile of queries [lanes, parts of d, 128]: [128, d]."""
        first = max(0, t * LANES - self.window + 1) // LANES if self.window else 0
        scores = self._scores(query, keys, first, t, masks)
        top, total = sbuf((LANES, 1), nl.float32), sbuf((LANES, 1), nl.float32)
        nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=(1,))
        sink = self._sink(head)
        if sink is not None:
            nisa.tensor_tensor(dst=top, data1=top, data2=sink, op=nl.maximum)
        less = sbuf((LANES, 1), nl.float32)
        nisa.tensor_scalar(dst=less, data=top, op0=nl.multiply, operand0=-1.0)
        weights = sbuf(scores.shape, self.qkv.dtype)
        nisa.activation(dst=weights, op=nl.exp, data=scores, bias=less)
        nisa.tensor_reduce(dst=total, op=nl.add, data=weights, axis=(1,))
        if sink is not None:
            more = sbuf((LANES, 1), nl.float32)
            nisa.activation(dst=more, op=nl.exp, data=sink, bias=less)
            nisa.tensor_tensor(dst=total, data1=total, data2=more, op=nl.add)
        nisa.reciprocal(dst=total, data=total)
        return self._weigh(weights, total, values, first, t, head)

    def _scores(self, query, keys, first, t, masks):
        """Scores of the keys from tile `first` to t, under the mask: [128, keys] in float32."""
        _, parts, _ = query.shape
        width = (t + 1 - first) * LANES
        out = sbuf((LANES, width), nl.float32)
        for at, some in blocks.spans(width, BANK):
            bank = nl.ndarray((LANES, some), dtype=nl.float32, buffer=nl.psum)
            for n in range(parts):
                nisa.nc_matmul(dst=bank, stationary=query[:, n, :], moving=keys[:, n, nl.ds(first * LANES + at, some)])
            nisa.tensor_scalar(dst=out[:, nl.ds(at, some)], data=bank, op0=nl.multiply,
                               operand0=self.d ** -0.5)
        for n in range(first, t + 1):
            ahead = (n - t) * LANES  # of the key's tile, before the query's
            if n == t or self.window and ahead - LANES + 1 <= -self.window:
                if ahead not in masks:
                    masks[ahead] = self._mask(ahead)
                some = out[:, nl.ds((n - first) * LANES, LANES)]
                nisa.tensor_tensor(dst=some, data1=some, data2=masks[ahead], op=nl.add)
        return out

    def _mask(self, ahead):
        """0 where query p attends to the key that is `ahead` + c - p tokens after it, attend.SHUT elsewhere."""
        number, out = sbuf((LANES, LANES), nl.int32), sbuf((LANES, LANES), nl.float32)
        nisa.iota(dst=number, pattern=[[1, LANES]], offset=ahead, channel_multiplier=-1)
        nisa.tensor_scalar(dst=out, data=number, op0=nl.greater, operand0=0.0, op1=nl.multiply, operand1=attend.SHUT)
        if self.window:
            old = sbuf((LANES, LANES), nl.float32)
            nisa.tensor_scalar(dst=old, data=number, op0=nl.less_equal, operand0=float(-self.window), op1=nl.multiply,
                               operand1=attend.SHUT)
            nisa.tensor_tensor(dst=out, data1=out, data2=old, op=nl.add)
        return out

    def _sink(self, head):
        """The sink of a head in every partition, in float32."""
        if not self.m.sinks:
            return None
        own_sink, out = sbuf((LANES, 1), self.w.sink.dtype), sbuf((LANES, 1), nl.float32)
        nisa.dma_copy(dst=own_sink, src=self.w.sink.ap([[0, LANES], [1, 1]], offset=head))
        nisa.tensor_copy(dst=out, src=own_sink)
        return out

    def _weigh(self, weights, inverse, values, first, t, head):
        """The values by the weights of the softmax, (and by their gate): [128, d]."""
        d = self.value
        bank, out = nl.ndarray((LANES, d), dtype=nl.float32, buffer=nl.psum), sbuf((LANES, d), self.qkv.dtype)
        for n in range(first, t + 1):
            turned, own_tile = nl.ndarray((LANES, LANES), dtype=weights.dtype, buffer=nl.psum), sbuf((LANES, LANES),
                                                                                                     weights.dtype)
            nisa.nc_transpose(dst=turned, data=weights[:, nl.ds((n - first) * LANES, LANES)])
            nisa.tensor_copy(dst=own_tile, src=turned)
            nisa.nc_matmul(dst=bank, stationary=own_tile, moving=values[:, n, :])
        nisa.tensor_scalar(dst=out, data=bank, op0=nl.multiply, operand0=inverse)
        if self.m.out_gate:
            gate, factor = sbuf((LANES, d), self.qkv.dtype), sbuf((LANES, d), nl.float32)
            first_column = self.qkv.shape[1] - (self.share.heads - head) * d
            nisa.dma_copy(dst=gate, src=self.qkv[nl.ds(t * LANES, LANES), nl.ds(first_column, d)])
            nisa.activation(dst=factor, op=nl.sigmoid, data=gate)
            nisa.tensor_tensor(dst=out, data1=out, data2=factor, op=nl.multiply)
        return out


def mlp(x, w, share, step):
    """RMSNorm, (gate,) up, the activation, down, of some rows at a time."""
    _, count = kernels.cores()
    return _by_rows(x, 6 * -(-formats_on_chip.columns(w.up) // count), lambda rows, out: own.dense(
        blocks.normed(rows, w.norm2, share, w.up), w, dataclasses.replace(share, batch=rows.shape[0]), out))


def experts(x, w, share, step):
    """RMSNorm, router, every expert for the tokens that chose it or, where that is faster, for all; and those that all
    take."""
    if not share.sorts(x.shape[1]):
        return _by_rows(x, 2 * share.hidden, lambda rows, to: _experts_of_rows(rows, w, share, step, to))
    out = mixture.sorted_experts(x, w, share)
    if not share.model.shared:
        return out
    _, count = kernels.cores()
    kernels.meet(out, count)
    more = _by_rows(x, 6 * -(-share.shared // count), lambda rows, to: mixture.shared_experts(
        rows, w, dataclasses.replace(share, batch=rows.shape[0]), to))
    kernels.meet(more, count)
    return kernels.residual(out, more)


def _experts_of_rows(rows, w, share, step, to):
    found = mixture.experts(rows, w, dataclasses.replace(share, batch=rows.shape[0]), step)
    core, count = kernels.cores()
    kernels.meet(found, count)
    if core == 0:
        nisa.dma_copy(dst=to.reshape(found.shape), src=found)


def _by_rows(x, bytes_of_128, run):
    """run(rows, out) for chunks of x [1, tokens, hidden]; gives all that it wrote."""
    _, tokens, hidden = x.shape
    rows, out = x.reshape((tokens, 1, hidden)), hbm(x.shape, x.dtype)
    for at, some in chunks(tokens, max(bytes_of_128, 2 * hidden), BETWEEN_BYTES):
        run(rows[nl.ds(at, some), :, :], out.reshape((tokens, 1, hidden))[nl.ds(at, some), :, :])
    return out
