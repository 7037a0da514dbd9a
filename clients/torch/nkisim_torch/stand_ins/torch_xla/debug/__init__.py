"""torch_xla.debug: used where the real torch_xla is not installed."""

from . import profiler

__all__ = ["profiler"]
