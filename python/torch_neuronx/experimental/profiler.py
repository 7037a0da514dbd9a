"""torch_neuronx.experimental.profiler."""

from nkisim.frameworks.profilers import profile

__all__ = ["profile"]
