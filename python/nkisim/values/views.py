"""Makes views of a tensor: the same bytes under another shape, order, offset or dtype."""

from typing import Any

import numpy as np

from .dtypes import resolve
from .errors import KernelIndexError, KernelTypeError, KernelValueError, fail, fail_on, hint
from .geometry import infer_shape, rescale, reshape_strides
from .hooks import above
from .register import NkiScalar, VirtualRegister
from .storage import product, row_major


class Views:
    """The methods of NkiTensor that give views."""

    __slots__ = ()

    def _like(self, part, off, shape, strides, dyn=None):
        made = type(self)(self.st, part, off, shape, strides, self.dtype, dyn or self.dyn)
        return made if self.dyn is None else as_selected(self, made)

    def permute(self, dims):
        dims = tuple(dims)
        if sorted(dims) != list(range(self.ndim)):
            fail_on("view_shape", "dims", dims, f"a permutation of 0..{self.ndim - 1}", "permute",
                    KernelValueError)
        if self.st.on_chip and dims[0] != 0:
            fail("view_partitions",
                 f"dims is {dims}; dimension 0 of an on-chip tensor (partitions) must stay first",
                 "permute", KernelValueError)
        return self._like(self.part, self.off, tuple(self.shape[d] for d in dims),
                          tuple(self.strides[d] for d in dims))

    def broadcast(self, dim, size):
        dim, size = self._dim(dim, "broadcast"), plain_int(size, "size")
        if self.shape[dim] != 1:
            fail("view_shape",
                 f"dimension {dim} of {self!r} has size {self.shape[dim]}; 1 is required",
                 "broadcast", KernelValueError)
        if self.st.on_chip and dim == 0 and size != 1:
            fail_on("view_partitions", "dim", "0, the partition dimension", "a free dimension",
                    "broadcast", KernelValueError)
        return self._like(self.part, self.off, self.shape[:dim] + (size,) + self.shape[dim + 1:],
                          self.strides[:dim] + (0,) + self.strides[dim + 1:])

    def expand_dim(self, dim):
        dim = plain_int(dim, "dim")
        if not -self.ndim - 1 <= dim <= self.ndim:
            fail("view_shape",
                 f"dimension {dim} of {self!r}; 0 to {self.ndim} is required", "expand_dim",
                 KernelIndexError)
        if dim < 0:
            dim += self.ndim + 1
        if self.st.on_chip and dim == 0:
            fail_on("view_partitions", "dim", "0, the partition dimension", "a free dimension",
                    "expand_dim", KernelValueError)
        stride = self.strides[dim] * self.shape[dim] if dim < self.ndim else 1
        return self._like(self.part, self.off, self.shape[:dim] + (1,) + self.shape[dim:],
                          self.strides[:dim] + (stride,) + self.strides[dim:])

    def expand_dims(self, axis):
        return self.expand_dim(axis)

    def squeeze_dim(self, dim):
        dim = self._dim(dim, "squeeze_dim")
        if self.shape[dim] != 1:
            fail("view_shape",
                 f"dimension {dim} of {self!r} has size {self.shape[dim]}; 1 is required",
                 "squeeze_dim", KernelValueError)
        return self._like(self.part, self.off, self.shape[:dim] + self.shape[dim + 1:],
                          self.strides[:dim] + self.strides[dim + 1:])

    def reshape_dim(self, dim, shape):
        dim = self._dim(dim, "reshape_dim")
        shape = infer_shape(tuple(shape), self.shape[dim], self)
        if self.st.on_chip and dim == 0 and len(shape) > 1:
            fail("view_partitions",
                 "dim is 0, the partition dimension; it cannot be split", "reshape_dim",
                 KernelValueError)
        inner = row_major(shape)
        return self._like(self.part, self.off, self.shape[:dim] + shape + self.shape[dim + 1:],
                          self.strides[:dim] + tuple(s * self.strides[dim] for s in inner) +
                          self.strides[dim + 1:])

    def flatten_dims(self, start_dim, end_dim):
        start, end = self._dim(start_dim, "flatten_dims"), self._dim(end_dim, "flatten_dims")
        shape = self.shape[:start] + (product(self.shape[start:end + 1]),) + self.shape[end + 1:]
        return self.reshape(shape)

    def reshape(self, *dims, shape=None, new_shape=None, order=None):
        shape = dims or shape or new_shape
        if order not in (None, "C"):
            fail_on("view_argument", "order", repr(order), "C (row-major)", "reshape",
                    KernelValueError)
        if shape is None:
            fail("argument_missing", "shape is missing; reshape(shape) is required", "reshape", KernelTypeError)
        if isinstance(shape, int):
            shape = (shape,)
        if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)):
            shape = tuple(shape[0])
        shape = tuple(s if type(s) is int else plain_int(s, "a size of shape") for s in shape)
        if -1 in shape:
            above.inferred(self)
        shape = infer_shape(shape, self.size, self)
        if self.st.on_chip and (not shape or shape[0] != self.shape[0]):
            fail("view_partitions",
                 f"shape {shape} changes the partition dimension of {self!r}; {self.shape[0]} is "
                 "required first", "reshape", KernelValueError)
        strides = reshape_strides(self.shape, self.strides, shape)
        if strides is None:
            fail("view_shape",
                 f"{self!r} with strides {self.strides} cannot be seen as {shape} without copying",
                 "reshape", KernelValueError)
        if self.st.on_chip and len(shape) == 1:
            shape, strides = shape + (1,), strides + (1,)
        return self._like(self.part, self.off, shape, strides)

    def rearrange(self, src_pattern, dst_pattern, fixed_sizes=None):
        source, target = _groups(src_pattern), _groups(dst_pattern)
        if len(source) != self.ndim:
            fail("view_shape",
                 f"src_pattern has {len(source)} dimensions; {self.ndim} are required", "rearrange",
                 KernelValueError)
        view = self._split_groups(source, dict(fixed_sizes or {}))
        flat, order = sum(source, ()), sum(target, ())
        if sorted(order) != sorted(flat):
            fail("view_shape",
                 f"dst_pattern names {list(order)}; {list(flat)} are required", "rearrange",
                 KernelValueError)
        view = view.permute(flat.index(x) for x in order)
        for d, group in enumerate(target):
            if not group:
                view = view.expand_dim(d)
            elif len(group) > 1:
                view = view.flatten_dims(d, d + len(group) - 1)
        return view

    def _split_groups(self, groups, sizes):
        """Each dimension as those its group names, of which one may be without a size."""
        view, d = self, 0
        for group, n in zip(groups, self.shape):
            known = product(sizes[x] for x in group if x in sizes)
            unknown = [x for x in group if x not in sizes]
            if len(unknown) > 1 or n % max(known, 1) or (not unknown and known != n):
                fail("view_shape",
                     f"sizes of {group} do not follow from {n} and {sizes}", "rearrange",
                     KernelValueError)
            for x in unknown:
                sizes[x] = n // known
            if len(group) != 1:
                view = view.reshape_dim(d, tuple(sizes[x] for x in group))
            d += len(group)
        return view

    def slice(self, dim, start, end, step=1):
        dim = self._dim(dim, "slice")
        key = (slice(None),) * dim + (slice(start, end, None if step == 1 else step),)
        return self[key]

    def select(self, dim, index) -> Any:
        dim = self._dim(dim, "select")
        if isinstance(index, (VirtualRegister, Views)):
            if self.st.on_chip and dim == 0:
                fail("partition_index",
                     "dim is 0, the partition dimension; a dynamic index needs a free dimension",
                     "select", KernelValueError)
            entry = dynamic_entry(self, index, self.strides[dim], self.shape[dim])
            return self._like(self.part, self.off, self.shape[:dim] + self.shape[dim + 1:],
                              self.strides[:dim] + self.strides[dim + 1:],
                              (self.dyn or ()) + (entry,))
        return self[(slice(None),) * dim + (plain_int(index, "index"),)]

    def vector_select(self, dim, vector_offset):
        offsets_tensor(vector_offset, "vector_offset", "vector_select")
        if dim != 0 or self.st.on_chip:
            fail("operand_memory",
                 "vector_select needs dim 0 of a tensor in HBM", "vector_select", KernelValueError)
        if self.dtype is not self.st.dtype:
            above.refused("selection_of_cast", operand=self)
        entry = ("vector", vector_offset, self.strides[0], self.shape[0], 0)
        return self._like(self.part, self.off, (vector_offset.size,) + self.shape[1:],
                          (0,) + self.strides[1:], (self.dyn or ()) + (entry,))

    def ap(self, pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0,
           dtype=None):
        old = self.dtype
        new = old if dtype is None else resolve(dtype)
        size = new.itemsize
        shape = tuple(plain_int(n, "a count of pattern") for _, n in pattern)
        strides = tuple(plain_int(s, "a step of pattern") for s, _ in pattern)
        part, off = self.part, self.off
        extra = 0 if offset is None else plain_int(offset, "offset")
        if self.st.on_chip:
            if not shape:
                fail_on("view_shape", "pattern", "empty", "[[stride, count], ...]", "ap")
            pitch = self.st.pitch_bytes // size
            row = self._row_stride(shape[0], strides[0], pitch, size)
            part += extra // row
            off += (extra % row) * size
            strides = (pitch,) + strides[1:]
            if len(shape) == 1:
                shape, strides = shape + (1,), strides + (1,)
        else:
            off += extra * size
        entry = None
        if scalar_offset is not None and vector_offset is not None:
            fail_on("view_offset", "scalar_offset", "given together with vector_offset", "one of them (documented)",
                    "ap", KernelValueError)
        if self.dyn is not None:
            fail_on("view_offset", repr(self), "at a run-time offset, which ap drops: it is over the tensor's storage "
                    "(documented)", "ap of the tensor itself", "ap", KernelValueError)
        if scalar_offset is not None or vector_offset is not None:
            step = self.strides[indirect_dim] * old.itemsize // size
            limit = self.shape[indirect_dim]
            if vector_offset is not None:
                offsets_tensor(vector_offset, "vector_offset", "ap")
                entry = ("vector", vector_offset, step, limit, 0)
                if shape[0] > 1 and strides[0] != step:
                    hint(f"ap: the pattern's step of the indirect dimension, {strides[0]}, counts for nothing, as "
                         f"documented: the offsets count rows of {self!r}, which are {step} elements; write that")
                strides = (0,) + strides[1:]
            else:
                entry = dynamic_entry(self, scalar_offset, step, 0)
        return type(self)(self.st, part, off, shape, strides, new,
                         None if entry is None else (entry,))

    def _row_stride(self, rows, stride, pitch, size):
        """The elements that a pattern on chip counts as one partition: all the tensor's elements there, or of a part of
        a tensor its own (nki-library's TensorView works the strides off from the shape)."""
        own = product(self.shape[1:]) * self.dtype.itemsize // size
        if stride and stride in (pitch, own):
            return stride
        if rows > 1:
            either = f"{pitch}" if own == pitch else f"{pitch} or, of this part of it, {own}"
            fail("view_partitions",
                 f"pattern starts with stride {stride}; {either} (elements per partition) is "
                 "required on chip", "ap", KernelValueError)
        return pitch

    def view(self, dtype=None, shape=None):
        if dtype is None:
            return self if shape is None else self.reshape(shape)
        new, old = resolve(dtype), self.dtype
        if new.itemsize == old.itemsize:
            shape_, strides = self.shape, self.strides
        else:
            shape_, strides = rescale(self, new.itemsize)
        dyn = self.dyn
        if dyn is not None and new is not old and any(kind == "vector" for kind, *_ in dyn):
            above.refused("selection_of_cast", operand=self)
        if dyn is not None and new.itemsize != old.itemsize:
            dyn = tuple((k, i, s * old.itemsize // new.itemsize, n, g) for k, i, s, n, g in dyn)
        out = type(self)(self.st, self.part, self.off, shape_, strides, new, dyn)
        return out if shape is None else out.reshape(shape)

    reinterpret_cast = view

    def indirect(self, index, num_elem=None):
        if not self.st.on_chip:
            fail_on("operand_memory", repr(self), "in HBM", "SBUF or PSUM", "indirect",
                    KernelValueError)
        offsets_tensor(index, "index", "indirect")
        n = index.size if num_elem is None else int(num_elem)
        entry = ("indirect", index, 1, product(self.shape[1:]), 0)
        return self._like(self.part, self.off, (self.shape[0], n), (self.strides[0], 1),
                          (self.dyn or ()) + (entry,))

    @property
    def data(self):
        """The tensor itself, as a grid's `data` is one (AWS's examples of grids ask tensors for it)."""
        return self

    @property
    def pattern(self):
        """The access pattern: [stride, count] of each dimension, in elements."""
        return self.get_pattern()

    def as_tile(self):
        """The view itself, which every call takes as a tile (undocumented; legacy kernels say it)."""
        return self

    def broadcast_to(self, *shape):
        if len(shape) == 1 and not isinstance(shape[0], int):
            shape = tuple(shape[0])
        return above.broadcast_to(self, shape)

    def astype(self, dtype):
        return above.copy(self, dtype=dtype)

    def transpose(self, *axes):
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = tuple(axes[0])
        if not axes:
            return above.transpose(self)
        return self.permute(axes)

    def _dim(self, dim, what):
        n, dim = self.ndim, plain_int(dim, "dim")
        if dim < -n or dim >= n:
            fail("view_shape",
                 f"dimension {dim} of {self!r}; 0 to {n - 1} is required", what, KernelIndexError)
        return dim + n if dim < 0 else dim


def as_selected(view, made):
    """`made`, a view of `view`; an error where it cuts or moves a dimension that an index tensor selects."""
    for kind, index, *_ in view.dyn:
        if kind == "vector":
            kept = made.shape[:1] == view.shape[:1] and (made.strides[0] == 0 or made.shape[0] == 1)
        else:
            kept = kind != "indirect" or (
                (made.part, made.off, made.shape[0]) == (view.part, view.off, view.shape[0]) and
                product(made.shape) == product(view.shape) and made.is_contiguous())
        if not kept:
            fail_on("view_offset", repr(view), "selected by an index tensor, whose dimension a view of it cuts or "
                    "moves (documented)", "a view of the index tensor, such as index[a:b],", kind=KernelIndexError)
    return made


def _groups(pattern):
    """A pattern of rearrange as one tuple of names per dimension."""
    return [(g,) if isinstance(g, str) else tuple(g) for g in pattern]


def offsets_tensor(value, operand, call):
    """Fails unless `value` can hold the offsets of a view: the program reads it as a tensor unchecked."""
    if not isinstance(value, Views):
        fail_on("view_offset", operand, type(value).__name__, "a tensor in SBUF", call, KernelTypeError)


def dynamic_entry(view, index, stride, limit):
    """The dyn tuple for a register or a one-element tensor."""
    if isinstance(index, NkiScalar):
        index.usable("an offset")
        if view.st.on_chip and index.dtype == "int64":
            fail_on("view_offset", "an offset on chip", "a scalar of int64", "one of int32 (int64 reaches into "
                    "HBM alone, documented)", kind=KernelTypeError)
    if isinstance(index, VirtualRegister):
        return ("register", index.id, stride, limit, 0)
    if not isinstance(index, Views):
        fail_on("view_offset", "a dynamic offset", type(index).__name__,
                "a register or a one-element tensor", kind=KernelTypeError)
    if index.size != 1:
        fail_on("view_offset", "a scalar offset", repr(index), "one element", kind=KernelValueError)
    if index.dtype.is_float:
        fail_on("view_offset", "a dynamic offset", repr(index), "a tile of int32 or uint32, such as "
                "nl.copy(tile, dtype=nl.int32),", kind=KernelTypeError)
    return ("scalar", index, stride, limit, 0)


def plain_int(value, what):
    """The value as an int; an error that names it `what` if it is none."""
    if isinstance(value, (float, np.floating)):
        fail_on("number_required", what, f"the float {value}", "an integer", kind=KernelTypeError)
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        fail_on("view_offset", what, type(value).__name__,
                "an integer, slice, nl.ds, register or index tile", kind=KernelTypeError)
