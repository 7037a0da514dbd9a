"""Loops that end in `return`, of dialects whose compiler traced them.

neuronxcc.nki traced the body of an affine or sequential loop once, so that a return at its end, as in
two examples of AWS's documents, comes after all iterations (assumed: it closes the loop as it leaves
it). Here every iteration is recorded, and such a return must move behind its loop.
"""

import ast

from .recorder import state
from .rewriting import Editor, rewritten

_TRACED = {"affine_range", "sequential_range"}


class TracedRange:
    """A range whose iteration reports to the recorder when it is left early."""

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


class _Mover(Editor):
    """Moves a return at the end of a traced loop's body behind the loop."""

    def visit_For(self, node):
        self.generic_visit(node)
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        name = getattr(called, "attr", getattr(called, "id", None))
        if name not in _TRACED or len(node.body) < 2 or not isinstance(node.body[-1], ast.Return):
            return node
        self.changed = True
        return [node, node.body.pop()]

    def _leave(self, node):
        return node

    visit_FunctionDef = visit_Lambda = visit_ClassDef = _leave


def with_loops_finished(function, *editors):
    """`function` with the returns of its traced loops behind them, and what the editors change; None if it
    has no such loop, or no source."""
    mover = _Mover()
    finished = rewritten(function, mover, *editors)
    return finished if mover.changed else None
