"""Programs with intended races between DMAs and engines, between DMAs, and in waits for parts of
DMAs, each with a correct version.
"""

from corpus import Trace, case, ge, up

QUEUES = ("sync", "scalar", "gpsimd")


def _base(names="tu"):
    t = Trace()
    t.hbm("x", role="input")
    t.hbm("x2", role="input")
    t.hbm("y", role="output")
    for name in names:
        t.chip(name)
    return t


def _load_compute(queue, engine, ok):
    t = _base()
    t.dma("t", "x", queue, post=[up("loaded", 16)])
    t.copy("u", "t", engine, wait=[ge("loaded", 16)] if ok else [])
    return t


def _compute_store(queue, engine, ok):
    t = _base()
    t.dma("t", "x", queue, post=[up("loaded", 16)])
    t.copy("u", "t", engine, wait=[ge("loaded", 16)], post=[up("computed")])
    t.dma("y", "u", queue, wait=[ge("computed", 1)] if ok else [])
    return t


def _load_over(queue, engine, ok):
    t = _base()
    t.dma("t", "x", queue, post=[up("loaded", 16)])
    t.copy("u", "t", engine, wait=[ge("loaded", 16)], post=[up("computed")])
    t.dma("t", "x2", queue, wait=[ge("computed", 1)] if ok else [ge("loaded", 16)])
    return t


def _compute_over(queue, engine, ok):
    t = _base()
    t.dma("t", "x", queue, post=[up("loaded", 16)])
    t.dma("y", "t", queue, wait=[ge("loaded", 16)], post=[up("stored", 16)])
    t.copy("t", "t", engine, wait=[ge("stored" if ok else "loaded", 16)])
    return t


def engines():
    kinds = {"load, compute": (_load_compute, "RAW"), "compute, store": (_compute_store, "RAW"),
             "load over what is read": (_load_over, "WAR"),
             "compute over what is stored": (_compute_over, "WAR")}
    for what, (build, hazard) in kinds.items():
        for queue in QUEUES:
            for engine in ("vector", "scalar"):
                yield case(f"{what}, {queue} and {engine}", build(queue, engine, False), hazard)
            yield case(f"{what}, {queue}, waited for", build(queue, "vector", True))


def _write_both(first, second, ok):
    t = _base()
    t.dma("t", "x", first, post=[up("a", 16)])
    t.dma("t", "x2", second, wait=[ge("a", 16)] if ok else [])
    return t


def _load_store(first, second, ok):
    t = _base()
    t.dma("t", "x", first, post=[up("a", 16)])
    t.dma("y", "t", second, wait=[ge("a", 16)] if ok else [])
    return t


def _store_load(first, second, ok):
    t = _base()
    t.dma("t", "x", first, post=[up("a", 16)])
    t.dma("y", "t", first, wait=[ge("a", 16)], post=[up("b", 16)])
    t.dma("t", "x2", second, wait=[ge("b" if ok else "a", 16)])
    return t


def _through_hbm(ok):
    t = _base()
    t.hbm("h")
    t.dma("h", "x", "sync", post=[up("spilled", 16)])
    t.dma("t", "h", "scalar", wait=[ge("spilled", 16)] if ok else [])
    return t


def queues():
    kinds = {"two loads": (_write_both, "WAW"), "load, store": (_load_store, "RAW"),
             "store, load": (_store_load, "WAR")}
    for what, (build, hazard) in kinds.items():
        for first, second in (("sync", "scalar"), ("gpsimd", "sync"), ("sync", "sync")):
            yield case(f"{what} on {first} and {second}", build(first, second, False), hazard)
            yield case(f"{what} on {first} and {second}, waited for", build(first, second, True))
    yield case("through HBM", _through_hbm(False), "RAW")
    yield case("through HBM, waited for", _through_hbm(True))


def _partial(waited, increment=16, plan=False):
    t = _base()
    if plan:
        t.op("dma_copy", dst="t", src="x", engine="sync",
             dma={"queue": "q", "semaphore": 7, "increment": increment})
        t.copy("u", "t", "vector", wait=[(7, ">=", waited)])
    else:
        t.dma("t", "x", "sync", post=[up("a", increment)])
        t.copy("u", "t", "vector", wait=[ge("a", waited)])
    return t


def _second_of_two(waited, ok_queue):
    t = _base()
    t.dma("t", "x", "sync", post=[up("a", 16)])
    t.dma("u", "x2", ok_queue, post=[up("a", 16)])
    t.copy("u", "u", "vector", wait=[ge("a", waited)])
    return t


def partial():
    for waited in (1, 8, 15):
        yield case(f"{waited} of 16", _partial(waited), "RAW")
        yield case(f"{waited} of 16 of a queue's own semaphore", _partial(waited, plan=True), "RAW")
    yield case("16 of 32", _partial(16, 32), "RAW")
    yield case("30 of 32", _partial(30, 32), "RAW")
    yield case("31 of 32: the last share is 2", _partial(31, 32))
    yield case("all of 16", _partial(16))
    yield case("all of 16 of a queue's own semaphore", _partial(16, plan=True))
    yield case("all of 32", _partial(32, 32))
    for waited in (16, 17, 31):
        yield case(f"{waited} of two transfers", _second_of_two(waited, "sync"), "RAW")
    yield case("32 of two transfers", _second_of_two(32, "sync"))


def _shared_counter(first, second, waited):
    t = _base("tuv")
    t.hbm("z")
    if first == "engine":
        t.fill("t", "vector", post=[up("a")])
        t.fill("u", "gpsimd", post=[up("a")])
    else:
        t.dma("t", "x", first, post=[up("a", 16)])
        t.dma("u", "x2", second, post=[up("a", 16)])
    t.copy("v", "t", "scalar", wait=[ge("a", waited)])
    return t


def _third_producer(waited):
    t = _base("tuv")
    t.fill("t", "vector", post=[up("a")])
    t.fill("u", "gpsimd", post=[up("a")])
    t.copy("v", "t", "scalar", wait=[ge("a", waited)])
    t.copy("u", "u", "gpsimd", post=[up("a")])  # nothing needs it, but it counts
    return t


def _mixed(waited):
    t = _base("tuv")
    t.dma("t", "x", "sync", post=[up("a", 16)])
    t.fill("u", "vector", post=[up("a")])
    t.copy("v", "u", "scalar", wait=[ge("a", waited)])
    return t


def shared_counters():
    yield case("1 of two engines", _shared_counter("engine", "", 1), "RAW")
    yield case("2 of two engines", _shared_counter("engine", "", 2))
    for first, second in (("sync", "scalar"), ("scalar", "gpsimd"), ("gpsimd", "sync")):
        for waited in (16, 31):
            yield case(f"{waited} of {first} and {second}",
                       _shared_counter(first, second, waited), "RAW")
        yield case(f"32 of {first} and {second}", _shared_counter(first, second, 32))
    yield case("a third post stands for one that was meant", _third_producer(2), "RAW")
    yield case("all three", _third_producer(3))
    yield case("16 of a transfer and an engine", _mixed(16), "RAW")
    yield case("17 of a transfer and an engine", _mixed(17))


CLASSES = {"transfers and engines": engines, "queues": queues, "partial": partial,
           "shared counters": shared_counters}
