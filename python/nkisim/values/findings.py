"""Collects what --strict finds wrong in a kernel, each at its line, and raises one error with all
of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from .errors import Error, hint, is_strict, kernel_frame, parser_frontend, sdk, sdk_chosen

#: (file, line, message) of what was found of the kernel that is being prepared; None outside of one.
_gathered: ContextVar[list[tuple[str, int, str]] | None] = ContextVar("nkisim_findings", default=None)


def report(message: str, file: str, line: int) -> None:
    """A finding of --strict. Outside of a kernel that is being prepared it is an error at once."""
    found, one = _gathered.get(), (file, line, message)
    if found is None:
        raise _error([one])
    if one not in found:
        found.append(one)


@contextlib.contextmanager
def collecting_findings() -> Iterator[None]:
    """Raises one Error of all that was found within; another error from within names what was found before it."""
    found: list[tuple[str, int, str]] = []
    token = _gathered.set(found)
    try:
        yield
    except Error as problem:
        if found:
            problem.with_findings(tuple(found))
        raise
    finally:
        _gathered.reset(token)
    if found:
        raise _error(found)


def _error(found):
    file, line, message = found[0]
    return Error(message, rule="sdk_refuses", kernel_file=file, kernel_line=line).with_findings(tuple(found))


def strict(message: str, since: int = 0) -> None:
    """With NKISIM_STRICT=1, a finding at the kernel's line: it runs here, and the NKI compiler refuses it by the
    documents of SDK 2.`since` and later releases."""
    if not is_strict() or sdk() < since:
        return
    frame = kernel_frame()
    report(message, *((frame.f_code.co_filename, frame.f_lineno) if frame else ("nkisim", 0)))


def of_tracer(message: str) -> None:
    """Reports what the tracer of SDK 2.33 refuses and the parser took: a finding of --strict, a note where
    that release was asked for."""
    if sdk() < 33 or parser_frontend():
        return
    strict(message, 33)
    if not is_strict() and sdk_chosen():
        hint(message)
