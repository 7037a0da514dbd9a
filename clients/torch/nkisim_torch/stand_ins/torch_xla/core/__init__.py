"""torch_xla.core: used where the real torch_xla is not installed."""

from . import xla_model

__all__ = ["xla_model"]
