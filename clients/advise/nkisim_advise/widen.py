"""Proposes for `nkisim advise` to join loop iterations: one instruction does the work of several
iterations.

An iteration is a load with all that follows from its tile until nothing reads it any more. Iterations are as one where
they do the same to tiles of one shape, at one distance in HBM.
"""

from .buffers import loads_apart
from .edit import Edit, count, free_bytes
from .facts import acts_elsewhere
from .transfers import ends, free, hbm_step, partition_dimensions

FACTORS = (16, 4, 64, 8, 2, 32)
#: Instructions that compute each element from those at its place, whatever the tile's width.
_ELEMENTWISE = ("activation", "tensor_scalar", "tensor_tensor", "tensor_copy", "reciprocal", "scalar_tensor_tensor",
                "memset")
_LARGEST = 64 * 1024  # of a partition, by one tile
_LONGEST = 32         # instructions of an iteration


def edits(program):
    if not program.straight or not program.open:
        return
    program = loads_apart(program)
    for (line, name), places in program.lines().items():
        found = _iterations(program, places) if name == "dma_copy" else []
        if len(found) < 2:
            continue
        seen = set()
        for most in FACTORS:
            groups = _groups(program, found, most)
            longest = max(map(len, groups), default=1)
            if longest < 2 or longest in seen:
                continue
            seen.add(longest)
            after = len(found) - sum(len(g) - 1 for g in groups)
            said = " and ".join(filter(None, [", ".join(i["i"] for i in found[0].insts(program)[:-1]),
                                              found[0].insts(program)[-1]["i"]]))
            yield Edit("widen", line, name, f"{count(len(found), 'iteration')} of {said} on tiles "
                       f"{program.tensors[found[0].tiles[0]]['shape']}: do {longest} at once, on tiles "
                       f"{_shape(program, groups[0], 0)} ({count(after, 'iteration')})", _widen(line, most),
                       f"widen {line}")


class _Iteration:
    """`places` of its instructions, in order, and its `tiles` by the first use."""

    def __init__(self, places, tiles):
        self.places, self.tiles = places, tiles

    def insts(self, program):
        return [program.insts[i] for i in self.places]


def _iterations(program, places):
    return [found for found in map(lambda i: _iteration(program, i), places) if found]


def _iteration(program, first):
    """The iteration that begins with a load of a tile; None if it is none that can be wider."""
    dst, src = ends(program, first)
    if dst is None or not free(program, dst.tensor) or not program.constant(src.tensor):
        return None
    shape, tiles, places, todo = program.tensors[dst.tensor]["shape"], [dst.tensor], set(), [dst.tensor]
    while todo:
        for index, _, ref, _, _ in program.uses()[1][todo.pop()]:
            inst = program.insts[index]
            if not program.whole(ref) or "after" in inst or "id" in inst or len(places) > _LONGEST or not (
                    inst["i"] == "dma_copy" or (inst["i"] in _ELEMENTWISE and "reduce_res" not in inst)):
                return None
            places.add(index)
            for _, _, other, _, _ in program.operands(index):
                if other.tensor in tiles or program.space(other) == "hbm":
                    continue
                if program.tensors[other.tensor]["shape"] != shape:
                    continue
                if not free(program, other.tensor):
                    return None
                tiles.append(other.tensor)
                todo.append(other.tensor)
    if min(places) != first:
        return None
    return _Iteration(sorted(places), tiles)


def _same(program, one, other, distances):
    """True if two neighbouring iterations do the same; `distances` of their HBM operands are filled in, or compared."""
    if len(one.places) != len(other.places) or len(one.tiles) != len(other.tiles):
        return False
    pairs = dict(zip(one.tiles, other.tiles))
    for a, b in pairs.items():
        if any(program.tensors[a].get(k) != program.tensors[b].get(k) for k in ("shape", "dtype", "space")):
            return False
    for n, (i, j) in enumerate(zip(one.places, other.places)):
        mine, theirs = program.operands(i), program.operands(j)
        if len(mine) != len(theirs) or _rest(program, i) != _rest(program, j):
            return False
        for (p, _, a, _, _), (q, _, b, _, _) in zip(mine, theirs):
            if p != q or a.opaque or b.opaque:
                return False
            if a.tensor in pairs:
                if pairs[a.tensor] != b.tensor:
                    return False
            elif program.space(a) == "hbm" and program.insts[i]["i"] == "dma_copy":
                step = hbm_step(a, b)
                if step is None or step <= 0 or distances.setdefault((n, p), step) != step:
                    return False
            elif a != b or a.elements() != 1:  # of one column, for all of the tile's
                return False
    return True


def _rest(program, index):
    """An instruction without its operands in memory."""
    names = {p for p, *_ in program.operands(index)}
    return {k: v for k, v in program.insts[index].items() if k not in names}


def _groups(program, found, most):
    """Neighbouring iterations that can be one, at most `most`."""
    meetings = [i for i, inst in enumerate(program.insts) if acts_elsewhere(inst)]
    out, group, distances = [], [], {}
    for one in found:
        trial = dict(distances)
        fits = (group and len(group) < most and not set(one.places) & set(group[-1].places)
                and (len(group) + 1) * free_bytes(program.tensors[one.tiles[0]]) <= _LARGEST
                and not any(group[0].places[0] < m < one.places[-1] for m in meetings)
                and _same(program, group[-1], one, trial) and _steady(program, group[0], one))
        if fits:
            group.append(one)
            distances = trial
        else:
            out.append(group)
            group, distances = [one], {}
    return [g for g in [*out, group] if len(g) > 1]


def _steady(program, first, last):
    """True if what all iterations read is written before the first of them, and what they store is not read."""
    own = set(first.tiles) | set(last.tiles)
    for index in last.places:
        for _, _, ref, _, writes in program.operands(index):
            if ref.tensor in own:
                continue
            if program.space(ref) == "hbm":
                if ref.tensor in program.touched()[0] and ref.tensor in program.touched()[1]:
                    return False
            elif any(u[4] and u[0] > first.places[0] for u in program.uses()[1][ref.tensor]):
                return False
    return True


def _contiguous(program, group):
    """True if the tiles of a group lie next to one another in HBM, too, so that they are one row."""
    for n, index in enumerate(group[0].places):
        for k, (_, _, ref, _, _) in enumerate(program.operands(index)):
            if program.space(ref) == "hbm":
                other = program.operands(group[1].places[n])[k][2]
                size = program.bytes_of(ref) // ref.elements()
                if hbm_step(ref, other) != ref.pattern[-1][1] * size or ref.pattern[-1][0] != 1:
                    return False
    return len(program.tensors[group[0].tiles[0]]["shape"]) == 2


def _shape(program, group, tile):
    shape = program.tensors[group[0].tiles[tile]]["shape"]
    return [shape[0], len(group) * shape[1]] if _contiguous(program, group) else [shape[0], len(group), *shape[1:]]


def _widen(line, most):
    def apply(program):
        program = loads_apart(program)
        groups = _groups(program, _iterations(program, program.lines().get((line, "dma_copy"), ())), most)
        if not groups:
            return None
        insts, tensors = list(program.insts), dict(program.tensors)
        for group in groups:
            names = {}
            for n, tile in enumerate(group[-1].tiles):
                names[tile] = name = program.changed(tensors=tensors).fresh_name(tile)
                tensors[name] = {**program.tensors[tile], "name": name, "shape": _shape(program, group, n)}
                tensors[name].pop("born", None)
            for n, index in enumerate(group[-1].places):
                wide = _wide(program, group, n, names)
                if wide is None:
                    return None
                insts[index] = wide
            for one in group[:-1]:
                for index in one.places:
                    insts[index] = None
            for one in group:
                for tile in one.tiles:
                    tensors.pop(tile)
        return program.changed([i for i in insts if i is not None], tensors)
    return apply


def _wide(program, group, n, names):
    """The n-th instruction of all iterations of a group."""
    inst = dict(program.insts[group[-1].places[n]])
    for k, (parameter, place, ref, _, _) in enumerate(program.operands(group[0].places[n])):
        if ref.tensor in group[0].tiles:
            if place is not None:
                return None
            inst[parameter] = names[group[-1].tiles[group[0].tiles.index(ref.tensor)]]
        elif program.space(ref) == "hbm":
            at = partition_dimensions(ref.pattern, program.tensors[group[0].tiles[0]]["shape"][0])
            if at is None or place is not None:
                return None
            each = program.bytes_of(ref) // ref.elements()
            step = hbm_step(ref, program.operands(group[1].places[n])[k][2]) // each
            pattern = [*ref.pattern[:at], (step, len(group)), *ref.pattern[at:]]
            if _contiguous(program, group):
                pattern = [*ref.pattern[:at], (1, len(group) * ref.pattern[-1][1])]
            inst[parameter] = {**ref.json(), "ap": [list(p) for p in pattern]}
    return inst
