"""Treatment of an output that is not, or not whole, defined at the end of a run: a warning, an error or zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ..values.errors import is_strict


def as_warning(mode: str, text: str, only_order: bool, rule: str) -> str | None:
    """The warning about an undefined output; None where it is an error."""
    if only_order:
        return text
    if mode == "warn":
        return f"{text}\nwhat was never written is NaN here, and 4 in integers"
    if mode == "partly" and rule == "output_partly_written" and not is_strict():
        return (f"{text}\nwhat was never written is NaN here, and 4 in integers (NKISIM_STRICT=1 makes it an error, "
                "allow_unwritten=True or NKISIM_ALLOW_UNWRITTEN=1 zeros)")
    return None


def taker(mode: str, rank: int, found: list[str]) -> Callable[..., bool] | Literal[False]:
    """The callback for each undefined output of a rank: True where that is a warning, whose text goes into `found`;
    else it is raised. False for `mode` "zeros": nothing is tracked."""
    def take(text: str, only_order: bool, rule: str = "") -> bool:
        said = as_warning(mode, text, only_order, rule)
        if said is not None:
            found.append(f"rank {rank}: {said}")
        return said is not None
    return False if mode == "zeros" else take
