"""Shows explicit semaphores: a load, compute, store pipeline over two buffers, as the chip runs it.

Every transfer raises its semaphore by 16 (one for each DMA engine), every instruction by 1. A wait
says how often something must have happened: tile n may be computed when n + 1 loads are complete,
and its buffer may be loaded with tile n + 2 when VectorE has read tile n.
"""
import numpy as np

ABOUT = "y = relu(2 x + 1) on four tiles with two buffers; all waits and posts are in the trace"
TARGETS = ("trn1", "inf2", "trn2", "trn3")
TOLERANCE = dict(rtol=0.0, atol=0.0,
                 why="2 x is exact in FP32, so 2 x + 1 is rounded once: exact to the last bit")
TILES, P, WIDTH = 4, 128, 64
HEADER = dict(semaphores="explicit", semaphore_names={
    "0": "loaded", "1": "scaled", "2": "clamped", "3": "stored"})


def build(t):
    x = t.input("x", (TILES * P, WIDTH), "float32", generator="normal", seed=101)
    y = t.output("y", (TILES * P, WIDTH), "float32")
    raw, scaled, done = ([t.sbuf(f"{name}{b}", (P, WIDTH), "float32") for b in range(2)]
                         for name in ("raw", "scaled", "done"))

    def load(n):
        t.dma_copy(dst=raw[n % 2], src=x[n * P:(n + 1) * P, :], label=f"load {n}",
                   wait=after("scaled", n - 2), post=[["loaded", "+=", 16]])

    load(0)
    load(1)
    for n in range(TILES):
        b = n % 2
        t.tensor_scalar(dst=scaled[b], data=raw[b], op0="multiply", operand0=2.0, op1="add",
                        operand1=1.0, engine="vector", label=f"2 x + 1 of {n}",
                        wait=after("loaded", n, 16) + after("clamped", n - 2),
                        post=[["scaled", "++"]])
        t.activation(dst=done[b], op="relu", data=scaled[b], label=f"relu {n}",
                     wait=after("scaled", n) + after("stored", n - 2, 16),
                     post=[["clamped", "++"]])
        # Before the store: the sync engine's queue is in order, and the store has to wait longer.
        if n + 2 < TILES:
            load(n + 2)
        t.dma_copy(dst=y[n * P:(n + 1) * P, :], src=done[b], label=f"store {n}",
                   wait=after("clamped", n), post=[["stored", "+=", 16]])
    t.event_semaphore(engine="sync", wait=after("stored", TILES - 1, 16), label="all stored")


def after(semaphore, tile, step=1):
    """The wait for `semaphore`'s work on `tile` to be done; none before the first tile."""
    return [[semaphore, ">=", step * (tile + 1)]] if tile >= 0 else []


def golden(x):
    return {"y": np.maximum(2 * x["x"].astype(np.float64) + 1, 0)}
