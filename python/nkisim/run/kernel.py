"""Kernels: what @nki.jit makes of a function, and nkisim.run."""

import functools
import re

import numpy as np

from ..record.recorder import state
from ..values.errors import Error
from .compiling import Choices
from .options import Options
from .recording import kernel_frames
from .session import run_function


def run(function, *args, target=None, grid=None, options=None, legacy=False, timing=None,
        config=None, overrides=None, over_capacity=None, allow_unwritten=None, compiler=None,
        **kwargs):
    """Runs a kernel and returns a Result: r = nkisim.run(kernel, x, y, target="trn2").

    timing: False gives values only, "only" the latency without values (outputs is None).
    compiler: a dict of compiling.Choices' switches, such as {"schedule": "program"}.
    """
    if options is None:
        options = Options(target, over_capacity, allow_unwritten, timing, config, overrides,
                          compiler=Choices(**(compiler or {})))
    if isinstance(function, Kernel):
        grid = function.grid if grid is None else grid
        legacy = function.legacy
        function = function.func
    return run_function(function, args, kwargs, grid, options, legacy)


class Kernel:
    """What @nki.jit makes of a function: call it with arrays, index it with a launch grid."""

    __test__ = False  # a kernel called test_... is no test

    def __init__(self, function, grid=None, target=None, legacy=False, **settings):
        functools.update_wrapper(self, function)
        self.func = function
        self.grid = grid
        self.target = target
        self.legacy = legacy
        self.settings = settings
        self.result = None

    def __getitem__(self, grid):
        return Kernel(self.func, grid, self.target, self.legacy, **self.settings)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args, **kwargs):
        if state.recorder is not None:  # a kernel called inside a kernel is a plain function
            return self.func(*args, **kwargs)
        options = Options(self.target if self.legacy and self.target else None)
        try:
            self.result = run_function(self.func, args, kwargs, self.grid, options, self.legacy)
        except Error as problem:
            if self.legacy:
                _raise_legacy_index_error(problem)
            raise problem.with_traceback(kernel_frames(problem.__traceback__)) from None
        return self.result.outputs

    def run(self, *args, **kwargs):
        """Like a call, but returns the Result."""
        return run(self, *args, **kwargs)


def _raise_legacy_index_error(problem):
    """The legacy simulator raised NumPy's IndexError, in flat elements, for indirect addresses."""
    found = re.search(r"index \d+ of tensor \S+ is (-?\d+); an index in 0\.\.(\d+)",
                      problem.message)
    recorder = problem.__dict__.get("recorder")
    if found is None or recorder is None:
        return
    index, rows = int(found[1]), int(found[2]) + 1
    for st in recorder.storages:
        if not st.on_chip and st.shape[0] == rows:
            row = int(np.prod(st.shape[1:]))
            raise IndexError(f"index {index * row} is out of bounds for axis 0 with size "
                             f"{rows * row}") from problem
