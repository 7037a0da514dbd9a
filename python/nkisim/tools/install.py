"""Makes `import nki` and `import neuronxcc` mean this simulator, whatever else is installed."""

import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # nkisim
#: An installation has our packages a second time, out of the way of others with the same names.
_ROOT = os.path.join(_HERE, "packages")
if not os.path.isdir(_ROOT):
    _ROOT = os.path.dirname(_HERE)
_OURS = ("nki", "neuronxcc", "nki_cpu_simulator", "neuron_dtypes")


class _Finder:
    """A meta-path finder that looks for our packages in our own directory first."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in _OURS:
            return importlib.machinery.PathFinder.find_spec(name, [_ROOT])
        return None


def install():
    """Puts nkisim's packages before any other `nki`. Returns True if it changed anything."""
    if _Finder in sys.meta_path:
        return False
    sys.meta_path.insert(0, _Finder)
    for name in [m for m in sys.modules if m.split(".")[0] in _OURS]:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if not os.path.abspath(file).startswith(_ROOT + os.sep):
            del sys.modules[name]
    return True
