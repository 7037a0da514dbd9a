"""Implements loops that run on the device: Python executes their bodies once, to collect the
instructions.
"""

from __future__ import annotations

import sys
import weakref

from ..values import dtypes
from ..values.errors import KernelTypeError, fail, kernel_frame
from ..values.findings import of_tracer
from ..values.storage import PSUM, sbuf
from ..values.tensor import NkiTensor


class Loops:
    """The dynamic loops of a recording: what is open, and what was left before its end."""

    __slots__ = ("_reference", "open", "kept", "left", "left_traced", "parallel")

    def __init__(self, recorder):
        self._reference = weakref.ref(recorder)  # which holds this
        self.open = []            # (kind, register, number of the instruction that begins it)
        self.kept = {}            # core -> open no-reorder blocks
        self.left = None          # (file, line) of a break or return inside a dynamic loop
        self.parallel = None      # record/traced.Parallel, while an affine loop of neuronxcc.nki is open
        self.left_traced = False  # a return or break inside a TracedRange

    @property
    def _recorder(self):
        """The recorder of the kernel that these are of; an error once that has ended."""
        recorder = self._reference()
        if recorder is None or recorder.instances is None:
            fail("outside_kernel", "a dynamic loop is used outside the kernel that made it, which has ended")
        return recorder

    def run(self, start, stop, step):
        """Generator behind nl.dynamic_range: the body is recorded once."""
        recorder = self._recorder
        register = recorder.register()
        self.enter("dynamic_range")
        recorder.call("loop_begin", register=register, start=start, stop=stop, step=step)
        self.open.append(("for", register, len(recorder.program) - 1))
        yield register
        self.close("for", register)

    def enter(self, what):
        """Before a dynamic loop: none may be in a no-reorder block (documented since NKI 0.3)."""
        recorder = self._recorder
        if self.kept.get(recorder.core, 0):
            fail("dynamic_loop",
                 "a dynamic loop begins inside a no_reorder block; the block inside the loop's body "
                 "is required", what)
        _clear_psum(recorder)

    def begin_while(self, kind, register):
        """Begins a loop that runs while `register` is not zero; enter() was called."""
        recorder = self._recorder
        recorder.call("while_begin", register=register)
        self.open.append((kind, register, len(recorder.program) - 1))

    def close(self, kind, register):
        """Ends the innermost loop, which must be this one."""
        if not self.open or self.open[-1][1] is not register:
            fail("dynamic_loop",
                 "a dynamic loop ends while an inner one is open (break or return inside?)")
        self.open.pop()
        recorder = self._recorder
        recorder.call("loop_end" if kind == "for" else "while_end")
        recorder.instances.pause()

    def while_test(self, register):
        """`while register:` asks twice at one place: before the body and after it."""
        frame = kernel_frame()
        if frame is not sys._getframe(2):
            fail("values_while_recording",
                 "a register is used as a truth value; its value exists only on the device",
                 kind=KernelTypeError)
        site = (frame.f_code, frame.f_lineno)
        if self.open and self.open[-1][0] == site and self.open[-1][1] is register:
            self.close(site, register)
            return False
        of_tracer("`while` on a register is a TypeError of the tracer of SDK 2.33 (documented); use "
                  "nl.while_loop, or NKI_COMPILER_FRONTEND=custom until the next release")
        self.enter("while")
        self.begin_while(site, register)
        return True

    def adds(self, dst):
        """True for a matmul in a dynamic loop into a tile from before it, else None (inferred)."""
        first = self.open[-1][2]
        before = isinstance(dst, NkiTensor) and dst.st.born <= first
        return True if before and (dst.st.zeroed_at or 0) <= first else None


def _clear_psum(recorder):
    """Zeroes this core's PSUM tiles without values before a dynamic loop.

    The loop's body is recorded once: a matmul that overwrites in the first iteration and adds
    in the later ones must always add, and needs something to add to, written by a matmul.
    """
    recorder.flush()
    tiles = [st for st in recorder.storages if st.space == PSUM and st.core == recorder.core and
             st.dtype is dtypes.float32]
    spans = recorder.program.lifetimes() if tiles else ()
    for st in tiles:
        if spans[st.id][1] in (-1, st.zeroed_at):  # unused, or only memset since
            _zero_by_matmul(recorder, st)


def _zero_by_matmul(recorder, st):
    columns = st.pitch_bytes // 4
    weights = recorder.ndarray((1, st.shape[0]), dtypes.bfloat16, sbuf)
    moving = recorder.ndarray((1, min(columns, 512)), dtypes.bfloat16, sbuf)
    for tile in (weights, moving):
        recorder.call("memset", dst=tile, value=0)
    flat = NkiTensor(st, 0, 0, (st.shape[0], columns), (columns, 1), st.dtype)
    for begin in range(0, columns, 512):
        end = min(begin + 512, columns)
        recorder.call("nc_matmul", dst=flat[:, begin:end], stationary=weights,
                      moving=moving[:, :end - begin], is_stationary_onezero=False,
                      is_moving_onezero=False, is_transpose=False, accumulate=False)
