"""Tracks tiles that keep no memory of their own, because the kernel stored their values in another
tensor.
"""

from __future__ import annotations

import weakref

from ..values.storage import row_major
from ..values.subscripts import OutOfBounds
from ..values.tensor import NkiTensor
from .operations import WRITES


class BorrowedTiles:
    """The tiles of a recording that are at home in another tensor.

    A view of such a tile stays a view of the tile: which bytes it shows is asked when an instruction
    takes it, so that what changes the other tensor in the meantime cannot change the tile. Before
    either is written, the tile moves to memory of its own. Methods take the recorder, which holds this.
    """

    __slots__ = ("tiles",)

    def __init__(self):
        self.tiles = []  # weak references to storages whose `borrowed` is a view of another's

    def borrow(self, st, place):
        """The values of `st`, which has no memory, are at `place`, a view of its shape and dtype."""
        st.borrowed = place
        rows = place.st.masked
        st.masked = rows and (rows[0] - place.part, rows[1] - place.part)
        self.tiles.append(weakref.ref(st))

    def operands(self, recorder, op, args):
        """The arguments of an instruction, where their values are; tiles that it writes, or that are
        where it writes, move first."""
        written = [v.st for a, writes in zip(args, WRITES[op]) if writes for v in _views(a)]
        kept, self.tiles = self.tiles, []
        moving = []
        for reference in kept:
            st = reference()
            if st is None or st.borrowed is None:
                continue
            if st in written or st.borrowed.st in written:
                moving.append(st)
            else:
                self.tiles.append(reference)
        for st in moving:
            _move(recorder, st)
        return tuple([self._where(recorder, a) for a in args]) if self.tiles else args

    def _where(self, recorder, argument):
        if isinstance(argument, (list, tuple)):
            return type(argument)([self._where(recorder, a) for a in argument])
        return self.shown(recorder, argument) if isinstance(argument, NkiTensor) else argument

    def shown(self, recorder, view):
        """`view` as one of memory that the program has."""
        for entry in view.dyn or ():
            if isinstance(entry[1], NkiTensor) and entry[1].st.borrowed is not None:
                _move(recorder, entry[1].st)
        found = view_of_holder(view)
        if found.st.borrowed is not None:
            _move(recorder, view.st)
        return found


def _views(argument):
    """The tensors in an argument."""
    if isinstance(argument, NkiTensor):
        return (argument,)
    return [a for a in argument if isinstance(a, NkiTensor)] if isinstance(argument, (list, tuple)) else ()


def whole_view(st):
    """The view of all of a storage on chip."""
    if len(st.shape) == 1:
        return NkiTensor(st, 0, 0, st.shape + (1,), (1, 1), st.dtype)
    return NkiTensor(st, 0, 0, st.shape, row_major(st.shape), st.dtype)


def _move(recorder, st):
    """Gives a tile memory of its own, with its values."""
    place, st.borrowed = st.borrowed, None
    recorder.place(st)
    recorder.call("tensor_copy", dst=whole_view(st), src=place)


def view_of_holder(view):
    """A view of a borrowed tile, as a view of the tensor that holds it; itself if none does."""
    st, place = view.st, view.st.borrowed
    if place is None or view.dyn is not None or view.dtype is not st.dtype:
        return view
    full = whole_view(st)
    if view.shape == full.shape and view.strides == full.strides and not view.part and not view.off:
        return place
    if view.shape[0] > 1 and view.strides[0] != full.strides[0]:
        return view
    size = st.dtype.itemsize
    found = _along(_runs(full, place), view.off // size, view.shape[1:], view.strides[1:])
    if found is None:
        return view
    offset, strides = found
    out = NkiTensor(place.st, place.part + view.part, place.off + offset * size, view.shape,
                    (place.strides[0], *strides), st.dtype)
    out._ref = view._ref if isinstance(view._ref, OutOfBounds) else None
    return out


def _runs(full, place):
    """(size, stride in the tile, stride in the place) of free dimensions, outermost first; those that
    are one run in both are one."""
    runs: list[tuple[int, int, int]] = []
    for n, own, other in zip(full.shape[1:], full.strides[1:], place.strides[1:]):
        if n == 1:
            continue
        if runs and runs[-1][2] == other * n:
            runs[-1] = (runs[-1][0] * n, own, other)
        else:
            runs.append((n, own, other))
    return runs


def _along(runs, offset, shape, strides):
    """(offset, strides) in the place, in elements, of a pattern in the tile; None if it leaves a run."""
    spare, moved = [], 0
    for n, own, other in runs:
        at = offset // own
        if at >= n:
            return None
        offset -= at * own
        moved += at * other
        spare.append(n - 1 - at)
    if offset:
        return None
    out = []
    for n, stride in zip(shape, strides):
        if n == 1 or stride == 0:
            out.append(0 if stride == 0 else 1)
            continue
        for k, (_, own, other) in enumerate(runs):
            if 0 < own <= stride and stride % own == 0:
                break
        else:
            return None
        spare[k] -= stride // own * (n - 1)
        if spare[k] < 0:
            return None
        out.append(stride // own * other)
    return moved, out
