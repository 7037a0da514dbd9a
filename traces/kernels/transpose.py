"""Transposes a tile in three ways: through the PE array, by DMA, and in 32x32 blocks on VectorE."""
import numpy as np

ABOUT = "x[128,64].T by TensorE (into PSUM), by DMA, and blockwise by VectorE"
TARGETS = ("trn1", "inf2", "trn2", "trn3")
TOLERANCE = dict(rtol=0.0, atol=0.0, why="bits are moved, not computed")
ROWS, COLUMNS, BLOCK = 128, 64, 32


def build(t):
    x = t.input("x", (ROWS, COLUMNS), "bfloat16", generator="normal", seed=41)
    by_tensor = t.output("by_tensor", (COLUMNS, ROWS), "bfloat16")
    by_dma = t.output("by_dma", (COLUMNS, ROWS), "bfloat16")
    by_vector = t.output("by_vector", (ROWS, COLUMNS), "bfloat16")

    x_tile = t.sbuf("x_tile", (ROWS, COLUMNS), "bfloat16")
    t.dma_copy(dst=x_tile, src=x, label="load")

    # TensorE: x is loaded as weights, the identity streams through; the result lands in PSUM.
    in_psum = t.psum("in_psum", (COLUMNS, ROWS), "bfloat16")
    turned = t.sbuf("turned", (COLUMNS, ROWS), "bfloat16")
    t.nc_transpose(dst=in_psum, data=x_tile, engine="tensor", label="PE transpose")
    t.tensor_copy(dst=turned, src=in_psum, engine="vector", label="leave PSUM")
    t.dma_copy(dst=by_tensor, src=turned, label="store by_tensor")

    # DMA: no engine is busy, but the transfer is slower than a copy.
    by_dma_tile = t.sbuf("by_dma_tile", (COLUMNS, ROWS), "bfloat16")
    t.dma_transpose(dst=by_dma_tile, src=x, label="DMA transpose")
    t.dma_copy(dst=by_dma, src=by_dma_tile, label="store by_dma")

    # VectorE: each 32x32 block stays where it is and is transposed in itself.
    blocks = t.sbuf("blocks", (ROWS, COLUMNS), "bfloat16")
    for p in range(0, ROWS, BLOCK):
        for f in range(0, COLUMNS, BLOCK):
            here = (slice(p, p + BLOCK), slice(f, f + BLOCK))
            t.nc_transpose(dst=blocks[here], data=x_tile[here], engine="vector",
                           label=f"block {p // BLOCK},{f // BLOCK}")
    t.dma_copy(dst=by_vector, src=blocks, label="store by_vector")


def golden(x):
    x = x["x"].astype(np.float64)
    blocks = x.reshape(ROWS // BLOCK, BLOCK, COLUMNS // BLOCK, BLOCK)
    return {"by_tensor": x.T, "by_dma": x.T,
            "by_vector": blocks.transpose(0, 3, 2, 1).reshape(ROWS, COLUMNS)}
