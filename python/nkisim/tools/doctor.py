"""nkisim doctor: what is installed, which `nki` an import finds, which extras are missing, and what this machine
lacks (cores, memory, sandbox, AWS's own packages) with what follows from it.

Exit codes: 0 everything that is needed is there, 3 something is not (said in a line with "!").
"""

import filecmp
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys

import nkisim_work
from nkisim_work.extras import install_hint
from nkisim_work.options import Parser

from .. import _core
from . import install as installing
from . import machine
from .kernel_report import BAD_INPUT, OK

#: The packages of each extra (pyproject.toml), and their purpose.
EXTRAS = {
    "profile": (("pyarrow",), "Parquet tables"),
    "sweep": (("tqdm", "matplotlib"), "nkisim sweep and its plots"),
    "dask": (("distributed",), "nkisim sweep --scheduler"),
    "tune": (("optuna", "tqdm", "matplotlib"), "nkisim tune"),
    "calibrate": (("scipy",), "nkisim calibrate"),
    "editor": (("pygls",), "nkisim lsp"),
    "mcp": (("mcp",), "nkisim mcp"),
    "test": (("pytest",), "the pytest plugin"),
    "torch": (("torch",), "kernels as operators of PyTorch"),
    "jax": (("jax",), "kernels inside jax.jit"),
}
NEEDED = ("numpy", "ml_dtypes")


def version_of(package):
    """Installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def program():
    """{"path", "version"} of the nkisim program that this environment starts; nulls without one."""
    try:
        path = nkisim_work.program()
    except FileNotFoundError:
        return {"path": None, "version": None}
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return {"path": path, "version": done.stdout.strip().removeprefix("nkisim ") or None}


def version():
    """nkisim's own: of its distribution, else of the program that this environment starts; None without either."""
    return version_of("nkisim") or program()["version"]


def _ours(file, name):
    """True if a package's __init__.py is nkisim's: another installed after it may have replaced it."""
    own = os.path.join(installing._ROOT, name, "__init__.py")
    return os.path.exists(own) and filecmp.cmp(file, own, shallow=False)


def found_first(name):
    """{"path", "ours", "other"}: what `import NAME` finds, whether it is nkisim's, what is behind it."""
    finder = importlib.machinery.PathFinder
    specs = [finder.find_spec(name, [os.path.abspath(folder or ".")]) for folder in sys.path]
    files = [spec.origin for spec in specs if spec is not None and spec.origin]
    spec = importlib.util.find_spec(name)
    path = spec.origin if spec else None
    ours = path is not None and _ours(path, name)
    others = [file for file in files if file != path and _ours(file, name) != ours]
    return {"path": path, "ours": ours, "other": others[0] if others else None}


def extras():
    """{extra: {"for", "packages": {name: version or None}, "complete"}}."""
    out = {}
    for extra, (packages, purpose) in EXTRAS.items():
        versions = {name: version_of(name) for name in packages}
        out[extra] = {"for": purpose, "packages": versions, "complete": all(versions.values())}
    return out


def completion(path):
    """The completion file that the wheel installed next to the program, or None."""
    if path is None:
        return None
    file = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(path))), "share",
                        "bash-completion", "completions", "nkisim")
    return file if os.path.exists(file) else None


def examine():
    """Everything the command says, as its --json prints it (without "ok" and "problems")."""
    command = program()
    simulator = os.environ.get("NKI_SIMULATOR", "0") not in ("", "0")
    return {
        "version": version(), "program": command, "package": installing._HERE,
        "extension": _core.__file__,
        "python": {"path": sys.executable, "version": platform.python_version()},
        "system": {"platform": platform.platform(), "libc": " ".join(platform.libc_ver())},
        "needed": {name: version_of(name) for name in NEEDED},
        "imports": {name: found_first(name) for name in ("nki", "neuronxcc")},
        "NKI_SIMULATOR": simulator, "extras": extras(), "completion": completion(command["path"]),
        "machine": (here := machine.examine(version_of)), "lacks": machine.lacks(here),
    }


def problems(found):
    """Problems, a sentence each; empty if there are none."""
    out = [f"{name} is missing: pip install {name}" for name, v in found["needed"].items() if not v]
    command = found["program"]
    if command["path"] is None:
        out.append("the nkisim program is not on the path: add the folder into which pip installs "
                   "programs, or set NKISIM_PROGRAM")
    elif command["version"] != found["version"]:
        out.append(f"the program {command['path']} is version {command['version']}, the package "
                   f"{found['version']}: another installation comes first on the path")
    return out


def _which(name, found):
    if found["path"] is None:
        return f"{name} is not installed"
    whose = "nkisim's" if found["ours"] else "another's: set NKI_SIMULATOR=1 for nkisim's"
    other = f"; behind it {found['other']}" if found["other"] else ""
    return f"{found['path']} ({whose}){other}"


def _lines(found):
    yield f"nkisim       {found['version']}"
    yield f"program      {found['program']['path'] or 'not found'}"
    yield f"package      {found['package']}"
    yield f"Python       {found['python']['version']}, {found['python']['path']}"
    yield f"system       {found['system']['platform']}, {found['system']['libc']}"
    yield from machine.lines(found["machine"])
    yield "packages     " + ", ".join(f"{n} {v}" for n, v in found["needed"].items() if v)
    for name, where in found["imports"].items():
        yield f"import {name:<9} ".ljust(17) + _which(name, where)
    for extra, has in found["extras"].items():
        missing = [name for name, version in has["packages"].items() if not version]
        said = f"missing {', '.join(missing)}: {install_hint(*missing)}" if missing else \
            ", ".join(f"{n} {v}" for n, v in has["packages"].items())
        yield f"extra {extra:<10} {said}  ({has['for']})"
    yield "completion   " + (found["completion"] or "source <(nkisim completion bash)")
    for lack in found["lacks"]:
        yield f"lacks        {lack['what']}: {lack['follows']}"


def main(words=None):
    """Runs `nkisim doctor`; returns its exit code."""
    parser = Parser("doctor", "[options]", "Lists what is installed, which `nki` an import finds, and what is missing.",
                    "nkisim doctor\nnkisim doctor --json", __doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(words)
    found = examine()
    wrong = problems(found)
    if args.json:
        print(json.dumps({"ok": not wrong, "problems": wrong, **found}, indent=1))
    else:
        print("\n".join(re.sub(r"\s+$", "", line) for line in _lines(found)))
    for problem in wrong:
        print(f"! {problem}", file=sys.stderr)
    return BAD_INPUT if wrong else OK
