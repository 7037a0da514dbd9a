"""Collective communication: forwarded to the core's ops of the same names."""

from .isa import INSTRUCTION, NkiInstruction
from .nkiobject import NKIObject
from .recorder import current


class ReplicaGroup(NKIObject):
    """Lists of ranks that communicate."""

    def __init__(self, groups=None, **_settings):
        self.groups = [list(g) for g in (groups or [[0]])]


def _forward(name, register=False):
    def call(*args, **kwargs):
        recorder = current()
        kwargs.pop("name", None)
        kwargs.pop("priority", None)
        group = kwargs.get("replica_group")
        if isinstance(group, ReplicaGroup):
            kwargs["replica_group"] = group.groups
        result = recorder.register() if register else INSTRUCTION
        if register:
            kwargs["dst"] = result
        from .recorder import OPS

        for key, value in zip(OPS.get(name, (0, ()))[1], args):
            kwargs[key] = value
        recorder.call(name, exact=True, **kwargs)
        return result

    call.__name__ = name
    return call


all_reduce = _forward("all_reduce")
all_gather = _forward("all_gather")
all_gather_v = _forward("all_gather_v")
reduce_scatter = _forward("reduce_scatter")
all_to_all = _forward("all_to_all")
all_to_all_v = _forward("all_to_all_v")
collective_permute = _forward("collective_permute")
collective_permute_implicit = _forward("collective_permute_implicit")
collective_permute_implicit_reduce = _forward("collective_permute_implicit_reduce")
collective_permute_implicit_current_processing_rank_id = _forward(
    "collective_permute_implicit_current_processing_rank_id", True)
rank_id = _forward("rank_id", True)
__all__ = ["ReplicaGroup", "NkiInstruction"]
