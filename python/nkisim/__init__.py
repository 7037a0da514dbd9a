"""nkisim: runs NKI kernels on a simulated NeuronCore.

    import nkisim
    r = nkisim.run(kernel, x, y, target="trn2")
    r.outputs, r.latency_us, r.save("kernel.nisa"), r.perfetto("kernel.pftrace")

A package imports only those before it: values, record, isa, lowering, run, api, legacy, tools.
"""

from .run.kernel import Kernel, run
from .run.options import Options
from .run.result import Result
from .tools.install import install
from .values.errors import Error, KernelIndexError, KernelTypeError, KernelValueError

__all__ = ["run", "install", "Result", "Options", "Kernel", "Error", "KernelIndexError",
           "KernelTypeError", "KernelValueError"]
