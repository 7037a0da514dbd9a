"""nki: the Neuron Kernel Interface, run by nkisim."""

from nkisim.api.host import names_of
from nkisim.api.jit import jit, simulate

from . import collectives, compiler, dtype, isa, language, simulator, tensor, typing

__version__ = "0.7.0+nkisim"
__all__ = ["jit", "simulate", "language", "isa", "typing", "compiler", "collectives", "dtype",
           "tensor", "simulator"]

#: simulate_kernel, baremetal, benchmark, profile, trace: no release has them here; each is reported.
__getattr__ = names_of(__name__)
