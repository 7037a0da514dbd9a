"""Implements nki.collectives, communication between ranks (docs/collectives.md).

A run of one rank has no other to talk to: what a group of one gathers, reduces or permutes is its own
data, so that the result is a copy, which one DMA per tensor makes.
"""

import enum
import inspect
import operator
import os

from ..record.recorder import current
from ..record.refusals import report_refused
from ..values.errors import KernelTypeError, KernelValueError, fail, fail_on, kernel_frame
from ..values.findings import strict
from ..values.nkiobject import NKIObject
from ..values.storage import HBM, shared_hbm
from ..values.tensor import NkiTensor
from . import instructions as isa
from .help import TEXTS
from .instructions import INSTRUCTION, NkiInstruction


class rg_partition_op(enum.Enum):
    """The ways in which ReplicaGroup.from_partition_op makes rank-lists of ranks."""

    bitwise_and = "bitwise_and"
    div = "div"
    mod = "mod"


_PARTITIONS = {rg_partition_op.bitwise_and: operator.and_, rg_partition_op.div: operator.floordiv,
               rg_partition_op.mod: operator.mod}


class ReplicaGroup(NKIObject):
    """Lists of ranks that communicate: ReplicaGroup([[0, 1], [2, 3]])."""

    def __init__(self, groups=None, **_settings):
        self.groups = [[int(rank) for rank in group] for group in (groups or [[0]])]

    @property
    def _value(self):  # as nki-library's tests call it
        return self.groups

    @staticmethod
    def from_partition_op(world_size, op, operand):
        """The ranks 0 to world_size - 1, those with one result of `op` with `operand` in one list."""
        if not isinstance(op, rg_partition_op):
            fail_on("argument_value", "op", repr(op), "a member of rg_partition_op", "from_partition_op", KernelTypeError)
        if world_size < 1 or operand < (0 if op is rg_partition_op.bitwise_and else 1):
            fail_on("argument_value", "operand" if world_size >= 1 else "world_size",
                    str(operand if world_size >= 1 else world_size), "a number of 1 or more", "from_partition_op",
                    KernelValueError)
        lists: dict[int, list[int]] = {}
        for rank in range(world_size):
            lists.setdefault(_PARTITIONS[op](rank, operand), []).append(rank)
        return ReplicaGroup(list(lists.values()))

    def __repr__(self):
        return f"ReplicaGroup({self.groups})"

    def __eq__(self, other):
        return isinstance(other, ReplicaGroup) and self.groups == other.groups

    def __hash__(self):
        return hash(tuple(map(tuple, self.groups)))


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


def _one_rank(name, given, label):
    """The call in a run of one rank; an Error for a group of several. Its name is the last copy's."""
    if name in _COUNTED:
        fail("replica_groups",
             "replica_group has groups of one rank; one of the group sizes that the documents "
             "allow is required (all_gather and all_to_all take one rank)", name, KernelValueError)
    groups = given.get("replica_group") or given.get("source_target_pairs") or [[0]]
    most = max(len(set(g)) for g in groups)
    if most > 1:
        fail("replica_groups",
             f"replica_group has a group of {most} ranks; one of one rank is required in a run of one "
             "rank (nkisim.run(..., ranks=N) runs several)", name, KernelValueError)
    if name in _GIVE_REGISTERS:
        isa.register_move(given["dst"], 0)
        return given["dst"]
    made = INSTRUCTION
    if name == "collective_permute_implicit_reduce":
        sums = list(zip(*(given[k] for k in ("srcs0_by_channel", "srcs1_by_channel",
                                             "dsts_by_channel"))))
        for number, (a, b, dst) in enumerate(sums, 1):
            made = isa.dma_compute(dst, [a, b], given["op"],
                                   name=label if number == len(sums) else None)
        return made
    each = "_by_channel" if name == "collective_permute_implicit" else ""
    copies = list(zip(given["srcs" + each], given["dsts" + each]))
    for number, (src, dst) in enumerate(copies, 1):
        made = isa.dma_copy(dst, src, name=label if number == len(copies) else None)
    return made


def _flat(name, parameter, value):
    """One tensor for each channel, of lists of one tensor."""
    channels = list(value)
    for channel in channels:
        if not isinstance(channel, (list, tuple)) or len(channel) != 1:
            fail_on("collective_tensors", parameter, repr(value), "a list of lists of one tensor",
                    name, KernelValueError)
    return [channel[0] for channel in channels]


def _forward(line, part=""):
    """The function of one line above: hands the arguments it is given to the core; `part` of an operation."""
    name, parameters = line.rstrip(")").split("(")
    signature = inspect.signature(eval(f"lambda {parameters}: None"))

    def call(*args, **kwargs):
        recorder = current()
        given = signature.bind(*args, **kwargs).arguments
        label = given.pop("name", None)
        for parameter, value in given.items():
            if isinstance(value, ReplicaGroup):
                given[parameter] = value.groups
            elif parameter.endswith("_by_channel"):
                given[parameter] = _flat(name, parameter, value)
        _check_one_core(recorder, given)
        _check_kinds(name, given)
        if name in _GIVE_REGISTERS:
            given["dst"] = recorder.register()
        if recorder.ranks == 1:
            given.pop("priority", None)
            return _one_rank(name, given, label)
        made = recorder.call(name + part, label=label, exact=True, **given)
        return given.get("dst", made)

    call.__name__, call.__signature__ = name, signature
    call.__doc__ = TEXTS.get(name) or f"{name.replace('_', ' ')} between the ranks of a group."
    return call


def _check_one_core(recorder, given):
    """Under strict: where operands may be at LNC 1 (SDK 2.33)."""
    if recorder.instances.cores != 1:
        return
    for parameter, tensors in given.items():
        shared = [t for t in tensors if getattr(getattr(t, "st", None), "buffer", None) is shared_hbm] \
            if parameter.startswith(("srcs", "dsts")) else []
        allowed = parameter.startswith("dsts") and os.environ.get("NKI_LNC1_SHARED_HBM", "0") == "1"
        if shared and not allowed:
            strict(f"{parameter} is in nl.shared_hbm; at LNC 1 nl.private_hbm is required of collectives"
                   + ("" if parameter.startswith("srcs") else ", or NKI_LNC1_SHARED_HBM=1") +
                   " (documented)", 33)


def _check_kinds(name, given):
    """The tensors of one list are all in shared HBM, or none is (SDK 2.33)."""
    for parameter in ("srcs", "dsts"):
        kinds = {t.st.buffer is shared_hbm for t in given.get(parameter) or () if isinstance(t, NkiTensor) and t.st.space == HBM}
        if len(kinds) > 1:
            report_refused("mixed_hbm", function=name, parameter=parameter)


# ---- in two parts --------------------------------------------------------------------------------
def _prepare(name):
    """The function that sets up `name` ahead of its data."""
    signature = inspect.signature(globals()[name])

    def call(*args, **kwargs):
        recorder = current()
        given = dict(signature.bind(*args, **kwargs).arguments)
        label = given.pop("name", None)
        open_one = recorder.prepared.get(recorder.core)
        if open_one is not None:
            fail("collective_split", f"{open_one[0]}_prepare has no trigger yet; its trigger before another "
                 "prepare is required", f"{name}_prepare", KernelValueError)
        frame = kernel_frame()
        place = (frame.f_code.co_filename, frame.f_lineno) if frame else ("", 0)
        recorder.prepared[recorder.core] = (name, given, place)
        if recorder.ranks == 1:
            return INSTRUCTION
        group = given["replica_group"]
        return recorder.call(f"{name}_prepare", label=label, exact=True,
                             replica_group=group.groups if isinstance(group, ReplicaGroup) else group,
                             metadata_tensor=given["metadata_tensor"], has_rdispls=given.get("has_rdispls"))

    call.__name__, call.__signature__ = f"{name}_prepare", signature
    call.__doc__ = f"Sets up an {name} ahead of its data; {name}_trigger carries it out."
    return call


def _trigger(whole):
    """The function that carries out what its prepare has set up, with that one's arguments."""
    carry_out = _forward(next(line for line in _SIGNATURES.splitlines() if line.startswith(f"{whole}(")), "_trigger")

    def call(prepare_instr, name=None):
        recorder = current()
        if not isinstance(prepare_instr, NkiInstruction):
            fail_on("tensor_required", "prepare_instr", type(prepare_instr).__name__,
                    f"what {whole}_prepare returned", f"{whole}_trigger", KernelTypeError)
        kind, given, _ = recorder.prepared.pop(recorder.core, (None, None, None))
        if kind != whole:
            fail("collective_split", f"prepare_instr is not what the last {whole}_prepare returned, or it is "
                 "triggered already; one trigger after each prepare is required", f"{whole}_trigger",
                 KernelValueError)
        return carry_out(**given, name=name)

    call.__name__ = f"{whole}_trigger"
    call.__doc__ = f"Carries out the {whole} that the prepare before it has set up."
    return call


for _line in _SIGNATURES.strip().splitlines():
    globals()[_line.split("(")[0]] = _forward(_line)
_SPLIT = [f"{_name}_{_part}" for _name in _COUNTED for _part in ("prepare", "trigger")]
for _name in _COUNTED:
    globals()[f"{_name}_prepare"], globals()[f"{_name}_trigger"] = _prepare(_name), _trigger(_name)
__all__ = [*_SPLIT, "NKIObject", "NkiInstruction", "ReplicaGroup", "rg_partition_op", *(s.split("(")[0] for s in _SIGNATURES.split("\n") if s)]
