"""torch_xla: used where the real package is not installed; nkisim runs the kernels on its devices."""

from nkisim.tools.frameworks import require_package

require_package("torch", "torch_xla", "PyTorch")

from nkisim_torch.device import enable_xla  # noqa: E402
from nkisim_torch.legacy import unsupported  # noqa: E402

enable_xla()

from . import core, experimental  # noqa: E402
from .core.xla_model import _device as device, _devices as devices, _sync as sync  # noqa: E402
from .core.xla_model import _step as step  # noqa: E402
from .experimental.eager import compile  # noqa: E402

__version__ = "2.9.0+nkisim"
__all__ = ["device", "devices", "sync", "step", "core", "compile", "experimental"]
__getattr__ = unsupported(__name__)
