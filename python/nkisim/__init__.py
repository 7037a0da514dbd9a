"""nkisim: runs NKI kernels on a simulated NeuronCore.

    import nkisim
    r = nkisim.run(kernel, x, y, target="trn2")
    r.outputs, r.latency_us, r.save("kernel.nisa"), r.perfetto("kernel.pftrace")
"""

from . import _core
from .errors import Error, KernelIndexError, KernelTypeError, KernelValueError
from .register import VirtualRegister
from .tensor import NkiTensor
from . import enums, optokens


def _register():
    from .recorder import _is_ours

    _core.register({"tensor": NkiTensor, "register": VirtualRegister, "alu": optokens.ALU,
                    "act": optokens.ACT, "engines": enums.ENGINE_CODES, "error": Error,
                    "is_ours": _is_ours})


_register()

from .install import install  # noqa: E402
from .kernel import Kernel, run  # noqa: E402
from .options import Options  # noqa: E402
from .result import Result  # noqa: E402

__all__ = ["run", "install", "Result", "Options", "Kernel", "Error", "KernelIndexError",
           "KernelTypeError", "KernelValueError"]
