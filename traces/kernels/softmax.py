"""Computes row softmax in a hardware loop: the body is stored once and runs for every 128 rows."""
import numpy as np

ABOUT = "softmax over the rows of x[256,128]: max, exp with its sum, reciprocal, scale, in a loop"
TARGETS = ("trn1", "inf2", "trn2", "trn3")
TOLERANCE = dict(rtol=2e-6, atol=1e-9,
                 why="FP32: x - max rounds to 2^-22 absolute, exp and the sum of 128 add a few ulp")
ROWS, COLUMNS, P = 256, 128, 128


def build(t):
    x = t.input("x", (ROWS, COLUMNS), "float32", generator="normal", seed=51)
    y = t.output("y", (ROWS, COLUMNS), "float32")
    x_tile = t.sbuf("x_tile", (P, COLUMNS), "float32")
    e_tile = t.sbuf("e_tile", (P, COLUMNS), "float32")
    y_tile = t.sbuf("y_tile", (P, COLUMNS), "float32")
    minus_max = t.sbuf("minus_max", (P, 1), "float32")
    total = t.sbuf("total", (P, 1), "float32")
    inverse = t.sbuf("inverse", (P, 1), "float32")

    with t.loop(0, ROWS, P) as row:
        # The register counts rows; a row is COLUMNS elements away from the next.
        t.dma_copy(dst=x_tile, src=t.moved(x[0:P, :], register=row, stride=COLUMNS), label="load")
        t.tensor_reduce(dst=minus_max, op="max", data=x_tile, axis=[1], negate=True,
                        label="-max")
        t.activation(dst=e_tile, op="exp", data=x_tile, bias=minus_max, reduce_op="add",
                     reduce_res=total, reduce_cmd="reset_reduce", label="exp(x - max) and its sum")
        t.reciprocal(dst=inverse, data=total, label="1/sum")
        t.tensor_scalar(dst=y_tile, data=e_tile, op0="multiply", operand0=inverse, engine="vector",
                        label="scale")
        t.dma_copy(dst=t.moved(y[0:P, :], register=row, stride=COLUMNS), src=y_tile, label="store")


def golden(x):
    x = x["x"].astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return {"y": e / e.sum(axis=1, keepdims=True)}
