"""torch_neuronx.experimental: holds the profiler of torch_neuronx."""

from nkisim_torch.legacy import unsupported

from . import profiler

__all__ = ["profiler"]
__getattr__ = unsupported(__name__)
