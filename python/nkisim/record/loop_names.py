"""Gives a loop's variables the values that neuronxcc.nki's compiler gave them, which went through
the body once.

neuronxcc.nki traced the body of an affine or sequential loop once. So `factor = factor * 2` in it happened once: every
iteration began with what `factor` was before the loop, and so does it here, where each iteration is recorded. A tile
that a body sets anew (`data = data + tile`) was a new tile there, unknown behind the loop: that is reported.
"""

import ast

from ..values.errors import hint
from ..values.index import Expr, Mask
from ..values.tensor import NkiTensor
from .refusals import first_note, report_refused
from .rewriting import Editor

TRACED = {"affine_range", "sequential_range"}
_COUNTING = {"enumerate", "zip", "list", "tuple", "sorted", "reversed", "sum", "max", "min", "iter"}
_COMPARED = (int, float, complex, str, bytes)
_FIXED = (*_COMPARED, type(None), Expr, Mask)  # and tuples of them, and NumPy's numbers


def is_traced(node):
    """True if a `for` is over a loop whose body was traced once."""
    return _calls_traced(node.iter)


def _calls_traced(node):
    called = node.func if isinstance(node, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", None)) in TRACED


class CarriedNames(ast.NodeVisitor):
    """The names that a body sets, and of these those that it may read before: from the iteration before it."""

    def __init__(self, body):
        self.set, self.plain = set(), set()  # plain: by = alone, which makes a new tile of a tile
        for node in (n for statement in body for n in ast.walk(statement)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.set.add(node.id)
            if isinstance(node, ast.Assign):
                self.plain |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        self.known, self.carried = set(), set()
        self._run(body)

    def _run(self, body, known=None):
        """The names that are known after a block."""
        outer = self.known
        self.known = set(outer) if known is None else known
        for statement in body:
            self.visit(statement)
        inner, self.known = self.known, outer
        return inner

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Store):
            self.known.add(node.id)
        elif node.id in self.set and node.id not in self.known:
            self.carried.add(node.id)

    def visit_Assign(self, node):
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_NamedExpr(self, node):
        self.visit(node.value)
        self.visit(node.target)

    def visit_AugAssign(self, node):
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self.visit_Name(ast.Name(node.target.id, ast.Load()))
        self.visit(node.target)

    def visit_For(self, node):
        self.visit(node.iter)
        known = set(self.known)
        self.known, outer = known, self.known
        self.visit(node.target)
        self.known = outer
        self._run(node.body, known)
        self._run(node.orelse)

    def visit_If(self, node):
        self.visit(node.test)
        self.known |= self._run(node.body) & self._run(node.orelse)

    def visit_While(self, node):
        self.visit(node.test)
        self._run(node.body)
        self._run(node.orelse)

    def visit_FunctionDef(self, node):
        self.known.add(node.name)


def values_before_loop(names, carried):
    """The values that names of `carried` hold before a loop: a number, or another value that cannot change."""
    return {name: names[name] for name in carried if name in names and (cannot_change(names[name]) or
                                                                       isinstance(names[name], NkiTensor))}


def cannot_change(value):
    """True of a number, or another value that cannot change."""
    return isinstance(value, _FIXED) or type(value).__module__ == "numpy" and not getattr(value, "ndim", 1) or (
        isinstance(value, tuple) and all(cannot_change(v) for v in value))


def same_value(held, now):
    """False if one of two values that cannot change is a number of another value than the other."""
    if type(now) is not type(held):
        return False
    if isinstance(held, tuple):
        return len(held) == len(now) and all(map(same_value, held, now))
    return not isinstance(held, _COMPARED) or now == held


def value_at_iteration(kept, name, now, plain):
    """The value of a name as an iteration begins, given what it held before the loop and holds now."""
    held = kept[name]
    if isinstance(held, NkiTensor):
        if plain and isinstance(now, NkiTensor) and now.st is not held.st:
            report_refused("tile_set_anew", name=name)
        return now
    if not same_value(held, now) and first_note(f"name {name}"):
        hint(f"{name} is {now!r} after an iteration; the legacy compiler traced the loop's body once, so that each "
             f"iteration begins with {held!r}, as here")
    return held


def report_counted(values, how):
    """The values of a traced loop that Python counts or collects: one trace has but one of them."""
    report_refused("state_of_a_loop", names=f"what {how} makes of it")
    return values


def report_advanced(iterator):
    """An iterator that the body of a traced loop advances."""
    report_refused("state_of_a_loop", names="an iterator (next)")
    return iterator


class LoopNames(Editor):
    """Lets each iteration of a traced loop begin with the numbers that were there before it."""

    names = {"_nkisim_before": values_before_loop, "_nkisim_again": value_at_iteration, "_nkisim_names": locals,
             "_nkisim_counted": report_counted, "_nkisim_advanced": report_advanced}

    def __init__(self):
        self.loops = 0

    def visit_For(self, node):
        self.generic_visit(node)
        names = CarriedNames(node.body) if is_traced(node) else None
        if names:
            self._advances(node, names.set)
        carried = sorted(names.carried) if names else []
        if not names or not carried:
            return node
        self.changed, self.loops = True, self.loops + 1
        kept = f"_nkisim_kept{self.loops}"
        source = [f"{kept} = _nkisim_before(_nkisim_names(), {tuple(carried)!r})"]
        source += [f"if {name!r} in {kept}: {name} = _nkisim_again({kept}, {name!r}, {name}, {name in names.plain})"
                   for name in carried]
        made = [ast.parse(text).body[0] for text in source]
        for statement in made:
            for part in ast.walk(statement):
                ast.copy_location(part, node)
        node.body[:0] = made[1:]
        return [made[0], node]

    def visit_Call(self, node):
        self.generic_visit(node)
        if getattr(node.func, "id", None) in _COUNTING:
            node.args = [self._wrapped("counted", a, ast.Constant(node.func.id)) if _calls_traced(a) else a
                         for a in node.args]
        return node

    def _comprehension(self, node):
        self.generic_visit(node)
        for part in node.generators:
            if _calls_traced(part.iter):
                part.iter = self._wrapped("counted", part.iter, ast.Constant("a comprehension"))
        return node

    visit_ListComp = visit_DictComp = visit_SetComp = visit_GeneratorExp = _comprehension

    def _wrapped(self, function, *arguments):
        self.changed = True
        called = ast.Name(f"_nkisim_{function}", ast.Load())
        return ast.copy_location(ast.Call(called, list(arguments), []), arguments[0])

    def _advances(self, node, own):
        """`next` of an iterator that the body did not make."""
        for part in (n for statement in node.body for n in ast.walk(statement)):
            if isinstance(part, ast.Call) and getattr(part.func, "id", None) == "next" and part.args and \
                    isinstance(part.args[0], ast.Name) and part.args[0].id not in own:
                part.args[0] = self._wrapped("advanced", part.args[0])

    def _leave(self, node):
        return node

    visit_Lambda = visit_ClassDef = _leave


def annotated(value, name, annotation):
    """The value of `name: annotation = value`, whose shape is compared with the annotation's."""
    try:
        shape = annotation()
    except Exception:  # Python evaluates no annotation of a local name
        return value
    shape = getattr(shape, "shape", None)
    if shape is not None and isinstance(value, NkiTensor) and (len(shape) != value.ndim or any(
            n not in (1, wanted) for n, wanted in zip(value.shape, shape))):  # a size of 1 is repeated
        report_refused("annotated_shape", name=name, shape=tuple(shape), found=tuple(value.shape))
    return value


class Annotations(Editor):
    """Compares the shapes of annotated tiles."""

    names = {"_nkisim_annotated": annotated}

    def visit_AnnAssign(self, node):
        named = isinstance(node.target, ast.Name) and isinstance(node.annotation, ast.Subscript)
        if node.value is None or not named:
            return node
        self.changed = True
        none = ast.arguments([], [], None, [], [], None, [])
        node.value = ast.copy_location(ast.Call(
            ast.Name("_nkisim_annotated", ast.Load()),
            [node.value, ast.Constant(node.target.id), ast.Lambda(none, node.annotation)], []), node.value)
        return node
