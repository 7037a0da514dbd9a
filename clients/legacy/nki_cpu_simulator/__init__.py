"""nki_cpu_simulator: the package with which nki-library's own tests run kernels.

`nki_cpu_simulator.nki` is our nki under that name, with cpu_simulate(kernel)[lnc](**arguments).
"""

import sys

import nki
from nki import collectives, compiler, dtype, isa, language, tensor, typing
from nkisim.api.jit import simulate as cpu_simulate

from . import builtin

jit = nki.jit
nki.cpu_simulate, nki.builtin = cpu_simulate, builtin
# By its name alone (`from nki.language import dtypes`): as an attribute kernels would see it from then on.
sys.modules.update({"nki.builtin": builtin, "nki.language.dtypes": dtype})
for _name, _module in list(sys.modules.items()):
    if _name.split(".")[0] == "nki":
        sys.modules[f"{__name__}.{_name}"] = _module
        if _name != "nki":
            sys.modules[__name__ + _name[len("nki"):]] = _module

__all__ = ["cpu_simulate", "jit", "language", "isa", "typing", "compiler", "collectives", "dtype",
           "tensor", "nki"]
