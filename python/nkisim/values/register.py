"""Sequencer registers as kernels see them."""

import weakref

from .errors import KernelTypeError, fail


class VirtualRegister:
    """A sequencer register: usable as an address or loop bound, never in Python arithmetic."""

    __slots__ = ("id", "_recorder", "loop")

    def __init__(self, recorder, number):
        self.id = number
        self._recorder = weakref.ref(recorder)
        self.loop = None

    def __repr__(self):
        return f"<register {self.id}>"

    def __bool__(self):
        return self._recorder().loops.while_test(self)

    def _refuse(self, *_):
        fail("register_arithmetic",
             "arithmetic on a register; its value exists only on the device, use nisa.register_* "
             "or scalar_offset", kind=KernelTypeError)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = _refuse
    __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __float__ = _refuse
    __iadd__ = __isub__ = __imul__ = __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refuse
