"""Proposes the form that another engine has of the same work, such as a maximum with zero for a relu."""

from .edit import Edit, count


def edits(program):
    if not program.open:
        return
    for (line, name), places in program.lines().items():
        for form in _FORMS:
            made = [form.of(program.insts[i]) for i in places]
            if all(made):
                yield Edit("form", line, name, f"{form.say}: {made[0]['i']} instead of {count(len(places), name)}, "
                           f"engine=nisa.engine.{made[0]['engine']}", _to(line, name, form), f"engine {line} {name}")


class _Form:
    """`of` gives the other instruction of one, or None."""

    def __init__(self, say, of):
        self.say, self.of = say, of


def _to(line, name, form):
    def apply(program):
        insts, changed = list(program.insts), False
        for index in program.lines().get((line, name), ()):
            other = form.of(insts[index])
            if other is None:
                return None
            insts[index], changed = other, True
        return program.changed(insts) if changed else None
    return apply


def _kept(inst, *names):
    """The fields that an instruction of another name takes over, apart from its operands."""
    return {k: v for k, v in inst.items() if k in ("loc", "core", "label", "region", "dst", *names)}


def _plain(inst, op, scaled=False):
    """True if it is an activation of `op` and nothing more but, if `scaled`, constants of scale and bias."""
    if inst["i"] != "activation" or inst.get("op") not in op or "reduce_res" in inst or {"id", "after"} & inst.keys():
        return False
    scale, bias = inst.get("scale", 1.0), inst.get("bias")
    return isinstance(scale, (int, float)) and (scaled or (scale == 1.0 and bias is None))


def _relu_on(engine):
    def of(inst):
        if _plain(inst, ("relu",)):
            return {"i": "tensor_scalar", "engine": engine, **_kept(inst, "data"), "op0": "maximum", "operand0": 0.0}
        return None
    return of


def _copy_on(engine):
    def of(inst):
        if not _plain(inst, ("copy", "identity"), scaled=True):
            return None
        one = {"i": "tensor_scalar", "engine": engine, **_kept(inst, "data"), "op0": "multiply",
               "operand0": inst.get("scale", 1.0)}
        if inst.get("bias") is not None:
            one.update(op1="add", operand1=inst["bias"])
        return one
    return of


def _square_on(engine):
    def of(inst):
        if _plain(inst, ("square",)):
            return {"i": "tensor_tensor", "engine": engine, **_kept(inst), "data1": inst["data"],
                    "data2": inst["data"], "op": "multiply"}
        return None
    return of


def _as_relu(inst):
    if (inst["i"] == "tensor_scalar" and inst.get("op0") == "maximum" and inst.get("operand0") == 0.0
            and inst.get("op1") is None and not {"id", "after"} & inst.keys()):
        return {"i": "activation", "engine": "scalar", **_kept(inst, "data"), "op": "relu"}
    return None


def _as_square(inst):
    if (inst["i"] == "tensor_tensor" and inst.get("op") == "multiply" and inst.get("data1") == inst.get("data2")
            and not {"id", "after"} & inst.keys()):
        return {"i": "activation", "engine": "scalar", **_kept(inst), "data": inst["data1"], "op": "square"}
    return None


_FORMS = [_Form(say, of) for engine in ("vector", "gpsimd") for say, of in (
    ("let a maximum with 0 do it", _relu_on(engine)), ("multiply and add there", _copy_on(engine)),
    ("multiply the tile by itself", _square_on(engine)))] + [
        _Form("let the function of one value do it", of) for of in (_as_relu, _as_square)]
