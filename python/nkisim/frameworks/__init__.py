"""Lets PyTorch and JAX call NKI kernels: devices, operators, tracing. It imports neither framework
by itself.
"""

import sys

from ..run.kernel import CALLS
from .after_import import after_import


def _any_leaf(value, test):
    if isinstance(value, (list, tuple)):
        return any(_any_leaf(v, test) for v in value)
    if isinstance(value, dict):
        return any(_any_leaf(v, test) for v in value.values())
    return test(value)


def _prepare_compiling():
    """Lets torch.compile take a call of a kernel as it is, as one operator of its graph."""
    global _compiled
    from . import torch_calls
    _compiled = torch_calls.opaque()
    torch_calls.add_backend()


_compiled = None


def _call(kernel, args, kwargs):
    """A kernel called while a framework traces: its arguments have shapes and no values."""
    if _compiled is not None and sys.modules["torch"].compiler.is_compiling():
        return _compiled(kernel.number, kernel.grid, args, kwargs)
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if hasattr(torch, "library"):
        from . import torch_calls
        if _any_leaf((args, kwargs), torch_calls.is_traced):
            return torch_calls.traced(kernel, args, kwargs)
    if hasattr(jax, "core"):
        from . import jax_calls
        if _any_leaf((args, kwargs), jax_calls.is_traced):
            return jax_calls.traced(kernel, args, kwargs)
    return NotImplemented


def require_package(package, name, install):
    """Says in one line what `name` cannot do without."""
    try:
        return __import__(package)
    except ImportError as problem:
        if (problem.name or "").split(".")[0] != package:
            raise
        raise ImportError(f"{name} needs {install}, which is not installed: pip install {package}",
                          name=package) from None


def torch_devices():
    """Makes torch know the device "neuron", as a real backend does by itself; without an effect
    where torch is too old for it, which `import torch_neuronx` says."""
    try:
        from .torch_device import register
        register()
    except ImportError:
        pass


CALLS.append(_call)
after_import("torch._dynamo", _prepare_compiling)
