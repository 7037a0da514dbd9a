"""Tensors as kernels see them: views (partition, byte offset, shape, strides) of a storage.

Strides are in elements of the view's dtype. On chip, dimension 0 is the partition dimension and
its stride is the storage's bytes per partition, so that .ap() patterns read as the documents
write them. The extension module reads the slots named below when it turns a view into an operand.
"""

from .errors import KernelIndexError, KernelTypeError, KernelValueError, fail, strict
from .hooks import above
from .index import Expr, MGrid
from .operators import Operators
from .register import VirtualRegister
from .slices import ds
from .storage import product
from .subscripts import subscript
from .views import Views, dynamic_entry, plain_int


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

    def become(self, other):
        """Shows another view of this one's shape from now on."""
        self.st, self.part, self.off, self.strides = other.st, other.part, other.off, other.strides
        self._ref = self._exact = None

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
        fail("a tensor is iterated; NKI tensors cannot be iterated or unpacked, index them",
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
            fail(f"the shape of {self!r} is {self.shape}; {tuple(shape)} is asserted",
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
            strict("the truth of a tile: its values exist only on the device; the NKI compiler "
                   "refuses to decide on them")
            return bool(self.numpy().all())
        return True

    __hash__ = object.__hash__

    def __deepcopy__(self, memo):
        """Copies of what holds a tensor (dataclasses.asdict) hold the same one."""
        return self

    # ---- subscripts ---------------------------------------------------------------------------
    def __getitem__(self, key):
        if type(key) is not tuple:
            key = (key,)
        shape, strides = self.shape, self.strides
        on_chip = self.st.on_chip
        part, off, d, dyn = self.part, 0, 0, None
        new_shape, new_strides = [], []
        for k in key:
            kind = type(k)
            if kind is slice:
                if d >= len(shape):
                    _too_many(self, key)
                n, stride = shape[d], strides[d]
                start, stop, step = k.start, k.stop, k.step
                if start is None and stop is None and step is None:
                    new_shape.append(n)
                    new_strides.append(stride)
                    d += 1
                    continue
                if type(start) is not int or type(stop) is not int or step is not None:
                    start, stop, step, dyn = _slice(self, d, n, start, stop, step, dyn)
                else:
                    step = 1
                    if start < 0:
                        start += n
                    if stop < 0:
                        stop += n
                count = (stop - start + step - 1) // step
                if start < 0 or stop > n or count <= 0:
                    return _outside(self, key, d, start, stop, step)
                if on_chip and d == 0:
                    part += start
                else:
                    off += start * stride
                new_shape.append(count)
                new_strides.append(stride * step)
                d += 1
            elif kind is int:
                if d >= len(shape):
                    _too_many(self, key)
                n = shape[d]
                if k < 0:
                    k += n
                if k < 0 or k >= n:
                    _bad_index(self, d, k)
                if on_chip and d == 0:
                    part += k
                    new_shape.append(1)
                    new_strides.append(strides[0])
                else:
                    off += k * strides[d]
                d += 1
            elif kind is ds:
                if d >= len(shape):
                    _too_many(self, key)
                n, start, size = shape[d], k.start, k.size
                if type(start) is not int or type(size) is not int:
                    start, size, dyn = _dynamic_start(self, d, start, size, dyn)
                if start < 0 or start + size > n or size < 1:
                    return _outside(self, key, d, start, start + size, 1)
                if on_chip and d == 0:
                    part += start
                else:
                    off += start * strides[d]
                new_shape.append(size)
                new_strides.append(strides[d])
                d += 1
            elif k is Ellipsis:
                skip = len(shape) - (sum(1 for x in key if x is not None) - 1)
                new_shape.extend(shape[d:d + skip])
                new_strides.extend(strides[d:d + skip])
                d += skip
            elif k is None:
                new_shape.append(1)
                new_strides.append(0)
            else:
                return self._getitem_rare(key)
        if d < len(shape):
            new_shape.extend(shape[d:])
            new_strides.extend(strides[d:])
        if len(new_shape) < 2 and (on_chip or not new_shape):
            while len(new_shape) < (2 if on_chip else 1):
                new_shape.append(1)
                new_strides.append(1)
        if dyn is not None:
            dyn = tuple(dyn) if self.dyn is None else self.dyn + tuple(dyn)
        else:
            dyn = self.dyn
        dtype = self.dtype
        return NkiTensor(self.st, part, self.off + off * dtype.itemsize, tuple(new_shape),
                         tuple(new_strides), dtype, dyn)

    def _getitem_rare(self, key):
        if any(isinstance(k, (Expr, MGrid)) for k in key) or any(
                isinstance(k, NkiTensor) for k in key):
            return subscript(self, key)
        fixed = []
        for k in key:
            if isinstance(k, VirtualRegister):
                fixed.append(ds(k, 1))
            elif k is None or k is Ellipsis or isinstance(k, (slice, ds)):
                fixed.append(k)
            else:
                fixed.append(plain_int(k, "an index"))
        view = self[tuple(fixed)]
        drop = []
        d = 0
        for k in key:
            if isinstance(k, VirtualRegister) and not (self.st.on_chip and d == 0):
                drop.append(d)
            d += 1
        for d in reversed(drop):
            view = view.squeeze_dim(d)
        return view

    def __setitem__(self, key, value):
        above.assign(self[key], value)


def require_tensor(value, operand, instruction):
    """Fails unless `value` is a tensor."""
    if not isinstance(value, NkiTensor):
        fail(f"{operand} is {type(value).__name__}; a tensor is required", instruction,
             KernelTypeError)


def _slice(view, d, n, start, stop, step, dyn):
    if isinstance(start, VirtualRegister) or isinstance(stop, VirtualRegister):
        fail("a slice bound is a register; use nl.ds(register, size)", kind=KernelTypeError)
    step = 1 if step is None else plain_int(step, "a slice step")
    start = 0 if start is None else plain_int(start, "a slice start")
    stop = n if stop is None else plain_int(stop, "a slice stop")
    if step < 1:
        fail(f"slice step {step}; at least 1 is required", kind=KernelIndexError)
    if start < 0:
        start += n
    if stop < 0:
        stop += n
    return start, stop, step, dyn


def _dynamic_start(view, d, start, size, dyn):
    size = plain_int(size, "the size of nl.ds")
    if isinstance(start, (VirtualRegister, NkiTensor)):
        if view.st.on_chip and d == 0:
            fail("nl.ds of a register on the partition dimension; a free dimension is required",
                 kind=KernelValueError)
        dyn = (dyn or []) + [dynamic_entry(view, start, view.strides[d], view.shape[d] - size + 1)]
        return 0, size, dyn
    return plain_int(start, "the start of nl.ds"), size, dyn


def _outside(view, key, d, start, stop, step):
    """A legacy mask may still cut what reaches beyond the tensor; anything else is an error."""
    if view.st.recorder.legacy and 0 <= start < stop:
        return subscript(view, key)
    why = "is empty" if stop <= start else "is out of bounds"
    fail(f"slice {start}:{stop}{'' if step == 1 else ':%d' % step} of dimension {d} {why}; "
         f"{view!r} has {view.shape[d]} there", kind=KernelIndexError)


def _bad_index(view, d, k):
    fail(f"index {k} of dimension {d} is out of bounds; {view!r} has {view.shape[d]} there",
         kind=KernelIndexError)


def _too_many(view, key):
    fail(f"{len(key)} indices for {view!r}; at most {view.ndim} are possible",
         kind=KernelIndexError)
