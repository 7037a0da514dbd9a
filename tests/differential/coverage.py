"""Counts the combinations of instruction, dtype, memory and mode that the random tests reached."""

from collections import defaultdict

from machine import Inst, View

MODES = ("op", "op0", "op1", "reduce_op", "reduce_cmd", "perf_mode", "dge_mode", "oob_mode", "comp_op0",
         "cmp_op", "accumulate", "is_transpose", "negate", "reverse0", "reverse1", "reverse_pred",
         "keepdims", "reduce_res_negate", "num_elem_per_idx", "tile_size")  # fmt: skip
OPERATORS = ("op", "op0", "reduce_op", "perf_mode", "comp_op0", "cmp_op", "dge_mode", "num_elem_per_idx")


def shape_of(view):
    steps = [s for s, n in view.dims if n > 1]
    if view.dynamic:
        return view.dynamic[0].kind
    if any(s == 0 for s in steps):
        return "broadcast"
    if any(s < 0 for s in steps):
        return "negative"
    if view.contiguous():
        return "dense"
    return "strided"


def keys(case):
    """The tuples (op, kind, ...) that one case counts."""
    out = set()
    for inst in case.insts:
        assert isinstance(inst, Inst)
        out.add((inst.op, "target", case.target))
        out.add((inst.op, "engine", inst.engine or "default"))
        for name, view in inst.views():
            assert isinstance(view, View)
            out.add((inst.op, "dtype", name, view.dtype.name, view.space))
            out.add((inst.op, "layout", name, shape_of(view)))
            out.add((inst.op, "rank", name, len(view.dims)))
            out.add((inst.op, "start", name, view.start if view.on_chip else "hbm"))
        for name in MODES:
            if name in inst.args:
                out.add((inst.op, "mode", name, str(inst.args[name])))
        main = next((v for k, v in inst.views() if k not in ("dst", "val_dst", "idx_dst")), None)
        main = main or next((v for _, v in inst.views()), None)
        if main is not None:
            mode = "+".join(str(inst.args[k]) for k in OPERATORS if k in inst.args) or "-"
            out.add((inst.op, "cell", f"{main.dtype.name}@{main.space}", mode))
        for name, value in inst.args.items():
            if isinstance(value, float):
                out.add((inst.op, "mode", name, "constant"))
        dst, src = inst.args.get("dst"), inst.args.get("data", inst.args.get("src"))
        if isinstance(dst, View) and isinstance(src, View):
            out.add((inst.op, "cast", src.dtype.name, dst.dtype.name))
    return out


def table(counts):
    """op -> kind -> label -> cases."""
    out = defaultdict(lambda: defaultdict(dict))
    for key, count in counts.items():
        if len(key) > 2:
            out[key[0]][key[1]][" ".join(str(k) for k in key[2:])] = count
    return {op: {kind: dict(sorted(v.items())) for kind, v in sorted(kinds.items())}
            for op, kinds in sorted(out.items())}  # fmt: skip


def cells(table):
    return sum(len(v) for kinds in table.values() for v in kinds.values())


def markdown(table):
    """One row per instruction: how many distinct values of each kind, and the operand dtypes; then,
    per instruction, the cases by its main input's dtype and memory and by its operator or mode."""
    return "\n".join([*_summary(table), "", *(line for op in table for line in _grid(op, table[op]))])


def _grid(op, got):
    counts = defaultdict(dict)
    for label, count in got.get("cell", {}).items():
        operand, mode = label.split(" ", 1)
        counts[operand][mode] = count
    if not counts:
        return []
    modes = sorted({m for row in counts.values() for m in row})
    lines = [f"## {op}", "", "| main operand | " + " | ".join(modes) + " |",
             "|---|" + "--:|" * len(modes)]  # fmt: skip
    for operand, row in sorted(counts.items()):
        lines.append(f"| {operand} | " + " | ".join(str(row.get(m, 0)) for m in modes) + " |")
    return [*lines, ""]


def _summary(table):
    kinds = ["dtype", "cast", "layout", "rank", "start", "engine", "target", "mode", "reject"]
    lines = ["| Instruction | " + " | ".join(kinds) + " | dtypes x memory of operands |",
             "|---|" + "--:|" * len(kinds) + "---|"]  # fmt: skip
    for op, got in table.items():
        spaces = defaultdict(set)
        for label in got.get("dtype", {}):
            operand, dtype, space = label.split()
            spaces[(operand, space)].add(dtype)
        detail = "; ".join(f"{o} {s}: {len(d)}" for (o, s), d in sorted(spaces.items()))
        counts = " | ".join(str(len(got.get(k, {}))) for k in kinds)
        lines.append(f"| {op} | {counts} | {detail} |")
    return lines
