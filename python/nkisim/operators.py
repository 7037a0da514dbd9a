"""Python's operators on tensors, in terms of nki.language."""

import numpy as np


class Operators:
    """The operators of NkiTensor."""

    __slots__ = ()
    __array_priority__ = 1000
    __array_ufunc__ = None  # numpy scalars defer to our operators

    def __eq__(self, other):
        if isinstance(other, _COMPARED) and self is not other:
            from . import language

            return language.equal(self, other)
        return self is other

    def __ne__(self, other):
        if isinstance(other, _COMPARED) and self is not other:
            from . import language

            return language.not_equal(self, other)
        return self is not other

    __hash__ = object.__hash__

    def __neg__(self):
        from . import language

        return language.negative(self)

    def __invert__(self):
        from . import language

        return language.invert(self)

    def __abs__(self):
        from . import language

        return language.abs(self)


_COMPARED = (Operators, int, float, np.number)


def _operator(name, reverse=False):
    def apply(self, other):
        from . import language

        function = getattr(language, name)
        return function(other, self) if reverse else function(self, other)

    return apply


def _in_place(name):
    def apply(self, other):
        from . import language

        return language.update(name, self, other)

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
