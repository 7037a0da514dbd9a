"""The core's instructions, as the front end looks them up."""

from .. import _core

OPS = {}    # nki.isa name -> (op number, parameter names)
KINDS = {}  # op number -> kinds of its parameters
EXACT = set()  # names of those whose operands keep every dimension that the kernel wrote

for _name, _id, _params, _engines, _doc, _exact in _core.ops():
    OPS[_name] = (_id, tuple(p[0] for p in _params))
    KINDS[_id] = tuple(p[1] for p in _params)
    if _exact:
        EXACT.add(_name)
