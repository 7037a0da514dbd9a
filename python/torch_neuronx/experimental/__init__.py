"""torch_neuronx.experimental."""

from nkisim.frameworks.torch_legacy import unsupported

from . import profiler

__all__ = ["profiler"]
__getattr__ = unsupported(__name__)
