"""Finds which argument of a call is of a wrong kind, after a Python exception inside the front end: by the
parameters' names. Nothing is asked of a call that succeeds.
"""

import functools
import numbers
import re
import types

import numpy as np

from ..values.dtypes import find
from ..values.errors import is_integer, is_ours, is_truth, short
from ..values.index import Mask
from ..values.operators import Operators


def _number(value):
    return isinstance(value, numbers.Real) and not hasattr(value, "kind")


def _list_of(check):
    return lambda value: isinstance(value, (list, tuple)) and all(map(check, value))


def _size(value):
    return hasattr(value, "__index__") and not isinstance(value, np.ndarray)


def _pairs(value):
    return isinstance(value, (list, tuple)) and all(isinstance(v, (list, tuple)) and len(v) == 2 for v in value)


def _tensor(value):
    return isinstance(value, Operators)


def _dtype(value):
    try:
        return find(value) is not None
    except (TypeError, ValueError):
        return False


_KINDS = (
    (_tensor, "a tensor (nl.load of an array, or nl.ndarray)",
     "data src dst a x y data0 data1 data2 stationary moving on_true_tile on_true src_buffer index indices vals "
     "predicate condition value dst_idx"),
    (_list_of(_size), "a tuple of integers, such as (128, 512)", "shape"),
    (_list_of(is_integer), "a list of dimensions, such as (1, 0)", "dims axes"),
    (_list_of(is_integer), "a list of cores, such as (0, 1)", "cores"),
    (_list_of(_tensor), "a list of tensors", "srcs"),
    (_list_of(_number), "a list of numbers", "scales"),
    (_list_of(_size), "(row, column)", "tile_position tile_size"),
    (_pairs, "a list of [step, count]", "pattern"),
    (lambda value: isinstance(value, (str, list, tuple)), "names of dimensions, such as ('p', ('a', 'b'))",
     "src_pattern dst_pattern"),
    (lambda value: isinstance(value, dict), "a dictionary such as {'a': 4}", "fixed_sizes"),
    (lambda value: isinstance(value, str), "a text", "name"),
    (lambda value: isinstance(value, Mask), "a comparison of index tiles, such as i < 100", "mask"),
    (_dtype, "a dtype, such as nl.float32", "dtype"),
    (lambda value: isinstance(value, str), "a buffer, such as nl.sbuf", "buffer"),
    (lambda value: hasattr(value, "kind"), "a member of nki.isa's enumeration of it",
     "engine oob_mode dge_mode perf_mode"),
    (is_truth, "True or False",
     "is_transpose transpose_x negate keepdims accumulate unique_indices reverse0 reverse1"),
    (is_integer, "an integer", "axis dim step start end channel_multiplier key other"),
    (_size, "an integer", "offset"),
    (lambda value: _number(value) or _tensor(value), "a number or a tile", "seed n imm"),
    (lambda value: is_integer(value) or _list_of(is_integer)(value), "an index of a loop, or a list of them",
     "loop_indices"),
    (lambda value: not isinstance(value, str), "an array, or the path of a .npy file that exists", "constant"),
)
_OF_NAME = {name: (check, required) for check, required, names in _KINDS for name in names.split()}


_OF_NONE = re.compile(r"\bNone(Type)?\b")  # in Python's own words for what None cannot do
_DEPTH = 4  # functions within functions that a call is held back by


def wrong_argument(problem, held=None):
    """(parameter, value's text, what is required) of the argument that an exception is about; None if none is
    found. held: the function of a call that was held back."""
    about_none = _OF_NONE.search(str(problem))
    owner = getattr(problem, "obj", problem)  # of an attribute that it lacks
    suspects = []
    for name, value in [*_given(problem.__traceback__), *_held(held)]:
        check, required = _OF_NAME.get(name, (None, ""))
        if check is not None and (value is not None or about_none) and not check(value):
            suspects.append((name, value, required))
    suspects.sort(key=lambda one: one[1] is not owner)
    return next(((name, short(value), required) for name, value, required in suspects), None)


def _given(tb):
    """(name, value) of the arguments of the front end's frames."""
    while tb is not None:
        code, values = tb.tb_frame.f_code, tb.tb_frame.f_locals
        if is_ours(code):
            names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount] + code.co_freevars
            yield from ((name, values[name]) for name in names if name in values)
        tb = tb.tb_next


def _held(value, name="", depth=0):
    """(name, value) of what the function of a call that was held back keeps for it."""
    if isinstance(value, functools.partial):
        value = value.keywords
    if isinstance(value, types.FunctionType) and value.__closure__ and depth < _DEPTH:
        for inner, cell in zip(value.__code__.co_freevars, value.__closure__):
            if cell != types.CellType():  # else it is not assigned yet
                yield from _held(cell.cell_contents, inner, depth + 1)
    elif isinstance(value, dict) and name not in _OF_NAME and depth < _DEPTH:
        for inner, one in value.items():
            yield from _held(one, inner, depth + 1)
    else:
        yield name, value
