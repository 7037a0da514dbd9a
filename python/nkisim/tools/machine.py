"""Reports for `nkisim doctor` this computer's cores, memory and missing services, and the
consequences.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from nkisim_work import host

from .. import _core

#: AWS's packages that know a chip, by their distributions' names, and programs.
AWS_PACKAGES = ("neuronx-cc", "nki", "libneuronxla", "torch-neuronx", "jax-neuronx")
AWS_PROGRAMS = ("neuronx-cc", "neuron-profile", "neuron-explorer", "neuron-ls")
GIB = 1 << 30
#: The HBM of a core of trn1; later ones have more.
CORE_HBM = 16 * GIB
#: The sandbox is the judge's business and its package stands above this one, so a process of its own is asked.
_PROBE = ("import sys; sys.path[:] = [p for p in sys.path if p]; "
          "from nkisim_evaluate.sandbox import probe; probe(sys.argv[1])")


def sandbox():
    """{what `nkisim evaluate` shuts a candidate in with and this system lacks: what follows}; None: not to be asked."""
    own = os.path.dirname(os.path.dirname(_core.__file__))  # before the working folder, which may be of any name
    path = os.pathsep.join(os.path.abspath(p) for p in (own, *sys.path) if p)
    with tempfile.TemporaryDirectory(prefix="nkisim-doctor-") as scratch:
        try:
            done = subprocess.run([sys.executable, "-c", _PROBE, scratch], capture_output=True, text=True, check=False,
                                  timeout=60, env={**os.environ, "PYTHONPATH": path})
            return json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None


def aws(version_of):
    """AWS's own software here: {"packages", "programs", "chips"}."""
    return {"packages": {name: version for name in AWS_PACKAGES if (version := version_of(name))},
            "programs": {name: path for name in AWS_PROGRAMS if (path := shutil.which(name))},
            "chips": host.chips()}


def examine(version_of):
    """Examines the machine; `version_of` gives the version of a distribution, or None."""
    system = _core.host()
    return {"cores": host.cores(), "memory_bytes": system["memory_bytes"], "sandbox": sandbox(),
            "system": dict(system["lacks"]), "aws": aws(version_of)}


def lacks(machine):
    """[{"what", "follows"}] of what is lacking."""
    out = []

    def lack(what, follows):
        out.append({"what": what, "follows": follows})

    if machine["cores"] < 2:
        lack("a second core", "sweeps, tuning and evaluations run one simulation at a time")
    if machine["memory_bytes"] / 2 < CORE_HBM:
        lack("memory for all that a core's HBM holds (trn1: 16 GiB)",
             f"tensors of a run may take {machine['memory_bytes'] / 2 / GIB:.1f} GiB here; a program with more is "
             "refused before it runs, unless --max-memory says otherwise")
    for what, follows in machine["system"].items():
        lack(what, follows)
    held = machine["sandbox"]
    if held is None:
        lack("a sandbox that can be asked", "what holds candidates of nkisim evaluate is not known: use a container")
    for what, follows in (held or {}).items():
        lack(f"sandbox: {what}", follows)
    own = machine["aws"]
    if not own["chips"]:
        lack("a Neuron device", "times are the model's alone; nothing here can be measured on a chip")
    if "neuronx-cc" not in own["packages"] and "neuronx-cc" not in own["programs"]:
        lack("AWS's compiler (neuronx-cc)", "kernels are recorded and compiled by nkisim; whether AWS's compiler takes "
             "them is known by the rules that it documents")
    if "neuron-profile" not in own["programs"] and "neuron-explorer" not in own["programs"]:
        lack("AWS's profiler", "profiles of a chip come as the JSON that it wrote elsewhere")
    return out


def lines(machine):
    """The machine as lines for people."""
    yield f"cores        {machine['cores']}"
    memory = machine["memory_bytes"] / GIB
    yield f"memory       {memory:.1f} GiB, of which a run's tensors may take {memory / 2:.1f} (--max-memory)"
    held = machine["sandbox"]
    yield "sandbox      " + ("not known" if held is None else f"without {', '.join(held)}" if held else "complete")
    own = machine["aws"]
    there = [f"{name} {version}" for name, version in own["packages"].items()] + list(own["programs"].values())
    there += [f"{own['chips']} Neuron devices"] * bool(own["chips"])
    yield "AWS's own    " + (", ".join(there) or "nothing")
