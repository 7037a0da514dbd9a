"""Makes the error message where a kernel uses a name that nki does not have: which function to use
instead.
"""

import sys

from ..values.errors import KernelAttributeError, fail
from ..values.spelling import similar_names

#: Other libraries' names, and what to write here instead.
_OTHERS = {
    "concat": "a tile whose slices are assigned", "concatenate": "a tile whose slices are assigned",
    "cat": "a tile whose slices are assigned", "stack": "a tile whose slices are assigned",
    "dot": "nl.matmul", "einsum": "nl.matmul", "sigmoid_": "nl.sigmoid", "layer_norm": "nl.rms_norm, or "
    "nisa.bn_stats and nisa.bn_aggr", "relu6": "nl.minimum(nl.relu(x), 6.0)", "clip": "nl.minimum(nl.maximum(x, "
    "low), high)", "clamp": "nl.minimum(nl.maximum(x, low), high)", "float64": "nl.float32 (the device has no "
    "64-bit types)", "tensor_add": "nl.add, or "
    "nisa.tensor_tensor", "matmul": "nisa.nc_matmul", "copy": "nisa.tensor_copy", "transpose": "nisa.nc_transpose",
    "reshape": "tile.reshape(shape)", "mul": "nl.multiply", "sub": "nl.subtract", "div": "nl.divide", "pow":
    "nl.power", "argmax": "nisa.max8 and nisa.nc_find_index8",
    "eye": "nl.shared_identity_matrix(n)", "identity": "nl.shared_identity_matrix(n)",
    "full_like": "nl.full(x.shape, value, dtype=x.dtype)", "ones_like": "nl.ones(x.shape, dtype=x.dtype)"}


def _elsewhere(module, name):
    """The spelling of a function that the other one of the modules isa and language has; else None."""
    package, _, last = module.rpartition(".")
    other, short = {"language": (".isa", "nisa"), "isa": (".language", "nl")}.get(last, ("", ""))
    found = sys.modules.get(package + other) if other else None
    return f"{short}.{name}" if found is not None and name in vars(found) else None


def missing(module):
    """A module's __getattr__: an AttributeError that says what is nearest."""
    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        known = [n for n in vars(sys.modules[module]) if not n.startswith("_")]
        instead = _OTHERS.get(name) or _elsewhere(module, name)
        said = f"use {instead}" if instead else similar_names(name, known) or f"dir({module}) lists its names"
        fail("unsupported_call", f"{module} has no {name}; {said}", kind=KernelAttributeError)

    return __getattr__
