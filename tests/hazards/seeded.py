"""Puts random mistakes into the kernels of examples/, and lists which of them a simulated run
reports.

    python tests/hazards/seeded.py [--seed 1] [--count 60] [--silent] [--unread]

Each mistake is one edit of a kernel's source, of a class of EDITS. A run names it by an error, or by a warning that the
kernel without it does not give. A mistake that leaves all outputs as they were, without a word, counts as none.
--silent prints those that change an output in silence: a reference alone finds them.
"""

import argparse
import ast
import collections
import copy
import importlib.util
import os
import random
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import nkisim

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("softmax", "layer_norm", "rope", "top_k", "gather", "tensor_add", "matmul", "mamba_scan", "conv2d_maxpool",
         "flash_attention", "lnc2_reduction", "rms_norm_fp8", "dynamic_loop")
UNREAD = False  # also what nothing reads is named
_NOT_KERNELS = {"reference", "cases", "main", "inputs"}
_OUTPUTS = ("dst", "reduce_res", "val_dst", "idx_dst")


def _called(node):
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _is_instruction(node):
    return isinstance(node, ast.Expr) and _called(node.value).startswith(("nisa.", "nl.store"))


def _blocks(function):
    for node in ast.walk(function):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _calls(function, test):
    return [node for node in ast.walk(function) if isinstance(node, ast.Call) and test(node)]


def left_out(function, r):
    """An instruction is missing."""
    block, i = r.choice([(b, i) for b in _blocks(function) for i, s in enumerate(b) if _is_instruction(s)])
    block[i] = ast.Pass()


def too_early(function, r):
    """An instruction comes before the one that was before it."""
    block, i = r.choice([(b, i) for b in _blocks(function) for i in range(len(b) - 1)
                         if _is_instruction(b[i]) and _is_instruction(b[i + 1])])
    block[i], block[i + 1] = block[i + 1], block[i]


def one_less(function, r):
    """A loop ends one iteration too early."""
    call = r.choice(_calls(function, lambda n: _called(n).endswith("range")))
    last = call.args[1] if len(call.args) > 1 else call.args[0]
    step = call.args[2] if len(call.args) > 2 else ast.Constant(1)
    call.args[1 if len(call.args) > 1 else 0] = ast.BinOp(last, ast.Sub(), step)


def one_more(function, r):
    """A loop runs one iteration too long."""
    call = r.choice(_calls(function, lambda n: _called(n).endswith("range")))
    last = call.args[1] if len(call.args) > 1 else call.args[0]
    step = call.args[2] if len(call.args) > 2 else ast.Constant(1)
    call.args[1 if len(call.args) > 1 else 0] = ast.BinOp(last, ast.Add(), step)


def shifted(function, r):
    """A range begins one too late."""
    call = r.choice(_calls(function, lambda n: _called(n) == "nl.ds"))
    call.args[0] = ast.BinOp(call.args[0], ast.Add(), ast.Constant(1))


def too_short(function, r):
    """A range has one element less."""
    call = r.choice(_calls(function, lambda n: _called(n) == "nl.ds"))
    call.args[1] = ast.BinOp(call.args[1], ast.Sub(), ast.Constant(1))


def turned_round(function, r):
    """An instruction's destination and one of its inputs change places."""
    call = r.choice(_calls(function, lambda n: any(k.arg in _OUTPUTS for k in n.keywords)))
    out = next(k for k in call.keywords if k.arg in _OUTPUTS)
    other = r.choice([k for k in call.keywords if k.arg in ("src", "data", "data1", "data2", "moving")])
    out.value, other.value = other.value, out.value


def other_memory(function, r):
    """A tensor is in another memory."""
    where = [n for n in ast.walk(function) if isinstance(n, ast.Attribute) and n.attr in ("sbuf", "psum", "shared_hbm")]
    node = r.choice(where)
    node.attr = r.choice([m for m in ("sbuf", "psum", "shared_hbm") if m != node.attr])


def too_narrow(function, r):
    """A tensor has half its last dimension."""
    call = r.choice(_calls(function, lambda n: _called(n) in ("nl.ndarray", "nl.zeros", "nl.full")
                           and isinstance(n.args[0], ast.Tuple)))
    sizes = call.args[0].elts
    sizes[-1] = ast.BinOp(sizes[-1], ast.FloorDiv(), ast.Constant(2))


def more_partitions(function, r):
    """A tensor has twice its partitions."""
    call = r.choice(_calls(function, lambda n: _called(n) in ("nl.ndarray", "nl.zeros", "nl.full")
                           and isinstance(n.args[0], ast.Tuple)))
    sizes = call.args[0].elts
    sizes[0] = ast.BinOp(sizes[0], ast.Mult(), ast.Constant(2))


def begun_anew(function, r):
    """A tile that a loop fills or adds to is made anew in each iteration."""
    moved = []
    for block in _blocks(function):
        for i, made in enumerate(block):
            if isinstance(made, ast.Assign) and _called(made.value) in ("nl.ndarray", "nl.zeros", "nl.full", "sbuf"):
                loops = [s for s in block[i + 1:] if isinstance(s, ast.For)]
                if loops and "shared_hbm" not in ast.unparse(made):
                    moved.append((block, made, loops[0]))
    block, made, loop = r.choice(moved)
    block.remove(made)
    loop.body.insert(0, made)


def read_too_soon(function, r):
    """The step behind a loop that sums or fills is done in each of its iterations."""
    block, i = r.choice([(b, i) for b in _blocks(function) for i in range(len(b) - 1)
                         if isinstance(b[i], ast.For) and _is_instruction(b[i + 1])])
    block[i].body.append(block.pop(i + 1))


def written_later(function, r):
    """An instruction before a loop comes after it."""
    block, i, j = r.choice([(b, i, j) for b in _blocks(function) for j in range(len(b)) if isinstance(b[j], ast.For)
                            for i in range(j) if _is_instruction(b[i])])
    block.insert(j, block.pop(i))


def one_place(function, r):
    """Each iteration uses the same part of a tensor in HBM."""
    subscripts = [n for n in ast.walk(function) if isinstance(n, ast.Subscript)]
    loops = {n.target.id for n in ast.walk(function) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
    calls = [c for s in subscripts for c in _calls(s, lambda n: _called(n) == "nl.ds")
             if isinstance(c.args[0], ast.Name) and c.args[0].id in loops]
    call = r.choice(calls)
    call.args[0] = ast.Constant(0)


def other_operator(function, r):
    """An operator of Python or NumPy instead of nki.language's."""
    keyword = r.choice([k for n in ast.walk(function) if isinstance(n, ast.Call) for k in n.keywords
                        if k.arg in ("op", "op0", "op1", "reduce_op") and isinstance(k.value, ast.Attribute)
                        and k.value.attr in ("add", "maximum", "multiply", "subtract")])
    wrong = {"add": "sum", "maximum": "max", "multiply": "prod", "subtract": "sub"}
    keyword.value.attr = wrong[keyword.value.attr]


def not_given(function, r):
    """An operand is left out."""
    calls = _calls(function, lambda n: _called(n).startswith("nisa."))
    call, keyword = r.choice([(n, k) for n in calls for k in n.keywords])
    call.keywords.remove(keyword)


def no_cast(function, r):
    """A tensor has an integer type, which cannot hold the values."""
    calls = _calls(function, lambda n: _called(n) in ("nl.ndarray", "nl.zeros"))
    keyword = r.choice([k for n in calls for k in n.keywords if k.arg == "dtype"])
    keyword.value = ast.Attribute(ast.Name("nl", ast.Load()), "int8", ast.Load())


EDITS = [left_out, too_early, one_less, one_more, shifted, too_short, turned_round, other_memory, too_narrow,
         more_partitions, begun_anew, read_too_soon, written_later, one_place, other_operator, not_given, no_cast]


def kernels(tree):
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name not in _NOT_KERNELS]


def _module(text, path):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(text, path, name):
    """(outputs of all cases, warnings); the error of a case that does not run."""
    module = _module(text, path)
    made = module.cases(size=512) if name == "matmul" else module.cases()
    outputs = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for case in made:
            inputs = case.inputs(np.random.default_rng(0))
            target = "trn2" if "trn2" in case.targets else case.targets[0]
            found = nkisim.run(case.kernel, *inputs, target=target, grid=case.grid, timing=False,
                               rules={"unread": UNREAD}).outputs
            outputs += list(found) if isinstance(found, (list, tuple)) else [found]
    return outputs, {str(w.message).split(" at ")[0] for w in said}


def mistake(seed):
    """(example, class, edited source); None where the drawn class changes nothing of the drawn kernel."""
    r = random.Random(seed)
    name, edit = r.choice(NAMES), r.choice(EDITS)
    tree = ast.parse((EXAMPLES / f"{name}.py").read_text())
    edited = copy.deepcopy(tree)
    try:
        edit(r.choice(kernels(edited)), r)
    except IndexError:
        return None
    text = ast.unparse(ast.fix_missing_locations(edited))
    return (name, edit.__name__, text, tree) if text != ast.unparse(tree) else None


def classify(seed, clean, folder):
    """(class, "named", "silent" or "none", why) of a drawn mistake."""
    drawn = mistake(seed)
    if drawn is None:
        return None
    name, kind, text, tree = drawn
    if name not in clean:
        clean[name] = run(ast.unparse(tree), folder / f"clean_{name}.py", name)
    wanted, notes = clean[name]
    try:
        found, said = run(text, folder / f"seed_{seed}.py", name)
    except Exception as problem:
        known = isinstance(problem, nkisim.Error) or not isinstance(problem, (AssertionError, AttributeError))
        return name, kind, "named" if known else "silent", f"{type(problem).__name__}: {problem}".splitlines()[0]
    if said - notes:
        return name, kind, "named", sorted(said - notes)[0]
    equal = len(found) == len(wanted) and all(
        a.shape == b.shape and np.array_equal(np.asarray(a), np.asarray(b), equal_nan=a.dtype.kind == "f")
        for a, b in zip(found, wanted))
    return name, kind, "none" if equal else "silent", ""


def survey(first, count):
    """The judged mistakes of the seeds from `first` on, `count` of them with an effect; warnings of clean kernels."""
    clean, judged, seed = {}, {}, first
    sys.path.insert(0, str(EXAMPLES))
    with tempfile.TemporaryDirectory() as folder:
        while sum(j[2] != "none" for j in judged.values()) < count:
            found = classify(seed, clean, Path(folder))
            if found:
                judged[seed] = found
            seed += 1
    return judged, {name: notes for name, (_, notes) in clean.items() if notes}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--silent", action="store_true")
    parser.add_argument("--unread", action="store_true", help="name what nothing reads, too")
    options = parser.parse_args()
    globals()["UNREAD"] = options.unread
    os.environ["NKISIM_STRICT"] = "0"
    nkisim.install()
    judged, alarms = survey(options.seed, options.count)
    table = collections.defaultdict(collections.Counter)
    for seed, (name, kind, state, why) in judged.items():
        table[kind][state] += 1
        if state == "silent" and options.silent:
            print(f"seed {seed}: {kind} in {name} {why}")
    for kind, counts in sorted(table.items()):
        print(f"{kind:18} {counts['named']:4} named {counts['silent']:4} silent {counts['none']:4} without effect")
    total = sum(table.values(), collections.Counter())
    print(f"{total['named']} of {total['named'] + total['silent']} named; {total['none']} without effect; "
          f"clean kernels with a warning: {len(alarms)}")


if __name__ == "__main__":
    main()
