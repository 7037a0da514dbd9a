"""nki: the Neuron Kernel Interface, run by nkisim."""

from nkisim.api.jit import (baremetal, benchmark, jit, profile, simulate, simulate_kernel, trace)

from . import collectives, compiler, dtype, isa, language, simulator, tensor, typing

__version__ = "0.7.0+nkisim"
__all__ = ["jit", "simulate", "language", "isa", "typing", "compiler", "collectives", "dtype",
           "tensor", "simulator", "baremetal", "benchmark", "profile", "simulate_kernel", "trace"]
