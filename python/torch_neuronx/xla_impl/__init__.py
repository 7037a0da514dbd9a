"""torch_neuronx.xla_impl."""

from . import ops

__all__ = ["ops"]
