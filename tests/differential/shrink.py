"""Reduces a failing random test, and saves it as a file of instructions that `nkisim run`
reproduces.
"""

import copy
import json
from pathlib import Path

import numpy as np

from harness import check, expected
from machine import Case


def _fails_alike(driver, case, kind):
    try:
        failure = check(driver, case)
    except Exception:  # the reduced case is not one the reference understands
        return None
    return failure if failure and failure[0] == kind else None


def _with(case, **changes):
    other = copy.deepcopy(case)
    for key, value in changes.items():
        setattr(other, key, value)
    return other


def _fewer_parts(case):
    """The same case on fewer partitions, where all operands have as many."""
    views = [v for i in case.insts for _, v in i.views() if v.on_chip]
    most = max((v.parts for v in views), default=1)
    for count in sorted({1, 2, most // 4, most // 2, most - 1}):
        if 0 < count < most:
            other = copy.deepcopy(case)
            for inst in other.insts:
                for _, view in inst.views():
                    if view.on_chip and view.parts == most:
                        view.parts, view.text = count, None
            yield other
        if 0 < count < most:  # the last rows instead of the first
            other = copy.deepcopy(case)
            for inst in other.insts:
                for _, view in inst.views():
                    if view.on_chip and view.parts == most:
                        rows = slice(view.part, view.part + count)
                        data = view.tensor.data
                        data[rows] = data[view.part + most - count : view.part + most].copy()
                        view.parts, view.text = count, None
            yield other


def _cut(view, size, count, head):
    """Leaves `count` of the `size` columns, the first or the last ones."""
    dim = next(d for d in view.dims if d[1] > 1)
    if not head:
        view.offset += dim[0] * (size - count) * view.dtype.size
    dim[1], view.text = count, None


def _fewer_columns(case):
    """Drops the tail or the head of the outermost dimension of all operands that share its size."""
    views = [v for i in case.insts for _, v in i.views() if v.on_chip and v.dims]
    sizes = {v.columns for v in views if v.columns > 1}
    for size in sizes:
        same = [k for k, v in enumerate(views) if v.columns == size]
        same = list({id(views[k].dims): k for k in same}.values())  # shared ones are cut once
        if any(len([d for d in views[k].dims if d[1] > 1]) != 1 for k in same):
            continue
        for count in sorted({1, 2, size // 2, size - 1}):
            for head in (True, False):
                if not 0 < count < size:
                    continue
                other = copy.deepcopy(case)
                others = [v for i in other.insts for _, v in i.views() if v.on_chip and v.dims]
                for k in same:
                    _cut(others[k], size, count, head)
                yield other


def _zeroed(case):
    """Parts of the tensors' bytes set to zero."""
    for k, tensor in enumerate(case.tensors):
        cells = np.count_nonzero(tensor.data)
        pieces = [slice(None)] if cells else []
        width = tensor.data.shape[1]
        if cells and width > 4:
            pieces += [slice(0, width // 2), slice(width // 2, None)]
        for piece in pieces:
            if np.count_nonzero(tensor.data[:, piece]):
                other = copy.deepcopy(case)
                other.tensors[k].data[:, piece] = 0
                yield other


def _without_last(case):
    if len(case.insts) > 1:
        yield _with(case, insts=case.insts[:-1])


def shrink(driver, case, kind, budget=300):
    """A smaller case that fails in the same way."""
    progress = True
    while progress and budget > 0:
        progress = False
        for step in (_without_last, _fewer_parts, _fewer_columns, _zeroed):
            for other in step(case):
                budget -= 1
                if budget <= 0:
                    return case
                if _fails_alike(driver, other, kind):
                    case, progress = other, True
                    break
    return case


def _bits(tensor):
    """Initial bytes as JSON, in a dtype that holds any bits."""
    raw = np.ascontiguousarray(tensor.data).view(tensor.dtype.raw)
    return raw.reshape(-1).tolist()


def trace(case, about):
    """A self-contained trace: inputs from HBM, the instructions, results to HBM as raw bits."""
    lines, before, after = [{**case.header("differential"), "about": about}], [], []
    unsigned = {1: "uint8", 2: "uint16", 4: "uint32"}
    used = {}
    staging = [max([0] + [t.address + t.row_bytes() for t in case.tensors if t.space == "sbuf"])]
    for tensor in case.tensors:
        raw, rows = unsigned[tensor.dtype.size], tensor.rows()
        columns = tensor.row_bytes() // tensor.dtype.size
        shape = [rows, columns]
        lines.append({"tensor": {"name": tensor.name + "_in", "space": "hbm", "dtype": raw, "shape": shape,
                                 "role": "input", "data": {"values": _bits(tensor)}}})  # fmt: skip
        lines.append({"tensor": {"name": tensor.name + "_out", "space": "hbm", "dtype": raw,
                                 "shape": shape, "role": "output"}})  # fmt: skip
        declared = tensor.json(case.virtual)
        if tensor.space == "hbm":
            declared["tensor"]["role"] = "internal"
        lines.append(declared)
        used[tensor.name] = True
        chip = {"tensor": tensor.name, "offset": 0, "dtype": raw,
                "ap": [[1, columns]] if tensor.space != "hbm" else [[columns, 1], [1, columns]]}  # fmt: skip
        if tensor.space != "hbm":
            chip |= {"partition": 0, "partitions": rows}
        if tensor.space == "psum":
            stage = {"name": tensor.name + "_stage", "space": "sbuf", "dtype": raw, "shape": shape,
                     "partition": tensor.partition}  # fmt: skip
            if not case.virtual:
                stage["address"] = -(-staging[0] // 64) * 64
                staging[0] = stage["address"] + tensor.row_bytes()
            lines.append({"tensor": stage})
            stage["core"] = tensor.core
            before += [{"i": "dma_copy", "core": tensor.core, "dst": stage["name"], "src": tensor.name + "_in"},
                       {"i": "tensor_copy", "core": tensor.core, "engine": "vector", "dst": chip,
                        "src": stage["name"]}]  # fmt: skip
            after += [{"i": "tensor_copy", "core": tensor.core, "engine": "vector", "dst": stage["name"],
                       "src": chip},
                      {"i": "dma_copy", "core": tensor.core, "dst": tensor.name + "_out",
                       "src": stage["name"]}]  # fmt: skip
        else:
            before.append({"i": "dma_copy", "core": tensor.core, "dst": chip, "src": tensor.name + "_in"})
            after.append({"i": "dma_copy", "core": tensor.core, "dst": tensor.name + "_out", "src": chip})
    lines += before + [i.json() for i in case.insts] + after
    return "\n".join(json.dumps(line) for line in lines) + "\n"


def save(case, folder, name, about):
    """Writes NAME.jsonl and NAME.npz with what every output tensor must hold."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_text(trace(case, about))
    memory = expected(case)
    arrays = {}
    for tensor in case.tensors:
        raw = np.ascontiguousarray(memory.bytes[tensor.name]).view(tensor.dtype.raw)
        arrays[tensor.name + "_out"] = raw
    np.savez(folder / f"{name}.npz", **arrays)
    return path


def report(driver, folder, op, index, kind, message, case):
    """Reduces, saves and describes one failure."""
    if not isinstance(case, Case):
        return {"text": f"FAIL {op} case {index} ({kind}): {message}"}
    before = case.sizes()
    if kind in ("different", "crash", "rejected"):
        small = shrink(driver, case, kind)
    else:
        small = case
    failure = _fails_alike(driver, small, kind)
    message = failure[1] if failure else message
    where = ""
    try:
        where = f"; saved {save(small, folder, f'{op}-{index}', f'{kind}: {message}')}"
    except Exception as error:  # the reference may not survive what the simulator rejects
        where = f"; not saved ({error!r})"
    insts = "\n    ".join(json.dumps(i.json()) for i in small.insts)
    return {"text": f"FAIL {op} case {index} ({kind}): {message}\n  on {small.target}, reduced from "
                    f"{before} to {small.sizes()}{where}\n    {insts}"}  # fmt: skip
