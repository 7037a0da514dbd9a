"""Proposes for `nkisim advise` a separate tile in each loop iteration, where iterations wait for
one shared tile.
"""

import bisect

from .edit import Edit, count, free_bytes, replaced, size


def edits(program):
    if not program.straight or not program.open:
        return
    by_line = {}
    for name in program.tensors:
        iterations = _iterations(program, name)
        if len(iterations) > 1:
            by_line.setdefault(program.tensors[name].get("loc", ""), []).append((name, len(iterations)))
    for line, found in by_line.items():
        tile = program.tensors[found[0][0]]
        iterations = sum(n for _, n in found)
        what = "PSUM" if tile["space"] == "psum" else "SBUF"
        yield Edit("buffers", line, "ndarray", f"{count(len(found), 'tile')} in {what} of {size(free_bytes(tile))} per "
                   f"partition {'is' if len(found) == 1 else 'are'} filled {iterations:,} times: allocate inside the "
                   "loop, so that an iteration need not wait for the last one's readers", _apart(line),
                   f"buffers {line}")


def _iterations(program, name):
    """The first instruction of each of a tile's lives, where it is filled anew as a whole."""
    tensor = program.tensors[name]
    if tensor.get("space", "hbm") == "hbm" or "address" in tensor:
        return []
    out, read_at = [], {u[0] for u in program.uses()[1][name] if u[3]}
    for index, _, ref, _, writes in program.uses()[1][name]:
        if ref.opaque:
            return []
        if writes and index not in read_at and program.whole(ref):
            out.append(index)
        elif not out:
            return []
    return out


def _apart(line):
    return lambda program: split(program, lambda name, iterations: program.tensors[name].get("loc", "") == line)


def loads_apart(program):
    """With a tile of its own for each load, as the compiler has it (`rename`), too: the program itself if all have."""
    if loads_apart not in program.derived:
        found = split(program, lambda name, iterations: all(program.insts[i]["i"] == "dma_copy" for i in iterations))
        program.derived[loads_apart] = found or program
        program.derived[loads_apart].derived[loads_apart] = program.derived[loads_apart]
    return program.derived[loads_apart]


def split(program, chosen):
    """With a tile of its own for each life of the tiles for which chosen(name, first instructions of its lives)
    holds; None if none has several."""
    tensors, names = dict(program.tensors), {}
    for name, tensor in program.tensors.items():
        iterations = _iterations(program, name)
        if len(iterations) < 2 or not chosen(name, iterations):
            continue
        for n, index in enumerate(iterations[1:], 1):
            new = f"{name}.t{n}"
            while new in tensors:
                new += "_"
            tensors[new] = {**tensor, "name": new}
            tensors[new].pop("born", None)
            names.setdefault(name, []).append((index, new))
    if not names:
        return None
    insts = []
    for index, inst in enumerate(program.insts):
        for parameter, place, ref, _, _ in program.operands(index):
            lives = names.get(ref.tensor)
            at = bisect.bisect_right(lives, index, key=lambda life: life[0]) if lives else 0
            if at:
                inst = replaced(inst, parameter, place, ref.moved(lives[at - 1][1]))
        insts.append(inst)
    return program.changed(insts, tensors)
