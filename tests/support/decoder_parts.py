"""Holds kernels of a model's attention and MLP in a decode step for one sequence. They are as the
first core of a rank computes them (docs/models.md says which times the parts take).
"""

import nki.isa as nisa
import nki.language as nl

from nkisim_model import kernels

LANES = kernels.LANES
MASKED = 30000.0


def attention(x, w, share, step):
    """RMSNorm, projections, rotation, cache update, attention over the cache, output: this rank's heads."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if kernels.cores()[0] == 0:
        heads, d = share.heads, share.model.head_dim
        row = _rows(x, w.norm1, w.qkv, share)
        turned = _rotated(row, step, heads + 1, d)
        _keep(turned[:, nl.ds(heads * d, d)], row[:, nl.ds((heads + 1) * d, d)], w, step)
        scale = nl.ndarray((1, heads * d), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=scale, data=turned[:, nl.ds(0, heads * d)], op0=nl.multiply, operand0=d ** -0.5)
        found = _attended(_columns(scale, heads, d, x.dtype), w, step)
        _projected(out, found, w.out, d)
    return out


def mlp(x, w, share, step):
    """RMSNorm, gate, up, SiLU, down: this rank's columns."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if kernels.cores()[0] == 0:
        gate, up = (_rows(x, w.norm2, weights, share) for weights in (w.gate, w.up))
        nisa.activation(dst=gate, op=nl.silu, data=gate)
        nisa.tensor_tensor(dst=gate, data1=gate, data2=up, op=nl.multiply)
        size = min(LANES, share.inner)
        _projected(out, _columns(gate, share.inner // size, size, x.dtype), w.down, size)
    return out


def _rows(x, gamma, weights, share):
    """RMSNorm(x) @ weights: [1, columns] in float32."""
    return kernels._logits(kernels._normalised(x, gamma, share.model.eps), weights, 0, weights.shape[1])


def _rotated(row, step, heads, d):
    """The rotation of the first `heads` heads of a row, whose halves are pairs."""
    half = d // 2
    out = nl.ndarray((1, heads * d), dtype=nl.float32, buffer=nl.sbuf)
    cos, sin, left, right = (nl.ndarray((1, half), dtype=nl.float32, buffer=nl.sbuf) for _ in range(4))
    for to, table in ((cos, step.cos), (sin, step.sin)):
        some = nl.ndarray((1, half), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=some, src=table.reshape((1, half)))
        nisa.tensor_copy(dst=to, src=some)
    for n in range(heads):
        a, b = row[:, nl.ds(n * d, half)], row[:, nl.ds(n * d + half, half)]
        for at, one, other, op in ((n * d, a, b, nl.subtract), (n * d + half, b, a, nl.add)):
            nisa.tensor_tensor(dst=left, data1=one, data2=cos, op=nl.multiply)
            nisa.tensor_tensor(dst=right, data1=other, data2=sin, op=nl.multiply)
            nisa.tensor_tensor(dst=out[:, nl.ds(at, half)], data1=left, data2=right, op=op)
    return out


def _keep(key, value, w, step):
    """Writes a key and a value [1, d] to their place in the caches."""
    d, context = w.keys.shape[2], w.keys.shape[3]
    place = nl.ndarray((1, 1), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.dma_copy(dst=place, src=step.positions)
    for row, cache, shape, pattern in (
            (key, w.keys, (d * context,), [[1, 1], [context, d], [1, 1]]),
            (value, w.values, (context, d), [[d, 1], [1, d]])):
        own = nl.ndarray((1, d), dtype=cache.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=own, src=row)
        src = own.ap([[d, 1], [1, d], [1, 1]]) if cache is w.keys else own
        nisa.dma_copy(dst=cache.reshape(shape).ap(pattern, vector_offset=place, indirect_dim=0), src=src)


def _attended(queries, w, step):
    """The sum of the values for queries [d, heads], weighted by the softmax of the keys under the mask."""
    d, heads = queries.shape
    context = w.keys.shape[3]
    keys = nl.ndarray((d, context), dtype=queries.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=keys, src=w.keys[0, 0, :, :])
    values = nl.ndarray((LANES, context // LANES, d), dtype=queries.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=values, src=w.values.reshape((context // LANES, LANES, d)).permute((1, 0, 2)))
    bank = nl.ndarray((heads, context), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=bank, stationary=queries, moving=keys)
    mask = nl.ndarray((heads, context), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.dma_copy(dst=mask, src=step.mask.reshape((context, heads)).permute((1, 0)))
    scores, shut = (nl.ndarray((heads, context), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    nisa.tensor_copy(dst=shut, src=mask)
    nisa.tensor_scalar(dst=shut, data=shut, op0=nl.subtract, operand0=1.0, op1=nl.multiply, operand1=MASKED)
    nisa.tensor_tensor(dst=scores, data1=bank, data2=shut, op=nl.add)
    top, total, less = (nl.ndarray((heads, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3))
    nisa.tensor_reduce(dst=top, op=nl.maximum, data=scores, axis=(1,))
    nisa.tensor_scalar(dst=less, data=top, op0=nl.multiply, operand0=-1.0)
    nisa.activation(dst=scores, op=nl.exp, data=scores, bias=less)
    nisa.tensor_reduce(dst=total, op=nl.add, data=scores, axis=(1,))
    nisa.reciprocal(dst=total, data=total)
    share = nl.ndarray((heads, context), dtype=queries.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=share, data=scores, op0=nl.multiply, operand0=total)
    found = nl.ndarray((d, heads), dtype=nl.float32, buffer=nl.psum)
    for n in range(context // LANES):
        turned = nl.ndarray((LANES, heads), dtype=queries.dtype, buffer=nl.psum)
        nisa.nc_transpose(dst=turned, data=share[:, nl.ds(n * LANES, LANES)])
        part = nl.ndarray((LANES, heads), dtype=queries.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=part, src=turned)
        nisa.nc_matmul(dst=found, stationary=values[:, n, :], moving=part)
    out = nl.ndarray((d, heads), dtype=queries.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=out, src=found)
    return out


def _columns(row, count, size, dtype):
    """A row [1, count * size] as [size, count]."""
    one = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=one, value=1.0)
    out = nl.ndarray((size, count), dtype=dtype, buffer=nl.sbuf)
    for n in range(count):
        bank = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=bank, stationary=row[:, nl.ds(n * size, size)], moving=one)
        nisa.tensor_copy(dst=out[:, nl.ds(n, 1)], src=bank)
    return out


def _projected(out, columns, weights, size):
    """Writes the product of columns [size, n] (a row of n * size) and weights [n * size, hidden] to out."""
    hidden = weights.shape[1]
    bank = nl.ndarray((1, hidden), dtype=nl.float32, buffer=nl.psum)
    for n in range(columns.shape[1]):
        some = nl.ndarray((size, hidden), dtype=weights.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=some, src=weights[nl.ds(n * size, size), :])
        nisa.nc_matmul(dst=bank, stationary=columns[:, nl.ds(n, 1)], moving=some)
    row = nl.ndarray((1, hidden), dtype=out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=row, src=bank)
    nisa.dma_copy(dst=out.reshape((1, hidden)), src=row)
