"""Tensors as kernels see them: views (partition, byte offset, shape, strides) of a storage.

Strides are in elements of the view's dtype. On chip, dimension 0 is the partition dimension and
its stride is the storage's bytes per partition, so that .ap() patterns read as the documents
write them. The extension module reads the slots named below when it turns a view into an operand.
"""

from .dtypes import DType, resolve
from .errors import KernelIndexError, KernelTypeError, KernelValueError, fail, strict

HBM, SBUF, PSUM = 0, 1, 2


class Buffer(str):
    """nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm, nl.private_hbm: equal to their names."""

    def __new__(cls, name, space):
        self = super().__new__(cls, name)
        self.space = space
        return self

    @property
    def value(self):
        return str.__str__(self)

    name = value

    def __reduce__(self):
        return (buffer_of, (str.__str__(self),))


sbuf = Buffer("sbuf", SBUF)
psum = Buffer("psum", PSUM)
hbm = Buffer("hbm", HBM)
shared_hbm = Buffer("shared_hbm", HBM)
private_hbm = Buffer("private_hbm", HBM)
BUFFERS = {str(b): b for b in (sbuf, psum, hbm, shared_hbm, private_hbm)}


def buffer_of(value):
    if type(value) is Buffer:
        return value
    hit = BUFFERS.get(getattr(value, "value", value))
    if hit is None:
        fail(f"buffer is {value!r}; one of {', '.join(BUFFERS)} is required", kind=KernelValueError)
    return hit


class ds:
    """nl.ds(start, size): the slice start:start+size, whose start may be a register."""

    __slots__ = ("start", "size")

    def __init__(self, start, size):
        self.start = start
        self.size = size


class Storage:
    """One allocation."""

    __slots__ = ("id", "name", "space", "on_chip", "dtype", "shape", "pitch_bytes", "recorder",
                 "core", "address", "partition", "file", "line", "buffer", "born", "zeroed_at",
                 "role", "array", "compared")

    def __init__(self, recorder, shape, dtype, buffer, name, address=None, partition=0):
        self.id = -1
        self.recorder = recorder
        self.shape = shape
        self.dtype = dtype
        self.buffer = buffer
        self.space = buffer.space
        self.on_chip = buffer.space != HBM
        self.name = name
        self.address = address
        self.partition = partition
        self.zeroed_at = None  # index of the last memset, in PSUM
        self.role = 0
        self.array = None
        self.compared = False
        dims = shape[1:] if self.on_chip else shape
        n = dtype.itemsize
        for d in dims:
            n *= d
        self.pitch_bytes = n


def row_major(shape):
    """Strides of a contiguous tensor."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def _product(values):
    n = 1
    for v in values:
        n *= v
    return n


class NkiTensor:
    """A view of SBUF, PSUM or HBM."""

    __slots__ = ("st", "part", "off", "shape", "strides", "dtype", "dyn", "_ref", "_exact",
                 "__weakref__")
    __array_priority__ = 1000
    __array_ufunc__ = None  # numpy scalars defer to our operators

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
        return _product(self.shape)

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

    # ---- views -------------------------------------------------------------------------------
    def _like(self, part, off, shape, strides, dyn=None):
        return NkiTensor(self.st, part, off, shape, strides, self.dtype, dyn or self.dyn)

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
                    _bad_slice(self, d, start, stop, step)
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
                    _bad_slice(self, d, start, start + size, 1)
                if on_chip and d == 0:
                    part += start
                else:
                    off += start * strides[d]
                new_shape.append(size)
                new_strides.append(strides[d])
                d += 1
            elif k is Ellipsis:
                skip = len(shape) - (sum(1 for x in key if x is not None) - 1) - d
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
        from . import index

        if any(isinstance(k, (index.Expr, index.MGrid)) for k in key) or any(
                isinstance(k, NkiTensor) for k in key):
            return index.subscript(self, key)
        fixed = []
        for k in key:
            if isinstance(k, VirtualRegister):
                fixed.append(ds(k, 1))
            elif k is None or k is Ellipsis or isinstance(k, (slice, ds)):
                fixed.append(k)
            else:
                fixed.append(_plain_int(k, "an index"))
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
        from . import language

        language.assign(self[key], value)

    def permute(self, dims):
        dims = tuple(dims)
        if sorted(dims) != list(range(self.ndim)):
            fail(f"dims is {dims}; a permutation of 0..{self.ndim - 1} is required", "permute",
                 KernelValueError)
        if self.st.on_chip and dims[0] != 0:
            fail(f"dims is {dims}; dimension 0 of an on-chip tensor (partitions) must stay first",
                 "permute", KernelValueError)
        return self._like(self.part, self.off, tuple(self.shape[d] for d in dims),
                          tuple(self.strides[d] for d in dims))

    def broadcast(self, dim, size):
        dim = self._dim(dim, "broadcast")
        if self.shape[dim] != 1:
            fail(f"dimension {dim} of {self!r} has size {self.shape[dim]}; 1 is required",
                 "broadcast", KernelValueError)
        if self.st.on_chip and dim == 0 and size != 1:
            fail("dim is 0, the partition dimension; a free dimension is required", "broadcast",
                 KernelValueError)
        return self._like(self.part, self.off, self.shape[:dim] + (size,) + self.shape[dim + 1:],
                          self.strides[:dim] + (0,) + self.strides[dim + 1:])

    def expand_dim(self, dim):
        if dim < 0:
            dim += self.ndim + 1
        if self.st.on_chip and dim == 0:
            fail("dim is 0, the partition dimension; a free dimension is required", "expand_dim",
                 KernelValueError)
        stride = self.strides[dim] * self.shape[dim] if dim < self.ndim else 1
        return self._like(self.part, self.off, self.shape[:dim] + (1,) + self.shape[dim:],
                          self.strides[:dim] + (stride,) + self.strides[dim:])

    def squeeze_dim(self, dim):
        dim = self._dim(dim, "squeeze_dim")
        if self.shape[dim] != 1:
            fail(f"dimension {dim} of {self!r} has size {self.shape[dim]}; 1 is required",
                 "squeeze_dim", KernelValueError)
        return self._like(self.part, self.off, self.shape[:dim] + self.shape[dim + 1:],
                          self.strides[:dim] + self.strides[dim + 1:])

    def reshape_dim(self, dim, shape):
        dim = self._dim(dim, "reshape_dim")
        shape = _infer(tuple(shape), self.shape[dim], self)
        if self.st.on_chip and dim == 0 and len(shape) > 1:
            fail("dim is 0, the partition dimension; it cannot be split", "reshape_dim",
                 KernelValueError)
        inner = row_major(shape)
        return self._like(self.part, self.off, self.shape[:dim] + shape + self.shape[dim + 1:],
                          self.strides[:dim] + tuple(s * self.strides[dim] for s in inner) +
                          self.strides[dim + 1:])

    def flatten_dims(self, start_dim, end_dim):
        start, end = self._dim(start_dim, "flatten_dims"), self._dim(end_dim, "flatten_dims")
        shape = self.shape[:start] + (_product(self.shape[start:end + 1]),) + self.shape[end + 1:]
        return self.reshape(shape)

    def reshape(self, *shape, order=None):
        if len(shape) == 1 and not isinstance(shape[0], int):
            shape = tuple(shape[0])
        shape = _infer(tuple(int(s) for s in shape), self.size, self)
        if self.st.on_chip and (not shape or shape[0] != self.shape[0]):
            fail(f"shape {shape} changes the partition dimension of {self!r}; {self.shape[0]} is "
                 "required first", "reshape", KernelValueError)
        strides = _reshape_strides(self.shape, self.strides, shape)
        if strides is None:
            fail(f"{self!r} with strides {self.strides} cannot be seen as {shape} without copying",
                 "reshape", KernelValueError)
        if self.st.on_chip and len(shape) == 1:
            shape, strides = shape + (1,), strides + (1,)
        return self._like(self.part, self.off, shape, strides)

    def rearrange(self, src_pattern, dst_pattern, fixed_sizes=None):
        sizes = dict(fixed_sizes or {})
        view, names = self, []
        for group in src_pattern:
            names.append((group,) if isinstance(group, str) else tuple(group))
        if len(names) != self.ndim:
            fail(f"src_pattern has {len(names)} dimensions; {self.ndim} are required", "rearrange",
                 KernelValueError)
        flat, d = [], 0
        for group, n in zip(names, self.shape):
            known = _product(sizes[x] for x in group if x in sizes)
            unknown = [x for x in group if x not in sizes]
            if len(unknown) > 1 or n % max(known, 1) or (not unknown and known != n):
                fail(f"sizes of {group} do not follow from {n} and {sizes}", "rearrange",
                     KernelValueError)
            for x in unknown:
                sizes[x] = n // known
            shape = tuple(sizes[x] for x in group)
            if len(shape) != 1:
                view = view.reshape_dim(d, shape)
            flat.extend(group)
            d += len(group)
        target = [(g,) if isinstance(g, str) else tuple(g) for g in dst_pattern]
        order = [x for g in target for x in g]
        if sorted(order) != sorted(flat):
            fail(f"dst_pattern names {order}; {flat} are required", "rearrange", KernelValueError)
        view = view.permute(tuple(flat.index(x) for x in order))
        d = 0
        for group in target:
            if len(group) == 0:
                view = view.expand_dim(d)
            elif len(group) > 1:
                view = view.flatten_dims(d, d + len(group) - 1)
            d += 1
        return view

    def slice(self, dim, start, end, step=1):
        dim = self._dim(dim, "slice")
        key = (slice(None),) * dim + (slice(start, end, None if step == 1 else step),)
        return self[key]

    def select(self, dim, index):
        dim = self._dim(dim, "select")
        if isinstance(index, (VirtualRegister, NkiTensor)):
            if self.st.on_chip and dim == 0:
                fail("dim is 0, the partition dimension; a dynamic index needs a free dimension",
                     "select", KernelValueError)
            entry = dynamic_entry(self, index, self.strides[dim], self.shape[dim])
            return self._like(self.part, self.off, self.shape[:dim] + self.shape[dim + 1:],
                              self.strides[:dim] + self.strides[dim + 1:],
                              (self.dyn or ()) + (entry,))
        return self[(slice(None),) * dim + (_plain_int(index, "index"),)]

    def vector_select(self, dim, vector_offset):
        if dim != 0 or self.st.on_chip:
            fail("vector_select needs dim 0 of a tensor in HBM", "vector_select", KernelValueError)
        entry = ("vector", vector_offset, self.strides[0], self.shape[0], 0)
        return self._like(self.part, self.off, (vector_offset.size,) + self.shape[1:],
                          (0,) + self.strides[1:], (self.dyn or ()) + (entry,))

    def ap(self, pattern, offset=None, scalar_offset=None, vector_offset=None, indirect_dim=0,
           dtype=None):
        old = self.dtype
        new = old if dtype is None else resolve(dtype)
        size = new.itemsize
        pitch = self.st.pitch_bytes // size
        shape = tuple(int(n) for _, n in pattern)
        strides = tuple(int(s) for s, _ in pattern)
        part, off = self.part, self.off
        extra = int(offset or 0)
        if self.st.on_chip:
            part += extra // pitch
            off += (extra % pitch) * size
            if not shape:
                fail("pattern is empty; [[stride, count], ...] is required", "ap")
            if shape[0] > 1 and strides[0] != pitch:
                fail(f"pattern starts with stride {strides[0]}; {pitch} (elements per partition) "
                     "is required on chip", "ap", KernelValueError)
            strides = (pitch,) + strides[1:]
            if len(shape) == 1:
                shape, strides = shape + (1,), strides + (1,)
        else:
            off += extra * size
        entry = None
        if scalar_offset is not None or vector_offset is not None:
            step = self.strides[indirect_dim] * old.itemsize // size
            limit = self.shape[indirect_dim]
            if vector_offset is not None:
                entry = ("vector", vector_offset, step, limit, 0)
                strides = (0,) + strides[1:]
            else:
                entry = dynamic_entry(self, scalar_offset, step, 0)
        return NkiTensor(self.st, part, off, shape, strides, new,
                         None if entry is None else (entry,))

    def view(self, dtype=None, shape=None):
        if dtype is None:
            return self if shape is None else self.reshape(shape)
        new, old = resolve(dtype), self.dtype
        if new.itemsize == old.itemsize:
            shape_, strides = self.shape, self.strides
        else:
            shape_, strides = _rescale(self, new.itemsize)
        dyn = self.dyn
        if dyn is not None and new.itemsize != old.itemsize:
            dyn = tuple((k, i, s * old.itemsize // new.itemsize, n, g) for k, i, s, n, g in dyn)
        out = NkiTensor(self.st, self.part, self.off, shape_, strides, new, dyn)
        return out if shape is None else out.reshape(shape)

    reinterpret_cast = view

    def indirect(self, index, num_elem=None):
        if not self.st.on_chip:
            fail(f"{self!r} is in HBM; SBUF or PSUM is required", "indirect", KernelValueError)
        n = index.size if num_elem is None else int(num_elem)
        entry = ("indirect", index, 1, _product(self.shape[1:]), 16)
        return self._like(self.part, self.off, (self.shape[0], n), (self.strides[0], 1),
                          (self.dyn or ()) + (entry,))

    def broadcast_to(self, *shape):
        from . import language

        if len(shape) == 1 and not isinstance(shape[0], int):
            shape = tuple(shape[0])
        return language.broadcast_to(self, shape)

    def astype(self, dtype):
        from . import language

        return language.copy(self, dtype=dtype)

    def transpose(self, *axes):
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = tuple(axes[0])
        if not axes:
            from . import language

            return language.transpose(self)
        return self.permute(axes)

    def _dim(self, dim, what):
        n = self.ndim
        if dim < -n or dim >= n:
            fail(f"dimension {dim} of {self!r}; 0 to {n - 1} is required", what, KernelIndexError)
        return dim + n if dim < 0 else dim


def _operator(name, reverse=False):
    def apply(self, other):
        from . import language

        function = getattr(language, name)
        return function(other, self) if reverse else function(self, other)

    return apply


for _python, _nl in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
                     ("truediv", "divide"), ("pow", "power"), ("mod", "mod"),
                     ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"),
                     ("lshift", "left_shift"), ("rshift", "right_shift")):
    setattr(NkiTensor, f"__{_python}__", _operator(_nl))
    setattr(NkiTensor, f"__r{_python}__", _operator(_nl, True))
for _python, _nl in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                     ("ge", "greater_equal"), ("eq", "equal"), ("ne", "not_equal")):
    setattr(NkiTensor, f"__{_python}__", _operator(_nl))


def _eq(self, other):
    if isinstance(other, (NkiTensor, int, float)) and self is not other:
        from . import language

        return language.equal(self, other)
    return self is other


def _ne(self, other):
    if isinstance(other, (NkiTensor, int, float)) and self is not other:
        from . import language

        return language.not_equal(self, other)
    return self is not other


def _negative(self):
    from . import language

    return language.negative(self)


def _invert(self):
    from . import language

    return language.invert(self)


def _abs(self):
    from . import language

    return language.abs(self)


def _in_place(name):
    def apply(self, other):
        from . import language

        return language.update(name, self, other)

    return apply


NkiTensor.__eq__, NkiTensor.__ne__ = _eq, _ne
NkiTensor.__neg__, NkiTensor.__invert__, NkiTensor.__abs__ = _negative, _invert, _abs
for _python, _nl in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
                     ("truediv", "divide")):
    setattr(NkiTensor, f"__i{_python}__", _in_place(_nl))


class VirtualRegister:
    """A sequencer register: usable as an address or loop bound, never in Python arithmetic."""

    __slots__ = ("id", "recorder", "loop")

    def __init__(self, recorder, number):
        self.id = number
        self.recorder = recorder
        self.loop = None

    def __repr__(self):
        return f"<register {self.id}>"

    def __bool__(self):
        return self.recorder.while_test(self)

    def _refuse(self, *_):
        fail("arithmetic on a register; its value exists only on the device, use nisa.register_* "
             "or scalar_offset", kind=KernelTypeError)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = _refuse
    __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __float__ = _refuse
    __iadd__ = __isub__ = __imul__ = __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refuse


# ---- helpers ---------------------------------------------------------------------------------
def dynamic_entry(view, index, stride, limit):
    """The dyn tuple for a register or a one-element tensor."""
    if isinstance(index, VirtualRegister):
        return ("register", index.id, stride, limit, 0)
    if not isinstance(index, NkiTensor):
        fail(f"a dynamic offset is {type(index).__name__}; a register or a one-element tensor is "
             "required", kind=KernelTypeError)
    if index.size != 1:
        fail(f"a scalar offset is {index!r}; one element is required", kind=KernelValueError)
    return ("scalar", index, stride, limit, 0)


def _plain_int(value, what):
    if isinstance(value, float):
        fail(f"{what} is the float {value}; an integer is required", kind=KernelTypeError)
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        fail(f"{what} is {type(value).__name__}; an integer, slice, nl.ds, register or index tile "
             "is required", kind=KernelTypeError)


def _slice(view, d, n, start, stop, step, dyn):
    if isinstance(start, VirtualRegister) or isinstance(stop, VirtualRegister):
        fail("a slice bound is a register; use nl.ds(register, size)", kind=KernelTypeError)
    step = 1 if step is None else _plain_int(step, "a slice step")
    start = 0 if start is None else _plain_int(start, "a slice start")
    stop = n if stop is None else _plain_int(stop, "a slice stop")
    if step < 1:
        fail(f"slice step {step}; at least 1 is required", kind=KernelIndexError)
    if start < 0:
        start += n
    if stop < 0:
        stop += n
    return start, stop, step, dyn


def _dynamic_start(view, d, start, size, dyn):
    size = _plain_int(size, "the size of nl.ds")
    if isinstance(start, (VirtualRegister, NkiTensor)):
        if view.st.on_chip and d == 0:
            fail("nl.ds of a register on the partition dimension; a free dimension is required",
                 kind=KernelValueError)
        dyn = (dyn or []) + [dynamic_entry(view, start, view.strides[d], view.shape[d] - size + 1)]
        return 0, size, dyn
    return _plain_int(start, "the start of nl.ds"), size, dyn


def _bad_slice(view, d, start, stop, step):
    why = "is empty" if stop <= start else "is out of bounds"
    fail(f"slice {start}:{stop}{'' if step == 1 else ':%d' % step} of dimension {d} {why}; "
         f"{view!r} has {view.shape[d]} there", kind=KernelIndexError)


def _bad_index(view, d, k):
    fail(f"index {k} of dimension {d} is out of bounds; {view!r} has {view.shape[d]} there",
         kind=KernelIndexError)


def _too_many(view, key):
    fail(f"{len(key)} indices for {view!r}; at most {view.ndim} are possible",
         kind=KernelIndexError)


def _infer(shape, total, view):
    known = _product(s for s in shape if s != -1)
    if shape.count(-1) == 1 and known and total % known == 0:
        shape = tuple(total // known if s == -1 else s for s in shape)
    if _product(shape) != total or -1 in shape:
        fail(f"shape {shape} has {_product(shape)} elements; {total} are required for {view!r}",
             "reshape", KernelValueError)
    return shape


def _reshape_strides(old_shape, old_strides, shape):
    """Strides that show the same elements in the same order under `shape`, or None."""
    old = [(n, s) for n, s in zip(old_shape, old_strides) if n != 1]
    new_strides = [0] * len(shape)
    i = 0
    j = 0
    while j < len(shape):
        if shape[j] == 1:
            j += 1
            continue
        if i >= len(old):
            return None
        # Group old dims and new dims whose products agree.
        oi, oj = i, j
        op, np_ = old[i][0], shape[j]
        while op != np_:
            if op < np_:
                i += 1
                if i >= len(old):
                    return None
                op *= old[i][0]
            else:
                j += 1
                if j >= len(shape):
                    return None
                np_ *= shape[j]
        for a in range(oi, i):
            if old[a][1] != old[a + 1][0] * old[a + 1][1]:
                return None
        step = old[i][1]
        for b in range(j, oj - 1, -1):
            new_strides[b] = step
            step *= shape[b]
        i += 1
        j += 1
    # A size-1 dimension gets the stride a contiguous layout would give it.
    for b in range(len(shape) - 1, -1, -1):
        if shape[b] == 1:
            new_strides[b] = (new_strides[b + 1] * shape[b + 1]) if b + 1 < len(shape) else 1
    return tuple(new_strides)


def _rescale(view, new_size):
    old_size = view.dtype.itemsize
    shape, strides = list(view.shape), list(view.strides)
    if shape[-1] != 1 and strides[-1] != 1:
        fail(f"{view!r} has stride {strides[-1]} in its last dimension; 1 is required", "view",
             KernelValueError)
    total = shape[-1] * old_size
    if total % new_size or any(s * old_size % new_size for s in strides[:-1]):
        fail(f"the last dimension of {view!r} has {total} bytes; a multiple of {new_size} is "
             "required", "view", KernelValueError)
    shape[-1] = total // new_size
    strides = [s * old_size // new_size for s in strides[:-1]] + [1]
    return tuple(shape), tuple(strides)


__all__ = ["NkiTensor", "VirtualRegister", "Storage", "Buffer", "ds", "DType"]
