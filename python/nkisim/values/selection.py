"""Resolves subscripts by integers, slices, nl.ds, registers, None and Ellipsis, and reports wrong ones.

NkiTensor.__getitem__ works plain ones off by itself; all others come here, and from here those
with index tiles or index tensors go on to subscripts.py.
"""

import numpy as np

from .errors import KernelIndexError, KernelTypeError, KernelValueError, fail
from .index import Expr, Mask, MGrid, box_of
from .register import VirtualRegister
from .slices import ds
from .subscripts import apply_mask, subscript
from .views import Views, as_selected, dynamic_entry, plain_int


class _Selection:
    """The view that the entries of a key have selected so far, dimension by dimension."""

    def __init__(self, source):
        self.source = source
        self.d = 0                 # the source's next dimension
        self.part, self.off = source.part, 0
        self.shape, self.strides = [], []
        self.dyn = []
        self.scalars = []          # dimensions of the result that a register selects
        self.empty = None          # why the view has no elements, if it has none

    def new_axis(self):
        self.shape.append(1)
        self.strides.append(0)

    def whole(self, count):
        """Takes the next `count` dimensions as they are."""
        end = self.d + count
        self.shape += self.source.shape[self.d:end]
        self.strides += self.source.strides[self.d:end]
        self.d = end

    def narrow(self, start, count, step=1, keep=True):
        """Takes every `step`-th of the next dimension; an integer does not keep the dimension."""
        stride = self.source.strides[self.d]
        on_partitions = self.source.st.on_chip and self.d == 0
        if on_partitions:
            self.part += start
        else:
            self.off += start * stride
        if keep or on_partitions:
            self.shape.append(count)
            self.strides.append(stride * step)
        self.d += 1

    def dynamic(self, start, size):
        """Takes `size` of the next dimension from a register or one-element tensor on."""
        source, d = self.source, self.d
        if source.st.on_chip and d == 0:
            fail("partition_index",
                 "nl.ds of a register on the partition dimension; a free dimension is required",
                 kind=KernelValueError)
        limit = source.shape[d] - size + 1
        self.dyn.append(dynamic_entry(source, start, source.strides[d], limit))

    def view(self):
        source = self.source
        self.whole(source.ndim - self.d)
        least = 2 if source.st.on_chip else 1
        fill = (1,) * (least - len(self.shape))
        dyn = (source.dyn or ()) + tuple(self.dyn)
        view = type(source)(source.st, self.part, source.off + self.off * source.dtype.itemsize,
                            tuple(self.shape) + fill, tuple(self.strides) + fill, source.dtype,
                            dyn or None)
        if source.dyn is not None:
            as_selected(source, view)
        for at in reversed(self.scalars):
            view = view.squeeze_dim(at)
        if self.empty is not None:
            view._ref = Empty(self.empty)
        return view


def select(view, key):
    """view[key] as a view, of a key that is a tuple."""
    if any(isinstance(k, (Mask, bool, np.bool_)) for k in key):
        return _masked(view, key)
    found = _Selection(view)
    for k in key:
        if k is None:
            found.new_axis()
        elif k is Ellipsis:
            found.whole(view.ndim - (sum(1 for x in key if x is not None) - 1))
        elif found.d >= view.ndim:
            fail("slice_out_of_bounds",
                 f"{len(key)} indices for {view!r}; at most {view.ndim} are possible",
                 kind=KernelIndexError)
        elif isinstance(k, (slice, ds)):
            start, stop, step = _bounds(found, k)
            count = (stop - start + step - 1) // step
            if count < 1 and 0 <= start <= view.shape[found.d]:
                found.empty = _why(view, found.d, start, stop, step, "is empty")
                found.narrow(0, 0, step)
                continue
            if start < 0 or stop > view.shape[found.d] or count < 1:
                return _outside(view, key, found.d, start, stop, step)
            found.narrow(start, count, step)
        elif any(isinstance(x, (Expr, MGrid, Views)) for x in key):
            return subscript(view, key)
        elif isinstance(k, VirtualRegister):
            found.dynamic(k, 1)
            found.scalars.append(len(found.shape))
            found.narrow(0, 1)
        else:
            found.narrow(_index(view, found.d, k), 1, keep=False)
    return found.view()


def _masked(view, key):
    """The part of a tile where a mask holds: tile[i < n], as the operands of an instruction are masked. A comparison of
    a loop index, which is True or False in each iteration, is a mask of all of the tile or of none."""
    if len(key) != 1:
        fail("mask", "a mask stands next to other indices; a mask alone, tile[i < n], cuts the tile",
             kind=KernelTypeError)
    if not view.st.recorder.dialect.masks:
        fail("mask", "a tensor is subscripted by a mask, which neuronxcc.nki has alone; a slice, tile[0:n], "
             "is required", kind=KernelTypeError)
    box = box_of(key[0], view.shape)
    if box is None:
        fail("mask", f"the mask leaves nothing of {view!r}", kind=KernelIndexError)
    return apply_mask(view, box, view.shape)


def _bounds(found, k):
    """(start, stop, step) of a slice or nl.ds of the next dimension."""
    if isinstance(k, ds):
        size = plain_int(k.size, "the size of nl.ds")
        if isinstance(k.start, (VirtualRegister, Views)):
            found.dynamic(k.start, size)
            return 0, size, 1
        start = plain_int(k.start, "the start of nl.ds")
        return start, start + size, 1
    if isinstance(k.start, VirtualRegister) or isinstance(k.stop, VirtualRegister):
        fail("values_while_recording",
             "a slice bound is a register; use nl.ds(register, size)", kind=KernelTypeError)
    n = found.source.shape[found.d]
    step = 1 if k.step is None else plain_int(k.step, "a slice step")
    start = 0 if k.start is None else plain_int(k.start, "a slice start")
    stop = n if k.stop is None else plain_int(k.stop, "a slice stop")
    if step < 1:
        fail("slice_out_of_bounds", f"slice step {step}; at least 1 is required", kind=KernelIndexError)
    return start + (n if start < 0 else 0), stop + (n if stop < 0 else 0), step


class Empty:
    """Stands in the operand slot of an empty selection, which nothing may use but its shape."""

    __slots__ = ("message",)

    def __init__(self, message):
        self.message = message

    def complain(self):
        fail("slice_out_of_bounds", self.message, kind=KernelIndexError)


def _outside(view, key, d, start, stop, step):
    """A mask may still cut what reaches beyond the tensor; anything else is an error."""
    if view.st.recorder.dialect.masks and 0 <= start < stop:
        return subscript(view, key)
    why = "is empty" if stop <= start else "is out of bounds"
    fail("slice_out_of_bounds", _why(view, d, start, stop, step, why), kind=KernelIndexError)


def _why(view, d, start, stop, step, why):
    return (f"slice {start}:{stop}{'' if step == 1 else ':%d' % step} of dimension {d} {why}; "
            f"{view!r} has {view.shape[d]} there")


def _index(view, d, k):
    """The integer k as an index of dimension d."""
    n, k = view.shape[d], plain_int(k, "an index")
    k += n if k < 0 else 0
    if k < 0 or k >= n:
        fail("slice_out_of_bounds",
             f"index {k} of dimension {d} is out of bounds; {view!r} has {n} there",
             kind=KernelIndexError)
    return k
