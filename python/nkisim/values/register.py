"""Implements sequencer registers as kernels see them: virtual registers, and the scalars of NKI 0.7."""

import weakref

from .errors import KernelTypeError, fail, fail_on
from .unreadable import Unreadable


class VirtualRegister(Unreadable):
    """A sequencer register: usable as an address or loop bound, never in Python arithmetic."""

    __slots__ = ("id", "_recorder", "loop")
    _cures = {"": "its value exists only on the device; nisa.register_* computes with it, and scalar_offset or a "
                  "loop's bound takes it"}

    def __init__(self, recorder, number):
        self.id = number
        self._recorder = weakref.ref(recorder)
        self.loop = None

    def __repr__(self):
        return f"<register {self.id}>"

    def __bool__(self):
        return self._recorder().loops.while_test(self)

    def _arithmetic(self, *_):
        fail("register_arithmetic",
             "arithmetic on a register; its value exists only on the device, use nisa.register_* "
             "or scalar_offset", kind=KernelTypeError)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = _arithmetic
    __rfloordiv__ = __mod__ = __rmod__ = __truediv__ = __rtruediv__ = __neg__ = _arithmetic
    __lt__ = __le__ = __gt__ = __ge__ = _arithmetic
    __iadd__ = __isub__ = __imul__ = __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _arithmetic


_LIMITS = {"int32": 32, "int64": 64}


class NkiScalar(VirtualRegister):
    """An integer of the device, of 32 or 64 bits: what nisa.scalar_load gives, and arithmetic on it.

    Arithmetic is recorded and wraps at the scalar's own width; the other operand is a Python integer
    or a scalar of the same width.
    """

    __slots__ = ("dtype", "is_comparison")

    def __init__(self, recorder, number, dtype, is_comparison=False):
        super().__init__(recorder, number)
        self.dtype = dtype
        self.is_comparison = is_comparison

    def __repr__(self):
        return f"<scalar {self.id} {self.dtype}>"

    def __bool__(self):
        self._outside("a truth value")

    def _outside(self, what):
        fail("values_while_recording",
             f"a scalar is used as {what}; its value exists only on the device, use it in arithmetic, as "
             "scalar_offset or as a bound of nl.fori_loop", kind=KernelTypeError)

    def register(self):
        """The register that instructions name."""
        return VirtualRegister(self._recorder(), self.id)

    def usable(self, what):
        """Itself; an error for the result of a comparison, which nothing takes."""
        if self.is_comparison:
            fail("register_arithmetic", f"{what} is the result of a comparison of scalars, which no "
                 "instruction takes (documented)", kind=KernelTypeError)
        return self

    def _operand(self, other):
        """`other` as the instruction takes it: an integer of this width or a scalar of it."""
        if isinstance(other, NkiScalar):
            if other.dtype != self.dtype:
                fail_on("register_arithmetic", "the other operand", f"a scalar of {other.dtype}",
                        f"one of {self.dtype}", kind=KernelTypeError)
            return other.usable("an operand")
        if isinstance(other, bool) or not hasattr(other, "__index__") or (
                isinstance(other, VirtualRegister)):
            fail_on("register_arithmetic", "the other operand of a scalar", type(other).__name__,
                    "an integer or a scalar", kind=KernelTypeError)
        value, bits = other.__index__(), _LIMITS[self.dtype]
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            fail_on("integer_range", "the other operand of a scalar", value,
                    f"an integer of {bits} bits", kind=KernelTypeError)
        return value

    def _record(self, op, left, right):
        recorder = self._recorder()
        made = NkiScalar(recorder, recorder.register().id, self.dtype)
        left, right = (x.register() if isinstance(x, NkiScalar) else x for x in (left, right))
        op_name = "scalar_alu" if self.dtype == "int64" else "register_alu"
        recorder.call(op_name, dst=made.register(), op=op, lhs=left, rhs=right)
        return made

    def __add__(self, other):
        return self._record("add", self.usable("an operand"), self._operand(other))

    def __radd__(self, other):
        return self._record("add", self._operand(other), self.usable("an operand"))

    def __sub__(self, other):
        return self._record("subtract", self.usable("an operand"), self._operand(other))

    def __rsub__(self, other):
        return self._record("subtract", self._operand(other), self.usable("an operand"))

    def __mul__(self, other):
        return self._record("multiply", self.usable("an operand"), self._operand(other))

    def __rmul__(self, other):
        return self._record("multiply", self._operand(other), self.usable("an operand"))

    def __neg__(self):
        return self._record("subtract", 0, self.usable("an operand"))

    def __pos__(self):
        return self.usable("an operand")

    def _compare(self, other):
        self._operand(other)
        if self.dtype == "int64":
            fail("register_arithmetic", "scalars of int64 are compared; the device has no comparison of 64 bits "
                 "(documented)", kind=KernelTypeError)
        return NkiScalar(self._recorder(), self.id, self.dtype, True)

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _compare
    __iadd__, __isub__, __imul__ = __add__, __sub__, __mul__
    __hash__ = object.__hash__

    def __int__(self):
        self._outside("a Python integer")

    __index__ = __int__

    def __float__(self):
        self._outside("a Python number")
