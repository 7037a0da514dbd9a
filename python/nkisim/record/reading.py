"""Reads values of tiles while their kernel's Python code still runs, and after the simulation."""

from __future__ import annotations

import sys

import numpy as np

from ..values.errors import Error, fail


class Reading:
    """Keeps the loaded memory of a recording, and the memory that may still be read.

    Methods take the recorder, which holds this: a reference back would keep a program's memory.
    """

    __slots__ = ("loaded", "valueless")

    def __init__(self):
        self.loaded = set()
        self.valueless = []  # names of arguments known by their shapes alone

    def load(self, recorder):
        """Hands arrays that are not loaded yet to the program."""
        for st in recorder.storages:
            if st.array is not None and st.id not in self.loaded:
                self.loaded.add(st.id)
                recorder.program.load(st.id, as_bytes(st.array))

    def check(self, recorder, view):
        """Complains where a view can have no values yet."""
        if self.valueless:
            sys.audit("nkisim.values_read")  # received even where the kernel catches the error
            fail("recorded_on_shapes",
                 "the kernel looks at a tile's values, but it is recorded on shapes alone (argument "
                 f"{self.valueless[0]} has none)")
        if recorder.loops.open:
            raise Error("values inside a dynamic loop exist only on the device",
                        rule="values_while_recording")
        if view.dyn is not None:
            raise Error("an indirect view has no values of its own; copy it first",
                        rule="values_while_recording")

    def evaluate(self, recorder):
        """Runs what was recorded so far; what this core got from another takes its program too."""
        if recorder.instances is None:
            raise Error("a tensor is used outside a kernel, which failed; it has no values",
                        rule="outside_kernel")
        self.load(recorder)
        instances = recorder.instances
        while not recorder.program.evaluate(recorder.core, instances.cores, instances.complete(),
                                            self._unreachable(recorder)):
            instances.further()
            self.load(recorder)

    def _unreachable(self, recorder):
        """Tiles that the kernel holds no more, so that only what is recorded can read them. (Other
        cores may read any: with several, all are kept.)"""
        return recorder.storages.unreachable(recorder) if recorder.instances.cores == 1 else []


def view_of(raw, view):
    """The values of a view, from the bytes of its whole tensor."""
    if view.is_identity():
        return raw.view(view.dtype.dtype).reshape(view.shape)
    st, n = view.st, view.dtype.itemsize
    offset = view.off + view.part * (st.pitch_bytes if st.on_chip else 0)
    words = raw[offset % n:raw.size - (raw.size - offset % n) % n].view(f"u{n}")[offset // n:]
    flat = np.lib.stride_tricks.as_strided(words, view.shape, [s * n for s in view.strides],
                                           writeable=False)
    return flat.copy().view(view.dtype.dtype)  # as_strided knows no fp8


def as_bytes(array):
    """A contiguous array's bytes."""
    return array.view(np.uint8) if array.dtype.kind == "V" else array.reshape(-1).view(np.uint8)
