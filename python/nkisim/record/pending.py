"""Delays an instruction until it is known which memory its result goes to, as in `dst[...] =
nl.exp(x)`.
"""

from __future__ import annotations

import sys
import weakref
from array import array
from typing import TYPE_CHECKING, Any

from ..values.errors import Error
from ..values.storage import PSUM, SBUF, psum, sbuf
from .borrowed import BorrowedTiles, whole_view
from .misuse import as_error
from .naming import assigned_name

if TYPE_CHECKING:
    from ..values.tensor import NkiTensor


class Pending:
    """An instruction whose result tile has no place yet: an assignment may give it one.

    Once one has (`target`, at `stored`), `tensor` is only a weak reference to its storage: the
    instruction writes the target itself unless the kernel still has the tile, or a view of it.
    """

    __slots__ = ("tensor", "emit", "location", "spaces", "kind", "target", "stored", "region")
    tensor: Any  # an NkiTensor, then the reference

    def __init__(self, tensor, emit, location, spaces, kind, region):
        self.tensor, self.emit, self.location, self.region = tensor, emit, location, region
        self.spaces, self.kind = spaces, kind
        self.target: NkiTensor | None = None
        self.stored: tuple[str, int] | None = None


def _references():
    """The number of references that Python counts of an object in a slot and one local name."""
    holder = [object()]
    held = holder[0]
    return sys.getrefcount(held)


_UNHELD = _references()  # to a tile that nothing but the pending instruction has


class HeldInstruction:
    """The instruction that a recorder holds back, if any, and the tiles that others hold for now.

    Methods take the recorder, which holds this: a reference back would keep a program's memory.
    """

    __slots__ = ("pending", "adding", "borrowed", "made", "shown", "lost")

    def __init__(self):
        self.made = array("I")  # the tensors that functions gave for results that were not assigned to a place
        self.shown: set[int] = set()  # the tensors whose values Python has seen
        self.lost: set[tuple[str, int]] = set()  # the places of calls whose results the kernel did not keep
        self.pending: Pending | None = None
        self.adding = False  # the pending instruction adds to its place in PSUM
        self.borrowed = BorrowedTiles()

    def result(self, recorder, shape, dtype, emit, space=SBUF, spaces=(SBUF, PSUM), kind=""):
        """A tile that the instruction made by emit(dst) will fill; see Pending."""
        if self.pending is not None:
            self.flush(recorder)
        tensor = recorder.unplaced(shape, dtype, psum if space == PSUM else sbuf, assigned_name())
        if kind == "compare":
            tensor.st.compared = True
        self.pending = Pending(tensor, emit, recorder.program.location(), spaces, kind,
                               recorder.region)
        return tensor

    def flush(self, recorder):
        """Gives the pending instruction a tile of its own."""
        pending = self.pending
        if pending is None:
            return
        self.pending = None
        tensor, target = pending.tensor, pending.target
        if target is None:
            of_made = not recorder.dialect.neuronxcc and pending.kind != "load"  # found at the end, by its reads
            if not of_made and pending.kind != "reduces" and sys.getrefcount(tensor) == _UNHELD and (
                    sys.getrefcount(tensor.st) == _UNHELD - 1):
                self.lost.add(pending.location)
            self._place_at(recorder, pending, tensor, True)
            return
        st = tensor()
        if st is None:
            self._place_at(recorder, pending, target, False)
        elif recorder.dialect.shares_places and st.dtype is target.dtype and st.space == target.st.space:
            # Its compiler had no copy here: the tile is where it was stored, until that changes.
            self._place_at(recorder, pending, target, False)
            self.borrowed.borrow(st, target)
        else:
            tensor = whole_view(st)
            self._place_at(recorder, pending, tensor, True)
            assert pending.stored is not None  # as there is a target
            recorder.program.at(pending.stored)
            recorder.call("tensor_copy", dst=target, src=tensor)
            recorder.program.at(None)

    def retarget(self, recorder, dst, adds=False):
        """Lets the pending instruction write `dst` instead, or add to it."""
        pending = self.pending
        assert pending is not None  # whose result is assigned
        if not adds:
            pending.target, pending.stored = dst, recorder.program.location()
            pending.tensor = weakref.ref(pending.tensor.st)
            return
        self.pending, self.adding = None, True
        try:
            self._place_at(recorder, pending, dst, False)
        finally:
            self.adding = False

    def _place_at(self, recorder, pending, dst, allocate):
        program = recorder.program
        program.at(pending.location)
        region = recorder.region
        if pending.region != region:
            recorder.enter_region(pending.region)
        try:
            if allocate:
                recorder.place(dst.st)
                if pending.kind != "load":  # loads have rules of their own
                    self.made.append(dst.st.id)
            pending.emit(dst)
            if self.pending is not None:
                self.flush(recorder)
        except Error as problem:  # at the line of the call that was held back
            problem.at(*pending.location)
            raise
        except Exception as problem:
            raise (as_error(problem, pending.location, pending.emit) or problem) from None
        finally:
            if recorder.region != region:
                recorder.enter_region(region)
            program.at(None)
