"""A small kernel on all engines and queues with explicit semaphores, and versions of it with
intended races.
"""

from corpus import Trace, case, ge, up

#: name -> (hazards, changes to the waits of instructions, changes to their posts)
PIPELINE = {
    "as it is": ((), {}, {}),
    "product without the moving tile": (("RAW",), {"product": [ge("weights", 16)]}, {}),
    "product without the weights": (("RAW",), {"product": [ge("tile", 16)]}, {}),
    "product after 15 of 16": (("RAW",), {"product": [ge("tile", 15), ge("weights", 16)]}, {}),
    "product after another load": (("RAW",), {"product": [ge("bias", 16), ge("weights", 16)]}, {}),
    "activation without the product": (("RAW",), {"exp": [ge("bias", 16)]}, {}),
    "activation without its bias": (("RAW",), {"exp": [ge("product", 1)]}, {}),
    "activation after half of its bias": (("RAW",), {"exp": [ge("product", 1), ge("bias", 8)]}, {}),
    "activation that waits for 0": (("RAW",), {"exp": [ge("product", 0), ge("bias", 16)]}, {}),
    "sum of nothing yet": (("RAW",), {"sum": []}, {}),
    "scale before the sum": (("RAW",), {"scale": []}, {}),
    "scale after what the sum reads": (("RAW",), {"scale": [ge("exp", 1)]}, {}),
    "store without a wait": (("RAW",), {"store": []}, {}),
    "store after the sum": (("RAW",), {"store": [ge("sum", 1)]}, {}),
    "reuse without a wait": (("WAR", "WAW"), {"reuse": []}, {}),
    "reuse after the scale": (("WAR",), {"reuse": [ge("scale", 1)]}, {}),
    "reuse after 15 of 16 of the store": (("WAR",), {"reuse": [ge("store", 15)]}, {}),
    "product posts as it is issued": (("RAW",), {}, {"product": [("product", "++", "@issue")]}),
    "activation posts as it is issued": (("RAW",), {}, {"exp": [("exp", "++", "@issue")]}),
    "scale posts as it is issued": (("RAW",), {}, {"scale": [("scale", "++", "@issue")]}),
    "scale posts nothing": (("stuck",), {}, {"scale": []}),
    "a value that is passed over": (("stuck",), {"scale": [("sum", "==", 2)]}, {}),
    "half of an increment": (("stuck",), {}, {"tile": [up("tile", 8)]}),
    "16 of 32": (("RAW",), {}, {"tile": [up("tile", 32)]}),
    "a flag instead of a counter": ((), {}, {"sum": [("sum", "=", 1)]}),
    "two loads on a counter, one waited for":
        (("RAW",), {"product": [ge("load", 16)]},
         {"tile": [up("load", 16)], "weights": [up("load", 16)]}),
    "two loads on a counter":
        ((), {"product": [ge("load", 32)]}, {"tile": [up("load", 16)], "weights": [up("load", 16)]}),
    "three loads on a counter, two waited for":
        (("RAW",), {"product": [ge("load", 32)], "exp": [ge("product", 1), ge("load", 48)]},
         {name: [up("load", 16)] for name in ("tile", "weights", "bias")}),
    "three loads on a counter":
        ((), {"product": [ge("load", 48)], "exp": [ge("product", 1), ge("load", 48)]},
         {name: [up("load", 16)] for name in ("tile", "weights", "bias")}),
}


def _pipeline(waits, posts):
    t = Trace()
    for name, shape in (("x", (128, 512)), ("w_in", (128, 128)), ("b_in", (128, 1))):
        t.hbm(name, shape, role="input")
    t.hbm("y", role="output")
    for name, shape in (("t", (128, 512)), ("o", (128, 512)), ("r", (128, 512)), ("w", (128, 128)),
                        ("b", (128, 1)), ("c", (128, 1))):
        t.chip(name, shape)
    t.chip("p", space="psum", address=0)

    def sync(name, *wanted, by=None):
        return (waits.get(name, list(wanted)), posts.get(name, [up(name, by)]))

    t.op("dma_copy", *sync("tile", by=16), dst="t", src="x", engine="sync")
    t.op("dma_copy", *sync("weights", by=16), dst="w", src="w_in", engine="scalar")
    t.op("dma_copy", *sync("bias", by=16), dst="b", src="b_in", engine="gpsimd")
    t.op("nc_matmul", *sync("product", ge("tile", 16), ge("weights", 16)), dst="p", stationary="w",
         moving="t")
    t.op("activation", *sync("exp", ge("product", 1), ge("bias", 16)), dst="o", op="exp", data="p",
         bias="b")
    t.op("tensor_reduce", *sync("sum", ge("exp", 1)), dst="c", op="add", data="o", axis=[1],
         engine="vector")
    t.op("tensor_scalar", *sync("scale", ge("sum", 1)), dst="r", data="o", op0="multiply",
         operand0="c", engine="scalar")
    t.op("dma_copy", *sync("store", ge("scale", 1), by=16), dst="y", src="r", engine="sync")
    t.fill("r", "vector", wait=waits.get("reuse", [ge("store", 16)]), value=0.0)
    return t


def pipeline():
    for name, (hazards, waits, posts) in PIPELINE.items():
        yield case(name, _pipeline(waits, posts), *hazards)


def _double(free, full, count=4):
    """Two buffers written out: load i waits for `free(i)` uses, use i for `full(i)`."""
    t = Trace()
    t.hbm("x", (128 * count, 512), role="input")
    t.hbm("y", (128 * count, 512), role="output")
    for b in range(2):
        t.chip(f"t{b}")
        t.chip(f"o{b}")
    for i in range(count):
        b, rows = i % 2, f"{128 * i}:{128 * i + 128}"
        t.dma(f"t{b}", f"x[{rows}]", "sync", wait=[ge("used", free(i))] if free(i) > 0 else [],
              post=[up("full", 16)])
        stored = [ge("stored", 16 * (i - 1))] if i >= 2 else []
        t.op("activation", [ge("full", full(i)), *stored], [up("used")], dst=f"o{b}", op="exp",
             data=f"t{b}")
        t.dma(f"y[{rows}]", f"o{b}", "gpsimd", wait=[ge("used", i + 1)], post=[up("stored", 16)])
    return t


def buffers():
    yield case("two buffers", _double(lambda i: i - 1, lambda i: 16 * (i + 1)))
    yield case("loaded one use too early", _double(lambda i: i - 2, lambda i: 16 * (i + 1)), "WAW")
    yield case("used after the first load only", _double(lambda i: i - 1, lambda i: 16), "RAW")
    yield case("used one load too early", _double(lambda i: i - 1, lambda i: 16 * max(1, i)), "RAW")
    yield case("as of three buffers", _double(lambda i: i - 2, lambda i: 16 * (i + 1), 6), "WAW")


def _gather(wait):
    t = Trace()
    t.hbm("x", (64, 512), role="input")
    t.hbm("i", (4, 1), role="input", dtype="int32")
    t.lines[-1]["tensor"]["data"] = {"values": [1, 2, 3, 4]}
    t.chip("w", (4, 1), dtype="int32")
    t.chip("t", (4, 512))
    t.dma("w", "i", "sync", post=[up("index", 16)])
    t.dma("t", {"tensor": "x", "ap": [[512, 4], [1, 512]], "dynamic": [{"vector": "w"}]}, "gpsimd",
          wait=wait)
    return t


def _spill(wait, queue):
    t = Trace()
    t.hbm("x", role="input")
    t.hbm("s")
    t.chip("t")
    t.chip("v")
    t.dma("t", "x", "sync", post=[up("loaded", 16)])
    t.dma("s", "t", "sync", wait=[ge("loaded", 16)], post=[up("spilled", 16)])
    t.dma("v", "s", queue, wait=wait)
    return t


def _sum_in_memory(wait):
    t = Trace()
    t.hbm("x", role="input")
    t.chip("t")
    t.chip("a")
    t.dma("t", "x", "sync", post=[up("loaded", 16)])
    t.fill("a", "vector", post=[up("zero")])
    t.op("dma_compute", [ge("loaded", 16), *wait], dst="a", srcs=["a", "t"], reduce_op="add",
         engine="gpsimd")
    return t


def _transpose(wait):
    t = Trace()
    for name, more in (("t", {}), ("o", {}), ("p", {"space": "psum", "address": 0})):
        t.chip(name, (128, 128), dtype="bfloat16", **more)
    t.fill("t", "gpsimd", post=[up("set")])
    t.op("nc_transpose", [ge("set", 1)], [up("turned")], dst="p", data="t", engine="tensor")
    t.copy("o", "p", "vector", wait=wait)
    return t


def operands():
    yield case("indices in time", _gather([ge("index", 16)]))
    yield case("indices too early", _gather([]), "RAW")
    yield case("15 of 16 of the indices", _gather([ge("index", 15)]), "RAW")
    for queue in ("sync", "gpsimd"):
        yield case(f"spilled and back by {queue}", _spill([ge("spilled", 16)], queue))
        yield case(f"back too early by {queue}", _spill([ge("loaded", 16)], queue), "RAW")
    yield case("what a DMA adds to, in time", _sum_in_memory([ge("zero", 1)]))
    yield case("what a DMA adds to, too early", _sum_in_memory([]), "RAW")
    yield case("a transpose, in time", _transpose([ge("turned", 1)]))
    yield case("a transpose, too early", _transpose([]), "RAW")


def _rows(own, other):
    """Each core adds 1 to its rows of y in place."""
    t = Trace(cores=2, explicit=False)
    t.hbm("y", (256, 512), role="inputoutput")
    for core, rows in enumerate((own, other)):
        t.chip(f"t{core}", address=0, core=core)
        t.dma(f"t{core}", f"y[{rows}]", "sync", core=core)
        t.op("tensor_scalar", dst=f"t{core}", data=f"t{core}", op0="add", operand0=1.0,
             engine="vector", core=core)
        t.dma(f"y[{rows}]", f"t{core}", "sync", core=core)
    return t


def cores():
    yield case("rows of their own", _rows("0:128", "128:256"))
    yield case("rows that overlap", _rows("0:128", "64:192"), "RAW", "WAW")
    yield case("one row in common", _rows("0:128", "127:255"), "RAW", "WAW")


CLASSES = {"pipeline": pipeline, "buffers": buffers, "operands of all kinds": operands,
           "rows of two cores": cores}
