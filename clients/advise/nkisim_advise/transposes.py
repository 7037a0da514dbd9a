"""Proposes for `nkisim advise` one tensor-engine transpose in place of the vector engine's
blockwise transposes.
"""

from .edit import Edit, count

_PE = 128  # rows and columns of the array


def edits(program):
    if not program.straight or not program.open:
        return
    for (line, name), places in program.lines().items():
        found = _tiles(program, places) if name == "nc_transpose" else []
        if found:
            blocks = sum(len(places) for _, _, places in found)
            said = (f"{count(blocks, 'transpose')} of blocks by the vector engine: transpose each tile at once on the "
                    "tensor engine, engine=nisa.engine.tensor into a tile of nl.psum, and copy it from there "
                    f"({count(len(found), 'transpose')})")
            yield Edit("transpose", line, name, said, _on_tensor(line), f"transpose {line}")


def _tiles(program, places):
    """[(dst tensor, data tensor, places)] of whole tiles that blocks of the vector engine transpose."""
    out, of = [], {}
    for index in places:
        operands = {p: r for p, _, r, _, _ in program.operands(index)}
        dst, data, inst = operands.get("dst"), operands.get("data"), program.insts[index]
        if inst.get("engine") == "vector" and dst and data and not (dst.opaque or data.opaque) and not (
                "id" in inst or "after" in inst):
            of.setdefault((dst.tensor, data.tensor), []).append((index, dst, data))
    for (dst, data), blocks in of.items():
        if _is_transposed(program, dst, data, blocks) and _alone(program, dst, data, [b[0] for b in blocks]):
            out.append((dst, data, [b[0] for b in blocks]))
    return out


def _is_transposed(program, dst, data, blocks):
    """True if the blocks come to dst = data transposed, each element once."""
    to, source = program.tensors[dst], program.tensors[data]
    rows, columns = source["shape"][0], source["shape"][-1]
    if (len(to["shape"]) != 2 or len(source["shape"]) != 2 or to["shape"] != [columns, rows] or max(rows, columns) > _PE
            or to["dtype"] != source["dtype"] or len(blocks) < 2):
        return False
    area = 0
    for _, a, b in blocks:
        if any(len(ref.pattern) != 1 or ref.pattern[0][0] != 1 or ref.dtype for ref in (a, b)):
            return False
        size = program.bytes_of(b) // (b.elements() * b.partitions)
        if (a.partition, a.partitions) != (b.offset // size, b.elements()) or (
                a.offset // size, a.elements()) != (b.partition, b.partitions):
            return False
        area += a.elements() * a.partitions
    places = {(a.partition, a.offset) for _, a, _ in blocks}
    return area == rows * columns and len(places) == len(blocks)


def _alone(program, dst, data, places):
    """True if nothing else touches dst, or writes data, from the first block to the last."""
    own = set(places)
    for index in range(places[0], places[-1] + 1):
        if index not in own and any(r.tensor == dst or (writes and r.tensor == data)
                                    for _, _, r, _, writes in program.operands(index)):
            return False
    return True


def _on_tensor(line):
    def apply(program):
        found = _tiles(program, program.lines().get((line, "nc_transpose"), ()))
        if not found:
            return None
        insts, tensors = [[inst] for inst in program.insts], dict(program.tensors)
        for dst, data, places in found:
            name = program.changed(tensors=tensors).fresh_name(dst)
            tensors[name] = {**{k: v for k, v in program.tensors[dst].items() if k not in ("born", "address")},
                             "name": name, "space": "psum"}
            for index in places:
                insts[index] = []
            loc = {k: program.insts[places[-1]][k] for k in ("loc", "core") if k in program.insts[places[-1]]}
            insts[places[-1]] = [{"i": "nc_transpose", "engine": "tensor", "dst": name, "data": data, **loc},
                                 {"i": "tensor_copy", "dst": dst, "src": name, **loc}]
        return program.changed([inst for some in insts for inst in some], tensors)
    return apply
