"""Declares functions that tensors call in packages above them; the package `lowering` supplies
them.

`x + y`, `tile[...] = value` and `x.astype(...)` are instructions, which values know nothing of:
`lowering` fills `above` in when it is imported. This is the one place where a call goes up.
"""

from typing import Any, Callable


class Above:
    """The functions that Python's operators and a few methods of tensors stand for."""

    #: Functions of nki.language by name: functions["add"](x, y) gives the result's tile.
    functions: dict[str, Callable[..., Any]]
    #: assign(dst, value): dst[...] = value, of a tile, a number or a NumPy array.
    assign: Callable[[Any, Any], None]
    #: update(name, dst, value): dst = functions[name](dst, value) in place; gives dst.
    update: Callable[[str, Any, Any], Any]
    #: allocate(shape, dtype, buffer, name, address): a new tensor.
    allocate: Callable[..., Any]
    #: region(buffer, size, offset): a part of an on-chip memory (values/region.py).
    region: Callable[..., Any]
    #: copy(x, dtype=...): a tile of the same values.
    copy: Callable[..., Any]
    #: broadcast_to(x, shape): a tile or view of that shape.
    broadcast_to: Callable[[Any, tuple], Any]
    #: transpose(x): partitions and free dimensions exchanged.
    transpose: Callable[[Any], Any]

    #: inferred(x): a reshape of x leaves a size to be worked out.
    inferred: Callable[[Any], None]
    #: refused(rule, **parts): a row of record/refusals.json is met.
    refused: Callable[..., None]

    def fill(self, **functions):
        """Sets every hook; each must be one that is declared here."""
        assert functions.keys() == Above.__annotations__.keys(), functions.keys()
        vars(self).update(functions)


above = Above()
