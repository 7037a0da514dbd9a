"""torch_neuronx.experimental.profiler: profiles the simulated kernels that run within a block."""

from nkisim_torch.profilers import profile

__all__ = ["profile"]
