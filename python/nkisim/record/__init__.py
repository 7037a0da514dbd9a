"""Collects the instructions of a kernel while its Python function is called (recording)."""

from .. import _core
from ..values import enums, optokens
from ..values.errors import Error, is_ours
from ..values.register import VirtualRegister
from ..values.tensor import NkiTensor
from .refusals import operator_alias, raw_enum

# Everything that the extension module meets in a call's arguments.
_core.register({"tensor": NkiTensor, "register": VirtualRegister, "choice": enums.Choice, "alu": optokens.ALU,
                "act": optokens.ACT, "alu_aliases": optokens.ALU_ALIASES, "act_aliases": optokens.ACT_ALIASES,
                "alias": operator_alias, "engines": enums.ENGINE_CODES, "raw_enum": raw_enum, "error": Error,
                "is_ours": is_ours})
