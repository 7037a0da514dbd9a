"""Computes rotary position embedding: pairs (x1, x2) of each head are rotated by a position's angle."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import Case, main


@nki.jit
def rope(x, cosine, sine):
    """x is [sequence, heads, size]; cosine and sine are [sequence, size / 2]."""
    length, heads, size = x.shape
    half = size // 2
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, length, 128):
        part = nl.ds(start, min(128, length - start))
        n = part.size
        tile = nl.load(x[part, :, :])
        cos, sin = nl.load(cosine[part, :]), nl.load(sine[part, :])
        # The same angles for every head: a view that repeats them, without a copy.
        cos = cos.expand_dim(1).broadcast(1, heads)
        sin = sin.expand_dim(1).broadcast(1, heads)
        first, second = tile[:, :, 0:half], tile[:, :, half:size]
        turned = nl.ndarray((n, heads, size), dtype=x.dtype, buffer=nl.sbuf)
        other = nl.ndarray((n, heads, half), dtype=x.dtype, buffer=nl.sbuf)
        for own, cross, place, op in ((first, second, 0, nl.subtract), (second, first, half, nl.add)):
            result = turned[:, :, place:place + half]
            nisa.tensor_tensor(dst=result, data1=own, data2=cos, op=nl.multiply)
            nisa.tensor_tensor(dst=other, data1=cross, data2=sin, op=nl.multiply)
            nisa.tensor_tensor(dst=result, data1=result, data2=other, op=op)
        nl.store(out[part, :, :], turned)
    return out


def reference(x, cosine, sine):
    half = x.shape[2] // 2
    first, second = x[:, :, :half], x[:, :, half:]
    cos, sin = cosine[:, None, :], sine[:, None, :]
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=2)


def cases():
    def inputs(rng):
        x = rng.standard_normal((192, 4, 64)).astype(np.float32)
        angles = np.outer(np.arange(192), 1e4 ** (-np.arange(32) / 32))
        return [x, np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]

    return [Case("rope", rope, reference, inputs)]


if __name__ == "__main__":
    main(cases())
