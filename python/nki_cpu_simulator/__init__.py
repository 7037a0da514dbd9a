"""nki_cpu_simulator: the package nki-library's test suite runs kernels with."""

import sys

import nki as _nki
from nki import *  # noqa: F401,F403
from nki import collectives, compiler, dtype, isa, language, tensor, typing
from nkisim.api import simulate as cpu_simulate

jit = _nki.jit
for _name in ("collectives", "compiler", "dtype", "isa", "language", "tensor", "typing"):
    sys.modules[f"{__name__}.{_name}"] = sys.modules[f"nki.{_name}"]
sys.modules[f"{__name__}.isa.constants"] = sys.modules["nki.isa.constants"]

__all__ = ["cpu_simulate", "jit", "language", "isa", "typing", "compiler", "collectives", "dtype",
           "tensor"]
