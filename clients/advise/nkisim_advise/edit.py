"""Defines Edit, a proposed change of a program (`nkisim advise`), and functions that several kinds
of edits share.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .facts import element_bytes


@dataclass(frozen=True)
class Edit:
    """One change of a program. `apply` gives another program, or None where there is nothing to change; applied to
    a program that others changed before, it looks for its line anew. `say`: what to write, as an imperative."""
    kind: str
    line: str
    what: str  # the instruction's name
    say: str
    apply: Callable
    #: At most one of several edits of one alternative is useful: another engine, another number of tiles.
    alternative: str = ""


def count(n, word):
    return f"{n:,} {word}" + ("" if n == 1 else "s")


def size(n):
    """Bytes as people write them."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "bytes" or n == int(n) else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError


def free_bytes(tensor):
    """Bytes of an on-chip tensor within a partition."""
    n = element_bytes(tensor["dtype"])
    for extent in tensor["shape"][1:]:
        n *= extent
    return n


def replaced(inst, parameter, place, ref):
    """The instruction with another operand."""
    if place is None:
        return {**inst, parameter: ref.json()}
    values = list(inst[parameter])
    values[place] = ref.json()
    return {**inst, parameter: values}
