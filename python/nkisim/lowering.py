"""Functions of nki.language in terms of instructions, and assignment to tiles."""

import builtins

import numpy as np

from . import index, isa
from .dtypes import float32, int32, resolve, uint8, uint16, uint32
from .errors import KernelTypeError, KernelValueError, fail
from .optokens import ACT
from .recorder import current
from .tensor import PSUM, SBUF, NkiTensor, psum, sbuf

FMAX_MATMUL = 512


# ---- shapes and dtypes -----------------------------------------------------------------------
def _product(values):
    n = 1
    for v in values:
        n *= v
    return n


def promote(a, b):
    """The dtype of a result of two tiles: the wider one, floats over integers."""
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.itemsize != b.itemsize:
        return a if a.itemsize > b.itemsize else b
    return float32 if a.is_float else a


def broadcast_shapes(a, b):
    n = builtins.max(len(a), len(b))
    a, b = (1,) * (n - len(a)) + tuple(a), (1,) * (n - len(b)) + tuple(b)
    out = []
    for x, y in zip(a, b):
        if x != y and 1 not in (x, y):
            fail(f"shapes {a} and {b} do not broadcast", kind=KernelValueError)
        out.append(builtins.max(x, y))
    return tuple(out)


def spread(view, shape):
    """`view` with its size-1 free dimensions repeated to `shape` (no instruction)."""
    if view.shape == shape:
        return view
    if view.ndim != len(shape):
        return view
    strides = tuple(0 if n == 1 and m != 1 else s
                    for n, m, s in zip(view.shape, shape, view.strides))
    out = NkiTensor(view.st, view.part, view.off, (view.shape[0],) + tuple(shape[1:]), strides,
                    view.dtype, view.dyn)
    return out


def _operand(x, shape):
    """`x` over `shape`: partitions repeated by an instruction, free dimensions by strides."""
    if x.shape == shape:
        return x
    if len(x.shape) != len(shape) and _product(x.shape) == _product(shape):
        return x.reshape(shape)
    if x.shape[0] != shape[0]:
        x = repeat_partitions(x, shape[0])
    return spread(x, shape)


def _on_chip(x):
    """A tile: HBM operands are loaded first."""
    return load(x) if not x.st.on_chip else x


def _cut(views, mask, shape):
    """The part of each view that `mask` leaves; None if nothing is left."""
    box = mask.box(shape)
    if box is None:
        return None
    return [index.apply_mask(v, box, shape) if isinstance(v, NkiTensor) else v for v in views]


def produce(shape, dtype, build, mask=None, views=(), space=SBUF, spaces=(SBUF, PSUM), kind=""):
    """A result tile of an instruction. build(dst, *views) emits it, on the masked part only."""
    recorder = current()

    def emit(dst):
        if dst.shape != tuple(shape):
            dst = dst.reshape(shape)
        if mask is None:
            build(dst, *views)
            return
        recorder.allow_unwritten = True
        cut = _cut([dst, *views], mask, tuple(shape))
        if cut is not None:
            build(*cut)

    return recorder.result(shape, dtype, emit, space, spaces, kind)


# ---- copies ----------------------------------------------------------------------------------
def copy_into(dst, src):
    """dst = src with the instruction that can: DMA for HBM, tensor_copy on chip."""
    if dst.st.on_chip and src.st.on_chip:
        isa.tensor_copy(dst, src)
        return
    if src.st.space == PSUM:  # DMA does not reach PSUM
        tile = current().ndarray(src.shape, src.dtype, sbuf)
        isa.tensor_copy(tile, src)
        src = tile
    if dst.st.space == PSUM:
        tile = current().ndarray(dst.shape, src.dtype, sbuf)
        isa.dma_copy(tile, src)
        isa.tensor_copy(dst, tile)
        return
    isa.dma_copy(dst, src)


def _startable(view):
    """Whether engines can start at the view's partition; DMA can start anywhere."""
    start, n = view.st.partition + view.part, view.shape[0]
    return start == 0 or (start == 64 and n <= 64) or (start % 32 == 0 and n <= 32)


def fill(dst, value):
    if dst.st.on_chip:
        if _startable(dst):
            isa.memset(dst, value)
            return
        constant = np.full(dst.shape, value).astype(dst.dtype.dtype)
        isa.dma_copy(dst, current().constant(constant, "constant"))
        return
    n = dst.size
    rows = next(p for p in range(builtins.min(128, n), 0, -1) if n % p == 0)
    tile = current().ndarray((rows, n // rows), dst.dtype, sbuf)
    isa.memset(tile, value)
    isa.dma_copy(dst, tile.reshape((rows, n // rows)))


def _same_place(a, b):
    return (a.st is b.st and a.part == b.part and a.off == b.off and a.shape == b.shape and
            a.strides == b.strides and a.dtype is b.dtype)


def assign(dst, value):
    """dst[...] = value."""
    recorder = current()
    pending = recorder.pending
    if isinstance(value, NkiTensor):
        if pending is not None and value is pending.tensor and dst.size == value.size and (
                dst.st.space in pending.spaces):
            recorder.retarget(_as(dst, value.shape))
            return
        if _same_place(dst, value):
            return
        if value.size != dst.size or (value.shape != dst.shape and value.ndim == dst.ndim):
            value = _operand(value, dst.shape)
        elif value.shape != dst.shape and value.st.on_chip and dst.st.on_chip:
            value = _as(value, dst.shape)
        copy_into(dst, value)
    elif isinstance(value, (int, float, np.generic)):
        fill(dst, value.item() if isinstance(value, np.generic) else value)
    elif isinstance(value, np.ndarray):
        copy_into(dst, recorder.constant(np.ascontiguousarray(value), "constant"))
    else:
        fail(f"the assigned value is {type(value).__name__}; a tile or a number is required",
             kind=KernelTypeError)


def _as(view, shape):
    return view if view.shape == tuple(shape) else view.reshape(tuple(shape))


def update(op, dst, value):
    """dst op= value; on PSUM, += of a matmul accumulates in place."""
    recorder = current()
    pending = recorder.pending
    if (op == "add" and pending is not None and pending.kind == "matmul" and
            isinstance(value, NkiTensor) and value is pending.tensor and dst.st.space == PSUM):
        recorder.retarget(_as(dst, value.shape))
        return dst
    if pending is not None and pending.tensor.st is dst.st:
        recorder.flush()
    result = FUNCTIONS[op](dst, value, dtype=dst.dtype)
    assign(dst, result)
    return dst


def load(src, dtype=None, mask=None):
    dtype = src.dtype if dtype is None else resolve(dtype)
    if src.st.on_chip:
        return copy(src, dtype=dtype, mask=mask)
    shape = src.shape if len(src.shape) > 1 else src.shape + (1,)
    view = src if len(src.shape) > 1 else NkiTensor(src.st, src.part, src.off, shape,
                                                     src.strides + (1,), src.dtype, src.dyn)
    view._ref = src._ref if isinstance(src._ref, index._OutOfBounds) else view._ref
    return produce(shape, dtype, isa.dma_copy, mask, (view,), spaces=(SBUF,), kind="load")


def store(dst, value, mask=None, dtype=None):
    if isinstance(value, (int, float)):
        tile = current().ndarray(dst.shape if dst.ndim > 1 else (1,) + dst.shape, dst.dtype, sbuf)
        fill(tile, value)
        value = tile
    if not isinstance(value, NkiTensor):
        fail(f"value is {type(value).__name__}; a tile is required", "store", KernelTypeError)
    recorder = current()
    recorder.flush()
    if value.st.space == PSUM:
        tile = recorder.ndarray(value.shape, value.dtype, sbuf)
        isa.tensor_copy(tile, value)
        value = tile
    if value.size != dst.size:
        value = _operand(value, dst.shape)
    if mask is not None:
        cut = _cut([dst, value], mask, dst.shape)
        if cut is None:
            return
        dst, value = cut
    isa.dma_copy(dst, value)


def copy(x, dtype=None, mask=None, **_ignored):
    if not isinstance(x, NkiTensor):
        return np.array(x)
    if not x.st.on_chip:
        return load(x, dtype, mask)
    dtype = x.dtype if dtype is None else resolve(dtype)
    return produce(x.shape, dtype, isa.tensor_copy, mask, (x,))


def load_transpose2d(src, dtype=None, mask=None):
    out = produce((src.shape[1], src.shape[0]), src.dtype, isa.dma_transpose, None, (src,),
                  spaces=(SBUF,), kind="load")
    return out if dtype is None or resolve(dtype) is src.dtype else copy(out, dtype)


# ---- element-wise ----------------------------------------------------------------------------
_COMPARES = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}


def _binary(name):
    def function(x, y, dtype=None, mask=None):
        if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
            if any(isinstance(v, (index.Expr, index.Mask)) for v in (x, y)):
                return getattr(np, name)(x, y)
            if all_numbers(x, y):
                return getattr(np, name)(x, y)
            fail(f"{name} of {type(x).__name__} and {type(y).__name__}; a tile is required", name,
                 KernelTypeError)
        kind = "compare" if name in _COMPARES else ""
        if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
            return _tile_tile(name, _on_chip(x), _on_chip(y), dtype, mask, kind)
        reverse = not isinstance(x, NkiTensor)
        return _tile_scalar(name, _on_chip(y if reverse else x), x if reverse else y, reverse,
                            dtype, mask, kind)

    function.__name__ = name
    return function


def all_numbers(*values):
    return not [v for v in values if not isinstance(v, (int, float, np.generic, np.ndarray))]


_ARITHMETIC_SCALARS = {"add", "subtract", "multiply", "maximum", "minimum", "divide", *_COMPARES}


def _tile_tile(name, x, y, dtype, mask, kind):
    shape = broadcast_shapes(x.shape, y.shape)
    out = promote(x.dtype, y.dtype) if dtype is None else resolve(dtype)
    for small, large, reverse in ((y, x, False), (x, y, True)):
        column = (small.shape[0] == shape[0] and _product(small.shape[1:]) == 1 and
                  large.shape == shape and _product(shape[1:]) > 1 and small.dtype is float32)
        if column and name in _ARITHMETIC_SCALARS and mask is None:
            def build(dst, data, operand, reverse=reverse):
                isa.tensor_scalar(dst, data, name, operand, reverse)

            flat = small.reshape((small.shape[0], 1))
            return produce(shape, out, build, None, (large, flat), kind=kind)
    x, y = _operand(x, shape), _operand(y, shape)
    if x.st.space == PSUM and y.st.space == PSUM:
        y = copy(y)
        current().flush()

    def build(dst, a, b):
        isa.tensor_tensor(dst, a, b, name)

    return produce(shape, out, build, mask, (x, y), kind=kind)


def _tile_scalar(name, x, scalar, reverse, dtype, mask, kind):
    if isinstance(scalar, np.generic) or isinstance(scalar, np.ndarray) and scalar.size == 1:
        scalar = scalar.item()
    if dtype is not None:
        out = resolve(dtype)
    else:
        out = x.dtype if x.dtype.is_float or isinstance(scalar, int) else float32

    def build(dst, data):
        isa.tensor_scalar(dst, data, name, scalar, reverse)

    return produce(x.shape, out, build, mask, (x,), kind=kind)


def _unary(name):
    def function(x, dtype=None, mask=None, **_ignored):
        if not isinstance(x, NkiTensor):
            return getattr(np, name)(x)
        x = _on_chip(x)
        out = x.dtype if dtype is None else resolve(dtype)
        if name in ACT:
            def build(dst, data):
                isa.activation(dst, name, data)
        else:
            def build(dst, data):
                isa.tensor_scalar(dst, data, name, None)
        return produce(x.shape, out, build, mask, (x,))

    function.__name__ = name
    return function


def negative(x, dtype=None, mask=None):
    return FUNCTIONS["multiply"](x, -1, dtype=dtype, mask=mask)


def cos(x, dtype=None, mask=None):
    x = _on_chip(x)
    out = x.dtype if dtype is None else resolve(dtype)
    # cos(x) = sin(pi/2 - |x|) keeps the argument within sin's valid range.
    magnitude = FUNCTIONS["abs"](x, dtype=float32)
    current().flush()
    half_pi = full_column(x.shape[0], float(np.pi / 2))
    return produce(x.shape, out, lambda dst, data: isa.activation(
        dst, "sin", data, bias=half_pi, scale=-1.0), mask, (magnitude,))


def tan(x, dtype=None, mask=None):
    x = _on_chip(x)
    numerator = FUNCTIONS["sin"](x, dtype=float32)
    current().flush()
    return FUNCTIONS["divide"](numerator, cos(x, dtype=float32),
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
    x, recorder = _on_chip(x), current()
    small = recorder.ndarray(x.shape, float32, sbuf)
    isa.tensor_scalar(small, x, "maximum", -_WHOLE, False, "minimum", _WHOLE)
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
    x = _on_chip(x)
    down = floor(FUNCTIONS["abs"](x, dtype=float32), dtype=float32)
    current().flush()
    sign = FUNCTIONS["sign"](x, dtype=float32)
    current().flush()
    return FUNCTIONS["multiply"](down, sign, dtype=dtype or x.dtype, mask=mask)


FUNCTIONS = {name: _binary(name) for name in (
    "add subtract multiply divide maximum minimum abs_max abs_min power equal not_equal less "
    "less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift "
    "logical_and logical_or logical_xor fmod mod").split()}
FUNCTIONS.update({name: _unary(name) for name in (
    "abs square invert logical_not exp log sqrt rsqrt tanh sigmoid relu gelu gelu_apprx_sigmoid "
    "gelu_apprx_tanh gelu_dx gelu_apprx_sigmoid_dx silu silu_dx softplus mish erf erf_dx "
    "reciprocal sin arctan sign").split()})
FUNCTIONS.update(negative=negative, cos=cos, tan=tan, floor=floor, ceil=ceil, trunc=trunc)


# ---- reductions ------------------------------------------------------------------------------
def _reduced_shape(shape, axes, keepdims):
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    if 0 in axes:
        kept = (1,) + kept
    return kept if len(kept) > 1 else kept + (1,)


def reduce_build(op, x, axes, negate=False, mask=None, name=None):
    """build(dst) of a reduction; a mask cuts the input, and with it the rows that are written."""
    def build(dst):
        data = x
        if mask is not None:
            current().allow_unwritten = True
            box = mask.box(x.shape)
            if box is None:
                return
            data = index.apply_mask(x, box, x.shape)
            dst = dst[box[0][0]:box[0][1]]
        isa.tensor_reduce(dst, op, data, axes, negate, name=name)

    return build


def _reduce(op):
    def function(x, axis, dtype=None, keepdims=False, mask=None, negate=False, **_ignored):
        x = _on_chip(x)
        axes = isa.normalise_axes(axis, x.ndim, op)
        out = x.dtype if dtype is None else resolve(dtype)
        shape = _reduced_shape(x.shape, axes, keepdims)
        if axes == [0]:
            return produce(shape, out, lambda dst, data: isa.tensor_partition_reduce(
                dst, op, data), None, (x,))
        if 0 in axes:
            free = function(x, [a for a in axes if a], float32, True, mask)
            current().flush()
            return produce(shape, out, lambda dst, data: isa.tensor_partition_reduce(
                dst, op, data), None, (free,))
        return produce(shape, out, reduce_build(op, x, axes, negate, mask))

    function.__name__ = op
    return function


sum = _reduce("add")
max = _reduce("maximum")
min = _reduce("minimum")
prod = _reduce("multiply")


def all(x, axis, dtype=None, **_ignored):
    truth = FUNCTIONS["not_equal"](x, 0.0, dtype=float32)
    current().flush()
    return min(truth, axis, dtype=dtype or x.dtype)


def mean(x, axis, dtype=None, keepdims=False, mask=None):
    x = _on_chip(x)
    total = sum(x, axis, float32, keepdims, mask)
    current().flush()
    count = _product(x.shape[a] for a in isa.normalise_axes(axis, x.ndim, "mean"))
    return FUNCTIONS["multiply"](total, 1.0 / count, dtype=dtype or x.dtype)


def var(x, axis, dtype=None, keepdims=False):
    x = _on_chip(x)
    centre = mean(x, axis, float32, True)
    current().flush()
    difference = FUNCTIONS["subtract"](x, centre, dtype=float32)
    current().flush()
    squares = FUNCTIONS["square"](difference, dtype=float32)
    current().flush()
    return mean(squares, axis, dtype or x.dtype, keepdims)


def softmax(x, axis=-1, dtype=None, mask=None, **_ignored):
    x = _on_chip(x)
    top = max(x, axis, float32, True)
    current().flush()
    shifted = FUNCTIONS["subtract"](x, top, dtype=float32)
    current().flush()
    raised = FUNCTIONS["exp"](shifted, dtype=float32)
    current().flush()
    total = sum(raised, axis, float32, True)
    current().flush()
    inverse = reciprocal_of(total)
    return FUNCTIONS["multiply"](raised, inverse, dtype=dtype or x.dtype, mask=mask)


def reciprocal_of(x):
    tile = current().ndarray(x.shape, float32, sbuf)
    isa.reciprocal(tile, x)
    return tile


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None, compute_dtype=None, **_ignored):
    x = _on_chip(x)
    compute = float32 if compute_dtype is None else resolve(compute_dtype)
    squares = FUNCTIONS["square"](x, dtype=compute)
    current().flush()
    total = sum(squares, axis, float32, True)
    current().flush()
    scaled = FUNCTIONS["multiply"](total, 1.0 / n, dtype=float32)
    current().flush()
    shifted = FUNCTIONS["add"](scaled, epsilon, dtype=float32)
    current().flush()
    inverse = FUNCTIONS["rsqrt"](shifted, dtype=float32)
    current().flush()
    normal = FUNCTIONS["multiply"](x, inverse, dtype=compute)
    current().flush()
    return FUNCTIONS["multiply"](normal, w, dtype=dtype or x.dtype)


def where(condition, x, y, dtype=None, mask=None):
    recorder = current()
    tiles = [v for v in (x, y) if isinstance(v, NkiTensor)]
    shape = condition.shape
    for t in tiles:
        shape = broadcast_shapes(shape, t.shape)
    out = resolve(dtype) if dtype is not None else tiles[0].dtype if tiles else float32
    predicate = _on_chip(condition)
    if predicate.dtype not in (uint8, uint16, uint32):
        predicate = FUNCTIONS["not_equal"](predicate, 0.0, dtype=uint8)
        recorder.flush()
    predicate = _operand(predicate, shape)
    if isinstance(x, NkiTensor):
        x = _operand(_on_chip(x), shape)
        if x.dtype is not out:
            x = copy(x, dtype=out)
            recorder.flush()

    def build(dst, *_views):
        assign(dst, y if not isinstance(y, NkiTensor) else _operand(_on_chip(y), shape))
        recorder.flush()
        isa.tensor_copy_predicated(dst, x, predicate)

    return produce(shape, out, build)


def dropout(x, rate, dtype=None, mask=None):
    x = _on_chip(x)
    out = x.dtype if dtype is None else resolve(dtype)
    if out is not x.dtype:
        x = copy(x, dtype=out)
        current().flush()
    return produce(x.shape, out, lambda dst, data: isa.dropout(dst, data, rate), mask, (x,))


def random_fill(dst):
    """Uniform in [0, 1): random words scaled; the topmost words would round up to 1."""
    recorder = current()
    words = recorder.ndarray(dst.shape, uint32, sbuf)
    isa.rng(words)
    tile = dst if dst.st.on_chip else recorder.ndarray(dst.shape, dst.dtype, sbuf)
    top = 1.0 - 2.0 ** -24 if dst.dtype.itemsize == 4 else 1.0 - 2.0 ** -8
    isa.tensor_scalar(tile, words, "multiply", 2.0 ** -32, False, "minimum", top)
    if tile is not dst:
        isa.dma_copy(dst, tile)


# ---- data movement on chip -------------------------------------------------------------------
def repeat_partitions(x, rows):
    """Copies partition 0 of `x` to `rows` partitions: one shuffle per quadrant."""
    if x.shape[0] != 1:
        fail(f"{x!r} cannot be repeated over {rows} partitions; one partition is required",
             "broadcast_to", KernelValueError)
    tile = current().ndarray((rows,) + x.shape[1:], x.dtype, sbuf)
    for start in range(0, rows, 32):
        count = rows - start if rows - start < 32 else 32
        mask = [0] * count + [255] * (32 - count)
        isa.nc_stream_shuffle(tile[start:start + count], x, mask)
    return tile


def broadcast_to(x, shape, dtype=None):
    shape = tuple(int(s) for s in shape)
    x = _on_chip(x)
    if x.shape == shape:
        return x if dtype is None or resolve(dtype) is x.dtype else copy(x, dtype)
    if x.ndim < len(shape):
        x = x.reshape((x.shape[0],) + (1,) * (len(shape) - x.ndim) + x.shape[1:])
    spread_view = _operand(x, shape)
    if spread_view.shape != shape:
        fail(f"{x!r} does not broadcast to {shape}", "broadcast_to", KernelValueError)
    if dtype is None and x.shape[1:] != shape[1:]:
        return spread_view
    return spread_view if dtype is None else copy(spread_view, dtype)


def transpose(x, dtype=None, mask=None):
    x = _on_chip(x)
    out = x.dtype if dtype is None else resolve(dtype)
    rows, columns = x.shape[0], _product(x.shape[1:])
    tile = produce((columns, rows), x.dtype, isa.nc_transpose, mask, (x,), space=PSUM,
                   spaces=(PSUM,))
    if out is x.dtype:
        return tile
    return copy(tile, dtype=out)


def matmul(x, y, transpose_x=False, mask=None, **_ignored):
    """x @ y, or x.T @ y with transpose_x: products of at most 128x128 by 128x512 in PSUM."""
    recorder = current()
    recorder.flush()
    x, y = _in_sbuf(x), _in_sbuf(y)
    if not transpose_x:
        turned = recorder.ndarray((x.shape[1], x.shape[0]), x.dtype, psum)
        isa.nc_transpose(turned, x)
        x = recorder.ndarray(turned.shape, turned.dtype, sbuf)
        isa.tensor_copy(x, turned)

    def build(dst, a, b):
        for start in range(0, b.shape[1], FMAX_MATMUL):
            stop = start + FMAX_MATMUL if start + FMAX_MATMUL < b.shape[1] else b.shape[1]
            isa.nc_matmul(dst[:, start:stop], a, b[:, start:stop])

    return produce((x.shape[1], y.shape[1]), float32, build, mask, (x, y), space=PSUM,
                   spaces=(PSUM,), kind="matmul")


def _in_sbuf(x):
    """The tensor engine reads SBUF only."""
    if x.st.space != PSUM:
        return _on_chip(x)
    tile = current().ndarray(x.shape, x.dtype, sbuf)
    isa.tensor_copy(tile, x)
    return tile


def gather_flattened(data, indices, axis=0, dtype=None, mask=None, **_ignored):
    out = data.dtype if dtype is None else resolve(dtype)
    if indices.dtype is not uint32:
        indices = copy(indices, dtype=uint32)
        current().flush()
    return produce(indices.shape, out, isa.nc_n_gather, mask, (data, indices))



