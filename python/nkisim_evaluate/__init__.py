"""Judges candidate kernels (`nkisim evaluate`) and searches a kernel's parameters (`nkisim tune`)."""

from .api import evaluate
from .evaluator import Evaluator, Settings
from .reference import BadReference, Reference
from .tuning import Tuning, tune

__all__ = ["evaluate", "tune", "Evaluator", "Settings", "Tuning", "Reference", "BadReference"]
