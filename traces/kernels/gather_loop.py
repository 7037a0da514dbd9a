"""Gathers rows of a table by an index tensor, in a loop whose length is read from memory.

Three dynamic addresses: the loop register moves through the indices and the output, an index tile
picks 128 rows at a time (one per partition), and a single number in SBUF picks the row that is
added to them all.
"""

ABOUT = "out[i] = table[index[i]] + bias[chosen]: register loop, vector and scalar indirection"
TARGETS = ("trn1", "inf2", "trn2", "trn3")
TOLERANCE = dict(rtol=0.0, atol=0.0, why="one FP32 addition: the result is exact to the last bit")
ROWS, COLUMNS, TILES, P, BIASES = 1000, 32, 3, 128, 8


def build(t):
    table = t.input("table", (ROWS, COLUMNS), "float32", generator="normal", seed=91)
    index = t.input("index", (TILES * P, 1), "int32", generator="integers", seed=92, low=0,
                    high=ROWS)
    bias = t.input("bias", (BIASES, COLUMNS), "float32", generator="normal", seed=93)
    chosen = t.input("chosen", (1, 1), "int32", values=[5])
    count = t.input("count", (1, 1), "int32", values=[TILES * P])
    out = t.output("out", (TILES * P, COLUMNS), "float32")

    index_tile = t.sbuf("index_tile", (P, 1), "int32")
    picked = t.sbuf("picked", (P, COLUMNS), "float32")
    sum_ = t.sbuf("sum", (P, COLUMNS), "float32")
    bias_tile = t.sbuf("bias_tile", (P, COLUMNS), "float32")
    chosen_tile = t.sbuf("chosen_tile", (1, 1), "int32")

    t.dma_copy(dst=chosen_tile, src=chosen, label="load chosen")
    one_row = bias.ap([[0, P], [1, COLUMNS]])  # one row, for every partition
    t.dma_copy(dst=bias_tile, src=t.moved(one_row, scalar=chosen_tile, stride=COLUMNS),
               label="load bias[chosen]")
    end = t.register()
    t.register_alloc(dst=end)
    t.register_load(dst=end, src=count, label="how many rows")
    with t.loop(0, end, P) as row:
        t.dma_copy(dst=index_tile, src=t.moved(index[0:P, :], register=row), label="load indices")
        t.dma_copy(dst=picked, src=t.moved(table[0:P, :], vector=index_tile, stride=COLUMNS),
                   label="gather")
        t.tensor_tensor(dst=sum_, data1=picked, data2=bias_tile, op="add", engine="vector")
        t.dma_copy(dst=t.moved(out[0:P, :], register=row, stride=COLUMNS), src=sum_, label="store")


def golden(x):
    return {"out": x["table"][x["index"][:, 0]] + x["bias"][int(x["chosen"][0, 0])]}
