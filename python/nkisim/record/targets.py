"""Lists the chip generations that a program can target, and reads the environment's choice among them."""

from .. import _core
from ..values.environment import variable
from ..values.errors import Error

def find_target(name):
    """The target's canonical name; empty if there is none of that name (isa/base/targets.def)."""
    return _core.find_target(name)


def resolve_target(name):
    """The target's canonical name, from any spelling of an instance type or generation."""
    key = str(getattr(name, "name", name)).lower()
    target = find_target(key)
    if not target:
        raise Error(rule="unknown_target", operand="target", found=repr(name),
                    required=f"one of {', '.join(_core.targets())}", code="usage")
    return target


def default_target():
    """The target that the environment names (docs/python.md), or trn2."""
    for name in ("NEURON_PLATFORM_TARGET_OVERRIDE", "NKISIM_TARGET", "NKI_NC_VERSION"):
        value = variable(name)
        if value:
            return resolve_target(value)
    return "trn2"


def generation_of(target):
    """Generation of the NeuronCore of a target: 2 for trn1, 3 for trn2, 4 for trn3."""
    return _core.machine(target)["generation"]


def chip_of(target):
    """(cores, bytes of HBM) of a chip of a target."""
    machine = _core.machine(target)
    return machine["cores_per_chip"], machine["hbm_chip_bytes"]


def cores_of_rank(target):
    """The physical cores that a logical core may have at most: two from trn2 on."""
    return min(2, generation_of(target) - 1)


def hbm_bytes(target, cores=0):
    """The HBM of so many of a chip's cores; of a logical core as it is by default, of two from trn2 on, if none are
    given."""
    of_chip, memory = chip_of(target)
    return memory // of_chip * (cores or cores_of_rank(target))
