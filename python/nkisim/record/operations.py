"""The core's instructions, as the front end looks them up."""

from .. import _core

OPS = {}    # nki.isa name -> (op number, parameter names)
KINDS = {}  # op number -> kinds of its parameters

for _name, _id, _params, _engines, _doc in _core.ops():
    OPS[_name] = (_id, tuple(p[0] for p in _params))
    KINDS[_id] = tuple(p[1] for p in _params)
