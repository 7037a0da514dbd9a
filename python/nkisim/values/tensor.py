"""Defines tensors as kernels see them: views (partition, byte offset, shape, strides) of a storage.

Strides are in elements of the view's dtype. On chip, dimension 0 is the partition dimension and
its stride is the storage's bytes per partition, so that .ap() patterns read as the documents
write them. The extension module keeps the parts of a view and makes an operand of it (binding/view).
"""

from __future__ import annotations

from .. import _core
from .errors import KernelTypeError, KernelValueError, fail, fail_on, hint, in_aws_library, is_strict
from .findings import strict
from .hooks import above
from .operators import Operators
from .selection import select
from .slices import ds
from .storage import product, row_major
from .views import Views


class NkiTensor(_core.View, Views, Operators):
    """A view of SBUF, PSUM or HBM: NkiTensor(st, part, off, shape, strides, dtype, dyn=None).

    `part` counts partitions from the storage's first, `off` bytes from the start of a partition (HBM: of
    the tensor); `dyn` is None or ((kind, register or index view, stride, limit, group), ...).
    tensor[key] is below: keys of integers and slices without a step are worked off there, as recording
    is full of them; selection.select takes all others and all errors.
    """

    __slots__ = ()

    def __copy__(self):
        return self

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

    def __contains__(self, _item):
        fail("tensor_iterated",
             "a tensor is asked what it contains; its values exist only on the device, where nl.equal compares them",
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
        """True if this is the whole storage, not a slice or pattern of it."""
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
        try:
            return format(repr(self), spec)
        except ValueError:  # of a number, such as .3f
            self.__float__()

    def __str__(self):
        try:
            return f"{self!r}\n{self.numpy()}"
        except Exception as problem:  # a debugger or print must not raise
            return f"{self!r} (no values: {problem})"

    def numpy(self):
        """The values at this point of the kernel (evaluates what was recorded so far)."""
        return self.st.recorder.values_of(self)

    def __array__(self, dtype=None, copy=None):
        (strict if is_strict() and not in_aws_library() else hint)(
            "NumPy asks for a tensor's values, which exist only on the device; here they are those of this point of "
            "the kernel (a function of nl is required, or tensor.numpy() to look at them)")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __bool__(self):
        """`if tensor:` of one in HBM asks whether there is one, as AWS's library does; of a tile it is reported. Of a
        comparison the values decide (for assert), of any other tile that it exists."""
        if self.st.on_chip:
            (strict if is_strict() and not in_aws_library() else hint)(
                "the truth of a tile: its values exist only on the device; the NKI compiler refuses to decide on "
                "them (nl.where(condition, x, y), or nisa.tensor_copy_predicated, is required; `is not None` asks "
                "whether there is a tile)")
        return bool(self.numpy().all()) if self.st.compared else True

    __hash__ = object.__hash__

    def __deepcopy__(self, memo):
        """Copies of what holds a tensor (dataclasses.asdict) hold the same one."""
        return self

    # ---- subscripts ---------------------------------------------------------------------------
    def __setitem__(self, key, value):
        above.assign(self[key], value)


_core.register_subscripts(select, ds)


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
    "NkiTileGrid": "a tensor (grid[i, j].data is that of a selection)",
    "NkiBlockGrid": "a tensor (grid[i, j].data is that of a selection)",
    "NoneType": "a tensor (the function that gave None writes its dst)"}


def instead(value):
    """(what it is, what is required) of a value that should be a tensor."""
    return type(value).__name__, _INSTEAD.get(type(value).__name__, "a tensor")
