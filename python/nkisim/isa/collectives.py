"""Collective communication: forwarded to the core's ops of the same names, as far as it has them.

A group of one rank needs none: what it gathers, reduces or permutes is its own data, so that the
result is a copy, which one DMA per tensor makes.
"""

import inspect

from ..record.recorder import OPS, current
from ..values.errors import KernelValueError, fail
from ..values.nkiobject import NKIObject
from . import instructions as isa
from .help import TEXTS
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
_COUNTED = ("all_gather_v", "all_to_all_v")  # lengths that a tensor holds
_GIVE_REGISTERS = ("collective_permute_implicit_current_processing_rank_id", "rank_id")


def _one_rank(name, given):
    """The call in a group of one rank; an Error in any other."""
    if name in _COUNTED:
        fail("replica_group has groups of one rank; one of the group sizes that the documents "
             "allow is required (all_gather and all_to_all take one rank)", name, KernelValueError)
    groups = given.get("replica_group") or given.get("source_target_pairs") or [[0]]
    most = max(len(set(g)) for g in groups)
    if most > 1:
        fail(f"replica_group has a group of {most} ranks; one of one rank is required (other ranks "
             "are not simulated)", name, KernelValueError)
    if name in _GIVE_REGISTERS:
        isa.register_move(given["dst"], 0)
    elif name == "collective_permute_implicit_reduce":
        for a, b, dst in zip(*(given[k] for k in ("srcs0_by_channel", "srcs1_by_channel",
                                                  "dsts_by_channel"))):
            isa.dma_compute(dst[0], [a[0], b[0]], given["op"])
    elif name == "collective_permute_implicit":
        for src, dst in zip(given["srcs_by_channel"], given["dsts_by_channel"]):
            isa.dma_copy(dst[0], src[0])
    else:
        for src, dst in zip(given["srcs"], given["dsts"]):
            isa.dma_copy(dst, src)
    return given.get("dst", INSTRUCTION)


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
        if name not in OPS:
            return _one_rank(name, given)
        recorder.call(name, exact=True, **given)
        return result

    call.__name__, call.__signature__ = name, signature
    call.__doc__ = TEXTS.get(name) or f"{name.replace('_', ' ')}, on the one rank that is simulated."
    return call


for _line in _SIGNATURES.strip().splitlines():
    globals()[_line.split("(")[0]] = _forward(_line)
__all__ = ["ReplicaGroup", "NkiInstruction", *(s.split("(")[0] for s in _SIGNATURES.split("\n") if s)]
