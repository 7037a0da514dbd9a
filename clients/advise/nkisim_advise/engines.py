"""Proposes for `nkisim advise` another engine for an instruction, or another queue for a DMA."""

from .edit import Edit, count
from .facts import engines_of

DMAS = ("dma_copy", "dma_transpose")
#: Instructions that depend on an engine's own state, or have no engine worth choosing.
_FIXED = ("rng", "rand_get_state", "rand_set_state", "set_rng_seed", "nop", "core_barrier", "sendrecv",
          "sendrecv_compute", "rank_id",
          "nc_transpose", "device_print", "event_semaphore")


def edits(program):
    """An edit for each line and other engine; two engines alternately; descriptors made by hardware or software."""
    for (line, name), places in program.lines().items():
        if name in DMAS:
            yield from _queues(program, line, name, places)
        elif name not in _FIXED and not name.startswith(("register", "all_", "collective", "reduce_sc")):
            yield from _engines(program, line, name, places)


def _engines(program, line, name, places):
    able = [e for e in engines_of(name, program.target)]
    now = {program.insts[i].get("engine") for i in places}
    if len(able) < 2:
        return
    for engine in able:
        if now != {engine}:
            yield Edit("engine", line, name, f"give {count(len(places), name)} to the other engine: "
                       f"engine=nisa.engine.{engine}", _to(line, name, [{"engine": engine}]), f"engine {line} {name}")
    pairs = [(a, b) for i, a in enumerate(able) for b in able[i + 1:]]
    for pair in pairs if len(places) > 1 else ():
        yield Edit("engine", line, name, f"give the {count(len(places), name)} to two engines alternately: "
                   f"engine=nisa.engine.{pair[0]} and .{pair[1]}",
                   _to(line, name, [{"engine": e} for e in pair]), f"engine {line} {name}")


def _default(program, index):
    """(engine, dge_mode) that the compiler of 2026 gives a DMA that names neither (compiler/passes/assign.cpp), or
    a part of them."""
    inst = program.insts[index]
    engine, mode = inst.get("engine"), inst.get("dge_mode", "unknown")
    if program.target in ("trn1", "inf2") or mode in ("swdge", "none"):
        return engine, mode
    roles = {program.tensors[r.tensor].get("role", "internal") for _, _, r, _, _ in program.operands(index)
             if program.space(r) == "hbm"}
    if mode == "unknown" and (engine == "gpsimd" or engine is None and roles - {"internal", "constant"}):
        return "gpsimd", "swdge"
    return engine or "sync", "hwdge"


def _queues(program, line, name, places):
    hardware = [{"engine": e, "dge_mode": "hwdge"} for e in ("sync", "scalar")]
    dmas = count(len(places), "DMA")
    defaults = {_default(program, i) for i in places}
    for one in hardware:
        if defaults == {(one["engine"], "hwdge")}:
            continue
        yield Edit("queue", line, name, f"start the {dmas} from another queue: dge_mode=nisa.dge_mode.hwdge, "
                   f"engine=nisa.engine.{one['engine']}", _to(line, name, [one]), f"engine {line} {name}")
    if len(places) > 1:
        yield Edit("queue", line, name, f"start the {dmas} from two queues alternately: dge_mode=nisa.dge_mode.hwdge, "
                   "engine=nisa.engine.sync and .scalar", _to(line, name, hardware), f"engine {line} {name}")
    if defaults == {("gpsimd", "swdge")}:
        return
    yield Edit("descriptors", line, name, f"let GpSimd write the descriptors of the {dmas}: "
               "dge_mode=nisa.dge_mode.swdge", _to(line, name, [{"engine": "gpsimd", "dge_mode": "swdge"}]),
               f"engine {line} {name}")


def _to(line, name, choices):
    """Sets the fields of `choices`, alternately, on all instructions of the line."""
    def apply(program):
        places = program.lines().get((line, name), ())
        insts = list(program.insts)
        for n, index in enumerate(places):
            insts[index] = {**insts[index], **choices[n % len(choices)]}
        return program.changed(insts) if insts != program.insts else None
    return apply
