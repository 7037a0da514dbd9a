"""Looks up instructions by name in the C++ core, for the Python front end."""

from .. import _core

OPS = {}    # nki.isa name -> (op number, parameter names)
WRITES = {}  # op number -> whether it writes the tensors of each parameter
EXACT = set()  # names of those whose operands keep every dimension that the kernel wrote

_WRITTEN = [written for *_, written in _core.param_kinds()]

for _name, _id, _params, _engines, _doc, _exact in _core.ops():
    OPS[_name] = (_id, tuple(p[0] for p in _params))
    WRITES[_id] = tuple(_WRITTEN[p[1]] for p in _params)
    if _exact:
        EXACT.add(_name)
