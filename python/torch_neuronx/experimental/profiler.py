"""torch_neuronx.experimental.profiler: profiles the simulated kernels that run within a block."""

from nkisim.frameworks.profilers import profile

__all__ = ["profile"]
