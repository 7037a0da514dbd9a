"""Refuses Python operations (such as `if x:`) that need a value of the device while a kernel is
only being collected.
"""

from .errors import KernelTypeError, fail


class Unreadable:
    """Base of device values. Each question of Python is an Error that names the cure; a class that has an
    answer defines the method itself.

    `_rule`: the rule of the errors (isa/rules/rules.def). `_cures`: for a question, what to write instead;
    "" for those that are not listed.
    """

    __slots__ = ()
    _rule = "values_while_recording"
    _cures = {"": "values exist only on the device; nl.where(condition, x, y) chooses between them"}

    def _refuse(self, use):
        rule, cure = self._rule, self._cures.get(use, self._cures[""])
        fail(rule, f"{self!r} is used as {use}; {cure}", kind=KernelTypeError)

    def __bool__(self):
        self._refuse("a truth value")

    def __iter__(self):
        self._refuse("a sequence")

    def __len__(self):
        self._refuse("a sequence")

    def __contains__(self, _item):
        self._refuse("a sequence")

    def __int__(self):
        self._refuse("a Python number")

    __index__ = __float__ = __complex__ = __round__ = __int__

    def __lt__(self, _other):
        self._refuse("an operand of a comparison")

    __le__ = __gt__ = __ge__ = __lt__

    def __eq__(self, other):
        if other is None or other is self:
            return other is self
        self._refuse("an operand of a comparison")

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        self._refuse("a key of a set or a dictionary")
