"""Loads reference files, which give a kernel's inputs and expected outputs by seed.

A reference is a Python file in one of two forms:

    def inputs(seed): ...        # the kernel's arguments: a tuple or list, or a dict by name
    def reference(*inputs): ...  # what the kernel returns: an array or a tuple of them
    SEEDS, RTOL, ATOL, REL_L2, KERNEL, GRID, TARGET, MUTABLE  # optional, see Reference

or that of AccelOpt's tasks: get_inputs(), forward(), transform_to_nki_inputs() and
transform_nki_outputs(), with NumPy's global seed set before get_inputs() and a relative L2 error
below 2e-5. The file is trusted: it runs in the main process, which no submitted code enters.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import importlib.util
import os
import secrets
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from nkisim.run.comparing import compare
from nkisim.values import dtypes

from .dependencies import digest_of, watched

#: Seeds of AccelOpt's check, used where a reference names none.
SEEDS = (0, 21, 42, 63, 84)
_CACHED_BYTES = 1 << 30


class BadReference(Exception):
    """The reference cannot be used; the message says why."""


class Case:
    """One seed: `args` (list) or `kwargs` (dict) of the kernel, and `expected`, a list of arrays."""

    def __init__(self, args: list[Any], kwargs: dict[str, Any], expected: list[np.ndarray],
                 finish: Callable[[Any], Any] | None) -> None:
        self.args, self.kwargs, self.expected, self.finish = args, kwargs, expected, finish

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays among the arguments, in the order in which a kernel is given them."""
        return [a for a in (*self.args, *self.kwargs.values()) if isinstance(a, np.ndarray)]

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (*self.arrays, *self.expected))


@contextlib.contextmanager
def _no_bytecode() -> Iterator[None]:
    """No bytecode is kept of what the reference imports: a candidate could read it there, and Python takes it for a
    file that changed within the same second."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def load(path: str) -> ModuleType:
    """The module in a file, under a name of its own."""
    spec = importlib.util.spec_from_file_location("nkisim_reference", path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise BadReference(f"{path}: there is no such Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        with _no_bytecode():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as problem:
        raise BadReference(f"{path}: {type(problem).__name__}: {problem}") from problem
    return module


def listed(value: Any) -> list[np.ndarray]:
    """A result as a list of arrays."""
    if isinstance(value, dict):
        value = list(value.values())
    values = value if isinstance(value, (list, tuple)) else [value]
    return [np.asarray(v) for v in values]


def _is_real(array: np.ndarray) -> bool:
    """Real numbers, ml_dtypes' too, and no integers."""
    return array.dtype.kind in "fV"


def _kept_itemsize(array: np.ndarray) -> int:
    """Bytes of an element on the device, which narrows types of 64 bits."""
    return min(array.itemsize, 4)


class Reference:
    """The cases of a reference file, computed once per seed.

    rtol, atol: every element within atol + rtol * |expected| (default 1e-2, 1e-3); rel_l2: instead,
    |found - expected| / |expected| over all elements at most this. kernel: name of the function in
    a candidate's file; grid: its launch grid; mutable: names or positions of arguments that the
    kernel may write.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.path.realpath(path)
        self._opened: set[str] = set()
        with watched(self._opened):
            self.module = load(self.path)
        self._accelopt = hasattr(self.module, "get_inputs") and hasattr(self.module, "forward")
        if not self._accelopt and not (hasattr(self.module, "inputs")
                                       and hasattr(self.module, "reference")):
            raise BadReference(f"{path}: no reference; inputs(seed) and reference(*inputs) are "
                               "required, or get_inputs() and forward()")
        def name(n: str, default: Any) -> Any:
            return getattr(self.module, n, default)

        self.seeds = tuple(int(s) for s in name("SEEDS", SEEDS))
        self.rel_l2 = name("REL_L2", 2e-5 if self._accelopt else None)
        self.rtol, self.atol = float(name("RTOL", 1e-2)), float(name("ATOL", 1e-3))
        self.kernel, self.grid = name("KERNEL", None), name("GRID", None)
        self.target, self.mutable = name("TARGET", None), tuple(name("MUTABLE", ()))
        self._cases: collections.OrderedDict[int, Case] = collections.OrderedDict()

    def _place(self, problem: BaseException) -> str:
        """The file, and the line of it where an exception was raised."""
        lines = [frame.lineno for frame in traceback.extract_tb(problem.__traceback__) if frame.filename == self.path]
        return f"{self.path}:{lines[-1]}" if lines else self.path

    def case(self, seed: int) -> Case:
        """The Case of a seed; raises BadReference if the reference's own code fails."""
        if seed in self._cases:
            self._cases.move_to_end(seed)
            return self._cases[seed]
        try:
            with watched(self._opened), _no_bytecode():
                made = self._make(seed)
        except (Exception, SystemExit) as problem:
            takes = "" if self._accelopt else "; inputs gets an integer, and reference the arrays of inputs"
            raise BadReference(f"{self._place(problem)}: seed {seed}: {type(problem).__name__}: "
                               f"{problem}{takes}") from problem
        if seed in self.seeds:  # one that was drawn is asked for once
            self._cases[seed] = made
            while len(self._cases) > 1 and sum(
                    c.nbytes for c in self._cases.values()) > _CACHED_BYTES:
                self._cases.popitem(last=False)
        return made

    def _make(self, seed):
        if self._accelopt:
            return self._accelopt_case(seed)
        given = self.module.inputs(seed)
        args, kwargs = ([], dict(given)) if isinstance(given, dict) else (
            list(given) if isinstance(given, (list, tuple)) else [given], {})
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        named = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in kwargs.items()}
        return Case(args, kwargs, listed(self.module.reference(*copies, **named)), None)

    def _accelopt_case(self, seed):
        np.random.seed(seed)
        given = self.module.get_inputs()
        args = getattr(self.module, "transform_to_nki_inputs", list)(
            [a.copy() if isinstance(a, np.ndarray) else a for a in given])
        wanted = self.module.forward(*given)
        finish = getattr(self.module, "transform_nki_outputs", None)
        return Case(list(args), {}, listed(wanted),
                    finish and (lambda found: finish(found, wanted)))

    def digest(self) -> str:
        """The hash of all that the cases depend on: the file, what it imports and opens, arrays of the named seeds."""
        found = hashlib.sha256()
        for seed in self.seeds:
            case = self.case(seed)
            plain = [a for a in (*case.args, *case.kwargs.items()) if not isinstance(a, np.ndarray)]
            found.update(repr([(seed, plain)]).encode())
            for array in (*case.arrays, *case.expected):
                found.update(repr((array.dtype.str, array.shape)).encode())
                found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        found.update(digest_of(self.path, self._opened).encode())
        return found.hexdigest()

    def held_out(self) -> int:
        """A seed that no candidate can have aimed at: drawn when it is asked for."""
        seed = secrets.randbits(32)
        return seed if seed not in self.seeds else seed + 1

    def errors(self, case: Case, found: Sequence[np.ndarray]) -> dict[str, Any]:
        """The distance of `found` (arrays in the order of the outputs) from the expected arrays, and whether it is
        right.

        A dict: equal, and where it can be said max_abs, rel_l2, mismatches, message.
        """
        try:
            if case.finish is not None:
                found = [a.copy() for a in found]
                with _no_bytecode():
                    found = listed(case.finish(tuple(found) if len(found) > 1 else found[0]))
        except Exception as problem:
            return {"equal": False, "message": f"outputs: {type(problem).__name__}: {problem}"}
        if len(found) != len(case.expected):
            return {"equal": False, "message": f"{len(found)} outputs; {len(case.expected)} are "
                                               "required"}
        worst: dict[str, Any] = {"equal": True, "max_abs": 0.0, "rel_l2": 0.0, "mismatches": 0}
        given = min((a.itemsize for a in case.arrays if _is_real(a)), default=8)
        for number, (have, want) in enumerate(zip(found, case.expected)):
            both = _is_real(have) and _is_real(want)  # which may be as narrow as what they are made of
            if have.itemsize < min(given if both else 8, _kept_itemsize(want)):
                least = dtypes.dtype_of_array(want.dtype)
                return {"equal": False, "message": f"output {number} is {have.dtype}, narrower than the "
                                                   f"{'inputs' if both else 'result'}; {least} is required"}
            if have.shape != want.shape:
                return {"equal": False, "message": f"output {number} is {list(have.shape)}; "
                                                   f"{list(want.shape)} is required"}
            self._one(number, have, want, worst)
        return worst

    def _one(self, number, have, want, worst):
        off = compare(have, want, self.rtol, self.atol, self.rel_l2)
        worst["max_abs"] = max(worst["max_abs"], off.max_abs)
        worst["rel_l2"] = max(worst["rel_l2"], off.rel_l2) if off.rel_l2 == off.rel_l2 else off.rel_l2
        worst["mismatches"] += off.mismatches
        if not off.equal and worst["equal"]:
            worst["equal"] = False
            worst["message"] = (
                f"output {number}: relative L2 error {off.rel_l2:.3g}; at most {self.rel_l2:g} is required"
                if self.rel_l2 is not None else
                f"output {number}: {off.mismatches} of {off.elements} elements differ, first at "
                f"{off.first}")
