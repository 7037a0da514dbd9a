"""Names for tensors the kernel gave none: the variable a call's result is assigned to."""

import dis
from types import CodeType

from ..values.errors import kernel_frame

_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")
#: id of a code object -> (the object, {offset of a call: variable}).
_targets: dict[int, tuple[CodeType, dict[int, str]]] = {}


def _assignments(code):
    """The variable that each call's result goes to at once, by the offsets within the call."""
    found = {}
    steps = [s for s in dis.get_instructions(code) if s.opname != "CACHE"]
    for at, step in enumerate(steps[:-1]):
        if not step.opname.startswith("CALL"):
            continue
        after = steps[at + 1]
        # A frame that called Python code stands on one of the call's inline caches.
        offsets = range(step.offset, after.offset, 2)
        if after.opname.startswith("LOAD_") and at + 2 < len(steps):  # self.tile = ...
            after = steps[at + 2] if steps[at + 2].opname == "STORE_ATTR" else after
        if after.opname in _STORES:
            found.update(dict.fromkeys(offsets, str(after.argval)))
    return found


def assigned_name():
    """The kernel's variable for the tensor it is just making, or its line as "lineN"."""
    frame = kernel_frame()
    if frame is None:
        return "t"
    code = frame.f_code
    known = _targets.get(id(code))
    if known is None:
        known = _targets[id(code)] = (code, _assignments(code))
    return known[1].get(frame.f_lasti) or f"line{frame.f_lineno}"
