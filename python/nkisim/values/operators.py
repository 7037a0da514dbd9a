"""Python's operators on tensors, in terms of nki.language."""

import numpy as np

from .hooks import above


class Operators:
    """The operators of NkiTensor."""

    __slots__ = ()
    __array_priority__ = 1000
    __array_ufunc__ = None  # numpy scalars defer to our operators

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
for _python, _nl in (("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                     ("ge", "greater_equal")):
    setattr(Operators, f"__{_python}__", _operator(_nl))
for _python, _nl in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"),
                     ("truediv", "divide")):
    setattr(Operators, f"__i{_python}__", _in_place(_nl))
