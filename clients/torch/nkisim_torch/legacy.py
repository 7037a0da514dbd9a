"""Implements functions of torch_neuronx and torch_xla that scripts written for neuronxcc.nki call
around a kernel.
"""

from nkisim.api.jit import jit, legacy_jit
from nkisim.run.kernel import Kernel


def nki_jit(fn=None, *args, func=None, **settings):
    """@nki_jit, nki_jit()(kernel), nki_jit(func=kernel): the kernel itself; neuronxcc.nki's rules."""
    fn = func if fn is None else fn
    if fn is None:
        return lambda f: nki_jit(f, *args, **settings)
    return fn if isinstance(fn, Kernel) else legacy_jit(fn)


def wrap_nki(kernel):
    """wrap_nki(kernel)[grid](**arguments): the kernel, as an operator where torch traces."""
    return kernel if isinstance(kernel, Kernel) else jit(kernel)


def unsupported(module):
    """The module's __getattr__: says that a name belongs to what is not simulated."""

    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{module}.{name} is not part of nkisim, which simulates kernels "
                             "(docs/frameworks.md lists what it has)")

    return missing
