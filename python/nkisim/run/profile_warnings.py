"""Warns where a profile that an environment variable asked for cannot be written, so that the
script goes on.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec

_Words = ParamSpec("_Words")


def warn_on_error(function: Callable[_Words, None]) -> Callable[_Words, None]:
    """The function, which warns of files and variables that cannot be used."""
    @functools.wraps(function)
    def kept(*args: _Words.args, **kwargs: _Words.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except (OSError, ValueError) as problem:
            warnings.warn(f"no profile is kept of this run: {problem}", RuntimeWarning, stacklevel=2)

    return kept
