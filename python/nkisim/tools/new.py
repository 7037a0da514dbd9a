"""nkisim new NAME [--in FOLDER]: a kernel to start from, with what belongs to it.

Writes into FOLDER (default: NAME):

    NAME.py           the kernel and its NumPy reference, with a comment that says what it is run with
    test_NAME.py      a test of values and of latency on each generation, for pytest
    .ci/run           what CI runs: one script, and .github/workflows/kernels.yml which calls it

NAME may be softmax, add or matmul, which are those kernels; any other name begins with one that adds.
Nothing is overwritten.
"""

import json
import keyword
import os
import shlex
import sys

from nkisim_work import ProgressLine
from nkisim_work.options import Parser

from ..values.errors import Error
from .demo import KERNEL as _SOFTMAX
from .kernel_report import OK, USAGE, error_json, write_text

_ADD = '''"""{name} of two matrices, a tile of 128 rows at a time: a kernel and its NumPy reference."""

import nki
import nki.isa as nisa
import nki.language as nl


# nkisim: a=f32[512,2048]:normal b=f32[512,2048]:normal
@nki.jit
def {name}(a, b):
    rows, columns = a.shape
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in nl.affine_range(0, rows, 128):
        part = nl.ds(start, min(128, rows - start))
        x, y = nl.load(a[part, :]), nl.load(b[part, :])
        nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
        nl.store(out[part, :], x)
    return out


def reference(a, b):
    return a + b
'''
_MATMUL = '''"""A matrix product, its left operand given transposed: a kernel and its NumPy reference."""

import nki
import nki.isa as nisa
import nki.language as nl


# nkisim: a=f32[256,128]:normal b=f32[256,512]:normal
@nki.jit
def matmul(a, b):
    (depth, rows), columns = a.shape, b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    product = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    for start in nl.affine_range(0, depth, 128):  # sums over the partitions, 128 at a time, add up in PSUM
        part = nl.ds(start, min(128, depth - start))
        nisa.nc_matmul(dst=product, stationary=nl.load(a[part, :]), moving=nl.load(b[part, :]))
    result = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=product)
    nl.store(out, result)
    return out


def reference(a, b):
    return a.T @ b
'''
_TEST = '''"""{name}: values against NumPy on every generation, and a latency that a change may not exceed."""

import numpy as np
import pytest

from {name} import {name}, reference

#: Microseconds on each generation, above the simulated latency by a tenth.
LATENCIES = {latencies}


@pytest.mark.nkisim(targets=["trn1", "trn2", "trn3"], rtol=1e-3, atol=1e-4)
def test_{name}(nki_run, nki_target):
    rng = np.random.default_rng(0)
    arguments = [{arguments}]
    run = nki_run({name}, *arguments)
    run.matches(reference(*arguments))
    run.latency_below(LATENCIES[nki_target])
'''
_RUN = '''#!/bin/sh
# CI runs this: the kernels' tests. Reports of failures are left in reports/.
set -eu
cd "$(dirname "$0")/.."
exec python -m pytest -p nkisim.pytest_plugin --junitxml reports/pytest.xml --nkisim-artifacts reports "$@"
'''
_WORKFLOW = '''on: [push, pull_request]
jobs:
  kernels:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: { python-version: "3.12" }
      # Put the wheel of nkisim where this job finds it (docs/install.md).
      - run: pip install pytest nkisim-*.whl
      - run: .ci/run
      - uses: actions/upload-artifact@v4
        if: always()
        with: { name: reports, path: reports }
'''
_CALL = "# nkisim: x=f32[512,2048]:normal\n@nki.jit"
#: Kernel text and the shapes of its arguments.
KERNELS = {"softmax": (_SOFTMAX.replace("@nki.jit", _CALL), ((512, 2048),)),
           "matmul": (_MATMUL, ((256, 128), (256, 512))),
           "add": (_ADD, ((512, 2048), (512, 2048)))}
TARGETS = ("trn1", "trn2", "trn3")


class _Parser(Parser):
    def error(self, message):
        raise Error(f"{message}; see `nkisim new --help`", rule="command_line", code="usage")


def _parser():
    parser = _Parser("new", "NAME [options]", "Writes a kernel to start from, with its reference, test and CI file.",
                     "nkisim new softmax\nnkisim new mine --in kernels/mine", __doc__)
    parser.add_argument("name", metavar="NAME")
    parser.option("in", dest="folder")
    parser.add_argument("--json", action="store_true")
    return parser


def files(name, latencies):
    """{path: text} of a kernel's folder; latencies: {target: microseconds} that its test allows."""
    text, shapes = KERNELS.get(name, KERNELS["add"])
    arguments = ", ".join(f"rng.standard_normal({shape}, dtype=np.float32)" for shape in shapes)
    return {f"{name}.py": text.format(name=name) if text is _ADD else text,
            f"test_{name}.py": _TEST.format(name=name, arguments=arguments, latencies=json.dumps(latencies)),
            ".ci/run": _RUN, ".github/workflows/kernels.yml": _WORKFLOW}


def _latencies(name, progress):
    """The kernel's latency on each generation, and a tenth more."""
    import numpy as np

    from ..run.kernel import run
    from .install import install

    install()
    text, shapes = KERNELS.get(name, KERNELS["add"])
    space, found = {}, {}
    exec(compile(text.format(name=name) if text is _ADD else text, f"{name}.py", "exec"), space)
    for target in TARGETS:
        progress.say(f"simulating {name} on {target}")
        arguments = [np.zeros(shape, np.float32) for shape in shapes]
        found[target] = round(1.1 * run(space[name], *arguments, target=target, timing="only").latency_us, 1)
    return found


def write(name, folder):
    """Writes the files; their paths."""
    if not name.isidentifier() or keyword.iskeyword(name) or name in ("reference", "nki", "nisa", "nl", "np"):
        raise Error(rule="option_value", operand="NAME", found=repr(name), code="usage",
                    required="a name that a Python function may have")
    with ProgressLine("writing a kernel") as progress:
        latencies = _latencies(name, progress)
    paths = {os.path.join(folder, path): text for path, text in files(name, latencies).items()}
    there = [path for path in paths if os.path.lexists(path)]
    if there:
        raise Error(f"{there[0]} exists already; nothing is written", rule="file_unwritable", code="usage")
    try:
        for path, text in paths.items():
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            write_text(path, text)
        os.chmod(os.path.join(folder, ".ci", "run"), 0o755)
    except OSError as problem:
        raise Error(f"cannot write below {folder}: {problem.strerror}", rule="file_unwritable", code="usage") from None
    return list(paths)


def next_commands(name, folder):
    """The commands to try next, each with why."""
    place = shlex.quote(folder)
    return [("its values and its latency on each generation", f"cd {place} && .ci/run"),
            ("where its time goes, as a page", f"nkisim kernel {place}/{name}.py:{name} --expect reference "
             f"--html {place}/{name}.html")]


def main(words=None):
    """Runs `nkisim new`; returns its exit code."""
    try:
        args = _parser().parse_args(words)
        folder = args.name if args.folder is None else args.folder
        written = write(args.name, folder)
    except Error as problem:
        if "--json" in (sys.argv[1:] if words is None else words):
            print(json.dumps(error_json(problem, USAGE), indent=1))
        print(f"nkisim new: {problem}", file=sys.stderr)
        return USAGE
    following = next_commands(args.name, folder)
    if args.json:
        print(json.dumps({"ok": True, "files": written, "next": [{"why": w, "command": c} for w, c in following]},
                         indent=1))
        return OK
    print("\n".join(f"wrote {path}" for path in written) + "\n\ntry next:")
    for why, command in following:
        print(f"\n  # {why}\n  {command}")
    return OK
