"""torch_neuronx: kernels as operators of PyTorch, run by nkisim. `import torch_neuronx` brings the
device "neuron"."""

from nkisim.tools.frameworks import require_package

require_package("torch", "torch_neuronx", "PyTorch")

import nki  # noqa: E402
from nkisim_torch.calls import nki_op  # noqa: E402
from nkisim_torch.device import register  # noqa: E402
from nkisim_torch.legacy import nki_jit, unsupported  # noqa: E402
from nkisim.tools.install import stand_ins  # noqa: E402

from . import nki_hop, xla_impl  # noqa: E402
from .nki_hop import wrap_nki  # noqa: E402

register()
stand_ins()
__all__ = ["nki", "nki_jit", "nki_op", "nki_hop", "wrap_nki", "xla_impl"]
__getattr__ = unsupported(__name__)
