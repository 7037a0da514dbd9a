"""Parses, as untrusted data, what a submitted kernel's process reports. Nonsense ends the
evaluation with a Stop, and nothing is read that is larger than it need be.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from nkisim.values.storage import row_major

_CONSTANTS = "constants.bin"
#: Characters of a text, outputs, dimensions.
_MOST_TEXT, _MOST_OUTPUTS, _MOST_DIMENSIONS = 4000, 4096, 32
_CONSTANT_DTYPE = re.compile(r"[<|][biufV][1248]")


class Stop(Exception):
    """The evaluation ends here with a status and an error object."""

    def __init__(self, status: str, **error: Any) -> None:
        super().__init__(error.get("message", status))
        self.status, self.error = status, error


def read_plain_file(folder: str, name: str, limit: int) -> bytes | None:
    """The bytes of a file that a candidate's process left in a folder, None if there is none; Stop if
    it is no plain file of its own, or too large."""
    try:
        file = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise nonsense_error(f"{name}: {problem.strerror}") from None
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(file)
        raise nonsense_error(f"{name} is no plain file")
    with open(file, "rb") as stream:
        if found.st_size > limit:
            raise Stop("memory", code="memory", message=f"{name} has {found.st_size} bytes; at most "
                                                        f"{limit} are required")
        return stream.read(limit)


def nonsense_error(text: str) -> Stop:
    """The end of an evaluation whose candidate's process did not say what recording says."""
    return Stop("crashed", code="forged", message=f"no sense in what came of the recording ({text})")


def read_constants(folder: str, described: Any, limit: int) -> dict[str, np.ndarray]:
    """The arrays that a recorded kernel brings along, by their names in the archive: `described` by
    the process that recorded it as {key, dtype, shape} each, one behind the other in a file."""
    data, at = read_plain_file(folder, _CONSTANTS, limit) or b"", 0
    found: dict[str, np.ndarray] = {}
    for one in _listed(described, 1 << 16):
        key, shape = one["key"], _sizes(one["shape"])
        if type(key) is not str or not re.fullmatch(r"const\d{1,9}", key):
            raise nonsense_error("the name of a constant")
        if type(one["dtype"]) is not str or not _CONSTANT_DTYPE.fullmatch(one["dtype"]):
            raise nonsense_error("the dtype of a constant")
        dtype = np.dtype(one["dtype"])
        count = math.prod(shape)
        if at + count * dtype.itemsize > len(data):
            raise nonsense_error("a constant without its bytes")
        found[key] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += count * dtype.itemsize
    return found


def _listed(value, most):
    """A list of JSON objects, or Stop."""
    if type(value) is not list or len(value) > most or not all(type(v) is dict for v in value):
        raise nonsense_error("a list of objects is required")
    return value


def _sizes(value, least=0):
    """A list of whole numbers as a tuple, or Stop."""
    if type(value) is not list or len(value) > _MOST_DIMENSIONS or not all(
            type(n) is int and least <= n < 1 << 48 for n in value):
        raise nonsense_error("sizes")
    return tuple(value)


def text_of(value: Any) -> str:
    """A text of a candidate's process, no longer than people read."""
    return value[:_MOST_TEXT] if type(value) is str else repr(type(value))


def error_of(value: Any) -> dict[str, Any]:
    """An error object of a candidate's process with what an error has and nothing else."""
    if type(value) is not dict:
        raise nonsense_error("an error")
    error: dict[str, Any] = {k: text_of(value[k]) for k in ("code", "kind", "rule", "message", "text",
                                                                "kernel_file", "instruction") if k in value}
    if type(value.get("kernel_line")) is int and 0 < value["kernel_line"] < 1 << 31:
        error["kernel_line"] = value["kernel_line"]
    return {"code": "exception", "message": "", **error}


class Outputs:
    """Reads the outputs that a simulation wrote: `described` by the process that recorded it, and checked here. Each
    is a whole buffer as it lies in memory: a view of one would move, repeat or leave out elements for nothing."""

    def __init__(self, described: Any) -> None:
        self.described = [self._checked(o) for o in _listed(described, _MOST_OUTPUTS)]
        names = [o["tensor"] for o in self.described]
        for name in names:
            if names.count(name) > 1:
                raise no_result(f"the kernel returns {name[:80]} {names.count(name)} times", "a buffer for each result")

    @staticmethod
    def _checked(o: dict[str, Any]) -> dict[str, Any]:
        name, dtype = o["tensor"], o["dtype"]
        if type(name) is not str or type(dtype) is not str:
            raise nonsense_error("an output's name or dtype")
        try:
            known = np.dtype(dtype.removesuffix("_"))
        except TypeError:
            raise nonsense_error(f"dtype {dtype[:40]!r}") from None
        if known.kind not in "biuf" and not hasattr(ml_dtypes, known.name):
            raise nonsense_error(f"dtype {dtype[:40]!r}")
        shape, strides = _sizes(o["shape"]), _sizes(o["strides"], -(1 << 48))
        if type(o["offset"]) is not int or len(shape) != len(strides):
            raise nonsense_error("an output's place")
        if 0 in shape:
            raise nonsense_error("an output of no element")
        lies = row_major(shape)
        if o["offset"] or any(n > 1 and s != lie for n, s, lie in zip(shape, strides, lies)):
            raise no_result(f"the kernel returns a view of {name[:80]} (offset {o['offset']}, strides {list(strides)}),"
                            " for which no instruction reorders or repeats elements", "the buffer as it lies "
                            f"(0, {list(lies)})")
        return {"tensor": name, "dtype": known, "shape": shape}

    def read(self, files: Mapping[str, str]) -> list[np.ndarray]:
        """`files`: of the outputs, by tensor."""
        return [self._one(files, o) for o in self.described]

    def _one(self, files, o):
        if o["tensor"] not in files:
            raise nonsense_error(f"{o['tensor'][:80]} is no output")
        dtype, count = o["dtype"], math.prod(o["shape"])
        flat = np.load(files[o["tensor"]], mmap_mode="r").reshape(-1).view(np.uint8)
        if count * dtype.itemsize != flat.size:
            raise no_result(f"the kernel returns {count * dtype.itemsize} bytes of {o['tensor'][:80]}",
                            f"a result of all {flat.size} that it has")
        return flat.view(dtype).reshape(o["shape"]).view(np.ndarray)


def no_result(found: str, required: str) -> Stop:
    """The end of an evaluation whose kernel does not compute what it returns."""
    message = f"{found}; {required} is required"
    return Stop("illegal", code="bad_input", kind="kernel_result", rule="kernel_result", message=message)
