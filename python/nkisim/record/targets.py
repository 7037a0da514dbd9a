"""The generations a program can be for, and the environment's choice among them."""

import os

from .. import _core
from ..values.errors import Error

_TARGETS = {
    "trn1": "trn1", "trn1n": "trn1", "inf2": "inf2", "trn2": "trn2", "trn2n": "trn2",
    "trn2u": "trn2", "trn3": "trn3", "trn3pre": "trn3", "trn3u": "trn3", "gen2": "trn1",
    "gen3": "trn2", "gen4": "trn3", "core_v2": "trn1", "core_v3": "trn2", "core_v4": "trn3",
    "v2": "trn1", "v3": "trn2", "v4": "trn3", "2": "trn1", "3": "trn2", "4": "trn3",
}


def resolve_target(name):
    """The target's canonical name, from any spelling of an instance type or generation."""
    key = str(getattr(name, "name", name)).lower()
    if key not in _TARGETS:
        raise Error(rule="unknown_target", operand="target", found=repr(name),
                    required=f"one of {', '.join(_TARGETS)}", code="usage")
    return _TARGETS[key]


def default_target():
    """The target that the environment names (docs/python.md), or trn2."""
    for variable in ("NEURON_PLATFORM_TARGET_OVERRIDE", "NKISIM_TARGET", "NKI_NC_VERSION"):
        value = os.environ.get(variable)
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


def hbm_bytes(target, cores=0):
    """Of so many of a chip's cores; of a logical core as it is by default, of two from trn2 on, if none are given."""
    of_chip, memory = chip_of(target)
    return memory // of_chip * (cores or min(2, generation_of(target) - 1))
