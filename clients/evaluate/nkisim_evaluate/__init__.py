"""Tests and times submitted kernels (`nkisim evaluate`), and searches a kernel's parameters
(`nkisim tune`).
"""

import sys
from types import ModuleType
from typing import Any

if sys.argv[:1] == ["-m"] and __name__ in getattr(sys, "orig_argv", ()) and sys.path and not getattr(
        sys.flags, "safe_path", False):
    sys.path.pop(0)  # `python -m` looks for modules in the working folder, which holds candidates

from .api import evaluate, evaluate_async
from .evaluator import Evaluator, Settings
from .reference import BadReference, Reference
from .tuning import Tuning, tune


class _Evaluate(ModuleType):
    """nkisim.evaluate is this package, and the function that it was before."""

    def __call__(self, *words: Any, **settings: Any) -> Any:
        return evaluate(*words, **settings)


sys.modules[__name__].__class__ = _Evaluate

__all__ = ["evaluate", "evaluate_async", "tune", "Evaluator", "Settings", "Tuning", "Reference", "BadReference"]
