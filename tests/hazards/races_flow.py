"""Programs with intended races in loops, registers, run-time addresses and several cores, and
deadlocks, each with a correct version.
"""

from corpus import Trace, case, ge, up


def _loop(body, count=4, before=None, explicit=True):
    t = Trace(explicit=explicit)
    t.hbm("x", (512, 512), role="input")
    t.hbm("y", (512, 512), role="output")
    t.chip("t")
    t.chip("u")
    if before:
        before(t)
    t.op("loop_begin", register="r0", start=0, stop=count)
    body(t)
    t.op("loop_end")
    return t


def _rows(tensor):
    return {"tensor": f"{tensor}[0:128]", "dynamic": [{"register": 0, "stride": 128 * 512}]}


def _hand_over(take, give, first=None):
    """Sync loads t for vector, which gives it back; `take` and `give` are vector's and sync's."""
    def body(t):
        t.dma("t", _rows("x"), "sync", wait=give["wait"], post=[*give["post"], up("full", 16)])
        t.copy("u", "t", "vector", wait=take["wait"], post=[*take["post"], up("empty")])
    return _loop(body, before=first)


TAKE = {"wait": [ge("full", 16)], "post": [("full", "-=", 16, "@issue")]}
GIVE = {"wait": [ge("empty", 1)], "post": [("empty", "--", "@issue")]}
NONE = {"wait": [], "post": []}


def _primed(tokens):
    def before(t):
        for _ in range(tokens):
            t.op("event_semaphore", post=[up("empty")], engine="vector")
    return before


def _flag(clear, give_back=True):
    """A flag set when the load is there; cleared at `clear`, or never."""
    def body(t):
        t.fill("t", "gpsimd", wait=[("free", "==", 1)] if give_back else [],
               post=[("free", "=", 0, "@issue"), ("there", "=", 1)])
        t.copy("u", "t", "vector", wait=[("there", "==", 1)],
               post=[*([("there", "=", 0, clear)] if clear else []), ("free", "=", 1)])
    return _loop(body, before=lambda t: t.op("event_semaphore", post=[("free", "=", 1)],
                                             engine="vector"))


def _executed(value):
    """The same four times written out, each wait for `value(i)`."""
    t = Trace()
    t.hbm("x", (512, 512), role="input")
    t.chip("t")
    t.chip("u")
    for i in range(4):
        rows = f"x[{128 * i}:{128 * i + 128}]"
        t.dma("t", rows, "sync", wait=[ge("used", i)] if i else [], post=[up("full", 16)])
        t.copy("u", "t", "vector", wait=[ge("full", value(i))], post=[up("used")])
    return t


def loops():
    yield case("tokens taken and given back", _hand_over(TAKE, GIVE, _primed(1)))
    yield case("tokens not taken: right only once",
               _hand_over({"wait": TAKE["wait"], "post": []}, GIVE, _primed(1)), "RAW")
    yield case("nothing waits for the buffer to be free", _hand_over(TAKE, NONE), "WAR")
    yield case("one buffer, two tokens", _hand_over(TAKE, GIVE, _primed(2)), "WAR")
    yield case("space not taken: right only once",
               _hand_over(TAKE, {"wait": GIVE["wait"], "post": []}, _primed(1)), "WAR")
    yield case("tokens taken when all is done",
               _hand_over({"wait": TAKE["wait"], "post": [("full", "-=", 16)]}, GIVE, _primed(1)),
               "RAW")
    yield case("half of the tokens taken",
               _hand_over({"wait": TAKE["wait"], "post": [("full", "-=", 8, "@issue")]}, GIVE,
                          _primed(1)), "RAW")
    yield case("a flag cleared when it is seen", _flag("@issue"))
    yield case("a flag never cleared", _flag(None), "RAW")
    yield case("a flag cleared when all is done", _flag("@complete"), "RAW")
    yield case("a flag without an answer", _flag("@issue", give_back=False), "WAR")
    yield case("written out, each time more", _executed(lambda i: 16 * (i + 1)))
    yield case("written out, always the first", _executed(lambda i: 16), "RAW")
    yield case("written out, one behind", _executed(lambda i: 16 * max(i, 1)), "RAW")


def _register(wait, use="limit"):
    """A loop bound or an address from memory."""
    t = Trace()
    t.hbm("n", (1, 1), role="input", dtype="int32")
    t.hbm("x", (4, 512), role="input")
    t.chip("index", (1, 1), dtype="int32")
    t.chip("t", (1, 512))
    t.op("register_alloc", dst="r1")
    t.dma("index", "n", "sync", post=[up("loaded", 16)])
    t.op("register_load", dst="r1", src="index", engine="scalar",
         wait=[ge("loaded", 16)] if wait else [])
    if use == "limit":
        t.op("loop_begin", register="r0", start=0, stop="r1")
        t.fill("t", "vector")
        t.op("loop_end")
    else:
        t.dma("t", {"tensor": "x[0:1]", "dynamic": [{"register": 1, "stride": 512}]}, "sync")
    return t


def _overwritten_index(ok):
    t = Trace()
    t.chip("index", (1, 1), dtype="int32")
    t.op("register_alloc", dst="r1")
    t.fill("index", "vector", value=1, post=[up("set")])
    t.op("register_load", dst="r1", src="index", engine="scalar", wait=[ge("set", 1)] if ok else [])
    return t


def _halves(second, ok=False):
    """Rows r0 and r0 + second of y, written by two queues."""
    t = Trace()
    t.hbm("y", (512, 512), role="output")
    t.chip("t")
    t.fill("t", "vector", post=[up("t")])
    t.op("loop_begin", register="r0", start=0, stop=2)
    t.dma(_rows("y"), "t", "sync", wait=[ge("t", 1)], post=[up("a", 16)])
    t.dma({"tensor": f"y[{128 * second}:{128 * second + 128}]",
           "dynamic": [{"register": 0, "stride": 128 * 512}]}, "t", "scalar",
          wait=[ge("t", 1), *([ge("a", 16)] if ok else [])])
    t.op("loop_end")
    return t


def _scatter(rows, ok=False):
    """Rows of y scattered by sync, while scalar writes rows 0 to 3."""
    t = Trace()
    t.hbm("i", (4, 1), role="input", dtype="int32")
    t.lines[-1]["tensor"]["data"] = {"values": rows}
    t.hbm("y", (64, 512), role="output")
    t.chip("w", (4, 1), dtype="int32")
    t.chip("t", (4, 512))
    t.fill("t", "vector", post=[up("t")])
    t.dma("w", "i", "sync", post=[up("w", 16)])
    t.dma({"tensor": "y", "ap": [[512, 4], [1, 512]], "dynamic": [{"vector": "w"}]}, "t", "gpsimd",
          wait=[ge("w", 16), ge("t", 1)], post=[up("s", 16)])
    t.dma("y[0:4]", "t", "scalar", wait=[ge("t", 1), *([ge("s", 16)] if ok else [])])
    return t


def registers():
    for use in ("limit", "address"):
        yield case(f"register loaded too early, {use}", _register(False, use), "RAW")
        yield case(f"register loaded in time, {use}", _register(True, use))
    yield case("index overwritten", _overwritten_index(False), "RAW")
    yield case("index in time", _overwritten_index(True))
    yield case("run-time rows that meet", _halves(0), "WAW")
    yield case("run-time rows that meet later", _halves(1), "WAW")
    yield case("run-time rows apart", _halves(2))
    yield case("scattered rows that meet", _scatter([9, 5, 3, 7]), "WAW")
    yield case("scattered rows that meet, waited for", _scatter([9, 5, 3, 7], ok=True))
    yield case("scattered rows apart", _scatter([9, 5, 30, 7]))


def _cores(explicit=True, target="trn2"):
    t = Trace(cores=2, explicit=explicit, target=target)
    t.hbm("x", role="input")
    t.hbm("y", role="output")
    t.hbm("z", role="output")
    t.chip("t0", address=0)
    t.chip("t1", address=0, core=1)
    return t


def _both_store(explicit, second="y", source="x2"):
    t = _cores(explicit)
    t.hbm("x2", role="input")
    t.lines[-1]["tensor"]["data"] = {"generator": "zeros"}
    for core, out in ((0, "y"), (1, second)):
        done = [up(f"loaded{core}", 16)] if explicit else []
        wait = [ge(f"loaded{core}", 16)] if explicit else []
        t.dma(f"t{core}", source if core else "x", "sync", core=core, post=done)
        t.dma(out, f"t{core}", "sync", core=core, wait=wait)
    return t


def _across(explicit, barrier, waits=True):
    """Core 0 writes y, core 1 reads it; the barrier names `barrier`, or there is none."""
    t = _cores(explicit)
    w = (lambda *a: [ge(*a)]) if explicit else (lambda *a: [])
    p = (lambda *a: [up(*a)]) if explicit else (lambda *a: [])
    t.fill("t0", "vector", core=0, post=p("t0"))
    t.dma("y", "t0", "sync", core=0, wait=w("t0", 1), post=p("stored", 16))
    if barrier:
        for core in (0, 1):
            t.op("core_barrier", data=barrier, cores=[0, 1], core=core, engine="gpsimd",
                 wait=w("stored", 16) if core == 0 and waits else [], post=p(f"met{core}"))
    t.dma("t1", "y", "sync", core=1, wait=w("met1", 1) if barrier and waits is not None else [])
    return t


def _read_then_write(barrier):
    t = _cores(False)
    t.hbm("b")
    t.dma("t0", "y", "sync", core=0)
    for core in (0, 1) if barrier else ():
        t.op("core_barrier", data=barrier, cores=[0, 1], core=core, engine="gpsimd")
    t.fill("t1", "vector", core=1)
    t.dma("y", "t1", "sync", core=1)
    t.lines[1]["tensor"]["role"] = "inputoutput"
    t.lines[1]["tensor"]["data"] = {"generator": "ones"}
    return t


def _sendrecv(ok, overwrite):
    """A core writes the sent bytes, or reads the received ones, without waiting for the exchange."""
    t = _cores()
    t.chip("r0", address=4096)
    t.chip("r1", address=4096, core=1)
    t.chip("o0", address=8192)
    for core in (0, 1):
        t.fill(f"t{core}", "vector", core=core, post=[up(f"t{core}")])
    for core in (0, 1):
        t.op("sendrecv", src=f"t{core}", dst=f"r{core}", send_to_rank=1 - core,
             recv_from_rank=1 - core, pipe_id=0, core=core, engine="sync",
             wait=[ge(f"t{core}", 1)], post=[up(f"sent{core}", 16)])
    wait = [ge("sent0", 16)] if ok else []
    if overwrite:
        t.fill("t0", "vector", value=2.0, wait=wait)
    else:
        t.copy("o0", "r0", "vector", wait=wait)
    return t


def cores():
    for explicit in (True, False):
        word = "explicit" if explicit else "derived"
        yield case(f"both cores store, {word}", _both_store(explicit), "WAW")
        yield case(f"both cores store the same, {word}", _both_store(explicit, source="x"))
        yield case(f"each core stores its own, {word}", _both_store(explicit, "z"))
        yield case(f"write, read, {word}", _across(explicit, None), "RAW")
        yield case(f"write, barrier, read, {word}", _across(explicit, "y"))
    yield case("a barrier of another tensor", _across(False, "z"), "RAW")
    yield case("a barrier that waits for nothing", _across(True, "y", waits=False), "RAW")
    yield case("nothing waits for the barrier", _across(True, "y", waits=None), "RAW")
    yield case("read, write", _read_then_write(None), "WAR")
    yield case("read, barrier, write", _read_then_write("y"))
    yield case("read, another barrier, write", _read_then_write("b"), "WAR")
    yield case("two rounds, one barrier each", _two_rounds(1), "RAW", "WAR")
    yield case("two rounds, two barriers each", _two_rounds(2))
    yield case("received too early", _sendrecv(False, False), "RAW")
    yield case("received", _sendrecv(True, False))
    yield case("overwritten while it is sent", _sendrecv(False, True), "WAR")
    yield case("overwritten after it was sent", _sendrecv(True, True))


def _two_rounds(barriers):
    """Each core stores its half, and after a barrier reads the other one's, twice."""
    t = Trace(explicit=False, cores=2)
    t.hbm("x", role="input")
    t.lines[-1]["tensor"]["data"] = {"generator": "normal", "seed": 3}
    t.hbm("m")
    for name in "ab":
        for core in (0, 1):
            t.chip(f"{name}{core}", (64, 512), core=core)
    for core in (0, 1):
        mine, theirs = ("[0:64]", "[64:128]") if core == 0 else ("[64:128]", "[0:64]")
        for phase in (0, 1):
            t.dma(f"a{core}", f"x{mine if phase == 0 else theirs}", core=core)
            t.dma("m" + mine, f"a{core}", core=core)
            t.op("core_barrier", data="m", cores=[0, 1], core=core)
            t.dma(f"b{core}", "m" + theirs, core=core)
            if barriers == 2:
                t.op("core_barrier", data="m", cores=[0, 1], core=core)
    return t


def _stuck(wait, posts=(), first=None):
    t = Trace()
    t.chip("t")
    t.chip("u")
    if first:
        t.fill("u", "gpsimd", wait=first, post=[up("b")])
    for p in posts:
        t.fill("u", "gpsimd", post=[p])
    t.fill("t", "vector", wait=wait, post=[up("c")])
    return t


def stuck():
    yield case("nothing posts", _stuck([ge("a", 1)]), "stuck")
    yield case("more than is posted", _stuck([ge("a", 3)], [up("a"), up("a")]), "stuck")
    yield case("as much as is posted", _stuck([ge("a", 2)], [up("a"), up("a")]))
    yield case("a value that is passed over", _stuck([("a", "==", 1)], [up("a", 2)]), "stuck")
    yield case("each waits for the other", _stuck([ge("b", 1)], first=[ge("c", 1)]), "stuck")
    yield case("one waits for the other", _stuck([ge("b", 1)], first=[ge("c", 0)]))


CLASSES = {"loops": loops, "registers": registers, "cores": cores, "stuck": stuck}
