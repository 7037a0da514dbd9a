"""Builds small programs whose time depends on numbers of the machine description that no program in
traces/ uses. configs/doubled.py runs them with the number doubled.

Each is a function that adds instructions to a program (traces/builder.py), named as the table names it.
"""
from functools import partial

from builder import Trace


def products(t):
    """Products of full weights one behind another, some on half of the rows: every state of the power limit."""
    weights, moving = t.sbuf("weights", (128, 2, 128), "bfloat16"), t.sbuf("moving", (128, 512), "bfloat16")
    t.memset(dst=weights, value=1.0, engine="vector")
    t.memset(dst=moving, value=1.0, engine="gpsimd")
    for n in range(150):
        rows = 128 if n < 60 or n >= 110 else 64
        t.nc_matmul(dst=t_bank(t, n), stationary=weights[0:rows, n % 2, :], moving=moving[0:rows, :])


def products_between(t):
    """Products on 96 rows, of which it is not known if they lift the power limit, and on 48, if they bring it back."""
    weights, moving = t.sbuf("weights", (128, 2, 128), "bfloat16"), t.sbuf("moving", (128, 512), "bfloat16")
    t.memset(dst=weights, value=1.0, engine="vector")
    t.memset(dst=moving, value=1.0, engine="gpsimd")
    for n in range(240):
        rows = 96 if n < 60 or n >= 180 else 128 if n < 120 else 48
        t.nc_matmul(dst=t_bank(t, n), stationary=weights[0:rows, n % 2, :], moving=moving[0:rows, :])


def small_products(t):
    """Products on 32 rows and columns of the array, side by side."""
    weights, moving = t.sbuf("weights", (128, 128), "bfloat16"), t.sbuf("moving", (128, 512), "bfloat16")
    t.memset(dst=weights, value=1.0, engine="vector")
    t.memset(dst=moving, value=1.0, engine="gpsimd")
    for n in range(16):
        at = n % 4 * 32
        t.nc_matmul(dst=t_bank(t, n)[at:at + 32, :], stationary=weights[at:at + 32, at:at + 32],
                    moving=moving[at:at + 32, :], tile_position=[at, at], tile_size=[32, 32])


def queues(t):
    """DMAs of every queue and kind of descriptor."""
    x, y = t.input("x", (128, 8192), "float32", generator="normal", seed=1), t.output("y", (128, 8192), "float32")
    tiles = [t.sbuf(f"tile{i}", (128, 2048), "float32") for i in range(4)]
    for n in range(3):
        for i, (engine, mode) in enumerate((("sync", "hwdge"), ("scalar", "hwdge"), ("gpsimd", "swdge"),
                                            ("scalar", "none"), ("gpsimd", "none"), ("sync", "none"))):
            tile = tiles[i % 4]
            columns = slice(2048 * (i % 4), 2048 * (i % 4) + 2048)
            t.dma_copy(dst=tile, src=x[:, columns], engine=engine, dge_mode=mode)
            t.dma_copy(dst=y[:, columns], src=tile, engine=engine, dge_mode=mode)


def pieces(t):
    """Loads of pieces near to each other in HBM and far apart, and stores of elements."""
    x, y = t.input("x", (128, 65536), "float32", generator="normal", seed=1), t.output("y", (128, 8192), "float32")
    a = t.sbuf("a", (128, 1024), "float32")
    for step in (1600, 2048):
        t.dma_copy(dst=a, src=x.ap([[65536, 128], [step, 16], [1, 64]]))
    t.dma_copy(dst=y.ap([[8192, 128], [2, 1024]]), src=a)


def elements(t):
    """Copies within SBUF element by element: one column, repeated."""
    column = t.sbuf("column", (128, 1), "float32")
    t.memset(dst=column, value=1.0, engine="vector")
    for n in range(3):
        t.dma_copy(dst=t.sbuf(f"wide{n}", (128, 128), "float32"), src=column.ap([[0, 128]], partitions=128))


def transposes(t):
    """Transposes by DMA engines, from HBM and within SBUF."""
    x = t.input("x", (128, 128), "bfloat16", generator="normal", seed=1)
    a, b = t.sbuf("a", (128, 128), "bfloat16"), t.sbuf("b", (128, 128), "bfloat16")
    t.dma_transpose(dst=a, src=x)
    t.dma_transpose(dst=b, src=a)


def skips(t):
    """Gathers that skip rows, one behind another."""
    x = t.input("x", (256, 64), "float32", generator="normal", seed=1)
    at = t.input("at", (128, 1), "int32", values=[0, 1000] * 64)
    index = t.sbuf("index", (128, 1), "int32")
    t.dma_copy(dst=index, src=at)
    for n in range(3):
        t.dma_copy(dst=t.sbuf(f"rows{n}", (128, 64), "float32"), src=t.moved(x[0:128, :], vector=index, stride=64),
                   oob_mode="skip")


def sums(t, engine):
    """Sums of rows longer than a packet, by DMA engines."""
    x, y = t.input("x", (128, 8192), "float32", generator="normal", seed=1), t.output("y", (128, 4096), "float32")
    t.dma_compute(dst=y, srcs=[str(x[:, 0:4096]), str(x[:, 4096:8192])], reduce_op="add", engine=engine)


def within_hbm(t):
    """A copy of few rows within HBM."""
    x, y = t.input("x", (4, 1024), "float32", generator="normal", seed=1), t.output("y", (4, 1024), "float32")
    t.dma_copy(dst=y, src=x)


def loads(t, engine, mode):
    """Independent loads through one queue."""
    x = t.input("x", (128, 256), "float32", generator="normal", seed=1)
    for n in range(4):
        t.dma_copy(dst=t.sbuf(f"a{n}", (128, 64), "float32"), src=x[:, 64 * n:64 * n + 64],
                   engine=engine, dge_mode=mode)


def pauses(t):
    """Loads with short pauses between them."""
    x = t.input("x", (128, 1024), "float32", generator="normal", seed=1)
    for m, (engine, mode) in enumerate((("gpsimd", "swdge"), ("scalar", "none"), ("scalar", "hwdge"))):
        for n in range(4):
            t.dma_copy(dst=t.sbuf(f"a{m}{n}", (128, 64), "float32"), src=x[:, 64 * n:64 * n + 64],
                       engine=engine, dge_mode=mode)


def trigger(t, engine, mode, size=8, compute=False):
    """Two DMAs as device profiles have them, which any engine may trigger, each behind work of the engine."""
    for n in range(2):
        work(t, engine, t.sbuf(f"a{n}", (128, 8), "float32"))
        t.isa(opcode="DMA_DIRECT2D", engine=engine, **{"bytes": 16 * size, "from": "hbm", "to": "sbuf"}, elements=16,
              element_bytes=size, dge=mode, compute=compute)


def chain(t, engine):
    """Semaphores that SyncE and another engine hand to each other, with work between."""
    a = t.sbuf("a", (128, 64), "float32")
    for step in range(3):
        t.event_semaphore(engine="sync", wait=[[2 * step - 1, ">=", 1]] if step else [], post=[[2 * step, "++"]])
        t.event_semaphore(engine=engine, wait=[[2 * step, ">=", 1]])
        work(t, engine, a[:, 8 * step:8 * step + 8])
        t.event_semaphore(engine=engine, post=[[2 * step + 1, "++"]])


def overlapped(t):
    """An operation between two ranks, whose data move while each rank loads."""
    x = t.input("x", (128, 16384), "float32", generator="normal", seed=1)
    source, target = t.hbm("source", (128, 4096), "float32"), t.hbm("target", (128, 4096), "float32")
    a = t.sbuf("a", (128, 2048), "float32")
    t.all_reduce(srcs=[str(source)], dsts=[str(target)], op="add", replica_group=[[0, 1]])
    for n in range(40):
        t.dma_copy(dst=a, src=x[:, 2048 * (n % 8):2048 * (n % 8) + 2048])


def work(t, engine, part):
    """A short instruction of an engine that has such."""
    if engine in ("vector", "gpsimd"):
        t.memset(dst=part, value=1.0, engine=engine)
    elif engine == "scalar":
        t.isa(opcode="COPY", engine="scalar", elements=8, partitions=128)


def t_bank(t, n):
    """One of two tiles of PSUM, made at the first use."""
    if not hasattr(t, "_banks"):
        t._banks = [t.psum(f"bank{i}", (128, 512)) for i in range(2)]
    return t._banks[n % 2]


PROBES = {f.__name__: f for f in (products, products_between, small_products, queues, pieces, elements, transposes,
                                    skips, pauses, within_hbm, overlapped)}
PROBES |= {f"sums_{engine}": partial(sums, engine=engine) for engine in ("sync", "gpsimd")}
PROBES |= {f"loads_{engine}_{mode}": partial(loads, engine=engine, mode=mode)
           for engine, mode in (("gpsimd", "swdge"), ("scalar", "none"), ("sync", "hwdge"))}
PROBES |= {f"trigger_{engine}_{mode}": partial(trigger, engine=engine, mode=mode)
           for engine in ("tensor", "vector", "scalar", "gpsimd", "sync") for mode in ("software", "hardware", "none")}
PROBES["trigger_sum"] = partial(trigger, engine="gpsimd", mode="software", size=16384, compute=True)
PROBES |= {f"chain_{engine}": partial(chain, engine=engine) for engine in ("tensor", "vector", "scalar", "gpsimd")}
JOBS = {"overlapped": {"want": "time", "ranks": 2}, "skips": {"want": "all"}}  # values decide which rows are skipped


def trace_of(name):
    """The text of the trace of a probe."""
    explicit = {"semaphores": "explicit"} if name.startswith("chain_") else {}
    trace = Trace(name, "a probe of configs/doubled.md", locations=False, **explicit)
    PROBES[name](trace)
    return trace.text()
