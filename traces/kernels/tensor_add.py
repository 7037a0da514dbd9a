"""Computes c = a + b by two loads, an addition and a store: the smallest complete kernel."""
ABOUT = "c = a + b on one tile: two DMA loads, one VectorE instruction, one DMA store"
TARGETS = ("trn1", "inf2", "trn2", "trn3")
TOLERANCE = dict(rtol=0.0, atol=0.0, why="one FP32 addition: the result is exact to the last bit")


def build(t):
    a = t.input("a", (128, 256), "float32", generator="uniform", seed=1, low=-1, high=1)
    b = t.input("b", (128, 256), "float32", generator="uniform", seed=2, low=-1, high=1)
    c = t.output("c", (128, 256), "float32")
    a_tile = t.sbuf("a_tile", (128, 256), "float32")
    b_tile = t.sbuf("b_tile", (128, 256), "float32")
    c_tile = t.sbuf("c_tile", (128, 256), "float32")

    t.dma_copy(dst=a_tile, src=a, label="load a")
    t.dma_copy(dst=b_tile, src=b, label="load b")
    t.tensor_tensor(dst=c_tile, data1=a_tile, data2=b_tile, op="add", label="add")
    t.dma_copy(dst=c, src=c_tile, label="store c")


def golden(x):
    return {"c": x["a"].astype("float32") + x["b"].astype("float32")}
