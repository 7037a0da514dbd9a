"""Makes `and` and `or` between masks of a neuronxcc.nki kernel combine them, as & and | do.

Python asks the left side for its truth, which a mask does not have. A kernel of AWS's tests writes
mask=(ix < n and iy < m) and means both. So a kernel is called with `a and b` replaced by a call that gets both
sides. No mask remembers another one.
"""

import ast

from ..values.errors import KernelTypeError, fail
from ..values.index import Mask
from .rewriting import Editor

#: The syntax of a side that may be a mask; `dtype or tile.dtype` stays Python's.
_SIDES = (ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Name, ast.Subscript, ast.Call)
#: Syntax that a function of its own would change; the right side is passed as such a function.
_BOUND = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)


def _join(name, first, rest):
    """The value of sides joined by `and` or `or`; `rest` are functions that compute theirs."""
    value = first
    for side in rest:
        if isinstance(value, Mask):
            other = side()
            joined = value.__and__(other) if name == "and" else value.__or__(other)
            if joined is NotImplemented:
                fail("mask", f"{name} joins {value!r} and {other!r}; comparisons on both sides are required",
                     kind=KernelTypeError)
            value = joined
        elif bool(value) == (name == "or"):
            return value
        else:
            value = side()
    return value


def _both(first, *rest):
    return _join("and", first, rest)


def _either(first, *rest):
    return _join("or", first, rest)


class MaskJoiner(Editor):
    """Makes calls of the `and` and `or` whose value is used; those that are a condition stay Python's."""

    names = {"_nkisim_both": _both, "_nkisim_either": _either}

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        parts = [part for value in node.values for part in ast.walk(value)]
        if not all(isinstance(v, _SIDES) for v in node.values) or any(isinstance(p, _BOUND) for p in parts):
            return node
        self.changed = True
        none = ast.arguments([], [], None, [], [], None, [])
        sides = [ast.copy_location(ast.Lambda(none, v), v) for v in node.values[1:]]
        name = "_nkisim_both" if isinstance(node.op, ast.And) else "_nkisim_either"
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), [node.values[0], *sides], []), node)

    def _condition(self, node):
        """A condition with what its own parts hold edited."""
        if isinstance(node, ast.BoolOp):
            node.values = [self._condition(v) for v in node.values]
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self._condition(node.operand)
        else:
            node = self.visit(node)
        return node

    def _tested(self, node):
        test, node.test = self._condition(node.test), ast.Constant(True)
        self.generic_visit(node)
        node.test = test
        return node

    visit_If = visit_While = visit_IfExp = visit_Assert = _tested

    def visit_UnaryOp(self, node):
        return self._condition(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_comprehension(self, node):
        tests, node.ifs = [self._condition(t) for t in node.ifs], []
        self.generic_visit(node)
        node.ifs = tests
        return node

    def visit_ClassDef(self, node):
        return node  # a function within would not see its names
