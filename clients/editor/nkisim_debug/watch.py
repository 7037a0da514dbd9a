"""Evaluates an expression of tiles and NumPy functions for the debugger, and nothing else: no other
name or call.

    t[0, :8] + 1        np.abs(t - u).max()        np.isnan(acc).any()        valid(t).sum()        tile["a.1"].mean()
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from .tile import Tile

MOST_ELEMENTS = 1 << 26
MOST_BITS = 4096  # of a whole number


class BadExpression(ValueError):
    """The expression has no value; says why."""


_BINARY = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
           ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
           ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
           ast.LShift: operator.lshift, ast.RShift: operator.rshift}
_UNARY = {ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert, ast.Not: operator.not_}
_COMPARE = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
            ast.Gt: operator.gt, ast.GtE: operator.ge}
_FUNCTIONS = {  # of NumPy, apart from its ufuncs: none makes an array larger than those it is given, or reads a file
    "sum", "mean", "std", "var", "min", "max", "amin", "amax", "ptp", "median", "percentile", "quantile", "any",
    "all", "argmin", "argmax", "prod", "cumsum", "cumprod", "sort", "argsort", "unique", "count_nonzero", "nonzero",
    "where", "clip", "round", "reshape", "ravel", "transpose", "squeeze", "diff", "allclose", "isclose",
    "array_equal", "nansum", "nanmean", "nanmin", "nanmax", "nanstd", "diagonal", "trace", "flip", "nan_to_num",
    "isreal", "argwhere", "shape", "size", "ndim"}
_CONSTANTS = {"nan", "inf", "pi", "e", "newaxis", "float32", "float64", "int32", "int64", "uint32", "int8", "uint8",
              "int16", "uint16", "bool_"}
_METHODS = {"sum", "mean", "std", "var", "min", "max", "any", "all", "argmin", "argmax", "prod", "cumsum", "astype",
            "reshape", "ravel", "flatten", "transpose", "squeeze", "round", "clip", "item", "diagonal", "trace"}
_ATTRIBUTES = {"shape", "dtype", "size", "ndim", "T"}
_BUILTINS: dict[str, Callable[..., Any]] = {"abs": abs, "len": len, "min": min, "max": max, "float": float, "int": int,
                                            "bool": bool}


def evaluate(text: str, names: Collection[str], tile: Callable[[str], Tile]) -> Any:
    """The value of `text`. Of `names`, tile(name) is asked for those that occur. Throws BadExpression."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise BadExpression(f"not an expression: {getattr(problem, 'msg', problem)}") from None
    try:
        with np.errstate(all="ignore"):
            return _Evaluation(names, tile).value(tree.body)
    except BadExpression:
        raise
    except (ArithmeticError, TypeError, ValueError, IndexError, KeyError, RecursionError, MemoryError,
            AttributeError) as problem:
        raise BadExpression(f"{type(problem).__name__}: {problem}") from None


def _limited(*values):
    """Refuses what would make an array that is too large."""
    arrays = [np.shape(v) for v in values if isinstance(v, (np.ndarray, np.generic))]
    if arrays and math.prod(np.broadcast_shapes(*arrays)) > MOST_ELEMENTS:
        raise BadExpression(f"it makes an array of more than {MOST_ELEMENTS} elements")


def _number_or_array(value):
    if not isinstance(value, (int, float, np.ndarray, np.generic)):
        raise BadExpression(f"operators take numbers and arrays, not {type(value).__name__}")
    return value


class _Evaluation:
    def __init__(self, names, tile):
        self.names, self.tile = names, tile

    def value(self, node):
        how = getattr(self, f"_{type(node).__name__.lower()}", None)
        if how is None:
            raise BadExpression(f"{type(node).__name__} is not allowed; operators, indices and NumPy's functions are")
        return how(node)

    def _constant(self, node):
        if node.value is not None and node.value is not ... and not isinstance(node.value, (int, float)):
            raise BadExpression(f"{node.value!r} is not allowed")
        return node.value

    def _name(self, node):
        if node.id in self.names:
            return self.tile(node.id).values
        raise BadExpression(f"{node.id} is not a tensor of the program")

    def _tuple(self, node):
        return tuple(self.value(item) for item in node.elts)

    def _list(self, node):
        return [self.value(item) for item in node.elts]

    def _slice(self, node):
        return slice(*(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)))

    def _subscript(self, node):
        if isinstance(node.value, ast.Name) and node.value.id == "tile" and isinstance(node.slice, ast.Constant):
            return self._name(ast.Name(id=node.slice.value))
        array, index = self.value(node.value), self.value(node.slice)
        parts = [np.asarray(part) for part in (index if isinstance(index, tuple) else (index,))
                 if isinstance(part, (np.ndarray, list))]
        if parts and isinstance(array, np.ndarray):
            each = array.size // max(1, array.shape[0] if array.ndim else 1)
            if math.prod(np.broadcast_shapes(*(part.shape for part in parts))) * each > MOST_ELEMENTS:
                raise BadExpression(f"it makes an array of more than {MOST_ELEMENTS} elements")
        return array[index]

    def _binop(self, node):
        left, right = (_number_or_array(self.value(side)) for side in (node.left, node.right))
        integers = isinstance(left, int) and isinstance(right, int)
        if integers and isinstance(node.op, (ast.Pow, ast.LShift)) and (abs(right) > 64 or abs(left) > 1 << 64):
            raise BadExpression("its whole number is too large")
        if isinstance(node.op, ast.MatMult):
            _limited(np.empty((*np.shape(left)[:-1], 0)), np.empty(0))
            if math.prod(np.shape(left)[:-1]) * math.prod(np.shape(right)[-1:]) > MOST_ELEMENTS:
                raise BadExpression(f"it makes an array of more than {MOST_ELEMENTS} elements")
        else:
            _limited(left, right)
        result = _BINARY[type(node.op)](left, right)
        if isinstance(result, int) and result.bit_length() > MOST_BITS:
            raise BadExpression("its whole number is too large")
        return result

    def _unaryop(self, node):
        return _UNARY[type(node.op)](_number_or_array(self.value(node.operand)))

    def _boolop(self, node):
        stop_at = isinstance(node.op, ast.Or)
        for item in node.values:
            value = self.value(item)
            if bool(value) == stop_at:
                break
        return value

    def _compare(self, node):
        left, result = self.value(node.left), True
        for op, item in zip(node.ops, node.comparators):
            right = self.value(item)
            if type(op) not in _COMPARE:
                raise BadExpression("only ==, !=, <, <=, > and >= compare")
            _limited(left, right)
            result, left = result & np.asarray(_COMPARE[type(op)](left, right)), right
        return result[()] if isinstance(result, np.ndarray) else result

    def _ifexp(self, node):
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _attribute(self, node):
        if isinstance(node.value, ast.Name) and node.value.id == "np" and "np" not in self.names:
            if node.attr in _CONSTANTS:
                return getattr(np, node.attr)
            raise BadExpression(f"np.{node.attr} is not allowed")
        if node.attr in _ATTRIBUTES:
            value = self.value(node.value)
            if isinstance(value, (np.ndarray, np.generic)):
                return getattr(value, node.attr)
        raise BadExpression(f".{node.attr} is not allowed; {', '.join(sorted(_ATTRIBUTES))} are")

    def _function(self, node):
        if isinstance(node, ast.Name) and node.id in _BUILTINS:
            return _BUILTINS[node.id]
        if not isinstance(node, ast.Attribute):
            raise BadExpression("only NumPy's functions and the methods of arrays are called")
        if isinstance(node.value, ast.Name) and node.value.id == "np" and "np" not in self.names:
            found = getattr(np, node.attr, None)
            if node.attr in _FUNCTIONS or isinstance(found, np.ufunc):
                return found
            raise BadExpression(f"np.{node.attr} is not allowed")
        owner = self.value(node.value)
        if node.attr in _METHODS and isinstance(owner, (np.ndarray, np.generic)):
            return getattr(owner, node.attr)
        raise BadExpression(f".{node.attr}() is not allowed")

    def _call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "valid":
            name = node.args[0] if len(node.args) == 1 else None
            wanted = name.id if isinstance(name, ast.Name) else getattr(name, "value", None)
            if not isinstance(wanted, str) or wanted not in self.names:
                raise BadExpression("valid() takes the name of a tensor")
            return self.tile(wanted).valid
        function = self._function(node.func)
        args = [self.value(arg) for arg in node.args]
        named = {}
        for word in node.keywords:
            if word.arg is None or word.arg in ("out", "where", "order", "like"):
                raise BadExpression(f"the argument {word.arg or '**'} is not allowed")
            named[word.arg] = self.value(word.value)
        _limited(*args)
        return function(*args, **named)
