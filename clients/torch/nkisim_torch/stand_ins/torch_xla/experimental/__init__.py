"""torch_xla.experimental: used where the real torch_xla is not installed."""

from nkisim_torch.legacy import unsupported

from .eager import compile, eager_mode

__all__ = ["compile", "eager", "eager_mode"]
__getattr__ = unsupported(__name__)
