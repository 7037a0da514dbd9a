"""Collects the warnings of a run, such as reads of never-written memory, and passes on those that
its options allow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

#: The option that makes an error of a warning, or silences it, by rule.
SWITCHES = {
    "output_partly_written":
        "NKISIM_STRICT=1 makes it an error, allow_unwritten=True or NKISIM_ALLOW_UNWRITTEN=1 zeros",
    "psum_written_by_two_engines": "NKISIM_STRICT=1 makes it an error",
}


def warning_collector(mode: str, lead: str, found: list[str]) -> Callable[[str, str], None] | Literal[False]:
    """The callback for each warning, whose text goes into `found` behind `lead`. False for `mode` "zeros": nothing
    is tracked."""
    def take(text: str, rule: str) -> None:
        switches = SWITCHES.get(rule)
        found.append(lead + text + (f" ({switches})" if switches else ""))
    return False if mode == "zeros" else take
