"""Decides which packages `import nki` finds: nkisim's or AWS's, by who asked for the simulator and
what is installed.

An installation owns no name but nkisim's. Its packages with AWS's names lie in nkisim/packages, and a
process finds them there in one of two ways:

* `import nkisim` lets `nki`, `neuronxcc` and what kernels import with them be found where nothing else of
  that name is installed; never a framework's package.
* `install()` (so `python -m nkisim`, NKI_SIMULATOR=1 and the pytest plugin) puts all of them before
  whatever else is installed, and `torch_xla` where there is no other, as does an import of this torch_neuronx.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # nkisim
#: A build tree has our packages next to nkisim.
_ROOT = os.path.join(_HERE, "packages")
if not os.path.isdir(_ROOT):
    _ROOT = os.path.dirname(_HERE)
#: Modules that kernels import, and modules that frameworks' scripts import.
_KERNELS = ("nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes")
_OURS = (*_KERNELS, "torch_neuronx", "jax_neuronx")
#: Packages with other makers, which only count where these are not installed.
_STAND_INS = os.path.join(os.path.dirname(_HERE), "nkisim_torch", "stand_ins")


class _Finder:
    """A meta-path finder that looks for our packages in our own directory first."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, [_ROOT]) if name in _OURS else None


class _Kernels:
    """One of the last finders to be asked: for kernels' packages that are not installed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, [_ROOT]) if name in _KERNELS else None


class _StandIns:
    """The last finder to be asked: for packages that are not installed and have a stand-in."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, [_STAND_INS]) if path is None else None


sys.meta_path.append(_Kernels)


def stand_ins() -> None:
    """Lets packages that are not installed and have a stand-in be found: torch_xla."""
    if _StandIns not in sys.meta_path:
        sys.meta_path.append(_StandIns)


def install(devices: bool = False) -> bool:
    """Puts nkisim's packages before any other `nki`. Returns True if it changed anything.

    devices: torch knows the device "neuron" once it is imported, as where AWS's back end loads itself;
    otherwise `import torch_neuronx` (or torch_xla) brings it, and until then torch stays as it is."""
    if devices and importlib.util.find_spec("nkisim_torch"):  # a client
        importlib.import_module("nkisim_torch").devices_with_torch()
    if _Finder in sys.meta_path:
        return False
    sys.meta_path.insert(0, _Finder)
    stand_ins()
    for name in [m for m in sys.modules if m.split(".")[0] in _OURS]:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if not os.path.abspath(file).startswith(_ROOT + os.sep):
            del sys.modules[name]
    return True
