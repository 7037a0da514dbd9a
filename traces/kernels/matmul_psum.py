"""Computes a tiled matrix product: every output tile is the PSUM sum of four matmuls over K."""
import numpy as np

ABOUT = "out[256,256] = lhsT[512,256].T @ rhs[512,256] in bf16, K accumulated in PSUM"
TARGETS = ("trn1", "inf2", "trn2", "trn3")
# K = 512 products, exact in FP32, 515 additions: their rounding is below 1e-4 at this size.
TOLERANCE = dict(rtol=0.0042, atol=1e-4,
                 why="out is rounded to bf16 (2^-8), FP32 sums of 512 products of size 1 before it")
M, K, N, P = 256, 512, 256, 128


def build(t):
    lhs_t = t.input("lhsT", (K, M), "bfloat16", generator="normal", seed=11)
    rhs = t.input("rhs", (K, N), "bfloat16", generator="normal", seed=12)
    out = t.output("out", (M, N), "bfloat16")
    # Row k of K-tile j is partition k: tiles of K side by side in the free dimension.
    lhs_tile = t.sbuf("lhsT_tile", (P, K // P, M), "bfloat16")
    rhs_tile = t.sbuf("rhs_tile", (P, K // P, N), "bfloat16")
    for k in range(K // P):
        t.dma_copy(dst=lhs_tile[:, k, :], src=lhs_t[k * P:(k + 1) * P, :], label=f"load lhsT {k}")
        t.dma_copy(dst=rhs_tile[:, k, :], src=rhs[k * P:(k + 1) * P, :], label=f"load rhs {k}")

    for m in range(M // P):
        total = t.psum(f"total{m}", (P, N))
        rounded = t.sbuf(f"out_tile{m}", (P, N), "bfloat16")
        rows = slice(m * P, (m + 1) * P)
        for k in range(K // P):
            # The first matmul overwrites the bank, the others add to it.
            t.nc_matmul(dst=total, stationary=lhs_tile[:, k, rows], moving=rhs_tile[:, k, :],
                        accumulate=k > 0, label=f"m{m} k{k}")
        t.tensor_copy(dst=rounded, src=total, engine="vector", label=f"round m{m}")
        t.dma_copy(dst=out[rows, :], src=rounded, label=f"store m{m}")


def golden(x):
    return {"out": x["lhsT"].astype(np.float64).T @ x["rhs"].astype(np.float64)}
