"""Runs public NKI kernels on nkisim and prints a table: passed, failed, why.

    python tests/conformance/run.py --sdk DIR --samples DIR --autotune DIR --library DIR

Each directory is a checkout of aws-neuron/aws-neuron-sdk, aws-neuron/nki-samples,
awslabs/nki-autotune or aws-neuron/nki-library; those not given are skipped. --retired is a checkout
of nki-samples before its kernels of neuronxcc.nki were removed. The kernels run
unmodified; each file runs in a process of its own with nkisim's packages on the path.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

#: Tests of AWS that hold only in the environment of the release they were written for; they run in
#: nkisim's own and in that, and both results are printed. test_nki_isa_activation compares a
#: bfloat16 result at 1e-5; it came with SDK 2.20, is unchanged since 2.23 and runs on the legacy
#: simulator, in which bfloat16 "simulates in fp32 precision" (nki_known_issues.rst, 2.20 to 2.26).
RELEASE = {"test_nki_isa_activation.py": {"NKI_PRECISE_FP": "0"}}


#: pytest with NumPy's numbers seeded: test_nki_isa_dropout.py draws probabilities from 0 to 100 and, in
#: 0.99 ** 128 = 28 % of unseeded runs, none below 1, with which nothing of its data stays.
SEEDED = "import numpy, pytest, sys; numpy.random.seed(0); sys.exit(pytest.main(sys.argv[1:]))"


def _environment(changes):
    """Children find nkisim where this process does, whatever their working directory."""
    import nkisim

    env = {**os.environ, **changes}
    root = str(Path(nkisim.__file__).absolute().parent.parent)
    env["PYTHONPATH"] = os.pathsep.join([root, *env.get("PYTHONPATH", "").split(os.pathsep)])
    return env


def _run(command, cwd, timeout, changes):
    begin = time.time()
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout,
                              env=_environment(changes))
        text, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired:
        text, code = f"more than {timeout} s", -1
    return code, text, time.time() - begin


def _reason(text):
    errors = re.findall(r"^(?:E\s+)?(?:[\w.]*(?:Error|Exception)\b.*)$", text, re.M)
    picked = [e for e in errors if "subprocess" not in e]
    line = picked[-1] if picked else (text.strip().splitlines() or [""])[-1]
    return re.sub(r"\s+", " ", line.lstrip("E ").strip())[:110]


def sdk_tests(root):
    for path in sorted((root / "nki" / "test").glob("test_*.py")):
        yield path.name, [sys.executable, "-c", SEEDED, "-q", "-p", "no:cacheprovider",
                          str(path)], path.parent


def cases(group, root):
    """The project's own cases (cases.py) with NumPy references."""
    sys.path.insert(0, str(HERE))
    import retired  # noqa: F401  (adds to CASES)
    from cases import CASES

    for name in CASES.get(group, {}):
        yield name, [sys.executable, str(HERE / "cases.py"), group, name, str(root)], root


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sdk", type=Path)
    parser.add_argument("--samples", type=Path)
    parser.add_argument("--autotune", type=Path)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--retired", type=Path, help="nki-samples at commit 0898a77")
    parser.add_argument("--only", default="", help="run what contains this text")
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--verbose", action="store_true", help="print the output of failures")
    args = parser.parse_args()
    work = []
    if args.sdk:
        work += [("nki/test", *w) for w in sdk_tests(args.sdk)]
    for name in ("sdk", "samples", "autotune", "library", "retired"):
        root = getattr(args, name)
        if root:
            work += [(name, *w) for w in cases(name, root.absolute())]
    counts = collections.Counter()
    for group, name, command, cwd in work:
        if args.only not in name:
            continue
        good = _report(group, name, command, cwd, args, {})
        if not good and name in RELEASE:
            good = _report(group, name, command, cwd, args, RELEASE[name]) and "release"
        counts[good] += 1
    print(f"{counts[True]} passed, {counts['release']} only in the environment of their release, "
          f"{counts[False]} failed")
    return 1 if counts[False] else 0


def _report(group, name, command, cwd, args, changes):
    """Runs one case, prints its line, and returns whether it passed."""
    code, text, seconds = _run(command, cwd, args.timeout, changes)
    ok = code == 0
    note = " ".join(f"{k}={v}" for k, v in changes.items())
    print(f"{'pass' if ok else 'FAIL'}  {group:<9} {name:<42} {seconds:6.1f} s  {note}"
          f"{'' if ok else _reason(text)}", flush=True)
    if not ok and args.verbose:
        print(text)
    return ok


if __name__ == "__main__":
    sys.exit(main())
