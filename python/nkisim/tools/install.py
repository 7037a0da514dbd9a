"""Makes `import nki` and `import neuronxcc` mean this simulator, whatever else is installed."""

import importlib.machinery
import importlib.util
import os
import sys

from ..frameworks import torch_devices
from ..frameworks.after_import import after_import

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # nkisim
#: An installation has our packages a second time, out of the way of others with the same names.
_ROOT = os.path.join(_HERE, "packages")
if not os.path.isdir(_ROOT):
    _ROOT = os.path.dirname(_HERE)
_OURS = ("nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes", "torch_neuronx", "jax_neuronx")
#: Packages with other makers, which only count where these are not installed.
_STAND_INS = os.path.join(_HERE, "stand_ins")


class _Finder:
    """A meta-path finder that looks for our packages in our own directory first."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in _OURS:
            return importlib.machinery.PathFinder.find_spec(name, [_ROOT])
        return None


class _StandIns:
    """The last finder to be asked: for packages that are not installed and have a stand-in."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return stand_in(name) if path is None else None


def stand_in(name):
    """The module specification of a stand-in, None for other names. An installation asks for it
    before anything of nkisim is imported (nkisim_simulator.pth)."""
    return importlib.machinery.PathFinder.find_spec(name, [_STAND_INS])


sys.meta_path.append(_StandIns)


def install() -> bool:
    """Puts nkisim's packages before any other `nki`. Returns True if it changed anything."""
    if _Finder in sys.meta_path:
        return False
    sys.meta_path.insert(0, _Finder)
    after_import("torch", torch_devices)
    for name in [m for m in sys.modules if m.split(".")[0] in _OURS]:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if not os.path.abspath(file).startswith(_ROOT + os.sep):
            del sys.modules[name]
    return True
