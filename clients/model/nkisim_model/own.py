"""Implements nkisim's own attention and MLP kernels of a decode step: any number of heads, any
batch, every chip.

They are asked where nki-library has no kernel that takes a share (routes.py). A part is a function as library.py has
them; attention() wants masks and places as places.py makes them.
"""

import nki.isa as nisa
import nki.language as nl

from . import attend, blocks, formats_on_chip, kernels
from .blocks import BANK, LANES, hbm, sbuf

TOGETHER = 16  # heads, each of up to 128 sequences, whose new keys and values SBUF holds at a time


def attention(x, w, share, step):
    """RMSNorm, projections, (norms,) rotation, attention over the cache and the new token, cache update, output."""
    batch, m = share.batch, share.model
    core, count = kernels.cores()
    columns = formats_on_chip.columns(w.qkv)
    first, mine = blocks.halves(columns, core, count, m.head_dim)
    rows = hbm((batch, columns), x.dtype) if count > 1 or batch > 1 or m.out_gate else None
    tiles = project(blocks.normed(x, w.norm1, share, w.qkv), w.qkv, first, mine, rows, w.qkv_bias, (batch, x.dtype))
    # A core that works alone needs no way through HBM, where small transfers wait for weights.
    qkv = attend.Projected(tiles if count == 1 else None, rows)
    found = attend.results(share, x.dtype, hbm if count > 1 else sbuf)
    if count > 1:
        kernels.meet(rows, count)
    work = attend.work(share, core, count)
    for first in range(0, len(work), TOGETHER):
        # The caches are written after all reads of them, none of which so waits for the projection.
        for new in [attend.sequences(qkv, found, w, share, step, *each) for each in work[first:first + TOGETHER]]:
            attend.keep(new, w)
    if count > 1:
        kernels.meet(found, count)
    heads = share.heads * m.head_dim
    return attend.output(x, found, w, share, rows[:, nl.ds(columns - heads, heads)] if m.out_gate else None)


def project(tiles, weights, first, columns, out, bias=None, rows_of=None):
    """Writes rows @ weights[:, first : first + columns] (+ bias [1, n]) to the same columns of out [batch, n], and
    gives them in SBUF, up to 128 rows by the number of the first. Without out rows_of is (batch, dtype)."""
    batch, dtype = rows_of or (out.shape[0], out.dtype)
    if not columns:
        return {}
    rows = [(at, sbuf((some, columns), dtype)) for at, some in blocks.spans(batch, LANES)]
    more = None
    if bias is not None:
        some = min(batch, LANES)
        more = sbuf((some, columns), bias.dtype)
        nisa.dma_copy(dst=more, src=bias.ap([[0, some], [1, columns]], offset=first))

    def keep(bank, row, column):
        to = rows[row // LANES][1][:, nl.ds(column, bank.shape[1])]
        if more is None:
            nisa.tensor_copy(dst=to, src=bank)
        else:
            nisa.tensor_tensor(dst=to, data1=bank, data2=more[nl.ds(0, bank.shape[0]), nl.ds(column, bank.shape[1])],
                               op=nl.add)

    blocks.product(tiles, weights, first, columns, keep)
    for at, own in rows if out is not None else ():
        nisa.dma_copy(dst=out[nl.ds(at, own.shape[0]), nl.ds(first, columns)], src=own)
    return dict(rows)


def mlp(x, w, share, step):
    """RMSNorm, (gate,) up, the activation, down: this rank's columns."""
    out = hbm(x.shape, x.dtype)
    dense(blocks.normed(x, w.norm2, share, w.up), w, share, out)
    return out


def dense(tiles, w, share, out):
    """The MLP of turned rows, into out [batch, 1, hidden]: each core a half of the width, then of the output."""
    core, count = kernels.cores()
    batch, width = share.batch, formats_on_chip.columns(w.up)
    between = hbm((batch, width), out.dtype)
    first, mine = blocks.halves(width, core, count, 2)
    gates, act = {}, ACTIVATIONS[share.model.act]

    def activated(bank, row, column):
        some = sbuf(bank.shape, nl.float32)
        for op in act:
            nisa.activation(dst=some, op=op, data=bank)
            bank = some
        return some

    def gate(bank, row, column):
        to = gates.setdefault(row, sbuf((bank.shape[0], mine), nl.float32))
        nisa.tensor_copy(dst=to[:, nl.ds(column, bank.shape[1])], src=activated(bank, row, column))

    kept = {}

    def up(bank, row, column):
        some = nl.ds(column, bank.shape[1])
        to = kept.setdefault(row, sbuf((bank.shape[0], mine), out.dtype))
        if share.model.gated:
            nisa.tensor_tensor(dst=to[:, some], data1=gates[row][:, some], data2=bank, op=nl.multiply)
        else:
            nisa.tensor_copy(dst=to[:, some], src=activated(bank, row, column))

    if share.model.gated:
        blocks.product(tiles, w.gate, first, mine, gate)
    blocks.product(tiles, w.up, first, mine, up)
    for row, own in kept.items():
        nisa.dma_copy(dst=between[nl.ds(row, own.shape[0]), nl.ds(first, mine)], src=own)
    kernels.meet(between, count)
    project(blocks.transposed_rows(between, width, w.down), w.down, *blocks.halves(out.shape[2], core, count, BANK),
            out.reshape((batch, out.shape[2])))


def activated(rows, m, inner):
    """act(gate) * up of rows [some, 2 * inner] in SBUF, or act(up) where there is no gate: [some, inner] in float32."""
    some = sbuf((rows.shape[0], inner), nl.float32)
    data = rows[:, nl.ds(0, inner)]
    for op in ACTIVATIONS[m.act]:
        nisa.activation(dst=some, op=op, data=data)
        data = some
    if m.gated:
        nisa.tensor_tensor(dst=some, data1=some, data2=rows[:, nl.ds(inner, inner)], op=nl.multiply)
    return some


#: Functions of the Scalar engine that make an activation, one after another.
ACTIVATIONS = {"silu": (nl.silu,), "gelu": (nl.gelu_apprx_tanh,), "relu2": (nl.relu, nl.square),
               "relu": (nl.relu,)}
