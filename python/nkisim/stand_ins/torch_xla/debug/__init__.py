"""torch_xla.debug."""

from . import profiler

__all__ = ["profiler"]
