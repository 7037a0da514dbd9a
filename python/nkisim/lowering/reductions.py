"""Translates reductions, and the normalisations made of them, to instructions."""

from ..isa import instructions as isa
from ..record.recorder import current
from ..values import index, subscripts
from ..values.dtypes import float32, resolve
from ..values.errors import check_spelling, check_truth, hint, is_strict, sdk
from ..values.findings import strict
from ..values.optokens import OPERATORS
from ..values.storage import product, sbuf
from .elementwise import FUNCTIONS
from .moves import in_sbuf, on_chip
from .tiles import result_tile


def reduced_shape(shape, axes, keepdims):
    """Shape that is left when `axes` are reduced."""
    if keepdims is not False:
        check_truth("keepdims", keepdims)
    if len(shape) == 2 and axes == [1]:
        return shape[0], 1
    if keepdims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    kept = tuple(n for d, n in enumerate(shape) if d not in axes)
    if 0 in axes:
        kept = (1,) + kept
    return kept if len(kept) > 1 else kept + (1,)


def kept_part(result, x, axes, box):
    """The part of a reduction's result that a mask over `x`, whose box it is, leaves."""
    kept = [d for d in range(x.ndim) if d not in axes]
    if result.ndim == x.ndim:
        return result[tuple(slice(*box[d]) if d in kept else slice(None) for d in range(x.ndim))]
    first = (slice(None),) if 0 in axes else ()
    return result[(*first, *(slice(*box[d]) for d in kept))]


def _masked_build(reduce, tile, x, axes, mask):
    """build(dst) of reduce(dst, data) over `tile`, which is x or its columns; a mask cuts the
    input, and with it the rows that are written."""
    def build(dst):
        data = tile
        if mask is not None:
            box = index.box_of(mask, x.shape)
            if box is None:
                return
            data = subscripts.apply_mask(tile, box, x.shape)
            dst = kept_part(dst, x, axes, box)
        reduce(dst, data)

    return build


def reduce_build(op, x, axes, negate=False, mask=None, name=None):
    """build(dst) of a reduction along the free dimensions."""
    return _masked_build(lambda dst, data: isa.tensor_reduce(dst, op, data, axes, negate, name=name),
                         x, x, axes, mask)


def _partition_build(op, tile, x, axes, mask):
    """build(dst) of a reduction over partitions of `tile`: x, or what is left of its columns."""
    return _masked_build(lambda dst, data: isa.tensor_partition_reduce(dst, op, data),
                         tile, x, axes, mask)


def _noted_axes(axis, ndim, what):
    """`axis` as a list. Notes those of a kernel that the pages do not allow and that are computed here. They allow
    the last free dimensions, and nl.mean's page of SDK 2.33 dimension 0 alone (of the other reductions assumed)."""
    axes = isa.normalise_axes(axis, ndim, what)
    last = axes[0] > 0 and axes == [*range(ndim - len(axes), ndim)]
    # NKI 0.2 counted axes otherwise; neuronxcc.nki takes any, as AWS's samples have them (average_pool2d).
    if last or axes == [0] and sdk() >= 33 or sdk() < 29 or current().dialect.neuronxcc:
        return axes
    (strict if is_strict() else hint)(
        f"axis is {axis!r} of a tile with {ndim} dimensions, which the NKI compiler refuses: the last free dimensions "
        "are reduced, or, since SDK 2.33, dimension 0 alone (documented; x.permute(...) puts others last)")
    return axes


def _reduced(name, x, axes, dtype=None, keepdims=False, mask=None, negate=False):
    """The reduction of a tile on the chip by an operator's name."""
    op, out = OPERATORS[name], x.dtype if dtype is None else resolve(dtype)
    shape = reduced_shape(x.shape, axes, keepdims)
    if axes == [0]:
        return result_tile(shape, out, _partition_build(op, in_sbuf(x), x, axes, index.as_mask(mask)))
    if 0 in axes:
        free = _reduced(name, x, [a for a in axes if a], float32, True, mask)
        current().flush()
        return result_tile(shape, out, _partition_build(op, free, x, axes, index.as_mask(mask)))
    return result_tile(shape, out, reduce_build(op, x, axes, negate, mask))


def _reduce(name):
    def function(x, axis, dtype=None, keepdims=False, mask=None, negate=False, **_ignored):
        if _ignored:
            check_spelling(_ignored)
        x = on_chip(x)
        return _reduced(name, x, _noted_axes(axis, x.ndim, name), dtype, keepdims, mask, negate)

    function.__name__ = name
    return function


sum = _reduce("add")
max = _reduce("maximum")
min = _reduce("minimum")
prod = _reduce("multiply")


def all(x, axis, dtype=None, mask=None):
    truth = FUNCTIONS["not_equal"](x, 0.0, dtype=float32, mask=mask)
    axes = _noted_axes(axis, truth.ndim, "all")
    current().flush()
    return _reduced("minimum", truth, axes, dtype or x.dtype, mask=mask)


def _mean(x, axes, dtype, keepdims, mask):
    total = _reduced("add", x, axes, float32, keepdims, mask)
    current().flush()
    mask = index.as_mask(mask)
    box = [(0, n) for n in x.shape] if mask is None else index.box_of(mask, x.shape)
    out = x.dtype if dtype is None else resolve(dtype)

    def build(dst, data):
        if box is None:  # the mask leaves nothing
            return
        count = product(box[a][1] - box[a][0] for a in axes)  # a mask's other elements do not count
        if mask is not None:
            dst, data = (kept_part(v, x, axes, box) for v in (dst, data))
        isa.tensor_scalar(dst, data, OPERATORS["multiply"], 1.0 / count)

    return result_tile(total.shape, out, build, None, (total,))


def mean(x, axis, dtype=None, keepdims=False, mask=None):
    x = on_chip(x)
    return _mean(x, _noted_axes(axis, x.ndim, "mean"), dtype, keepdims, mask)


def var(x, axis, dtype=None, keepdims=False, mask=None):
    x = on_chip(x)
    axes = _noted_axes(axis, x.ndim, "var")
    keepdims = keepdims or not current().dialect.var_drops_dimensions
    centre = _mean(x, axes, float32, True, mask)
    current().flush()
    difference = FUNCTIONS["subtract"](x, centre, dtype=float32, mask=mask)
    current().flush()
    squares = FUNCTIONS["square"](difference, dtype=float32, mask=mask)
    current().flush()
    return _mean(squares, axes, dtype or x.dtype, keepdims, mask)


def softmax(x, axis=-1, dtype=None, mask=None, compute_dtype=None):
    """exp(x - max) / sum(exp(x - max)) along a free axis."""
    x = on_chip(x)
    axes = _noted_axes(axis, x.ndim, "softmax")
    compute = float32 if compute_dtype is None else resolve(compute_dtype)
    top = _reduced("maximum", x, axes, float32, True, mask)
    current().flush()
    shifted = FUNCTIONS["subtract"](x, top, dtype=compute, mask=mask)
    current().flush()
    raised = FUNCTIONS["exp"](shifted, dtype=compute, mask=mask)
    current().flush()
    total = _reduced("add", raised, axes, float32, True, mask)
    current().flush()
    inverse = reciprocal_of(total)
    return FUNCTIONS["multiply"](raised, inverse, dtype=dtype or x.dtype, mask=mask)


def reciprocal_of(x):
    tile = current().ndarray(x.shape, float32, sbuf)
    isa.reciprocal(tile, x)
    return tile


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None, compute_dtype=None, mask=None):
    """x / sqrt(mean(x^2) + epsilon) * w along an axis of n elements."""
    x = on_chip(x)
    axes = _noted_axes(axis, x.ndim, "rms_norm")
    compute = float32 if compute_dtype is None else resolve(compute_dtype)
    squares = FUNCTIONS["square"](x, dtype=compute, mask=mask)
    current().flush()
    total = _reduced("add", squares, axes, float32, True, mask)
    current().flush()
    scaled = FUNCTIONS["multiply"](total, 1.0 / n, dtype=float32)
    current().flush()
    shifted = FUNCTIONS["add"](scaled, epsilon, dtype=float32)
    current().flush()
    inverse = FUNCTIONS["rsqrt"](shifted, dtype=float32)
    current().flush()
    normal = FUNCTIONS["multiply"](x, inverse, dtype=compute, mask=mask)
    current().flush()
    return FUNCTIONS["multiply"](normal, w, dtype=dtype or x.dtype, mask=mask)
