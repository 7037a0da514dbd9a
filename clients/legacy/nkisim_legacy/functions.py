"""Implements functions of neuronxcc.nki.language (the older API) whose arguments differ from those
of nki.language.

They have mask=, and names and defaults of their own. In SDK 2.20 all of them were
positions, in the order kept here; later releases take mask and dtype as keywords only.
"""

from nkisim import lowering
from nkisim.api import language
from nkisim.record.traced import TracedRange
from nkisim.record.recorder import current
from nkisim.values.dtypes import bool_
from nkisim.values.errors import check_spelling, fail
from nkisim.values.optokens import ACT, ACT_ALIASES, ALU, ALU_ALIASES, TOKENS, NlOp
from nkisim.values.storage import product


def load(src, mask=None, dtype=None, **_ignored):
    """A tile in SBUF with the values of `src`, where `mask` holds."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.load(src, dtype, mask)


def load_transpose2d(src, mask=None, dtype=None, **_ignored):
    """A tile in SBUF with the transpose of a two-dimensional `src`."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.load_transpose2d(src, dtype, mask)


def copy(src, mask=None, dtype=None, **_ignored):
    """A copy of a tile, converted to `dtype`."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.copy(src, dtype, mask)


def static_cast(input_data=None, dtype=None, *, arr=None):
    """The values in another dtype."""
    return language.static_cast(arr if input_data is None else input_data, dtype)  # arr: to 2.25


def num_programs(axes=None):
    """The programs of one axis, of several, or of the whole grid."""
    if axes is None:
        return product(current().grid)
    return language.num_programs(axes)


def _traced(name):
    function = getattr(language, name)

    def loop(start, stop=None, step=1, **_ignored):
        if _ignored:
            check_spelling(_ignored)
        values = function(start, stop, step)
        return TracedRange(values, name == "affine_range") if isinstance(values, range) else values

    loop.__name__, loop.__doc__ = name, function.__doc__
    return loop


def _reduction(name):
    function = getattr(lowering, name)

    def reduce(x, axis, dtype=None, mask=None, keepdims=False, **_ignored):
        if _ignored:
            check_spelling(_ignored)
        return function(x, axis, dtype, keepdims, mask)

    return reduce


def var(x, axis, dtype=None, mask=None, keepdims=False, **_ignored):
    """Variance along free axes."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.var(x, axis, dtype, keepdims, mask)


def all(x, axis, dtype=bool_, mask=None, **_ignored):
    """True if all elements along free axes are true."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.all(x, axis, dtype, mask)


def rms_norm(x, w, axis, n, epsilon=1e-6, dtype=None, compute_dtype=None, mask=None, **_ignored):
    """x / sqrt(mean(x^2) + epsilon) * w along an axis of n elements."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.rms_norm(x, w, axis, n, epsilon, dtype, compute_dtype, mask)


def softmax(x, axis, dtype=None, compute_dtype=None, mask=None, **_ignored):
    """exp(x - max) / sum(exp(x - max)) along a free axis."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.softmax(x, axis, dtype, mask, compute_dtype)


def logical_not(x, dtype=bool_, mask=None, **_ignored):
    """1 where an element is zero, else 0."""
    if _ignored:
        check_spelling(_ignored)
    return lowering.FUNCTIONS["logical_not"](x, dtype=dtype, mask=mask)


def _compare(name):
    function = lowering.FUNCTIONS[name]

    def compare(x, y, dtype=bool_, mask=None, **_ignored):
        if _ignored:
            check_spelling(_ignored)
        return function(x, y, dtype=dtype, mask=mask)

    return compare


def _undocumented(name):
    def call():
        fail("index_tile",
             "AWS nowhere says what it returns; an index tile of nl.mgrid is required", name)

    call.__doc__ = f"{name}: AWS nowhere says what it returns; an error."
    return call


def _token(name, function):
    """`function`, which instructions also take as op=."""
    op = NlOp(name, function)
    for codes in (ALU, ACT, ALU_ALIASES, ACT_ALIASES):
        if TOKENS[name] in codes:
            codes[op] = codes[TOKENS[name]]
    return op


_TOKENS = {name: _compare(name) for name in (
    "equal not_equal less less_equal greater greater_equal logical_and logical_or "
    "logical_xor").split()}
_TOKENS.update({name: _reduction(name) for name in "max min sum prod mean".split()})
_TOKENS.update(copy=copy, var=var, all=all, logical_not=logical_not)
PUBLIC = {name: _token(name, function) for name, function in _TOKENS.items()}
PUBLIC.update(load=load, load_transpose2d=load_transpose2d, static_cast=static_cast,
              num_programs=num_programs, rms_norm=rms_norm, softmax=softmax,
              affine_range=_traced("affine_range"), sequential_range=_traced("sequential_range"),
              gemm_grid=_undocumented("gemm_grid"),
              gemm_stationary_grid=_undocumented("gemm_stationary_grid"))
