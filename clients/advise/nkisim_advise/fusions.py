"""Proposes for `nkisim advise` one instruction in place of two that pass over the same elements."""

from .edit import Edit, count

_ELEMENTWISE = ("tensor_scalar", "tensor_tensor", "tensor_copy", "activation")


def edits(program):
    if not program.straight or not program.open:
        return
    pairs = {}
    for index in range(len(program.insts)):
        found = _fused(program, index)
        if found:
            first, _, name, say = found
            key = program.insts[first].get("loc", ""), program.insts[index].get("loc", ""), name
            pairs.setdefault(key, [say, 0, program.insts[index]["i"]])[1] += 1
    for (before, line, name), (say, n, what) in pairs.items():
        where = before.rsplit("/", 1)[-1]
        yield Edit("fuse", line, what, f"{say}: one {name} instead of it and the {where} one before it "
                   f"({count(n, 'time')})", _fuse(before, line, name), f"fuse {before} {line}")
    yield from _chains(pairs)


def _chains(pairs):
    """Three in a row: what makes one of the first two makes one of that and the third."""
    for (first, middle, name), _ in pairs.items():
        for (before, line, last), (say, n, what) in pairs.items():
            if before == middle and name in ("tensor_scalar", "activation"):
                where = " and ".join(at.rsplit("/", 1)[-1] for at in (first, middle))
                yield Edit("fuse", line, what, f"{say}: one {last} instead of it and those of {where} before it "
                           f"({count(n, 'time')})", _both(_fuse(first, middle, name), _fuse(middle, line, last)),
                           f"fuse {before} {line}")


def _both(first, then):
    def apply(program):
        between = first(program)
        return None if between is None else then(between)
    return apply


def _fuse(before, line, name):
    def apply(program):
        insts, drop, taken = list(program.insts), set(), set()
        for index in range(len(program.insts)):
            if program.insts[index].get("loc", "") != line:
                continue
            found = _fused(program, index)
            if (not found or found[2] != name or program.insts[found[0]].get("loc", "") != before
                    or {found[0], index} & taken):
                continue
            first, insts[index] = found[0], found[1]
            drop.add(first)
            taken |= {first, index}
        return program.changed([i for n, i in enumerate(insts) if n not in drop]) if drop else None
    return apply


def _fused(program, index):
    """(the earlier instruction, the one for both, its name, what it does), None if there is none."""
    inst = program.insts[index]
    for parameter, place, ref, reads, writes in program.operands(index):
        if place is not None or writes or not reads or ref.opaque or not program.whole(ref):
            continue
        first = _maker(program, index, ref)
        rule = first is not None and _RULES.get((program.insts[first]["i"], inst["i"]))
        made = rule and rule(program.insts[first], inst, parameter)
        if made:
            one, say = made
            if "id" not in inst and "after" not in inst and "id" not in program.insts[first]:
                return first, {k: v for k, v in one.items() if v is not None}, one["i"], say
    return None


def _maker(program, index, ref):
    """The instruction that fills a tile as a whole for this one alone, and whose operands are still as they were."""
    uses = program.uses()[1][ref.tensor]
    if program.space(ref) == "hbm" or program.tensors[ref.tensor]["dtype"] != "float32":
        return None  # a narrower type rounds in between
    if not _made_for(program, uses, index):
        return None
    first = uses[0][0]
    if (program.insts[first]["i"] not in _ELEMENTWISE
            or program.insts[first].get("core") != program.insts[index].get("core")):
        return None
    inputs = {r.tensor for _, _, r, reads, _ in program.operands(first) if reads}
    # At `index` itself they may be written: what an instruction reads, it reads before.
    changed = any(u[4] and first < u[0] < index for name in inputs for u in program.uses()[1][name])
    return None if changed else first


def _made_for(program, uses, index):
    """True if a tile is filled as a whole, then read by one operand of the instruction at `index`, and by nothing
    else unless that instruction fills it anew."""
    if len(uses) < 2 or uses[1][0] != index or sum(u[3] for u in uses if u[0] == index) != 1:
        return False
    _, parameter, ref, reads, writes = uses[0]
    if not writes or reads or parameter != "dst" or not program.whole(ref):
        return False
    return len(uses) == 2 or any(u[0] == index and u[4] and program.whole(u[2]) for u in uses)


def _one_operator(inst):
    return inst.get("op1") is None and inst.get("op0") is not None


def _then_scalar(first, then, parameter):
    if parameter != "data" or not _one_operator(first) or not _one_operator(then):
        return None
    return {**then, "data": first["data"], "op0": first["op0"], "operand0": first.get("operand0"),
            "reverse0": first.get("reverse0"), "op1": then["op0"], "operand1": then.get("operand0"),
            "reverse1": then.get("reverse0")}, "let op0 and op1 of one tensor_scalar do both"


def _then_tensor(first, then, parameter):
    if not _one_operator(first) or first.get("operand0") is None:
        return None
    other = then["data2" if parameter == "data1" else "data1"]
    one = {k: v for k, v in then.items() if k not in ("data1", "data2", "op", "engine")}
    return {**one, "i": "scalar_tensor_tensor", "data": first["data"], "op0": first["op0"],
            "operand0": first["operand0"], "reverse0": first.get("reverse0"), "op1": then["op"], "operand1": other,
            "reverse1": True if parameter == "data2" else None}, "let scalar_tensor_tensor do both"


def _then_activation(first, then, parameter):
    if parameter != "data" or then.get("scale", 1.0) != 1.0 or first.get("reverse0"):
        return None
    if then.get("bias") is not None:  # it stays, behind a factor
        if not _one_operator(first) or first["op0"] != "multiply":
            return None
        return {**then, "data": first["data"], "scale": first.get("operand0")}, "let the activation's scale do it"
    operators = [(first.get("op0"), first.get("operand0")), (first.get("op1"), first.get("operand1"))]
    names = [o for o, _ in operators if o]
    if names == ["multiply"]:
        fields = {"scale": operators[0][1]}
    elif names == ["add"]:
        fields = {"bias": operators[0][1]}
    elif names == ["multiply", "add"] and not first.get("reverse1"):
        fields = {"scale": operators[0][1], "bias": operators[1][1]}
    else:
        return None
    return {**then, "data": first["data"], **fields}, "let the activation's scale and bias do it"


def _then_reduce(first, then, parameter):
    """The sum of what an activation gives, in its own pass. The activation's result is not used otherwise."""
    if parameter != "data" or then.get("negate") or then.get("op") != "add" or first.get("reduce_op"):
        return None
    one = {k: v for k, v in first.items() if k not in ("reduce_cmd",)}
    return {**one, "i": "activation_reduce", "loc": then.get("loc", ""), "reduce_op": "add",
            "reduce_res": then["dst"]}, "let activation_reduce sum in the same pass"


def _copied(first, then, parameter):
    """Lets the reader of a copy read the copied tile."""
    return {**then, parameter: first["src" if first["i"] == "tensor_copy" else "data"]}, \
        "read the tile where it is instead of a copy"


_RULES = {("tensor_scalar", "tensor_scalar"): _then_scalar, ("tensor_scalar", "tensor_tensor"): _then_tensor,
          ("tensor_scalar", "activation"): _then_activation, ("activation", "tensor_reduce"): _then_reduce}
for _name in ("tensor_scalar", "tensor_tensor", "activation", "tensor_reduce", "nc_matmul", "dma_copy",
              "scalar_tensor_tensor", "reciprocal", "tensor_copy"):
    _RULES["tensor_copy", _name] = _copied
