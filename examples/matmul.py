"""Computes C = A B in five steps, each faster than the one before. A is given transposed: a_t is [K, M].

    python -m nkisim examples/matmul.py [--target trn2] [--size 1024]
"""

import argparse

import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

from common import ALL, Case, run

P, M_TILE, N_TILE = 128, 128, 512  # contraction and rows of a matmul; columns of a PSUM bank


def sbuf(shape, dtype):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def result_of(a_t, b):
    return nl.ndarray((a_t.shape[1], b.shape[1]), dtype=a_t.dtype, buffer=nl.shared_hbm)


def small_tiles(a_t, b, k_tile, m_tile, n_tile):
    """One product per tile, loaded each time; sums in SBUF by the vector engine."""
    c = result_of(a_t, b)
    for m in nl.affine_range(0, c.shape[0], m_tile):
        for n in nl.affine_range(0, c.shape[1], n_tile):
            total = nl.zeros((m_tile, n_tile), dtype=nl.float32)
            for k in nl.affine_range(0, a_t.shape[0], k_tile):
                left, right = sbuf((k_tile, m_tile), a_t.dtype), sbuf((k_tile, n_tile), b.dtype)
                nisa.dma_copy(dst=left, src=a_t[nl.ds(k, k_tile), nl.ds(m, m_tile)])
                nisa.dma_copy(dst=right, src=b[nl.ds(k, k_tile), nl.ds(n, n_tile)])
                product = nl.ndarray((m_tile, n_tile), dtype=nl.float32, buffer=nl.psum)
                nisa.nc_matmul(dst=product, stationary=left, moving=right)
                nisa.tensor_tensor(dst=total, data1=total, data2=product, op=nl.add)
            tile = sbuf((m_tile, n_tile), c.dtype)
            nisa.tensor_copy(dst=tile, src=total)
            nisa.dma_copy(dst=c[nl.ds(m, m_tile), nl.ds(n, n_tile)], src=tile)
    return c


@nki.jit
def naive(a_t, b):
    """Tiles of 64 x 64 x 128: most of the 128 x 128 array idles, every DMA is small."""
    return small_tiles(a_t, b, 64, 64, 128)


@nki.jit
def tiled(a_t, b):
    """The largest tiles one matmul takes: 128 x 128 by 128 x 512."""
    return small_tiles(a_t, b, P, M_TILE, N_TILE)


@nki.jit
def accumulated(a_t, b):
    """PSUM adds up the products along K, at no cost: the vector engine only copies out."""
    c = result_of(a_t, b)
    for m in nl.affine_range(0, c.shape[0], M_TILE):
        for n in nl.affine_range(0, c.shape[1], N_TILE):
            total = nl.ndarray((M_TILE, N_TILE), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(0, a_t.shape[0], P):
                left, right = sbuf((P, M_TILE), a_t.dtype), sbuf((P, N_TILE), b.dtype)
                nisa.dma_copy(dst=left, src=a_t[nl.ds(k, P), nl.ds(m, M_TILE)])
                nisa.dma_copy(dst=right, src=b[nl.ds(k, P), nl.ds(n, N_TILE)])
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            tile = sbuf((M_TILE, N_TILE), c.dtype)
            nisa.tensor_copy(dst=tile, src=total)
            nisa.dma_copy(dst=c[nl.ds(m, M_TILE), nl.ds(n, N_TILE)], src=tile)
    return c


def load_columns(source, start, width):
    """Columns [start, start + width) of all of K by one DMA: [128, K / 128, width]."""
    blocks = source.shape[0] // P
    tile = sbuf((P, blocks, width), source.dtype)
    columns = source.shape[1]
    nisa.dma_copy(dst=tile, src=source.ap([[columns, P], [P * columns, blocks], [1, width]],
                                          offset=start))
    return tile


def multiply_block(total, left, right, m, n):
    """total = the product along all of K of column blocks `m` of left and `n` of right."""
    for k in nl.static_range(left.shape[1]):
        nisa.nc_matmul(dst=total, stationary=left[:, k, nl.ds(m, M_TILE)],
                       moving=right[:, k, nl.ds(n, N_TILE)])


@nki.jit
def hoisted(a_t, b):
    """Nothing is loaded twice that fits: columns of B once, columns of A once per block of B."""
    c = result_of(a_t, b)
    for n in nl.affine_range(0, c.shape[1], N_TILE):
        right = load_columns(b, n, N_TILE)
        for m in nl.affine_range(0, c.shape[0], M_TILE):
            left = load_columns(a_t, m, M_TILE)
            total = nl.ndarray((M_TILE, N_TILE), dtype=nl.float32, buffer=nl.psum)
            multiply_block(total, left, right, 0, 0)
            tile = sbuf((M_TILE, N_TILE), c.dtype)
            nisa.tensor_copy(dst=tile, src=total)
            nisa.dma_copy(dst=c[nl.ds(m, M_TILE), nl.ds(n, N_TILE)], src=tile)
    return c


def load_rows(source, k):
    """Rows [k, k + 128), all columns: one contiguous piece of memory."""
    tile = sbuf((P, source.shape[1]), source.dtype)
    nisa.dma_copy(dst=tile, src=source[nl.ds(k, P), :])
    return tile


@nki.jit
def buffered(a_t, b):
    """Both matrices once, in long rows, the next piece arriving while this one is multiplied.

    Both fit in SBUF here. Four tiles of the result are summed at a time, so that each piece along
    K is used four times as soon as it is there; the other four PSUM banks are being copied out.
    """
    c = result_of(a_t, b)
    pieces = []
    for k in nl.affine_range(0, a_t.shape[0], P):
        pieces.append((load_rows(a_t, k), load_rows(b, k)))
    tiles = [(m, n) for n in range(0, c.shape[1], N_TILE) for m in range(0, c.shape[0], M_TILE)]
    for first in range(0, len(tiles), nl.tile_size.psum_num_banks // 2):
        group = tiles[first:first + nl.tile_size.psum_num_banks // 2]
        totals = [nl.ndarray((M_TILE, N_TILE), dtype=nl.float32, buffer=nl.psum) for _ in group]
        for left, right in pieces:
            for total, (m, n) in zip(totals, group):
                nisa.nc_matmul(dst=total, stationary=left[:, nl.ds(m, M_TILE)],
                               moving=right[:, nl.ds(n, N_TILE)])
        for i, (total, (m, n)) in enumerate(zip(totals, group)):
            tile = sbuf((M_TILE, N_TILE), c.dtype)
            # Two engines share the copies out of PSUM.
            if i % 2:
                nisa.activation(dst=tile, op=nl.copy, data=total)
            else:
                nisa.tensor_copy(dst=tile, src=total)
            nisa.dma_copy(dst=c[nl.ds(m, M_TILE), nl.ds(n, N_TILE)], src=tile)
    return c


STEPS = (naive, tiled, accumulated, hoisted, buffered)


def reference(a_t, b):
    return a_t.astype(np.float32).T @ b.astype(np.float32)


def cases(size=512, kernels=STEPS):
    def inputs(rng):
        return [rng.standard_normal((size, size)).astype(ml_dtypes.bfloat16) for _ in range(2)]

    return [Case(f"matmul, {k.__name__}", k, reference, inputs, rtol=1e-2, atol=5e-2)
            for k in kernels]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="trn2", choices=ALL)
    parser.add_argument("--size", type=int, default=1024, help="M = N = K, a multiple of 512")
    args = parser.parse_args()
    print(f"{args.size}^3 bf16 on {args.target}, verified against NumPy")
    print("step           latency us   tensor   vector      DMA      MFU   HBM read MiB")
    for case in cases(args.size):
        result, _ = run(case, args.target)
        m = result.summary["nc_0"]
        shares = [m[f"{e}_active_time_percent"] for e in ("tensor_engine", "vector_engine", "dma")]
        shares.append(m["mfu_estimated_percent"])
        print(f"{case.kernel.__name__:14} {result.latency_us:10.1f} "
              + " ".join(f"{100 * s:6.1f} %" for s in shares)
              + f" {m['hbm_read_bytes'] / 2**20:10.1f}")


if __name__ == "__main__":
    main()
