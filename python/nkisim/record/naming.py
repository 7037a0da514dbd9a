"""Names tensors to which the kernel gave no name, by the variable that a call's result is assigned to."""

import dis

from .. import _core
from ..values.errors import is_ours, of_numpy

_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF", "STORE_ATTR")


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


def _is_kernels(code):
    return not is_ours(code) and not of_numpy(code)


_core.register_naming(_is_kernels, _assignments)
#: assigned_name(): the kernel's variable for the tensor it is just making, or its line as "lineN".
assigned_name = _core.assigned_name
