"""Runs a Python program and writes down the results of every kernel that nkisim ran in it.

    python child.py run OUT ROOTS -m MODULE ARGUMENTS...     as `python -m MODULE ARGUMENTS...`
    python child.py run OUT ROOTS SCRIPT ARGUMENTS...        as `python SCRIPT ARGUMENTS...`
    python child.py cases OUT ROOTS EXAMPLE TIMING           an example's cases, by nkisim.run
    python child.py public TESTS CHECKOUTS                   prints the cases of tests/conformance

OUT becomes a JSON list with one entry per finished run, in the order in which the runs began; ROOTS
are folders, separated as in PATH, whose names are taken out of source locations. Only
nkisim's public names are used (Result and its attributes, Result.save, run), so that builds with
different insides can be compared. Random numbers are seeded: some public tests use unseeded ones.
"""

import json
import os
import random
import runpy
import sys
import tempfile
from pathlib import Path

import numpy as np

from hashes import of_array, of_npz, of_text

sys.path.pop(0)  # this folder: the program under test has modules of its own


def _flat(value, name="out"):
    """(name, array) of every array in nested outputs; torch and JAX arrays by NumPy."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _flat(item, f"{name}[{i}]")
    elif value is not None:
        yield name, np.asarray(value)


def _saved(result, roots):
    """The placed program without this machine's paths, and every HBM tensor that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(result.save(os.path.join(folder, "kernel.jsonl")))
        text = path.read_text(encoding="utf-8")
        for root in roots:
            text = text.replace(json.dumps(root + "/")[1:-1], "")
        return of_text(text), of_npz(path.with_name("kernel.expected.npz"))


def _entry(result, roots):
    program, written = _saved(result, roots)
    entry = {"kernel": result.name, "instructions": result.instructions,
             "executed": result.executed, "program": program, "summary": result.summary,
             "summary_text": of_text(result.summary_text),
             "peak": {" ".join(map(str, key)): value for key, value in result.peak.items()},
             "printed": of_text(str(result.printed)), "written": written}
    if result.latency_ns is not None:
        entry["latency_fs"] = round(result.latency_ns * 1e6)
    if result.outputs is not None:
        entry["outputs"] = {name: of_array(array) for name, array in _flat(result.outputs)}
    return entry


class Runs:
    """Collects every nkisim.Result of this process; each is written down when the next begins."""

    def __init__(self, roots):
        import nkisim

        self.roots, self.entries, self.last = roots, [], None
        begin = nkisim.Result.__init__

        def init(result, *args, **kwargs):
            self.close()
            begin(result, *args, **kwargs)
            self.last = result

        nkisim.Result.__init__ = init

    def close(self):
        """Runs that ended in an error are left out: the exit code and the message report them."""
        result, self.last = self.last, None
        if result is not None and result.run_seconds > 0:
            self.entries.append(_entry(result, self.roots))


def _seed():
    random.seed(0)
    np.random.seed(0)
    make = np.random.default_rng
    np.random.default_rng = lambda seed=0: make(0 if seed is None else seed)


def _program(command):
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = command
        sys.path.insert(0, os.path.dirname(os.path.abspath(command[0])))
        runpy.run_path(command[0], run_name="__main__")


def _cases(runs, example, timing):
    """Every case of an example on every target: values only (False) or time "only"."""
    import importlib

    import nkisim

    nkisim.install()
    sys.path.insert(0, os.path.dirname(example))
    for case in importlib.import_module(Path(example).stem).cases():
        for target in case.targets:
            inputs = case.inputs(np.random.default_rng(0))
            try:
                nkisim.run(case.kernel, *inputs, target=target, grid=case.grid,
                           timing=timing if timing == "only" else False)
            except nkisim.Error as problem:
                runs.close()
                runs.entries.append({"kernel": case.name, "error": problem.message})


def _record(mode, out, roots, command):
    runs = Runs([root for root in roots.split(os.pathsep) if root])
    _seed()
    try:
        if mode == "cases":
            _cases(runs, *command)
        else:
            _program(command)
    finally:
        runs.close()
        Path(out).write_text(json.dumps(runs.entries), encoding="utf-8")


def _public(tests, checkouts):
    """[group, name, command without the interpreter, folder, environment] of every public case."""
    sys.path.insert(0, str(tests))
    import run

    found = []
    for group, folder in checkouts.items():
        root = Path(folder)
        if group == "sdk":
            for name, command, cwd in run.sdk_tests(root):
                for changes in [{}, *([run.RELEASE[name]] if name in run.RELEASE else [])]:
                    found.append(("nki-test", name, command[1:], str(cwd), changes))
        for name, command, cwd in run.cases(group, root):
            found.append((group, name, command[1:], str(cwd), {}))
    return found


def main():
    if sys.argv[1] == "public":
        print(json.dumps(_public(sys.argv[2], json.loads(sys.argv[3]))))
    else:
        _record(*sys.argv[1:4], sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())
