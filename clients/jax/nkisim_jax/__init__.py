"""Lets JAX call NKI kernels within jax.jit and its kin. It does not import jax by itself."""

import sys

from nkisim.run.kernel import CALLS
from nkisim.tools.frameworks import any_leaf


def _call(kernel, args, kwargs):
    """A kernel called while JAX traces: its arguments have shapes and no values."""
    jax = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "core"):
        from . import calls
        if any_leaf((args, kwargs), calls.is_traced):
            return calls.traced(kernel, args, kwargs)
    return NotImplemented


CALLS.append(_call)
