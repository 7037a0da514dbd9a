"""Makes nl.add and similar names usable both as functions and as `op=` of an instruction."""

import builtins
import sys

import numpy as np

from .. import _core
from .errors import fail, is_ours
from .hooks import above


_NOT_ON_DEVICE = {"divide", "fmod", "mod"}
_BINARY = {"add", "subtract", "multiply", "maximum", "minimum", "power", "equal", "not_equal", "less",
           "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor",
           "left_shift", "right_shift", "logical_and", "logical_or", "logical_xor"}
_CHECKED = _NOT_ON_DEVICE | _BINARY


def _refused(name, args):
    """Reports calls that the release notes list as not supported by the compiler."""
    if name in _NOT_ON_DEVICE:
        above.refused("no_such_operation", name=name)
        return
    shapes = [getattr(a, "shape", None) for a in args[:2]]
    if name == "power" and len(args) > 1 and shapes[1] is None:
        above.refused("power_of_number")
    elif None not in shapes and len(shapes) == 2 and shapes[0] != shapes[1]:
        above.refused("unlike_shapes", name=name, a=shapes[0], b=shapes[1])


class NlOp:
    """A function of nki.language that instructions also take as an operator."""

    __slots__ = ("name", "function", "checked")

    def __init__(self, name, function=None):
        self.name = name
        self.checked = name in _CHECKED
        self.function = function

    @property
    def __name__(self):
        return self.name

    def __call__(self, *args, **kwargs):
        if self.function is None:
            fail("operator_called",
                 f"nl.{self.name} is an operator for op= arguments and not a function", self.name)
        if self.checked and not is_ours(sys._getframe(1).f_code):
            _refused(self.name, args)
        return self.function(*args, **kwargs)

    def __repr__(self):
        return f"nl.{self.name}"

    def __reduce__(self):
        return (_restore, (self.name,))


TOKENS = {}


def _restore(name):
    return TOKENS[name]


def token(name, function=None):
    op = TOKENS.get(name)
    if op is None:
        op = TOKENS[name] = NlOp(name, function)
    elif function is not None:
        op.function = function
    return op


_NAMES = """add subtract multiply divide maximum minimum abs_max abs_min abs square power equal
not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor invert left_shift
right_shift logical_and logical_or logical_xor logical_not exp log sqrt rsqrt tanh sigmoid relu gelu
gelu_apprx_sigmoid gelu_apprx_tanh gelu_dx gelu_apprx_sigmoid_dx silu silu_dx softplus mish erf erf_dx
reciprocal copy sin cos tan arctan ceil floor trunc negative sign fmod mod sum max min mean prod var
all average prelu bypass arith_shift_right identity""".split()
for _n in _NAMES:
    token(_n)

_NUMPY = {name: getattr(np, name) for name in (
    "add subtract multiply divide true_divide maximum minimum abs absolute square power equal "
    "not_equal less less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor invert "
    "bitwise_not left_shift right_shift logical_and logical_or logical_xor logical_not exp log "
    "sqrt tanh reciprocal copy sin arctan sign fmod mod sum max min mean prod all any negative"
).split() if hasattr(np, name)}
_SAME = {"true_divide": "divide", "absolute": "abs", "bitwise_not": "invert", "sum": "add",
         "max": "maximum", "min": "minimum", "prod": "multiply", "all": "logical_and",
         "any": "logical_or", "mean": "average", "identity": "copy"}


def _codes(parse):
    """Every accepted spelling -> the core's code."""
    codes = {}
    for name in [*_NAMES, *_NUMPY]:
        code = parse(name)
        if code < 0:
            code = parse(_SAME.get(name, name))
        if code < 0:
            continue
        codes[name] = code
        if name in TOKENS:
            codes[TOKENS[name]] = code
        if name in _NUMPY:
            codes[_NUMPY[name]] = code
    return codes


ALU = _codes(_core.alu)
ACT = _codes(_core.act)
for _n in ("max", "min", "sum", "abs", "all"):
    _f = getattr(builtins, _n)
    for _codes_ in (ALU, ACT):
        if _n in _codes_:
            _codes_[_f] = _codes_[_n]


def _aliases(codes):
    return {key: codes.pop(key) for key in list(codes) if not isinstance(key, NlOp) or key.name in _SAME}


#: Spellings of another name than the table of operators has, texts, and functions of NumPy and Python: they run
#: here.
ALU_ALIASES, ACT_ALIASES = _aliases(ALU), _aliases(ACT)
#: Operators by name, also those (alu.def) that functions of nki.language alone use.
OPERATORS = dict(TOKENS)
for _n in ("wrap_pi", "language_fmod", "language_mod"):
    OPERATORS[_n] = NlOp(_n)
    ALU[OPERATORS[_n]] = _core.alu(_n)


def is_operator(op):
    """True if an instruction takes it as an operator of the ALU, in any spelling."""
    try:
        return op in ALU or op in ALU_ALIASES
    except TypeError:  # it has no hash
        return False


def canonical_name(name):
    """The name in the table of operators of any spelling."""
    return _SAME.get(name, name)


def name_of(op):
    """The nki.language name of an operator in any spelling."""
    if isinstance(op, NlOp):
        return op.name
    if isinstance(op, str):
        return op
    return getattr(op, "__name__", str(op))
