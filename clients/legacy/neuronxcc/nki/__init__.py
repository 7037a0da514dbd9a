"""neuronxcc.nki: the older NKI API (before SDK 2.27), under the name that kernels import."""

from nkisim.api.host import names_of
from nkisim.api.jit import legacy_jit as jit, simulate
from nkisim.values.tensor import NkiTensor as tensor

from . import compiler, isa, language, typing  # noqa: E402

__all__ = ["jit", "simulate_kernel", "simulate", "benchmark", "profile", "baremetal", "trace",
           "language", "isa", "compiler", "typing", "tensor"]

#: simulate_kernel, baremetal, benchmark, profile, trace: reported if the release no longer has them.
__getattr__ = names_of(__name__, since=30)
