"""Runs random instruction tests in a separate C++ process and compares the results with the NumPy
reference.
"""

import struct
import subprocess

import numpy as np

import reference
import reference_control  # noqa: F401  (each registers its ops)
import reference_data  # noqa: F401
from dtypes import decode
from machine import Memory

PRINTED = object()  # key of what device_print has written
OK, REJECTED_READING, REJECTED_RUNNING, CRASHED = 0, 1, 2, 3


class Driver:
    """One driver process; started again when a case kills it."""

    def __init__(self, path, timed=False, undefined=False):
        self.command = [path] + ["--timed"] * timed + ["--undefined"] * undefined
        self.flags, self.process = undefined, None

    def _start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)  # fmt: skip

    def _read(self, size):
        out = self.process.stdout.read(size)
        if len(out) != size:
            raise EOFError
        return out

    def _u32(self):
        return struct.unpack("<I", self._read(4))[0]

    def run(self, case, text=None):
        """(status, message, bytes by tensor name)."""
        return self.run_undefined(case, {}, text)[:3]

    def run_undefined(self, case, holes, text=None):
        """As run(), with flags by tensor name of bytes that are not written; and such flags of what
        is undefined at the end (of a Driver(undefined=True))."""
        if self.process is None:
            self._start()
        text = (text or case.text()).encode()
        parts = [struct.pack("<I", len(text)), text, struct.pack("<I", len(case.tensors))]
        for i, tensor in enumerate(case.tensors):
            parts += [struct.pack("<II", i, tensor.data.nbytes), tensor.data.tobytes()]
            if self.flags:
                parts.append(holes.get(tensor.name, np.zeros_like(tensor.data)).tobytes())
        try:
            self.process.stdin.write(b"".join(parts))
            self.process.stdin.flush()
            status = self._read(1)[0]
            message = self._read(self._u32()).decode(errors="replace")
            out, undefined = {}, {}
            if status == OK:
                for tensor in case.tensors[: self._u32()]:
                    data = np.frombuffer(self._read(self._u32()), np.uint8)
                    out[tensor.name] = data.reshape(tensor.data.shape)
                    if self.flags:
                        flags = np.frombuffer(self._read(tensor.data.nbytes), np.uint8)
                        undefined[tensor.name] = flags.reshape(tensor.data.shape)
                out[PRINTED] = self._read(self._u32()).decode()
            return status, message, out, undefined
        except (EOFError, BrokenPipeError):
            self.process.stdin.close()
            error = self.process.stderr.read().decode(errors="replace")[-2000:]
            code = self.process.wait()
            self.process = None
            return CRASHED, f"the simulator died ({code}): {error}", {}, {}

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def expected(case):
    memory = Memory(case)
    reference.run(case, memory)
    return memory


def in_range(dtype, got, low, high):
    """Bits equal to either bound, or a value between them."""
    equal = (got == low) | (got == high)
    if dtype.kind == "packed":
        return equal
    with np.errstate(all="ignore"):
        value, a, b = (decode(dtype, np.ascontiguousarray(x)) for x in (got, low, high))
        return equal | ((value >= np.fmin(a, b)) & (value <= np.fmax(a, b)))


def compare(case, memory, actual):
    """None, or what differs first."""
    for tensor in case.tensors:
        wrong = actual[tensor.name] != memory.bytes[tensor.name]
        if not wrong.any():
            continue
        wrong = _accept(tensor, memory, actual[tensor.name], wrong)
        if wrong.any():
            return describe(case, tensor, memory.bytes[tensor.name], actual[tensor.name], wrong)
    printed = "".join(memory.printed)
    if actual[PRINTED] != printed:
        return f"printed {actual[PRINTED]!r} instead of {printed!r}"
    for rule in memory.checks:
        message = rule(lambda view: cells_of(actual, view))
        if message:
            return message
    return None


def cells_of(actual, view):
    """Raw bits of a view in what came back."""
    data = actual[view.tensor.name][view.part : view.part + view.parts]
    return np.ascontiguousarray(data).view(view.dtype.raw)[:, view.index()]


def _accept(tensor, memory, got, wrong):
    """Clears the differences that a stated bound allows."""
    wrong = wrong.copy()
    allowed = [(*r, False) for r in memory.ranges] + [(*r, True) for r in memory.loose]
    for view in memory.free:
        if view.tensor is tensor:
            flags = wrong[view.part : view.part + view.parts]
            cells = flags.reshape(flags.shape[0], -1, view.dtype.size)
            cells[:, view.index()] = False
            wrong[view.part : view.part + view.parts] = cells.reshape(flags.shape)
    for view, idx, low, high, either in allowed:
        if view.tensor is not tensor:
            continue
        rows = slice(view.part, view.part + view.parts) if view.on_chip else slice(0, 1)
        cells = np.ascontiguousarray(got[rows]).view(view.dtype.raw)[:, idx]
        low, high = low.reshape(cells.shape), high.reshape(cells.shape)
        good = (cells == low) | (cells == high) if either else in_range(view.dtype, cells, low, high)
        flags = wrong[rows].reshape(cells.shape[0], -1, view.dtype.size)
        flags[:, idx] &= ~good[..., None]
        wrong[rows] = flags.reshape(cells.shape[0], -1)
    return wrong


def describe(case, tensor, want, got, wrong):
    row, byte = np.argwhere(wrong)[0]
    size = tensor.dtype.size
    k = byte // size
    bits = [int(x[row].view(tensor.dtype.raw)[k]) for x in (want, got)]
    text = f"{int(wrong.any(axis=1).sum())} rows of {tensor.name} differ ({int(wrong.sum())} bytes); "
    text += f"first at row {row}, element {k}: expected 0x{bits[0]:x}, got 0x{bits[1]:x}"
    if tensor.dtype.kind != "packed":
        values = [float(decode(tensor.dtype, np.array([b], tensor.dtype.raw))[0]) for b in bits]
        text += f" ({values[0]!r} and {values[1]!r} as {tensor.dtype.name})"
    return text


def check(driver, case):
    """None if the simulator and the reference agree; otherwise (kind, message)."""
    memory = expected(case)
    status, message, actual = driver.run(case)
    if status == CRASHED:
        return "crash", message
    if status != OK:
        return "rejected", message
    difference = compare(case, memory, actual)
    return ("different", difference) if difference else None
