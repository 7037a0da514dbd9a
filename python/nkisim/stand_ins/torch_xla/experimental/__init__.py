"""torch_xla.experimental."""

from nkisim.frameworks.torch_legacy import unsupported

from .eager import compile, eager_mode

__all__ = ["compile", "eager", "eager_mode"]
__getattr__ = unsupported(__name__)
