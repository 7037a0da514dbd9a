"""Ends a run with an error before its process takes more than 80 % of the available memory."""

from __future__ import annotations

from .. import _core
from ..values.errors import Error


class MemoryBound:
    """While it lasts (`with`), the system gives this process no memory beyond that; an Error where it would be
    needed."""

    def __enter__(self) -> None:
        self._bound = _core.MemoryBound()

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        text = self._bound.reached()
        del self._bound
        if text and (isinstance(problem, MemoryError) or str(problem) == "std::bad_alloc"):
            raise Error(f"the run needs {text}", rule="host_memory") from None
