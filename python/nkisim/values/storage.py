"""Defines the storage of tensors: the buffers of nki.language (sbuf, psum, hbm), and one
allocation.
"""

from .. import _core
from .errors import KernelValueError, fail, fail_on, hint
from .hooks import above
from .spelling import similar_names

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

    def view(self, dtype, shape, name=""):
        """sbuf.view(dtype, shape): a new tensor there, as NKI 0.1 and 0.2 allocate it."""
        return above.allocate(shape, dtype, self, name)

    def ptr(self, size, offset=None):
        """sbuf.ptr(size=(partitions, bytes), offset=(partition, byte)): a region to make tensors in, as
        the guide of NKI 0.1 has it."""
        if self.space == HBM:
            fail("memory_region",
                 f"{self}.ptr; a region of sbuf or psum is required", "ptr", KernelValueError)
        return above.region(self, size, offset)

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
    try:
        hit = BUFFERS.get(getattr(value, "value", value))
    except TypeError:  # unhashable
        hit = None
    if hit is None:
        fail_on("unknown_buffer", "buffer", repr(value), f"one of {', '.join(BUFFERS)}{_meant(value)}",
                kind=KernelValueError)
    if type(value) is str and value not in _reported:  # the text, where kernels of NKI 0.1 had a keyword
        _reported.add(value)
        hint(f"buffer={value!r}: a text for a buffer, which the NKI compiler refuses (documented); "
             f"nl.{value} is required")
    return hit


_reported: set[str] = set()


def _meant(value):
    said = similar_names(value, list(BUFFERS)) if isinstance(value, str) else ""
    return f" ({said})" if said else ""


class Storage(_core.Allocation):
    """One allocation: Storage(recorder, shape, dtype, buffer, name, address=None, partition=0).

    The extension module keeps and fills in its attributes, as legacy kernels make one for every
    instruction. In addition to its arguments: id (in the program, -1 before it is placed there), space and
    on_chip of its buffer, pitch_bytes (of a partition; HBM: of the tensor), core, born (instructions
    before it), role, file and line; zeroed_at (index of the last memset, in PSUM), array (of the host),
    narrowed (its host array has integers of 64 bits), compared (its values are truths), vector (loaded
    from a tensor of one dimension, along the partitions), masked (partitions that a mask left of the last
    tile written here), borrowed (view of another storage that holds the values for now: record/borrowed).
    """

    __slots__ = ()

    @property
    def recorder(self):
        """The recorder, which lives as long as its kernel runs or somebody keeps the Result."""
        recorder = self._recorder()
        if recorder is None:
            fail("outside_kernel",
                 f"tensor {self.name} is used outside a kernel: the one it is of has ended",
                 kind=KernelValueError)
        return recorder


def row_major(shape):
    """Strides of a contiguous tensor."""
    if len(shape) == 2:  # most tiles
        return shape[1], 1
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return tuple(strides)


def product(values):
    """Product of integers; 1 of none."""
    n = 1
    for v in values:
        n *= v
    return n
