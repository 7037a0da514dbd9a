"""Proposes for `nkisim advise` edits that save DMAs.

"keep" loads repeated data once and keeps the tile in SBUF. "merge" makes one DMA of several loads or stores of one
source line. Both first give each load a tile of its own (loads_apart), so that no two loads share a buffer.
"""

from .buffers import loads_apart
from .edit import Edit, count, free_bytes, replaced, size
from .facts import acts_elsewhere

FACTORS = (8, 2, 16, 4)
#: A tile that DMAs are merged into takes at most this much of a partition.
_LARGEST = 64 * 1024


def edits(program):
    """Yields the edits for a program. It yields none where the order of the program depends on values."""
    if not program.straight or not program.open:
        return
    program = loads_apart(program)
    for (line, name), places in program.lines().items():
        if name != "dma_copy":
            continue
        loads = [t for t in map(lambda i: load(program, i), places) if t]
        if loads:
            yield from _kept(program, line, loads)
            yield from _merged(program, line, loads, True)
        stores = [t for t in map(lambda i: _store(program, i), places) if t]
        if stores:
            yield from _merged(program, line, stores, False)


class _Transfer:
    """A DMA between all of a tile, which it alone fills (a load) or empties (a store), and HBM."""

    def __init__(self, index, tile, tile_ref, hbm):
        self.index, self.tile, self.tile_ref, self.hbm = index, tile, tile_ref, hbm
        #: The key of the loaded data.
        self.source = hbm.tensor, hbm.offset, hbm.pattern, tile_ref.pattern, hbm.dtype


def ends(program, index):
    """The operands (dst, src) of a DMA. (None, None) if one is not known, or if the order of the DMA is named
    (`after`, `id`)."""
    operands = {p: r for p, _, r, _, _ in program.operands(index)}
    dst, src = operands.get("dst"), operands.get("src")
    inst = program.insts[index]
    if dst is None or src is None or dst.opaque or src.opaque or "after" in inst or "id" in inst:
        return None, None
    return dst, src


def free(program, name):
    """True if the compiler, or an edit, may choose the address of the tile in SBUF."""
    tensor = program.tensors[name]
    return tensor.get("space") == "sbuf" and "address" not in tensor


def load(program, index):
    """The load at `index`: a DMA that fills a whole tile from a tensor that is never written. None if it is no such
    DMA, or if something else writes the tile."""
    dst, src = ends(program, index)
    if dst is None or not free(program, dst.tensor) or not program.constant(src.tensor):
        return None
    uses = program.uses()[1][dst.tensor]
    if not program.whole(dst) or any(u[4] and u[0] != index or u[0] < index or u[2].opaque for u in uses):
        return None
    return _Transfer(index, dst.tensor, dst, src)


def _store(program, index):
    dst, src = ends(program, index)
    if dst is None or not free(program, src.tensor) or program.space(dst) != "hbm":
        return None
    if not program.whole(src) or any(u[2].opaque or u[0] > index for u in program.uses()[1][src.tensor]):
        return None
    if dst.tensor in program.touched()[0]:  # read in the kernel: an order we do not look into
        return None
    return _Transfer(index, src.tensor, src, dst)


# Kept ----------------------------------------------------------------------------------------------------------------


def _kept(program, line, loads):
    different = {t.source for t in loads}
    if len(different) == len(loads):
        return
    first = {t.source: t for t in reversed(loads)}
    each = free_bytes(program.tensors[loads[0].tile])
    budget = sum(free_bytes(program.tensors[t.tile]) for t in first.values())
    at_once = _at_once(program, loads)
    moved = sum(program.bytes_of(t.hbm) for t in loads)
    once = sum(program.bytes_of(t.hbm) for t in first.values())
    said = (f"{count(len(loads), 'DMA')} load {count(len(different), 'different tile')} of {size(each)} per "
            "partition: ")
    where = (f"before the loop, and keep them in SBUF ({size(budget)} per partition)" if at_once == budget else
             f"before the inner loop, and keep it in SBUF until its last use ({size(at_once)} per partition at a time)")
    yield Edit("keep", line, "dma_copy", said + f"load each once, {where}: {size(once)} instead of {size(moved)}",
               _keep(line, None), f"keep {line}")
    for share in (96, 48):
        if at_once > share * 1024:
            yield Edit("keep", line, "dma_copy", said + f"keep those used last in SBUF ({share} KiB per partition)",
                       _keep(line, share * 1024), f"keep {line}")


def _at_once(program, loads):
    """The most bytes per partition that kept tiles take together, each from its first load to its last use."""
    spans = {}
    for t in loads:
        uses = [u[0] for u in program.uses()[1][t.tile]]
        begin, end, _ = spans.get(t.source, (t.index, t.index, 0))
        spans[t.source] = min(begin, t.index), max(end, t.index, *uses), free_bytes(program.tensors[t.tile])
    changes = sorted(c for begin, end, taken in spans.values() for c in ((begin, taken), (end + 1, -taken)))
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _keep(line, budget):
    """Loads that repeat are dropped while the tile is still there: at most `budget` bytes per partition are kept, the
    tiles used last."""
    def apply(program):
        program = loads_apart(program)
        loads = [t for t in (load(program, i) for i in program.lines().get((line, "dma_copy"), ())) if t]
        there, instead, drop = {}, {}, set()
        for t in loads:
            core = program.insts[t.index].get("core", 0)
            key = t.source, core, program.tensors[t.tile]["dtype"]
            held = there.pop(key, None)
            if held is None:
                held = t.tile
            else:
                instead[t.tile] = held
                drop.add(t.index)
            there[key] = held
            while budget is not None and sum(free_bytes(program.tensors[n]) for n in there.values()) > budget:
                there.pop(next(iter(there)))
        if not drop:
            return None
        return _renamed(program, instead, drop)
    return apply


def _renamed(program, instead, drop):
    """Without the instructions `drop`; tensors of `instead` are others from then on."""
    insts = []
    for index, inst in enumerate(program.insts):
        if index in drop:
            continue
        for parameter, place, ref, _, _ in program.operands(index):
            if ref.tensor in instead:
                inst = replaced(inst, parameter, place, ref.moved(instead[ref.tensor]))
        insts.append(inst)
    gone = set(instead)
    return program.changed(insts, {n: t for n, t in program.tensors.items() if n not in gone})


# Merged --------------------------------------------------------------------------------------------------------------


def _merged(program, line, transfers, loading):
    if len(transfers) < 2:
        return
    bytes_each = program.bytes_of(transfers[0].hbm)
    word = "loads" if loading else "stores"
    groups = {}
    for most in FACTORS:
        found = _groups(program, transfers, most, loading)
        longest = max(map(len, found), default=1)
        if longest < 2 or longest in groups:
            continue
        groups[longest] = found
        after = len(transfers) - sum(len(g) - 1 for g in found)
        tile = program.tensors[transfers[0].tile]["shape"]
        wide = [tile[0], longest, *tile[1:]]
        yield Edit("merge", line, "dma_copy", f"{count(len(transfers), 'DMA')} of {size(bytes_each)}: "
                   f"{word[:-1]} {longest} tiles at once, {'into' if loading else 'from'} a tile "
                   f"{wide} ({after:,} DMAs)", _merge(line, most, loading), f"merge {line} {word}")


def hbm_step(a, b):
    """Bytes between two operands of one shape in one tensor, None if they are not of one."""
    return b.offset - a.offset if (a.tensor, a.pattern, a.dtype) == (b.tensor, b.pattern, b.dtype) else None


def _step(before, after):
    """The same of two transfers."""
    return hbm_step(before.hbm, after.hbm) if before.tile_ref.pattern == after.tile_ref.pattern else None


def _groups(program, transfers, most, loading):
    """Transfers that follow one another at one distance, at most `most` and as many as a tile may hold."""
    out, group, distance, kind = [], [], None, None
    meetings = [i for i, inst in enumerate(program.insts) if acts_elsewhere(inst)]
    for t in transfers:
        step = _step(group[-1], t) if group else None
        shape = program.tensors[t.tile]["shape"], program.tensors[t.tile]["dtype"], program.insts[t.index].get("core")
        fits = (step is not None and step > 0 and len(group) < most and (distance is None or step == distance)
                and shape == kind and (len(group) + 1) * free_bytes(program.tensors[t.tile]) <= _LARGEST
                and len(t.hbm.pattern) < 7
                and (loading or not any(group[0].index < m < t.index for m in meetings)))
        if fits:
            group.append(t)
            distance = step
        else:
            out.append(group)
            group, distance, kind = [t], None, shape
    out.append(group)
    return [g for g in out if len(g) > 1]


def _merge(line, most, loading):
    """One DMA for up to `most` tiles: a load where the first was, a store where the last was."""
    look = load if loading else _store

    def apply(program):
        program = loads_apart(program)
        transfers = [t for t in (look(program, i) for i in program.lines().get((line, "dma_copy"), ())) if t]
        groups = _groups(program, transfers, most, loading)
        if not groups:
            return None
        tensors, place_in, instead, drop = {}, {}, {}, set()
        for group in groups:
            tile = program.tensors[group[0].tile]
            name = program.fresh_name(group[0].tile)
            tensors[name] = {**tile, "name": name, "shape": [tile["shape"][0], len(group), *tile["shape"][1:]]}
            tensors[name].pop("born", None)
            for n, t in enumerate(group):
                place_in[t.tile] = name, n * free_bytes(tile)
                drop.add(t.index)
            kept = group[0] if loading else group[-1]
            drop.remove(kept.index)
            instead[kept.index] = _one(program, group, name, loading)
        return _placed(program, tensors, place_in, instead, drop)
    return apply


def _one(program, group, name, loading):
    """The DMA that does the work of a group."""
    first = group[0]
    each = program.bytes_of(first.hbm) // first.hbm.elements()
    steps = first.hbm.pattern
    hbm = first.hbm.json()
    partitions = program.tensors[first.tile]["shape"][0]
    at = partition_dimensions(steps, partitions)
    if at is None:
        return None
    hbm["ap"] = [list(p) for p in (*steps[:at], (_step(group[0], group[1]) // each, len(group)), *steps[at:])]
    kept = group[0] if loading else group[-1]
    return {**program.insts[kept.index], "dst" if loading else "src": name, "src" if loading else "dst": hbm}


def partition_dimensions(pattern, partitions):
    """The number of leading dimensions of an access pattern in HBM that go to the partitions of a tile. None if no
    number of them gives `partitions`."""
    n = 1
    for at, (_, extent) in enumerate(pattern, 1):
        n *= extent
        if n == partitions:
            while at < len(pattern) - 1 and pattern[at][1] == 1:
                at += 1
            return at
    return None


def _placed(program, tensors, place_in, instead, drop):
    """With tiles as parts of larger ones."""
    if any(one is None for one in instead.values()):
        return None
    insts = []
    for index, inst in enumerate(program.insts):
        if index in drop:
            continue
        if index in instead:
            insts.append(instead[index])
            continue
        for parameter, place, ref, _, _ in program.operands(index):
            if ref.tensor in place_in:
                inst = replaced(inst, parameter, place, ref.moved(*place_in[ref.tensor]))
        insts.append(inst)
    kept = {n: t for n, t in program.tensors.items() if n not in place_in}
    return program.changed(insts, {**kept, **tensors})
