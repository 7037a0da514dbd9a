"""Collects the warnings of a run, such as reads of never-written memory, and passes on those that
its options allow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Literal

#: The option that makes an error of a warning, or silences it, by rule.
SWITCHES = {
    "output_partly_written":
        "NKISIM_STRICT=1 makes it an error, allow_unwritten=True or NKISIM_ALLOW_UNWRITTEN=1 zeros",
    "psum_written_by_two_engines": "NKISIM_STRICT=1 makes it an error",
}


#: A warning: its text, the kernel's file and the line; ("", 0) where it is of no one line.
Found = tuple[str, str, int]
_shown: dict[Any, Any] = {}  # what Python's filters show once


def warning_collector(mode: str, lead: str,
                      found: list[Found]) -> Callable[[str, str, str, int], None] | Literal[False]:
    """The callback for each warning, which goes into `found` behind `lead`. False for `mode` "zeros": nothing is
    tracked."""
    def take(text: str, rule: str, file: str, line: int) -> None:
        switches = SWITCHES.get(rule)
        found.append((lead + text + (f" ({switches})" if switches else ""), file, line))
    return False if mode == "zeros" else take


def warn_of(found: Iterable[Found], lead: str = "") -> None:
    """Passes warnings to Python, each at the kernel's line."""
    for text, file, line in found:
        warnings.warn_explicit(lead + text, UserWarning, file or "nkisim", line, registry=_shown)
