"""Collective communication: forwarded to the core's ops of the same names."""

import inspect

from ..record.recorder import current
from ..values.nkiobject import NKIObject
from .instructions import INSTRUCTION, NkiInstruction


class ReplicaGroup(NKIObject):
    """Lists of ranks that communicate."""

    def __init__(self, groups=None, **_settings):
        self.groups = [list(g) for g in (groups or [[0]])]


_SIGNATURES = """
all_reduce(srcs, dsts, replica_group, op, priority=None, name=None)
all_gather(srcs, dsts, replica_group, collective_dim, priority=None, name=None)
all_gather_v(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None)
reduce_scatter(srcs, dsts, replica_group, collective_dim, op, priority=None, name=None)
all_to_all(srcs, dsts, replica_group, collective_dim, priority=None, name=None)
all_to_all_v(srcs, dsts, replica_group, metadata_tensor, recv_counts_known=False, has_rdispls=False, priority=None, name=None)
collective_permute(srcs, dsts, source_target_pairs, priority=None, name=None)
collective_permute_implicit(srcs_by_channel, dsts_by_channel, replica_group, channel_ids=[0], priority=None, name=None)
collective_permute_implicit_reduce(srcs0_by_channel, srcs1_by_channel, dsts_by_channel, replica_group, op, channel_ids=[0], priority=None, name=None)
collective_permute_implicit_current_processing_rank_id(iteration_id, replica_group, channel_id=0, name=None)
rank_id(name=None)
"""
_GIVE_REGISTERS = ("collective_permute_implicit_current_processing_rank_id", "rank_id")


def _forward(line):
    """The function of one line above: hands the arguments it is given to the core."""
    name, parameters = line.rstrip(")").split("(")
    signature = inspect.signature(eval(f"lambda {parameters}: None"))

    def call(*args, **kwargs):
        recorder = current()
        given = signature.bind(*args, **kwargs).arguments
        given.pop("name", None)
        given.pop("priority", None)
        if isinstance(given.get("replica_group"), ReplicaGroup):
            given["replica_group"] = given["replica_group"].groups
        result = INSTRUCTION
        if name in _GIVE_REGISTERS:
            result = given["dst"] = recorder.register()
        recorder.call(name, exact=True, **given)
        return result

    call.__name__, call.__signature__ = name, signature
    return call


for _line in _SIGNATURES.strip().splitlines():
    globals()[_line.split("(")[0]] = _forward(_line)
__all__ = ["ReplicaGroup", "NkiInstruction", *(s.split("(")[0] for s in _SIGNATURES.split("\n") if s)]
