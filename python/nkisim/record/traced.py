"""Moves a `return` at the end of a neuronxcc.nki loop behind the loop, as that API's compiler in
effect does.

neuronxcc.nki traced the body of an affine or sequential loop once, so that a return at its end, as in
two examples of AWS's documents, comes after all iterations (assumed: it closes the loop as it leaves
it). Here every iteration is recorded, and such a return must move behind its loop.
"""

import ast
import linecache
import re
import sys
import types
import weakref

from ..values.errors import kernel_frame
from .joined import MaskJoiner
from .loop_names import TRACED, Annotations, LoopNames, is_traced
from .loop_state import LoopState
from .recorder import state
from .refusals import report_refused
from .rewriting import Editor, rewritten, text_of


_ADDS = re.compile(r"[-+*/%&|^@]=[^=]")


class Parallel:
    """The affine loops that are open in a recording, whose iterations may run in any order."""

    def __init__(self):
        self.loops = []  # of each (instructions before it, places of earlier iterations, places of this one)
        self.compared = set()  # (code, line) of the loops whose first iteration has been looked at
        self.reduced = None  # the storage of the last loop_reduce's result
        self.adding = {}  # lines of the kernel, by file and number: whether they have an operator like +=

    def _adds(self, file, line):
        adds = self.adding.get((file, line))
        if adds is None:
            adds = self.adding[file, line] = _ADDS.search(linecache.getline(file, line)) is not None
        return adds

    def wrote(self, dst, value):
        """A whole view is written: reported where an earlier iteration wrote that place, except += and loop_reduce."""
        if value is not None and value.st is self.reduced:
            return
        place = None
        for first, earlier, now in self.loops:
            if getattr(dst.st, "born", first + 1) <= first and not dst.dyn:
                if place is None:  # a loop keeps those of all its iterations: as a number of 64 bits
                    place = hash((dst.st.id, dst.part, dst.off, dst.shape, dst.strides))
                now.add(place)
                frame = kernel_frame() if place in earlier else None
                if frame is not None and not self._adds(frame.f_code.co_filename, frame.f_lineno):
                    report_refused("same_place_in_parallel", operand=dst)


class TracedRange:
    """A range that reports to the recorder when it is left early, an affine one also when the next iteration begins."""

    __slots__ = ("range", "parallel")

    def __init__(self, values, parallel=False):
        self.range, self.parallel = values, parallel

    def __iter__(self):
        recorder = state.recorder
        known = recorder.of(Parallel) if self.parallel and recorder is not None else Parallel()
        loops, outer = known.loops, recorder.loops.parallel if recorder is not None else None
        depth = len(loops)
        places: tuple[int, set, set] = (len(recorder.program) if recorder is not None else 0, set(), set())
        before = self._state(recorder, sys._getframe(1))
        for i in self.range:
            loops[depth:] = [places]
            if self.parallel and recorder is not None:
                recorder.loops.parallel = known
            try:
                yield i
            except GeneratorExit:
                if recorder is not None and i != self.range[-1]:
                    recorder.loops.left_traced = True
                self._end(recorder, loops, depth, outer)
                raise
            if before is not None:
                before.compare()
                before = None
            places[1].update(places[2])
            places[2].clear()
        self._end(recorder, loops, depth, outer)

    def _state(self, recorder, frame):
        """The values of the loop's function before it; None if the loop ran before in this recording."""
        if recorder is None or len(self.range) < 2:
            return None
        known, place = recorder.of(Parallel).compared, (frame.f_code, frame.f_lineno)
        if place in known:
            return None
        known.add(place)
        return LoopState(frame)

    @staticmethod
    def _end(recorder, loops, depth, outer):
        del loops[depth:]
        if recorder is not None:
            recorder.loops.parallel = outer

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
        if not is_traced(node) or len(node.body) < 2 or not isinstance(node.body[-1], ast.Return):
            return node
        self.changed = True
        return [node, node.body.pop()]

    def _leave(self, node):
        return node

    visit_FunctionDef = visit_Lambda = visit_ClassDef = _leave


#: By id: code of kernels whose source stays as it is.
_plain: weakref.WeakValueDictionary[int, types.CodeType] = weakref.WeakValueDictionary()


def as_traced(function):
    """`function` with its masks joined and the names of its loops as their one trace left them; itself if it has
    nothing of the kind, or no source."""
    code = getattr(function, "__code__", None)
    if code is None or _plain.get(id(code)) is code:
        return function
    text = text_of(code)  # an editor walks the whole tree: only those that may find something
    loops = any(name in text for name in TRACED)
    joins = " and " in text or " or " in text
    editors = [editor() for editor, needed in (
        (MaskJoiner, joins), (LoopNames, loops), (Annotations, "tensor[" in text)) if needed]
    edited = rewritten(function, *editors) if editors else None
    if edited is None:
        _plain[id(code)] = code
    return edited or function


def with_loops_finished(function):
    """The same with the returns of its traced loops behind them; None if it has no such loop, or no source."""
    mover = _Mover()
    finished = rewritten(function, mover, MaskJoiner(), LoopNames(), Annotations())
    return finished if mover.changed else None
