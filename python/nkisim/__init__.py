"""nkisim: runs NKI kernels on a simulated NeuronCore.

    import nkisim
    r = nkisim.run(kernel, x, y, target="trn2")
    r.outputs, r.latency_us, r.save("kernel.nisa"), r.perfetto("kernel.pftrace")

A package imports only those before it: values, record, isa, compat, lowering, run, api, tools.
"""

import importlib
import importlib.util

from .record.regions import region
from .run.kernel import Kernel, run
from .run.layers import LayersResult, per_layer
from .run.options import Options
from .run.result import Result
from .run.stop import Stop
from .run.world import per_rank
from .run.worldresult import RankResult, WorldResult
from .run.shapes import Recording, shapes
from .tools import clients as _clients
from .tools.install import install
from .tools.timeline import Timeline
from .values.errors import Error, KernelAttributeError, KernelIndexError, KernelTypeError, KernelValueError
from .values.shape import Shape

for _name in ("nkisim_torch", "nkisim_jax"):  # kernels called while torch or JAX traces
    if importlib.util.find_spec(_name):
        importlib.import_module(_name)

__all__ = ["run", "region", "per_rank", "per_layer", "LayersResult", "WorldResult", "RankResult", "shapes", "install",
           "Result", "Recording", "Shape", "Stop", "Timeline", "Options", "Kernel",
           "Error", "KernelAttributeError", "KernelIndexError", "KernelTypeError", "KernelValueError"]


def __getattr__(name):
    """nkisim.evaluate, evaluate_async and tune, which belong to a client's package; other clients; __version__."""
    if name in ("evaluate", "evaluate_async", "tune"):
        return getattr(importlib.import_module("nkisim_evaluate"), name)
    if name in _clients.NAMES and importlib.util.find_spec(f"nkisim_{name}"):
        return importlib.import_module(f"nkisim.{name}")
    if name == "__version__":
        from .tools.doctor import version
        return version()
    from .values.spelling import similar_names
    said = similar_names(name, __all__) if not name.startswith("_") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{'; ' * bool(said)}{said}")


def load_ipython_extension(shell):
    """%load_ext nkisim: the cell magic %%nkisim (tools/notebook)."""
    from .tools.notebook import load
    load(shell)
