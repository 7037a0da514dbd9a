"""neuronxcc.nki: the legacy API."""

from nkisim.api.jit import (baremetal, benchmark, legacy_jit as jit, profile, simulate,
                        simulate_kernel, trace)
from nkisim.values.tensor import NkiTensor as tensor

from . import compiler, isa, language, typing  # noqa: E402

__all__ = ["jit", "simulate_kernel", "simulate", "benchmark", "profile", "baremetal", "trace",
           "language", "isa", "compiler", "typing", "tensor"]
