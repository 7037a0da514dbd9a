"""Implements parts of a model for which AWS's nki-library has no kernel: embedding, residual sums,
head and sampling.

Written with nki.isa; x is [batch, 1, hidden] in HBM, hidden a multiple of 128. In a logical core of
two each does a half, and they meet at a barrier where the other needs the result.
"""

import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl

LANES = 128
COLUMNS = 512   # of logits in a bank of PSUM
TILE_BYTES = 32 * 1024  # of a tile of the head's weights
TILES = 2       # of them in SBUF: one is on its way while the other is used
SEARCHED = 16384  # elements in which max8 looks
SUMMED = 4096   # columns of a tile of a residual sum


def cores():
    """(number of this core, how many work together)."""
    return (nl.program_id(0), nl.num_programs(0)) if nl.program_ndim() else (0, 1)


def meet(tensor, count):
    if count > 1:
        nisa.core_barrier(data=tensor, cores=tuple(range(count)))


def total(x, group):
    """The sum of the ranks' x."""
    if group is None:
        return x
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ncc.all_reduce(srcs=[x], dsts=[out], op=nl.add, replica_group=group)
    return out


def residual(x, delta):
    """x + delta, element by element: tile by tile, the cores alternately."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    core, count = cores()
    width = x.shape[0] * x.shape[1] * x.shape[2] // LANES
    left, right, to = (t.reshape((LANES, width)) for t in (x, delta, out))
    for n, at in enumerate(range(0, width, SUMMED)):
        if n % count == core:
            some = nl.ds(at, min(SUMMED, width - at))
            a, b, both = (nl.ndarray((LANES, some.size), dtype=x.dtype, buffer=nl.sbuf) for _ in range(3))
            nisa.dma_copy(dst=a, src=left[:, some])
            nisa.dma_copy(dst=b, src=right[:, some])
            nisa.tensor_tensor(dst=both, data1=a, data2=b, op=nl.add)
            nisa.dma_copy(dst=to[:, some], src=both)
    meet(out, count)
    return out


def embedding(tokens, table, group, hidden=None):
    """Rows of table [vocabulary, hidden of this rank] for tokens [batch, 1] (int32): [batch, 1, hidden].

    Every rank has some columns of the table; their rows are gathered from all of them. hidden: where the last ranks'
    columns are padding beyond it.
    """
    batch, width = tokens.shape[0], table.shape[1]
    ranks = 1 if group is None else len(group.groups[0])
    own = nl.ndarray((batch, width), dtype=table.dtype, buffer=nl.shared_hbm)
    core, count = cores()
    tiles = [(n, nl.ds(at, min(LANES, batch - at))) for n, at in enumerate(range(0, batch, LANES))]
    for rows in (rows for n, rows in tiles if n % count == core):
        ids = nl.ndarray((rows.size, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=ids, src=tokens[rows, :])
        found = nl.ndarray((rows.size, width), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=found, src=table.ap([[width, rows.size], [1, width]], vector_offset=ids, indirect_dim=0))
        nisa.dma_copy(dst=own[rows, :], src=found)
    meet(own, count)
    if group is None:
        return own.reshape((batch, 1, width))
    hidden = hidden or ranks * width
    parts = nl.ndarray((ranks * batch, width), dtype=table.dtype, buffer=nl.shared_hbm)
    ncc.all_gather(srcs=[own], dsts=[parts], replica_group=group, collective_dim=0)
    if batch == 1 and hidden == ranks * width:
        return parts.reshape((1, 1, hidden))
    whole = nl.ndarray((batch, 1, hidden), dtype=table.dtype, buffer=nl.shared_hbm)
    full, left = divmod(hidden, width)
    for rows in (rows for n, rows in tiles if n % count == core):
        for first, some, wide in ((0, full, width), (full, 1, left)):
            if some and wide:
                nisa.dma_copy(dst=whole.ap([[hidden, rows.size], [width, some], [1, wide]],
                                           offset=rows.start * hidden + first * width),
                              src=parts.ap([[width, rows.size], [batch * width, some], [1, wide]],
                                           offset=rows.start * width + first * batch * width))
    meet(whole, count)
    return whole


def last_row(x):
    """The last row of x [1, rows, hidden] as [1, 1, hidden]."""
    out = nl.ndarray((1, 1, x.shape[2]), dtype=x.dtype, buffer=nl.shared_hbm)
    core, count = cores()
    if core == 0:
        nisa.dma_copy(dst=out.reshape((1, x.shape[2])), src=x[0, nl.ds(x.shape[1] - 1, 1), :])
    meet(out, count)
    return out


def keep(keys, values, key_cache, value_cache):
    """Writes keys and values [tokens, d] of a prompt to the caches [d, context] and [context, d]: half a core each."""
    tokens, d = keys.shape
    core, count = cores()
    for n, at in enumerate(range(0, tokens, COLUMNS)):
        if n % count == core:
            turned = nl.ndarray((d, COLUMNS), dtype=keys.dtype, buffer=nl.sbuf)
            for t in range(0, COLUMNS, LANES):
                rows = nl.ndarray((LANES, d), dtype=keys.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=rows, src=keys[nl.ds(at + t, LANES), :])
                bank = nl.ndarray((d, LANES), dtype=keys.dtype, buffer=nl.psum)
                nisa.nc_transpose(dst=bank, data=rows)
                nisa.tensor_copy(dst=turned[:, nl.ds(t, LANES)], src=bank)
            nisa.dma_copy(dst=key_cache[:, nl.ds(at, COLUMNS)], src=turned)
            nisa.dma_copy(dst=value_cache[nl.ds(at, COLUMNS), :], src=values[nl.ds(at, COLUMNS), :])


def _normalised(x, gamma, eps, own=None):
    """RMSNorm of x [batch, 1, hidden] as [128, hidden / 128, batch]: element 128 k + p in row p. own: elements that
    are no padding."""
    batch, hidden = x.shape[0], x.shape[2]
    rows = nl.ndarray((batch, hidden), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=x.reshape((batch, hidden)))
    squares = nl.ndarray((batch, hidden), dtype=nl.float32, buffer=nl.sbuf)
    scale = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=squares, op=nl.square, data=rows, reduce_op=nl.add, reduce_res=scale)
    mean = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=mean, data=scale, op0=nl.multiply, operand0=1.0 / (own or hidden), op1=nl.add,
                       operand1=eps)
    factor = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=factor, op=nl.rsqrt, data=mean)
    even = nl.ndarray((batch, hidden), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=even, data=rows, op0=nl.multiply, operand0=factor)
    weights = nl.ndarray((LANES, hidden // LANES), dtype=gamma.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weights, src=gamma.reshape((hidden // LANES, LANES)).ap(
        [[1, LANES], [LANES, hidden // LANES]]))
    exact = nl.ndarray(weights.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=exact, src=weights)
    turned = nl.ndarray((LANES, hidden // LANES, batch), dtype=x.dtype, buffer=nl.sbuf)
    for k in range(hidden // LANES):
        bank = nl.ndarray((LANES, batch), dtype=x.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=bank, data=even[:, nl.ds(k * LANES, LANES)])
        nisa.tensor_scalar(dst=turned[:, k, :], data=bank, op0=nl.multiply,
                           operand0=exact[:, nl.ds(k, 1)])
    return turned


def _logits(turned, weights, first, columns):
    """turned^T @ weights[:, first : first + columns]: [batch, columns] in float32."""
    tiles, batch = turned.shape[1], turned.shape[2]
    whole = weights.shape[1]
    out = nl.ndarray((batch, columns), dtype=nl.float32, buffer=nl.sbuf)
    most = max(1, min(COLUMNS, TILE_BYTES // (tiles * weights.itemsize)))
    # One tensor, so that no tile gets storage of its own and the rest of SBUF stays free.
    ring = nl.ndarray((LANES, TILES, tiles, most), dtype=weights.dtype, buffer=nl.sbuf)
    for n, at in enumerate(range(0, columns, most)):
        width = min(most, columns - at)
        some = ring[:, n % TILES, :, nl.ds(0, width)]
        nisa.dma_copy(dst=some, src=weights.ap([[whole, LANES], [whole * LANES, tiles], [1, width]],
                                               offset=first + at))
        for c in range(0, width, COLUMNS):
            wide = min(COLUMNS, width - c)
            bank = nl.ndarray((batch, wide), dtype=nl.float32, buffer=nl.psum)
            for k in range(tiles):
                nisa.nc_matmul(dst=bank, stationary=turned[:, k, :], moving=some[:, k, nl.ds(c, wide)])
            nisa.tensor_copy(dst=out[:, nl.ds(at + c, wide)], src=bank)
    return out


def head(x, gamma, weights, rank_offset, group, eps, own=None):
    """The most likely token of each row: [batch, 1] int32.

    weights [hidden, vocabulary of this rank]; rank_offset [1, 1] float32: the number of its first
    column. The largest logit and its number, in float32 (exact to 2^24), of every core and rank are
    gathered; of equal logits the first wins, as in torch.argmax. own: elements of x that are no padding.
    """
    batch, columns = x.shape[0], weights.shape[1]
    core, count = cores()
    half = columns // count
    logits = _logits(_normalised(x, gamma, eps, own), weights, core * half, half)
    offset = nl.ndarray((batch, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=offset, src=rank_offset.ap([[0, batch], [1, 1]]))
    pieces = -(-half // SEARCHED)
    pairs = nl.ndarray((batch, 2 * pieces), dtype=nl.float32, buffer=nl.sbuf)
    for n in range(pieces):
        first = n * SEARCHED
        largest(logits[:, nl.ds(first, min(SEARCHED, half - first))], offset, core * half + first, pairs, n)
    own = nl.ndarray((batch, 2 * pieces * count), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=own[:, nl.ds(2 * pieces * core, 2 * pieces)], src=pairs)
    meet(own, count)
    return choice(own, group, batch)


def largest(logits, offset, first, pairs, n):
    """The largest of each row's logits and its token, as the n-th pair: that of column 0 is offset + first."""
    rows = logits.shape[0]
    best = nl.ndarray((rows, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.max8(dst=best, src=logits)
    at = nl.ndarray((rows, 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(dst=at, data=logits, vals=best)
    number = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=number, src=at[:, nl.ds(0, 1)])
    nisa.tensor_copy(dst=pairs[:, nl.ds(2 * n, 1)], src=best[:, nl.ds(0, 1)])
    nisa.tensor_scalar(dst=pairs[:, nl.ds(2 * n + 1, 1)], data=number, op0=nl.add, operand0=offset, op1=nl.add,
                       operand1=float(first))


def choice(own, group, batch):
    """The token of the largest logit; own [batch, 2 per pair] of pairs (logit, token)."""
    pairs, ranks, each = own, 1, own.shape[1] // 2
    if group is not None:
        ranks = len(group.groups[0])
        pairs = nl.ndarray((ranks * batch, 2 * each), dtype=nl.float32, buffer=nl.shared_hbm)
        ncc.all_gather(srcs=[own], dsts=[pairs], replica_group=group, collective_dim=0)
    out = nl.ndarray((batch, 1), dtype=nl.int32, buffer=nl.shared_hbm)
    core, together = cores()
    for n, at in enumerate(range(0, batch, LANES)):
        if n % together == core:
            _chosen(out, pairs, at, min(LANES, batch - at), (ranks, each))
    meet(out, together)
    return out


def _chosen(out, pairs, first, rows, sizes):
    """The tokens of some rows: pairs [ranks * batch, 2 * each]."""
    ranks, each = sizes
    count, batch = ranks * each, out.shape[0]
    view = [[2 * each, rows], [2 * each * batch, ranks], [2, each]]
    values, tokens = (nl.ndarray((rows, count), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.dma_copy(dst=values.reshape((rows, ranks, each)), src=pairs.ap(view, offset=2 * each * first))
    nisa.dma_copy(dst=tokens.reshape((rows, ranks, each)), src=pairs.ap(view, offset=2 * each * first + 1))
    top = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=values, axis=(1,))
    lower = nl.ndarray((rows, count), dtype=nl.float32, buffer=nl.sbuf)  # 1 where not the largest
    nisa.tensor_scalar(dst=lower, data=values, op0=nl.less, operand0=top, op1=nl.multiply, operand1=float(2**24))
    candidates = nl.ndarray((rows, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=candidates, data1=tokens, data2=lower, op=nl.maximum)
    token = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=token, op=nl.minimum, data=candidates, axis=(1,))
    whole = nl.ndarray((rows, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=whole, src=token)
    nisa.dma_copy(dst=out[nl.ds(first, rows), :], src=whole)
