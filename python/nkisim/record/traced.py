"""Loops that end in `return`, of dialects whose compiler traced them.

neuronxcc.nki traced the body of an affine or sequential loop once, so that a return at its end, as in
two examples of AWS's documents, comes after all iterations (assumed: it closes the loop as it leaves
it). Here every iteration is recorded, and such a return must move behind its loop.
"""

import ast
import inspect
import textwrap
import types

from .recorder import state

_TRACED = {"affine_range", "sequential_range"}


class TracedRange:
    """A range whose iteration tells the recorder when it is left early."""

    __slots__ = ("range",)

    def __init__(self, values):
        self.range = values

    def __iter__(self):
        recorder = state.recorder
        for i in self.range:
            try:
                yield i
            except GeneratorExit:
                if recorder is not None and i != self.range[-1]:
                    recorder.loops.left_traced = True
                raise

    def __len__(self):
        return len(self.range)

    def __getitem__(self, at):
        return self.range[at]

    def __reversed__(self):
        return reversed(self.range)

    def __repr__(self):
        return repr(self.range)


class _Mover(ast.NodeTransformer):
    """Moves a return at the end of a traced loop's body behind the loop."""

    moved = False

    def visit_For(self, node):
        self.generic_visit(node)
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        name = getattr(called, "attr", getattr(called, "id", None))
        if name not in _TRACED or len(node.body) < 2 or not isinstance(node.body[-1], ast.Return):
            return node
        self.moved = True
        return [node, node.body.pop()]

    def _leave(self, node):
        return node

    visit_FunctionDef = visit_Lambda = visit_ClassDef = _leave


def with_loops_finished(function):
    """`function` with the returns of its traced loops behind them; None if it has none, or no source."""
    if not isinstance(function, types.FunctionType) or "__class__" in function.__code__.co_freevars:
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        return None
    kernel, mover = tree.body[0], _Mover()
    if not isinstance(kernel, ast.FunctionDef):
        return None
    kernel.decorator_list = []
    mover.generic_visit(kernel)
    if not mover.moved:
        return None
    return _compiled(function, kernel)


def _compiled(function, definition):
    """The function of a definition, with the other one's place, defaults and variables."""
    code = function.__code__
    outer = ast.parse(f"def outer({', '.join(code.co_freevars)}): pass")
    made_there = outer.body[0]
    assert isinstance(made_there, ast.FunctionDef)
    made_there.body = [definition]
    ast.increment_lineno(definition, code.co_firstlineno - 1)
    module = compile(ast.fix_missing_locations(outer), code.co_filename, "exec")
    made = module
    for _ in range(2):
        made = next(c for c in made.co_consts if isinstance(c, types.CodeType))
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    out = types.FunctionType(made, function.__globals__, function.__name__, function.__defaults__,
                             tuple(cells[name] for name in made.co_freevars))
    out.__kwdefaults__ = function.__kwdefaults__
    return out
