"""Lets PyTorch call NKI kernels: devices, operators, tracing. It does not import torch by itself."""

import sys

from nkisim.run.kernel import CALLS
from nkisim.tools.frameworks import any_leaf

from .after_import import after_import


def _prepare_compiling():
    """Lets torch.compile take a call of a kernel as it is, as one operator of its graph."""
    global _compiled
    from . import calls
    _compiled = calls.opaque()
    calls.add_backend()


_compiled = None


def _call(kernel, args, kwargs):
    """A kernel called while torch traces: its arguments have shapes and no values."""
    if _compiled is not None and sys.modules["torch"].compiler.is_compiling():
        return _compiled(kernel.number, kernel.grid, args, kwargs)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "library"):
        from . import calls
        if any_leaf((args, kwargs), calls.is_traced):
            return calls.traced(kernel, args, kwargs)
    return NotImplemented


def _devices():
    """Makes torch know the device "neuron", as a real backend does by itself; without an effect
    where torch is too old for it, which `import torch_neuronx` says."""
    try:
        from .device import register
        register()
    except ImportError:
        pass


def devices_with_torch():
    """Makes torch know its device once it has been imported, now or later."""
    after_import("torch", _devices)


CALLS.append(_call)
after_import("torch._dynamo", _prepare_compiling)
