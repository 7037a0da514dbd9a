"""Translates element-wise functions of nki.language: most to one instruction, a few to several."""

import operator

import numpy as np

from ..isa import instructions as isa
from ..record.recorder import current
from ..record.refusals import called_by_kernel, report_refused
from ..values import index
from ..values.dtypes import float32, int32, resolve, uint8, uint16, uint32
from ..values.errors import KernelTypeError, KernelValueError, check_spelling, fail, fail_on, hint
from ..values.optokens import ACT, OPERATORS
from ..values.storage import PSUM, product, sbuf
from ..values.tensor import NkiTensor, require_tensor
from .moves import assign, copy, in_sbuf, on_chip, shaped
from .tiles import work_tile, broadcast_shapes, operand, result_tile, promote, scalar_promote


_COMPARES = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}


def binary(name):
    """The function of nki.language for a binary operator: of tiles, numbers or index expressions."""
    def function(x, y, dtype=None, mask=None):
        if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
            if any(isinstance(v, _INDICES) for v in (x, y)):
                return _of_indices(name, x, y)
            if all_numbers(x, y):
                return getattr(np, name)(x, y)
            fail("tensor_required",
                 f"{name} of {type(x).__name__} and {type(y).__name__}; a tile is required", name,
                 KernelTypeError)
        if isinstance(x, index.Expr) or isinstance(y, index.Expr):
            return _run_time_index(name, x, y)
        _check_operands(name, x, y)
        other = _unlike(name, x, y, dtype, mask)
        if other is not None:
            return other
        kind = "compare" if name in _COMPARES else ""
        if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
            return _tile_tile(name, on_chip(x), on_chip(y), dtype, mask, kind)
        reverse = not isinstance(x, NkiTensor)
        return _tile_scalar(name, on_chip(y if reverse else x), x if reverse else y, reverse,
                            dtype, mask, kind)

    function.__name__ = name
    return function


_INDICES = (index.Expr, index.Mask, index.DynamicSum)
_ON_INDICES = {"add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
               "mod": operator.mod, "less": operator.lt, "less_equal": operator.le,
               "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq,
               "bitwise_and": operator.and_, "logical_and": operator.and_,
               "bitwise_or": operator.or_, "logical_or": operator.or_}


def _of_indices(name, x, y):
    """The function on index tiles and masks, which is Python's operator on them."""
    if name not in _ON_INDICES:
        fail("index_tile", f"{name} of an index tile; iota makes a tile of one", name, KernelTypeError)
    return _ON_INDICES[name](x, y)


def _run_time_index(name, x, y):
    """An index tile plus, or minus, what a tensor of one element holds at run time."""
    if name == "add":
        return x + index.DynamicSum.of(y) if isinstance(x, index.Expr) else y + index.DynamicSum.of(x)
    if name == "subtract":
        if isinstance(y, index.Expr):
            return index.DynamicSum.of(x) - y
        return x - index.DynamicSum.of(y)
    fail("index_tile",
         f"{name} of an index tile and {y if isinstance(x, index.Expr) else x!r}; only sums of them "
         "are addresses (iota makes a tile of an index tile)", name, KernelTypeError)


def _check_operands(name, x, y):
    for side, value in (("x", x), ("y", y)):
        if isinstance(value, NkiTensor):
            continue
        if not all_numbers(value):
            fail_on("tensor_required", side, type(value).__name__, "a tile or a number", name,
                    KernelTypeError)
        if isinstance(value, np.ndarray) and value.size != 1:
            fail("tensor_required",
                 f"{side} is a NumPy array of shape {value.shape}; a tile or a number is required "
                 "(nl.shared_constant makes a tensor of it)", name, KernelTypeError)


def all_numbers(*values):
    return not [v for v in values if not isinstance(v, (int, float, np.generic, np.ndarray))]


def _unlike(name, x, y, dtype, mask):
    """Operators of nki.language that tensor_scalar (power) or trn2 (abs_max, abs_min) lacks; None
    for all others."""
    recorder = current()
    if name == "power" and not (isinstance(x, NkiTensor) and isinstance(y, NkiTensor)):
        out = scalar_promote(*((x.dtype, y) if isinstance(x, NkiTensor) else (y.dtype, x)))
        recorder.flush()
        x, y = (in_sbuf(v) if isinstance(v, NkiTensor) else
                full_column(other.shape[0], float(v)) for v, other in ((x, y), (y, x)))
        return _tile_tile(name, x, y, out if dtype is None else dtype, mask, "")
    if name in ("abs_max", "abs_min") and recorder.generation < 4:
        tiles = [v for v in (x, y) if isinstance(v, NkiTensor)]
        out = promote(*[t.dtype for t in tiles]) if len(tiles) == 2 else tiles[0].dtype
        sizes = [FUNCTIONS["abs"](v, dtype=float32) if isinstance(v, NkiTensor) else abs(v)
                 for v in (x, y)]
        compare = FUNCTIONS["greater" if name == "abs_max" else "less"]
        first = compare(*sizes, dtype=uint8)
        recorder.flush()
        return where(first, x, y, dtype=out if dtype is None else dtype, mask=mask)
    return None


_ARITHMETIC_SCALARS = {"add", "subtract", "multiply", "maximum", "minimum", *_COMPARES}


def _quotient(name, dtype):
    """Integers divide to float32 (assumed): rounding the quotient would lose what floor() needs."""
    return float32 if name == "divide" and not dtype.is_float else dtype


def _tile_tile(name, x, y, dtype, mask, kind):
    shape = broadcast_shapes(x.shape, y.shape, name)
    out = _quotient(name, promote(x.dtype, y.dtype)) if dtype is None else resolve(dtype)
    for small, large, reverse in () if x.shape == y.shape else ((y, x, False), (x, y, True)):
        column = (small.dtype is float32 and small.shape[0] == shape[0] and large.shape == shape and
                  product(small.shape[1:]) == 1 and product(shape[1:]) > 1)
        if column and small.st.vector and shape[0] == shape[-1]:
            hint(f"{name}: {small!r} was loaded from a tensor of one dimension, along the partitions: element p "
                 "goes with row p, where NumPy would take it along the last axis (x.reshape((1, "
                 f"{shape[0]})) in HBM loads it as a row)")
        if column and name in _ARITHMETIC_SCALARS and mask is None:
            def build(dst, data, operand, reverse=reverse):
                isa.tensor_scalar(dst, data, OPERATORS[name], operand, reverse)

            flat = small.reshape((small.shape[0], 1))
            return result_tile(shape, out, build, None, (large, flat), kind=kind)
    given = x, y
    x, y = operand(x, shape), operand(y, shape)
    for before, after in zip(given, (x, y)):
        if after.shape != shape:
            fail("broadcast",
                 f"{before!r} does not broadcast to {shape}: its first dimension, the partitions, "
                 f"would become another one; reshape it", name, KernelValueError)
    if x.st.space == PSUM and y.st.space == PSUM:
        y = copy(y)
        current().flush()

    def build(dst, a, b):
        isa.tensor_tensor(dst, a, b, OPERATORS[name])

    return result_tile(shape, out, build, mask, (x, y), kind=kind)


def _tile_scalar(name, x, scalar, reverse, dtype, mask, kind):
    out = _quotient(name, scalar_promote(x.dtype, scalar)) if dtype is None else resolve(dtype)
    if isinstance(scalar, np.generic) or isinstance(scalar, np.ndarray) and scalar.size == 1:
        scalar = scalar.item()

    def build(dst, data):
        isa.tensor_scalar(dst, data, OPERATORS[name], scalar, reverse)

    return result_tile(x.shape, out, build, mask, (x,), kind=kind)


def _unary(name):
    def function(x, dtype=None, mask=None, **_ignored):
        if _ignored:
            check_spelling(_ignored)
        if not isinstance(x, NkiTensor):
            if all_numbers(x) and hasattr(np, name):
                return getattr(np, name)(x)
            fail_on("tensor_required", "x", type(x).__name__, "a tile", name, KernelTypeError)
        x = on_chip(x)
        if x.st.space == PSUM and name == "rsqrt" and called_by_kernel():
            report_refused("rsqrt_of_psum", operand=x)
        out = x.dtype if dtype is None else resolve(dtype)
        op = OPERATORS[name]
        if op in ACT:
            def build(dst, data):
                isa.activation(dst, op, data)
        else:
            def build(dst, data):
                isa.tensor_scalar(dst, data, op, None)
        return result_tile(x.shape, out, build, mask, (x,))

    function.__name__ = name
    return function


def negative(x, dtype=None, mask=None):
    return FUNCTIONS["multiply"](x, -1, dtype=dtype, mask=mask)


def _wrapped(name, x, mask):
    """x less the multiple of 2 pi that leaves -pi..pi, where the engine's sine is valid: nl.sin is
    right for any input, unlike nki.isa.activation(op=nl.sin), which extrapolates."""
    if not isinstance(x, NkiTensor):
        fail_on("tensor_required", "x", type(x).__name__, "a tile", name, KernelTypeError)
    x = on_chip(x)
    angle = result_tile(x.shape, float32, lambda dst, data: isa.tensor_scalar(dst, data, OPERATORS["wrap_pi"], None),
                    mask, (x,))
    current().flush()
    return angle


def sin(x, dtype=None, mask=None, **_ignored):
    if _ignored:
        check_spelling(_ignored)
    if all_numbers(x):
        return np.sin(x)
    angle = _wrapped("sin", x, mask)
    return result_tile(x.shape, x.dtype if dtype is None else resolve(dtype),
                   lambda dst, data: isa.activation(dst, OPERATORS["sin"], data), mask, (angle,))


_HALF_PI = float(np.float32(np.pi / 2))


def cos(x, dtype=None, mask=None, **_ignored):
    if _ignored:
        check_spelling(_ignored)
    if all_numbers(x):
        return np.cos(x)
    # cos(x) = sin(pi/2 - |x|) keeps the argument within sin's valid range. pi/2 comes in two parts,
    # as the difference is exact where it is small: near the zeros of cos.
    magnitude = FUNCTIONS["abs"](_wrapped("cos", x, mask), dtype=float32, mask=mask)
    current().flush()
    angle = result_tile(magnitude.shape, float32, lambda dst, data: isa.tensor_scalar(
        dst, data, OPERATORS["multiply"], -1.0, False, OPERATORS["add"], _HALF_PI), mask, (magnitude,))
    current().flush()
    rest = full_column(angle.shape[0], float(np.pi / 2 - _HALF_PI))
    rest = rest.reshape((angle.shape[0],) + (1,) * (angle.ndim - 1))  # a mask cuts its rows

    def build(dst, data, bias):
        isa.activation(dst, OPERATORS["sin"], data, bias=bias.reshape((bias.shape[0], 1)))

    return result_tile(angle.shape, x.dtype if dtype is None else resolve(dtype), build, mask,
                   (angle, rest))


def tan(x, dtype=None, mask=None, **_ignored):
    if _ignored:
        check_spelling(_ignored)
    if all_numbers(x):
        return np.tan(x)
    x = on_chip(x)
    numerator = FUNCTIONS["sin"](x, dtype=float32, mask=mask)
    current().flush()
    return FUNCTIONS["divide"](numerator, cos(x, dtype=float32, mask=mask),
                               dtype=dtype or x.dtype, mask=mask)


def full_column(rows, value):
    tile = current().ndarray((rows, 1), float32, sbuf)
    isa.memset(tile, value)
    return tile


_WHOLE = 2.0 ** 23  # every float32 beyond it is an integer


def floor(x, dtype=None, mask=None):
    return _floor_like(x, dtype, mask, "greater", "subtract")


def ceil(x, dtype=None, mask=None):
    return _floor_like(x, dtype, mask, "less", "add")


def _floor_like(x, dtype, mask, compare, correct):
    """Through int32 and back, which rounds; what does not fit is whole already (or NaN)."""
    x, recorder = on_chip(x), current()
    small = recorder.ndarray(x.shape, float32, sbuf)
    isa.tensor_scalar(small, x, OPERATORS["maximum"], -_WHOLE, False, OPERATORS["minimum"], _WHOLE)
    nearest = copy(small, dtype=int32)
    recorder.flush()
    beyond = FUNCTIONS[compare](nearest, small, dtype=float32)
    recorder.flush()
    whole = FUNCTIONS[correct](nearest, beyond, dtype=float32)
    recorder.flush()
    size = FUNCTIONS["abs"](x, dtype=float32)
    recorder.flush()
    fits = FUNCTIONS["less"](size, _WHOLE, dtype=uint8)
    recorder.flush()
    result = where(fits, whole, x, dtype=dtype or x.dtype)
    if mask is None:
        return result
    recorder.flush()
    return copy(result, mask=mask)


def trunc(x, dtype=None, mask=None):
    x = on_chip(x)
    down = floor(FUNCTIONS["abs"](x, dtype=float32), dtype=float32)
    current().flush()
    sign = FUNCTIONS["sign"](x, dtype=float32)
    current().flush()
    return FUNCTIONS["multiply"](down, sign, dtype=dtype or x.dtype, mask=mask)


def affine(expr, shape, box=None):
    """(pattern over the free axes, offset, channel multiplier) of an index expression over a shape, or
    over a box of it."""
    nd, box = len(shape), box or [(0, n) for n in shape]
    offset = expr.const + sum(c * box[nd - axis][0] for axis, c in expr.coefs.items() if axis <= nd)
    pattern = [[expr.coefs.get(axis, 0), box[nd - axis][1] - box[nd - axis][0]]
               for axis in range(nd - 1, 0, -1)]
    return pattern, offset, expr.coefs.get(nd, 0)


def _truth(mask, tiles):
    """A tile of 1 where a comparison of index tiles holds and 0 elsewhere: an affine_select a condition."""
    if mask.either:
        fail("mask", "where takes comparisons of index tiles joined with &, not |; one where for each is "
             "required", "where", KernelTypeError)
    shape = ()
    for one in (*mask.terms, *tiles):
        shape = broadcast_shapes(shape, one.shape, "where")
    truth = current().ndarray(shape, float32, sbuf)
    isa.memset(truth, 1.0)
    for term in mask.terms:
        pattern, offset, multiplier = affine(term, shape)
        rest = current().ndarray(shape, float32, sbuf)
        isa.affine_select(rest, pattern, multiplier, truth, 0.0, OPERATORS["greater_equal"], offset)
        truth = rest
    which = current().ndarray(shape, uint8, sbuf)
    isa.tensor_copy(which, truth)
    return which


def where(condition, x, y, dtype=None, mask=None):
    """x where `condition` is not zero, else y."""
    recorder = current()
    recorder.flush()
    _check_operands("where", x, y)
    tiles = [v for v in (x, y) if isinstance(v, NkiTensor)]
    if isinstance(condition, index.Mask):
        condition = _truth(condition, tiles)
    require_tensor(condition, "condition", "where")
    shape = condition.shape
    for t in tiles:
        shape = broadcast_shapes(shape, t.shape)
    out = resolve(dtype) if dtype is not None else tiles[0].dtype if tiles else float32
    predicate = on_chip(condition)
    if predicate.dtype not in (uint8, uint16, uint32):
        predicate = FUNCTIONS["not_equal"](predicate, 0.0, dtype=uint8)
        recorder.flush()
    predicate = operand(predicate, shape)
    if isinstance(x, NkiTensor):
        x = operand(on_chip(x), shape)
        if x.dtype is not out:
            x = copy(x, dtype=out)
            recorder.flush()

    if isinstance(y, NkiTensor):
        y = operand(on_chip(y), shape)

    def build(dst, which, yes, no):
        into = work_tile(dst, (which, yes), out)
        assign(into, no)
        recorder.flush()
        isa.tensor_copy_predicated(into, yes, which)
        if into is not dst:
            isa.tensor_copy(dst, into)

    return result_tile(shape, out, build, mask, (predicate, x, y))


FUNCTIONS = {name: binary(name) for name in (
    "add subtract multiply maximum minimum abs_max abs_min power equal not_equal less less_equal "
    "greater greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_and "
    "logical_or logical_xor").split()}
FUNCTIONS.update({name: _unary(name) for name in (
    "abs square invert logical_not exp log sqrt rsqrt tanh sigmoid relu gelu gelu_apprx_sigmoid "
    "gelu_apprx_tanh gelu_dx gelu_apprx_sigmoid_dx silu silu_dx softplus mish erf erf_dx "
    "reciprocal arctan sign").split()})
FUNCTIONS.update(negative=negative, sin=sin, cos=cos, tan=tan, floor=floor, ceil=ceil, trunc=trunc)


def update(op, dst, value):
    """dst op= value; on PSUM, += of a matmul accumulates in place."""
    recorder = current()
    pending = recorder.held.pending
    if (op == "add" and pending is not None and pending.kind == "matmul" and
            isinstance(value, NkiTensor) and value is pending.tensor and dst.st.space == PSUM):
        if dst.size != value.size:
            fail("broadcast", f"the tile is {dst.shape} and the product added to it {value.shape}; equal shapes are "
                 "required", "+=", KernelValueError)
        recorder.held.retarget(recorder, shaped(dst, value.shape), adds=True)
        return dst
    if pending is not None and (pending.target is not None or pending.tensor.st is dst.st):
        recorder.flush()
    result = FUNCTIONS[op](dst, value, dtype=dst.dtype)
    assign(dst, result)
    return dst
