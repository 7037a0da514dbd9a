"""Tensors as kernels see them: views (partition, byte offset, shape, strides) of a storage.

Strides are in elements of the view's dtype. On chip, dimension 0 is the partition dimension and
its stride is the storage's bytes per partition, so that .ap() patterns read as the documents
write them. The extension module reads the slots named below when it turns a view into an operand.
"""

from __future__ import annotations

from typing import Any

from .errors import KernelTypeError, KernelValueError, fail, fail_on, hint, is_strict, strict
from .hooks import above
from .operators import Operators
from .selection import select
from .slices import ds
from .storage import product, row_major
from .views import Views


class NkiTensor(Views, Operators):
    """A view of SBUF, PSUM or HBM."""

    __slots__ = ("st", "part", "off", "shape", "strides", "dtype", "dyn", "_ref", "_exact",
                 "__weakref__")

    def __init__(self, st, part, off, shape, strides, dtype, dyn=None):
        self.st = st
        self.part = part          # partitions from the storage's first
        self.off = off            # bytes from the start of a partition (HBM: of the tensor)
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.dyn = dyn            # ((kind, register or index view, stride, limit, group), ...)
        self._ref = None
        self._exact = None

    # ---- facts -------------------------------------------------------------------------------
    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return product(self.shape)

    @property
    def buffer(self):
        return self.st.buffer

    @property
    def name(self):
        return self.st.name

    @property
    def itemsize(self):
        return self.dtype.itemsize

    @property
    def base_tensor(self):
        """The whole tensor that this is a view of. No page documents it; nki-library's MX kernels ask
        their arguments for it (assumed: the argument itself)."""
        st = self.st
        shape = st.shape if len(st.shape) > 1 or not st.on_chip else st.shape + (1,)
        return NkiTensor(st, 0, 0, shape, row_major(shape), st.dtype)

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    @property
    def offset(self):
        """Elements from the start of the storage."""
        size = self.dtype.itemsize
        if self.st.on_chip:
            return self.part * (self.st.pitch_bytes // size) + self.off // size
        return self.off // size

    @property
    def address(self):
        return self.st.address

    def __len__(self):
        return self.shape[0]

    def __iter__(self):
        fail("tensor_iterated",
             "a tensor is iterated; NKI tensors cannot be iterated or unpacked, index them",
             kind=KernelTypeError)

    def is_contiguous(self):
        expected = 1
        first = 1 if self.st.on_chip else 0
        for i in range(len(self.shape) - 1, first - 1, -1):
            if self.shape[i] != 1 and self.strides[i] != expected:
                return False
            expected *= self.shape[i]
        return True

    def get_pattern(self):
        return [[s, n] for s, n in zip(self.strides, self.shape)]

    def is_identity(self):
        """Whether this is the whole storage, not a slice or pattern of it."""
        st = self.st
        return (self.part == 0 and self.off == 0 and self.dtype is st.dtype and self.dyn is None and
                self.size == product(st.shape) and self.is_contiguous())

    def sim_value(self):
        return self.numpy()

    def device_value(self):
        """Values read from a device: none, there is no device."""
        return None

    def assert_shape(self, shape):
        if self.shape != tuple(shape):
            fail("view_shape",
                 f"the shape of {self!r} is {self.shape}; {tuple(shape)} is asserted",
                 "assert_shape", KernelValueError)
        return self

    def is_indirect(self):
        return self.dyn is not None

    def __repr__(self):
        dims = " x ".join(str(s) for s in self.shape)
        name = self.st.name + " " if self.st.name else ""
        return f"<{name}{self.st.buffer.value}[{dims}] {self.dtype}>"

    def __format__(self, spec):
        return repr(self)

    def __str__(self):
        try:
            return f"{self!r}\n{self.numpy()}"
        except Exception as problem:  # a debugger or print must not raise
            return f"{self!r} (no values: {problem})"

    def numpy(self):
        """The values at this point of the kernel (evaluates what was recorded so far)."""
        return self.st.recorder.values_of(self)

    def __array__(self, dtype=None, copy=None):
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __bool__(self):
        """`if tensor:` asks whether there is one; only comparisons are evaluated (for assert)."""
        if self.st.compared:
            (strict if is_strict() else hint)(
                "the truth of a tile: its values exist only on the device; the NKI compiler refuses to decide on "
                "them (nl.where(condition, x, y), or nisa.tensor_copy_predicated, is required)")
            return bool(self.numpy().all())
        return True

    __hash__ = object.__hash__

    def __deepcopy__(self, memo):
        """Copies of what holds a tensor (dataclasses.asdict) hold the same one."""
        return self

    # ---- subscripts ---------------------------------------------------------------------------
    def __getitem__(self, key: Any) -> NkiTensor:
        """The view that `key` selects. Keys of integers and slices without a step are worked off
        here, as recording is full of them; selection.select takes all others and all errors."""
        if type(key) is not tuple:
            key = (key,)
        st = self.st
        shape, strides = self.shape, self.strides
        part, off, d = self.part, self.off, 0
        size = self.dtype.itemsize
        new_shape, new_strides = [], []
        if len(key) > len(shape):
            return select(self, key)
        for k in key:
            n, stride, kind = shape[d], strides[d], type(k)
            if kind is slice:
                start, stop = k.start, k.stop
                if start is None:
                    start = 0
                if stop is None:
                    stop = n
                if type(start) is not int or type(stop) is not int or k.step is not None:
                    return select(self, key)
                count = stop - start
            elif kind is ds:
                start, count = k.start, k.size
                if type(start) is not int or type(count) is not int:
                    return select(self, key)
            elif kind is int:
                start, count = k, 1
            else:
                return select(self, key)
            if start < 0 or count < 1 or start + count > n:
                return select(self, key)
            on_free = d or not st.on_chip  # not on the partitions
            if on_free:
                off += start * stride * size
            else:
                part += start
            d += 1
            if kind is not int or not on_free:
                new_shape.append(count)
                new_strides.append(stride)
        if d < len(shape):
            new_shape += shape[d:]
            new_strides += strides[d:]
        if len(new_shape) < 2 and (st.on_chip or not new_shape):
            new_shape.append(1)
            new_strides.append(1)
        return NkiTensor(st, part, off, tuple(new_shape), tuple(new_strides), self.dtype, self.dyn)

    def __setitem__(self, key, value):
        above.assign(self[key], value)


def require_tensor(value, operand, instruction):
    """Fails unless `value` is a tensor."""
    if not isinstance(value, NkiTensor):
        found, required = instead(value)
        fail_on("tensor_required", operand, found, required, instruction, KernelTypeError)


#: By the name of a type: what to write where a tensor is required.
_INSTEAD = {
    "NkiInstruction": "a tile (functions of nki.isa give none back: the dst that was written)",
    "list": "a tensor (np.array of the list, as an argument of the kernel)",
    "ndarray": "a tensor (an argument of the kernel, or nl.shared_constant of the array)",
    "NoneType": "a tensor (the function that gave None writes its dst)"}


def instead(value):
    """(what it is, what is required) of a value that should be a tensor."""
    return type(value).__name__, _INSTEAD.get(type(value).__name__, "a tensor")
