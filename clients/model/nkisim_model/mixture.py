"""Implements the mixture of experts of a decode step, for any number of experts, shared experts and
sequences.

Where the tokens chose fewer experts than the rank has, each token's are read where they lie (gathered by a number that
the router found); else each expert is read once, and computes all tokens with a weight of 0 for those that chose others
(up to 128 tokens are one tile, which takes the time of one token), or where it saves time those that chose it.
docs/models.md says when.
"""

from types import SimpleNamespace

import nki.isa as nisa
import nki.language as nl

from . import blocks, dispatch, formats_on_chip, kernels, own
from .blocks import BANK, LANES, hbm, sbuf
from .formats_on_chip import Gathered

AT_A_TIME = 8  # the largest values that max8 finds
ROWS = 512     # tokens that are routed together
ROW_BYTES = 64 * 1024  # of a partition, for the rows of an expert
COLUMNS = 36 * 1024  # of experts whose rows are turned together: a partition has them twice


def experts(x, w, share, step):
    """RMSNorm, router, the chosen experts of every token, and those that all take."""
    tiles = None if share.sorts(share.batch) else blocks.normed(x, w.norm2, share)
    if tiles is None:
        out = sorted_experts(x, w, share)
    elif share.batch > LANES or share.pairs >= share.experts:
        out = _all(x, tiles, w, share)
    else:
        out = _each(x, tiles, w, share) if share.ep == 1 else _picked(x, tiles, w, share)
    if not share.model.shared:
        return out
    more = hbm(x.shape, x.dtype)
    shared_experts(x, w, share, more, tiles)
    kernels.meet(more, kernels.cores()[1])
    return kernels.residual(out, more)


def shared_experts(x, w, share, out, tiles=None):
    """The experts that all tokens take; tiles: the turned rows, where they are known."""
    shared = SimpleNamespace(**w.shared)
    if tiles is None or formats_on_chip.grouped(shared.up):
        tiles = blocks.normed(x, w.norm2, share, shared.up)
    own.dense(tiles, shared, share, out)


def routed(tiles, w, share):
    """The routing of blocks of 128 rows: (scores [rows, experts], the top_k largest of each row), in float32."""
    m = share.model
    return [(scores, _largest(scores, m.top_k)) for scores in _rows_of(tiles, w.router, m.experts)]


def _rows_of(tiles, weights, width):
    """rows @ weights in SBUF, of blocks of 128 rows, in float32."""
    found = [sbuf((some, width), nl.float32) for _, some in blocks.spans(tiles[0][0].shape[2], LANES)]

    def keep(bank, row, column):
        nisa.tensor_copy(dst=found[row // LANES][:, nl.ds(column, bank.shape[1])], src=bank)

    blocks.product(tiles, weights, 0, width, keep)
    return found


def _largest(scores, count):
    """The `count` largest of each row, eight at a time."""
    rows = scores.shape[0]
    rounds = -(-count // AT_A_TIME)
    out = sbuf((rows, rounds * AT_A_TIME), nl.float32)
    left = scores
    for n in range(rounds):
        best = out[:, nl.ds(n * AT_A_TIME, AT_A_TIME)]
        nisa.max8(dst=best, src=left)
        if n + 1 < rounds:
            less = sbuf(scores.shape, nl.float32)
            nisa.nc_match_replace8(dst=less, data=left, vals=best, imm=-1e30)
            left = less
    return out


def _weights(scores, best, m):
    """exp(score - largest) of each expert, and one over the sum that they are divided by."""
    rows, k = scores.shape[0], m.top_k
    less, power = sbuf((rows, 1), nl.float32), sbuf(scores.shape, nl.float32)
    nisa.tensor_scalar(dst=less, data=best[:, nl.ds(0, 1)], op0=nl.multiply, operand0=-1.0)
    nisa.activation(dst=power, op=nl.exp, data=scores, bias=less)
    chosen, total = sbuf((rows, k), nl.float32), sbuf((rows, 1), nl.float32)
    nisa.activation(dst=chosen, op=nl.exp, data=best[:, nl.ds(0, k)], bias=less)
    nisa.tensor_reduce(dst=total, op=nl.add, data=chosen if m.normalised_top_k else power, axis=(1,))
    nisa.reciprocal(dst=total, data=total)
    return power, chosen, total


# ---- each token's own ----
def _each(x, tiles, w, share):
    """The experts of each token, gathered: the cores share a token's, or the tokens where it has one."""
    m, batch = share.model, share.batch
    core, count = kernels.cores()
    numbers, weights = _spread(routed(tiles, w, share), share)
    tokens, slots = (0, batch), (0, m.top_k)
    if m.top_k > 1:
        slots = blocks.halves(m.top_k, core, count)
    else:
        tokens = blocks.halves(batch, core, count)
    parts = [hbm(x.shape, x.dtype) for _ in range(count if m.top_k > 1 else 1)]
    to = parts[core if m.top_k > 1 else 0].reshape((batch, x.shape[2]))
    gathered = _Gathers(w, share, numbers)
    for b in range(tokens[0], sum(tokens)):
        row = sbuf((1, x.shape[2]), x.dtype)
        gathered.token(tiles[0][0], b, range(b * m.top_k + slots[0], b * m.top_k + sum(slots)), row, weights)
        nisa.dma_copy(dst=to[nl.ds(b, 1), :], src=row)
    for part in parts:
        kernels.meet(part, count)
    return kernels.residual(*parts) if len(parts) > 1 else parts[0]


def chosen_of(scores, best, m):
    """The Chosen experts of up to 128 tokens, side by side in one tile."""
    _, power, total = _weights(scores, best, m)
    rows, k = scores.shape[0], m.top_k
    both = sbuf((rows, 2 * k), nl.float32)
    for n in range(0, k, AT_A_TIME):
        some, at = min(AT_A_TIME, k - n), sbuf((rows, AT_A_TIME), nl.uint32)
        nisa.nc_find_index8(dst=at, data=scores, vals=best[:, nl.ds(n, AT_A_TIME)])
        nisa.tensor_copy(dst=both[:, nl.ds(n, some)], src=at[:, nl.ds(0, some)])
    nisa.tensor_scalar(dst=both[:, nl.ds(k, k)], data=power, op0=nl.multiply, operand0=total)
    return dispatch.Chosen(both[:, nl.ds(0, k)], both[:, nl.ds(k, k)], both)


def _spread(found, share):
    """Numbers of the chosen experts and their weights, in every partition: [128, batch * top_k] in float32 each."""
    both, k = chosen_of(*found[0], share.model).both, share.model.top_k
    rows = both.shape[0]
    kept = nl.ndarray((rows, 2 * k), dtype=nl.float32, buffer=nl.private_hbm)
    nisa.dma_copy(dst=kept, src=both)
    out = []
    for first in (0, k):
        each = sbuf((LANES, rows, k), nl.float32)
        nisa.dma_copy(dst=each, src=kept.ap([[0, LANES], [2 * k, rows], [1, k]], offset=first))
        out.append(each.reshape((LANES, rows * k)))
    return out


class _Gathers:
    """Experts by number: where the rows of each partition begin."""

    def __init__(self, w, share, numbers):
        self.share = share
        m, inner, hidden = share.model, share.inner, share.hidden
        gates = 2 if m.gated else 1
        self.up = w.gate_up.reshape((share.experts * hidden, gates * inner))
        self.down = w.down.reshape((share.experts * inner, hidden))
        self.up_rows = _rows(numbers, hidden, LANES, hidden // LANES, 0)
        lanes, each, left = formats_on_chip.lanes_of(inner)
        pieces = [(lanes, each, 0)] + ([(left, 1, lanes * each)] if left else [])
        self.pieces = [(*piece, _rows(numbers, inner, *piece)) for piece in pieces]

    def token(self, tile, b, pairs, row, weights=None):
        """The sum of these pairs' experts of the b-th row of a tile, (by their weights,) into row [1, hidden]."""
        hidden, pieces, sources = self.share.hidden, [], []
        for n in pairs:
            between = self._between(tile, b, n)
            for lanes, each, first, rows in self.pieces:
                columns = self._columns(between, lanes, each, first, row.dtype,
                                        None if weights is None else weights[:, nl.ds(n, 1)])
                pieces.append(blocks.Piece(lanes, [_column(columns, k) for k in range(each)], 0, each, 1))
                sources.append(Gathered(self.down, hidden, rows[:, nl.ds(n, 1)]))

        def keep(bank, _, column):
            nisa.tensor_copy(dst=row[:, nl.ds(column, bank.shape[1])], src=bank)

        blocks.multiply(pieces, 1, sources, 0, hidden, keep)

    def _between(self, tile, b, n):
        """act(gate) * up of a pair's expert: [1, inner] in float32."""
        m, inner = self.share.model, self.share.inner
        width = inner * (2 if m.gated else 1)
        found = sbuf((1, width), nl.float32)

        def keep(bank, _, column):
            nisa.tensor_copy(dst=found[:, nl.ds(column, bank.shape[1])], src=bank)

        piece = blocks.Piece(LANES, [_column(tile, k, b) for k in range(tile.shape[1])], 0, tile.shape[1], 1)
        source = Gathered(self.up, width, self.up_rows[:, nl.ds(n, 1)])
        blocks.multiply([piece], 1, [source], 0, width, keep)
        return own.activated(found, m, inner)

    def _columns(self, between, lanes, each, first, dtype, weight):
        """Elements first ... of a row as [lanes, each], (times the weight of the expert)."""
        one = blocks.ones(1, 1)
        out = sbuf((lanes, each), dtype)
        bank = nl.ndarray((lanes, each), dtype=nl.float32, buffer=nl.psum)
        for k in range(each):
            nisa.nc_matmul(dst=bank[:, nl.ds(k, 1)], moving=one, stationary=between.ap(
                [[between.shape[1], 1], [each, lanes]], offset=first + k))
        if weight is None:
            nisa.tensor_copy(dst=out, src=bank)
        else:
            nisa.tensor_scalar(dst=out, data=bank, op0=nl.multiply, operand0=weight[nl.ds(0, lanes), :])
        return out


def _column(tile, k, b=None):
    if b is None:
        return lambda at, some: tile[:, nl.ds(k, 1)]
    return lambda at, some: tile[:, k, nl.ds(b, 1)]


def _rows(numbers, rows, lanes, each, first):
    """The first row of each partition, of experts of so many rows: number * rows + first + lane * each, as uint32."""
    lane, exact = sbuf((lanes, 1), nl.int32), sbuf((lanes, 1), nl.float32)
    nisa.iota(dst=lane, pattern=[[1, 1]], offset=first, channel_multiplier=each)
    nisa.tensor_copy(dst=exact, src=lane)
    out = sbuf((lanes, numbers.shape[1]), nl.uint32)
    nisa.tensor_scalar(dst=out, data=numbers[nl.ds(0, lanes), :], op0=nl.multiply, operand0=float(rows), op1=nl.add,
                       operand1=exact)
    return out


# ---- the pairs of a group of ranks ----
def _picked(x, tiles, w, share):
    """The pairs of tokens and experts that this rank has, in as many slots as the busiest group has pairs."""
    (batch, _, hidden), many = x.shape, share.pairs
    core, count = kernels.cores()
    (scores, best), = routed(tiles, w, share)
    slots = dispatch.FewSlots(chosen_of(scores, best, share.model), w.group, share.experts, many)
    first, mine = blocks.halves(many, core, count)
    tile = tiles[0][0]
    if batch > 1 and mine:
        tile = _rows_of_slots(x.reshape((batch, hidden)), w, share, slots.tokens[:, nl.ds(first, mine)])
    found, gathered = hbm((many, hidden), x.dtype), _Gathers(w, share, slots.numbers)
    for n in range(first, first + mine):
        row = sbuf((1, hidden), x.dtype)
        gathered.token(tile, n - first if batch > 1 else 0, [n], row, slots.weights)
        nisa.dma_copy(dst=found[nl.ds(n, 1), :], src=row)
    kernels.meet(found, count)
    out = hbm(x.shape, x.dtype)
    at, width = blocks.halves(hidden, core, count, BANK)
    if width:
        _sum_of_slots(found[:, nl.ds(at, width)], slots.tokens, out.reshape((batch, hidden))[:, nl.ds(at, width)])
    return out


def _rows_of_slots(x, w, share, tokens):
    """RMSNorm of rows [batch, hidden], and of each slot the row of its token, turned: [lanes, k, slots]."""
    (batch, hidden), many = x.shape, tokens.shape[1]
    rows, here = _norm(x, _gamma(w, hidden), share), sbuf((batch, many), x.dtype)
    nisa.tensor_copy(dst=here, src=tokens)
    lanes = blocks.lanes_for(hidden)
    each = hidden // lanes
    out = sbuf((lanes, each, many), x.dtype)
    for k in range(each):
        bank = nl.ndarray((lanes, many), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=bank, stationary=rows.ap([[hidden, batch], [each, lanes]], offset=k), moving=here)
        nisa.tensor_copy(dst=out[:, k, :], src=bank)
    return out


def _sum_of_slots(found, tokens, out):
    """The sum of each token's slots: found [slots, width], tokens [batch, slots], out [batch, width]."""
    (many, width), batch = found.shape, tokens.shape[0]
    here, parts = sbuf(tokens.shape, found.dtype), []
    nisa.tensor_copy(dst=here, src=tokens)
    for at, some in blocks.spans(many, LANES):
        rows = sbuf((some, width), found.dtype)
        nisa.dma_copy(dst=rows, src=found[nl.ds(at, some), :])
        parts.append((blocks.transposed_tile(here[:, nl.ds(at, some)]), rows))
    whole = sbuf((batch, width), found.dtype)
    for c, wide in blocks.spans(width, BANK):
        bank = nl.ndarray((batch, wide), dtype=nl.float32, buffer=nl.psum)
        for turned, rows in parts:
            nisa.nc_matmul(dst=bank, stationary=turned, moving=rows[:, nl.ds(c, wide)])
        nisa.tensor_copy(dst=whole[:, nl.ds(c, wide)], src=bank)
    nisa.dma_copy(dst=out, src=whole)


# ---- tokens sorted by expert ----
def sorted_experts(x, w, share):
    """Every expert of this rank for the tokens that chose it: x has rows of tokens in any shape."""
    m, hidden, tokens = share.model, x.shape[2], x.shape[0] * x.shape[1]
    core, count = kernels.cores()
    rows, each = _normed_rows(x.reshape((tokens, hidden)), w, share), share.rows_of_expert(tokens)
    slots = dispatch.Slots(share, w.group if share.ep > 1 else None, tokens, each)
    for at, some in blocks.spans(tokens, min(ROWS, LANES * max(1, ROW_BYTES // (2 * hidden)))):
        for scores, best in routed(blocks.transposed_rows(rows[nl.ds(at, some), :], hidden), w, share):
            slots.add(chosen_of(scores, best, m))
    found, width = _with_zeros(slots.total, x), share.inner * (2 if m.gated else 1)
    most = LANES * max(1, min(ROWS // LANES, ROW_BYTES // (2 * hidden + 4 * (width + share.inner))))
    first, mine = blocks.halves(share.experts, core, count)
    for e in range(first, first + mine):
        for at, some in blocks.spans(each, most):
            own_rows = [slots.gathered(rows, e * each + at + a, n) for a, n in blocks.spans(some, LANES)]
            between = [own.activated(part, m, share.inner) for part in _rows_of(
                blocks.turned_rows(own_rows, hidden), w.gate_up[e].reshape((hidden, width)), width)]
            halves = [sbuf(part.shape, x.dtype) for part in between]
            for part, half in zip(between, halves):
                nisa.tensor_copy(dst=half, src=part)
            own.project(blocks.turned_rows(halves, share.inner), w.down[e], 0, hidden,
                        found[nl.ds(e * each + at, some), :])
    kernels.meet(found, count)
    out = hbm(x.shape, x.dtype)
    slots.summed(found, out.reshape((tokens, hidden)))
    return out


def _with_zeros(count, x):
    """[count + 1, hidden] in HBM, whose last row is of zeros."""
    out = hbm((count + 1, x.shape[2]), x.dtype)
    if kernels.cores()[0] == 0:
        none = sbuf((1, x.shape[2]), x.dtype)
        nisa.memset(dst=none, value=0.0)
        nisa.dma_copy(dst=out[nl.ds(count, 1), :], src=none)
    return out


def _normed_rows(x, w, share):
    """RMSNorm of rows [tokens, hidden], in HBM."""
    core, count = kernels.cores()
    out, gamma = hbm(x.shape, x.dtype), _gamma(w, x.shape[1])
    for at, some in blocks.spans(x.shape[0], LANES)[core::count]:
        nisa.dma_copy(dst=out[nl.ds(at, some), :], src=_norm(x[nl.ds(at, some), :], gamma, share))
    kernels.meet(out, count)
    return out


def _gamma(w, hidden):
    """The norm's factors in every partition."""
    out = sbuf((LANES, hidden), w.norm2.dtype)
    nisa.dma_copy(dst=out, src=w.norm2.ap([[0, LANES], [1, hidden]]))
    return out


def _norm(x, gamma, share):
    """RMSNorm of up to 128 rows [some, hidden]."""
    row = sbuf(x.shape, x.dtype)
    nisa.dma_copy(dst=row, src=x)
    even = blocks.scaled(row, share.model.hidden, share.model.eps)
    nisa.tensor_tensor(dst=even, data1=even, data2=gamma[nl.ds(0, x.shape[0]), :], op=nl.multiply)
    return even


# ---- all experts ----
def _all(x, tiles, w, share):
    """Every expert of this rank for all tokens, as many of them together as SBUF has space for the columns of."""
    m, many = share.model, share.experts
    _, count = kernels.cores()
    found = routed(tiles, w, share)
    shares = [_shares(scores, best, m) if share.ep == 1 else dispatch.weights_by_expert(
        chosen_of(scores, best, m), w.group, many) for scores, best in found]
    out = None
    for some in blocks.spans(many, max(1, COLUMNS // share.inner)):
        more = _together(x, tiles, w, share, shares, some)
        if out is not None:
            kernels.meet(out, count)
            kernels.meet(more, count)
            more = kernels.residual(out, more)
        out = more
    return out


def _together(x, tiles, w, share, shares, some):
    """The sum of (first, number) of these experts: each core computes half of them, then half of the output."""
    batch, (start, many) = share.batch, some
    core, count = kernels.cores()
    inner, hidden = share.inner, share.hidden
    width = inner * (2 if share.model.gated else 1)
    between = hbm((batch, many * inner), x.dtype)
    first, mine = blocks.halves(many, core, count)
    for e in range(first, first + mine):
        found = _rows_of(tiles, w.gate_up[start + e].reshape((hidden, width)), width)
        for n, (rows, each) in enumerate(zip(found, shares)):
            row = sbuf((rows.shape[0], inner), x.dtype)
            nisa.tensor_scalar(dst=row, data=own.activated(rows, share.model, inner), op0=nl.multiply,
                               operand0=each[:, nl.ds(start + e, 1)])
            nisa.dma_copy(dst=between[nl.ds(n * LANES, rows.shape[0]), nl.ds(e * inner, inner)], src=row)
    kernels.meet(between, count)
    out = hbm(x.shape, x.dtype)
    down = w.down.reshape((share.experts * inner, hidden))[nl.ds(start * inner, many * inner), :]
    for at, rows in blocks.spans(batch, LANES):  # of more rows than these SBUF has no space for all experts' columns
        own.project(blocks.transposed_rows(between[nl.ds(at, rows), :], many * inner), down,
                    *blocks.halves(hidden, core, count, BANK), out.reshape((batch, hidden))[nl.ds(at, rows), :])
    return out


def _shares(scores, best, m):
    """The weight of each expert for each row: 0 for those that it did not choose."""
    power, _, total = _weights(scores, best, m)
    out = sbuf(scores.shape, nl.float32)
    nisa.tensor_scalar(dst=out, data=scores, op0=nl.greater_equal, operand0=best[:, nl.ds(m.top_k - 1, 1)])
    nisa.tensor_tensor(dst=out, data1=out, data2=power, op=nl.multiply)
    nisa.tensor_scalar(dst=out, data=out, op0=nl.multiply, operand0=total)
    return out
