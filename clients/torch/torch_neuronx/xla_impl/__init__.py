"""torch_neuronx.xla_impl: holds nki_jit under an import path that some scripts use."""

from . import ops

__all__ = ["ops"]
