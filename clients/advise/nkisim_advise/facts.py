"""Asks nkisim for facts of instructions and dtypes."""

import functools
import json
import subprocess

from nkisim_work import program as nkisim


@functools.cache
def _catalogue():
    said = subprocess.run([nkisim(), "isa", "--json"], capture_output=True, text=True, check=True)
    return json.loads(said.stdout)


@functools.cache
def table():
    """The instructions by name, as `nkisim isa --json` has them."""
    return {i["name"]: i for i in _catalogue()["instructions"]}


def element_bytes(dtype):
    return _catalogue()["dtype_bytes"][dtype]


def acts_elsewhere(inst):
    """True if cores meet there, or if it has an effect beyond its operands."""
    return "acts_elsewhere" in table()[inst["i"]]


@functools.cache
def memory_parameters(name):
    """(parameter, reads, writes) of an instruction's operands in memory."""
    out = []
    for p in table()[name]["params"]:
        if "tensor" in p["kind"]:
            writes = p["kind"].endswith("out")
            out.append((p["name"], not writes or "in/out" in p["kind"], writes))
    return tuple(out)


def engines_of(name, target):
    """The engines that can do it on a generation."""
    order = ["trn1", "trn2", "trn3"]
    at = order.index("trn1" if target == "inf2" else target)
    return [e["engine"] for e in table()[name]["engines"] if order.index(e["since"]) <= at]
