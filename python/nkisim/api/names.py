"""Names that a module of nki does not have."""

import sys

from ..values.errors import KernelAttributeError, fail

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
    "full_like": "nl.full(x.shape, value, dtype=x.dtype)", "ones_like": "nl.ones(x.shape, dtype=x.dtype)"}


def _instruction(module, name):
    """The name of an instruction in nki.isa, if a kernel looks for it in the module of the language."""
    package, _, last = module.rpartition(".")
    isa = sys.modules.get(package + ".isa") if last == "language" else None
    return f"nisa.{name}" if isa is not None and name in vars(isa) else None


def near(name, known):
    """"did you mean sqrt?" of the names that are nearest, at most three that are as near; "" where none is."""
    import difflib

    close = difflib.get_close_matches(name, known, 3, 0.6)
    ratios = [difflib.SequenceMatcher(None, name, one).ratio() for one in close]
    best = [one for one, ratio in zip(close, ratios) if ratio > ratios[0] - 0.05]
    return f"did you mean {', '.join(best[:-1])}{' or ' * (len(best) > 1)}{best[-1]}?" if best else ""


def missing(module):
    """A module's __getattr__: an AttributeError that says what is nearest."""
    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        known = [n for n in vars(sys.modules[module]) if not n.startswith("_")]
        instead = _OTHERS.get(name) or _instruction(module, name)
        said = f"use {instead}" if instead else near(name, known) or f"dir({module}) lists its names"
        fail("unsupported_call", f"{module} has no {name}; {said}", kind=KernelAttributeError)

    return __getattr__
