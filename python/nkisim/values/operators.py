"""Implements Python's operators on tensors (x + y) by functions of nki.language."""

import numpy as np

from .errors import KernelAttributeError, KernelTypeError, fail
from .hooks import above


#: Other names for functions of nki.language, and for what is done by slices of one tile.
_OWN = {"absolute": "abs", "true_divide": "divide", "amax": "max", "amin": "min", "matmul": "matmul", "mm": "matmul",
        "dot": "matmul"}
_JOINED = ("concatenate", "concat", "cat", "stack", "hstack", "vstack")
#: Functions of NumPy that make an array of a tensor.
_MADE = {"where": "nl.where(condition, x, y)", "clip": "nl.minimum(nl.maximum(tile, low), high)",
         "transpose": "nl.transpose(tile), or nisa.nc_transpose(dst, tile)", "reshape": "tile.reshape(shape)",
         **dict.fromkeys(("repeat", "tile", "pad"),
                         "a tile of the whole shape, of which each part is written as a slice,")}
_PACKAGES = {"np": "NumPy", "torch": "torch", "jnp": "JAX"}


def _foreign(package, name, tensor):
    """Another package's function is called with a tensor: an Error that names ours."""
    own = _OWN.get(name, name)
    required = "a function of nki.language"
    if name in _JOINED:
        required = "a tile of the whole shape, of which each part is written as a slice (nisa.tensor_copy),"
    elif name in ("array", "asarray"):
        required = "an output of the kernel"
    elif own in above.functions:
        required = f"nl.{own}(...)"
    elif own in ELSEWHERE or own in _MADE:
        required = ELSEWHERE.get(own) or _MADE[own]
    fail("tensor_required", f"{f'{package}.{name}' if name else f'a function of {package}'} is called with {tensor!r}; "
         f"{_PACKAGES[package]} has no values of the device: {required} is required", kind=KernelTypeError)


class Operators:
    """The operators of NkiTensor."""

    __slots__ = ()
    __array_priority__ = 1000

    def __array_ufunc__(self, ufunc, method, *inputs, **_settings):
        """NumPy's numbers take our operators; a function of NumPy is an Error that names ours."""
        name = _UFUNCS.get(ufunc.__name__)
        numbers = [x for x in inputs if isinstance(x, np.generic) or isinstance(x, np.ndarray) and x.ndim == 0]
        if method == "__call__" and name is not None and numbers:
            return above.functions[name](*[x[()] if isinstance(x, np.ndarray) else x for x in inputs])
        _foreign("np", ufunc.__name__, self)

    def __array_function__(self, function, types, args, kwargs):
        name = function.__name__
        if name in _JOINED or name in ELSEWHERE or name in _MADE or name in above.functions:
            _foreign("np", name, self)
        return function._implementation(*args, **kwargs)  # of the values, for who looks at them

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        _foreign("torch", getattr(function, "__name__", "function"), next(
            (a for a in args if isinstance(a, Operators)), cls))

    def __jax_array__(self):
        _foreign("jnp", "", self)

    def __float__(self):
        fail("values_while_recording",
             f"{self!r} is used as a Python number; its values exist only on the device, where a tile of one "
             "element per partition is an operand (nl.multiply(x, tile), operand0=tile)", kind=KernelTypeError)

    __int__ = __index__ = __complex__ = __round__ = __float__

    def __matmul__(self, other):
        fail("unsupported_call", f"@ of tensors; use {ELSEWHERE['matmul']}", kind=KernelTypeError)

    __rmatmul__ = __matmul__

    def __eq__(self, other):
        if isinstance(other, _COMPARED) and self is not other:
            return above.functions["equal"](self, other)
        return self is other

    def __ne__(self, other):
        if isinstance(other, _COMPARED) and self is not other:
            return above.functions["not_equal"](self, other)
        return self is not other

    __hash__ = object.__hash__

    def __neg__(self):
        return above.functions["negative"](self)

    def __invert__(self):
        return above.functions["invert"](self)

    def __abs__(self):
        return above.functions["abs"](self)


_UFUNCS = {"add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "true_divide": "divide",
           "power": "power", "remainder": "mod", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
           "bitwise_xor": "bitwise_xor", "left_shift": "left_shift", "right_shift": "right_shift",
           "equal": "equal", "not_equal": "not_equal", "less": "less", "less_equal": "less_equal",
           "greater": "greater", "greater_equal": "greater_equal"}
#: NumPy's and torch's methods, and their names here.
ELSEWHERE = {
    "T": "nl.transpose(tile), or nisa.nc_transpose(dst, tile)",
    **{name: f"nl.{name}(tile, axis=1)" for name in ("sum", "max", "min", "mean", "prod", "var")},
    "exp": "nl.exp(tile)", "sqrt": "nl.sqrt(tile)", "abs": "nl.abs(tile)",
    "fill": "nisa.memset(tile, value)", "copy": "nl.copy(tile)", "flatten": "tile.reshape((partitions, elements))",
    "ravel": "tile.reshape((partitions, elements))", "view_as": "tile.reshape(shape)",
    "item": "an operand of one element per partition (values exist only on the device)",
    **{name: "an output of the kernel (values exist only on the device)" for name in ("tolist", "numpy", "cpu")},
    **{name: f"nl.{nl}(tile, axis=1), a tile, and nl.where(condition, x, y) (values exist only on the device)"
       for name, nl in (("any", "max"), ("all", "min"))},
    "matmul": "nl.matmul(x, y, transpose_x=True), or nisa.nc_matmul(dst, stationary, moving)",
    "dot": "nl.matmul(x, y, transpose_x=True), or nisa.nc_matmul(dst, stationary, moving)"}


def _absent(name, said):
    """A property that no tensor has. (A __getattr__ would make every attribute slower.)"""
    def refuse(_tensor):
        fail("unsupported_call", f"a tensor has no {name}; use {said}", kind=KernelAttributeError)

    return property(refuse)


for _name, _said in ELSEWHERE.items():
    setattr(Operators, _name, _absent(_name, _said))
_COMPARED = (Operators, int, float, np.number)


def _operator(name, reverse=False):
    def apply(self, other):
        function = above.functions[name]
        return function(other, self) if reverse else function(self, other)

    return apply


def _in_place(name):
    def apply(self, other):
        return above.update(name, self, other)

    return apply


for _python, _nl in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
                     ("truediv", "divide"), ("pow", "power"), ("mod", "mod"),
                     ("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor"),
                     ("lshift", "left_shift"), ("rshift", "right_shift")):
    setattr(Operators, f"__{_python}__", _operator(_nl))
    setattr(Operators, f"__r{_python}__", _operator(_nl, True))
def _no_operator(sign, said):
    def refuse(_tensor, _other=None):
        fail("unsupported_call", f"{sign} of tensors; use {said}", kind=KernelTypeError)

    return refuse


for _names, _sign, _said in (
        (("floordiv", "rfloordiv", "ifloordiv"), "//", "nl.floor(nl.divide(x, y))"),
        (("divmod", "rdivmod"), "divmod", "nl.divide(x, y) and nl.mod(x, y)"),
        (("invert",), "~", "nl.invert(x) of integers, nl.logical_not(x) of truth values"),
        (("pos",), "+", "the tensor itself")):
    for _name in _names:
        if f"__{_name}__" not in vars(Operators):
            setattr(Operators, f"__{_name}__", _no_operator(_sign, _said))
for _python, _nl in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                     ("ge", "greater_equal")):
    setattr(Operators, f"__{_python}__", _operator(_nl))
for _python, _nl in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
                     ("truediv", "divide")):
    setattr(Operators, f"__i{_python}__", _in_place(_nl))
