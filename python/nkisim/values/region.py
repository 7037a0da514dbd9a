"""Implements memory regions of NKI 0.1 and 0.2: sbuf.ptr(size=(partitions, bytes)), then .view(dtype, shape)."""

from .dtypes import resolve, uint8
from .errors import KernelValueError, fail, fail_on
from .hooks import above
from .storage import product


def _pair(value, what):
    try:
        first, second = (int(n) for n in value)
    except (TypeError, ValueError):
        fail_on("memory_region", what, repr(value), "(partitions, bytes)", "ptr", KernelValueError)
    return first, second


class Region:
    """Part of an on-chip memory. With an offset from the memory's begin its address is given; without
    one the compiler chooses it, and regions within it keep their places in it."""

    __slots__ = ("buffer", "size", "address", "whole", "within", "tensor")

    def __init__(self, buffer, size, address=None, whole=None, within=(0, 0)):
        self.buffer, self.size, self.address = buffer, _pair(size, "size"), address
        self.whole, self.within = whole, within  # the region that was allocated, and where in it
        self.tensor = None

    def ptr(self, size, offset=None):
        """A region within this one; offset: (partition, byte)."""
        inner = Region(self.buffer, size)
        at = (0, 0) if offset is None else _pair(offset, "offset")
        for given, wanted, had, what in zip(at, inner.size, self.size, ("partitions", "bytes")):
            if given < 0 or given + wanted > had:
                fail("slice_out_of_bounds",
                     f"{wanted} {what} from {given} on are beyond the region, which has {had}", "ptr",
                     KernelValueError)
        if self.address is not None:
            inner.address = tuple(a + b for a, b in zip(self.address, at))
        else:
            inner.whole = self.whole or self
            inner.within = tuple(a + b for a, b in zip(self.within, at))
        return inner

    def view(self, dtype, shape, name=""):
        """A tensor at the region's begin; several views of one region share its memory."""
        shape, dtype = tuple(int(n) for n in shape), resolve(dtype)
        row = product(shape[1:]) * dtype.itemsize
        if shape[0] > self.size[0] or row > self.size[1]:
            fail("memory_region",
                 f"a tensor of {shape[0]} partitions of {row} bytes; the region has {self.size[0]} of "
                 f"{self.size[1]}", "view", KernelValueError)
        if self.address is not None:
            return above.allocate(shape, dtype, self.buffer, name, self.address)
        whole = self.whole or self
        if whole.tensor is None:
            whole.tensor = above.allocate(whole.size, uint8, self.buffer)
        partition, byte = self.within
        part = whole.tensor[partition:partition + shape[0], byte:byte + row]
        return part.view(dtype).reshape(shape)


def region(buffer, size, offset=None):
    """sbuf.ptr(size, offset) and psum.ptr."""
    return Region(buffer, size, None if offset is None else _pair(offset, "offset"))
