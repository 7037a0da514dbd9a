"""Runs nki-library's own tests in simulation mode and prints a table of its families of kernels.

    python tests/conformance/library_suite.py DIR [--only core/mlp] [--sample 6] [--timeout 180]

DIR is a checkout of aws-neuron/nki-library, nkisim must be on the path, and the environment needs
pytest-timeout, torch and what the checkout's README asks for. A family is a folder of tests; those
of collectives are left out. Of each test function at most --sample tests are run, evenly chosen, and
all of a family of at most --full. Tests that the suite itself skips in simulation, or on the target,
are counted apart. Kernels, references and tolerances are its own; library_plugin.py stands in for
what was not published. With --mx only tests with "mx" in their file's or function's name run.
"""

import argparse
import collections
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = Path("test/integration/nkilib")


def families(root):
    """{folder below TESTS: test files}, without the collectives, which take several ranks."""
    found = collections.defaultdict(list)
    for path in sorted((root / TESTS).rglob("test_*.py")):
        folder = path.parent.relative_to(root / TESTS).as_posix()
        if "collectives" not in folder:
            found[folder].append(path.relative_to(root).as_posix())
    return found


def _environment(root):
    import nkisim

    ours = Path(nkisim.__file__).absolute().parent.parent
    path = os.pathsep.join([str(HERE), str(ours), str(root / "src")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _limit_memory(gigabytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))


def run(root, files, args, folder):
    """Runs the tests of some files; (test cases of pytest's report, tests before sampling)."""
    report, counts = Path(folder) / "report.xml", Path(folder) / "counts.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "library_plugin", "-p",
               "no:cacheprovider", "--test-mode", "simulation", "--force-local-cleanup",
               "--platform-target", args.target, "--sample", str(args.sample), "--full",
               str(args.full), "--counts", str(counts), "--timeout", str(args.timeout),
               "--output-directory", f"{folder}/out", "-o", f"artifacts_dir={folder}",
               "--continue-on-collection-errors", "--junitxml", str(report), *files]
    if args.mx:
        command += ["-k", "mx"]
    done = subprocess.run(command, cwd=root, env=_environment(root), capture_output=True, text=True,
                          preexec_fn=_limit_memory(args.memory))
    if not report.exists():
        raise SystemExit(done.stdout + done.stderr)
    collected = json.loads(counts.read_text()) if counts.exists() else 0
    return list(ElementTree.parse(report).getroot().iter("testcase")), collected


def _error(text):
    """The line that says why a test failed, with numbers left out so that like ones count as one."""
    if "Timeout" in text:
        return "time limit"
    if re.search(r"[Uu]nable to allocate|can.t allocate|bad_alloc|MemoryError", text):
        return "the host's memory limit"
    lines = re.findall(r"^(?:E\s+)?(?:[\w.]*(?:Error|Exception)\b.*)$", text, re.M)
    line = (lines or text.strip().splitlines() or [""])[-1]
    return re.sub(r"\d+", "N", re.sub(r"^E?\s*[\w.]*: ", "", line))[:100]


def summary(name, cases, collected):
    """One row of the table, and the failed tests with their causes."""
    skipped = sum(case.find("skipped") is not None for case in cases)
    bad = [(case, case.find(kind)) for case in cases for kind in ("failure", "error")
           if case.find(kind) is not None]
    seconds = max((float(case.get("time", 0)) for case in cases), default=0)
    ran = len(cases) - skipped
    causes = [_error(node.text or "") for _, node in bad]
    why = "; ".join(f"{n}: {text}" for text, n in collections.Counter(causes).most_common())
    print(f"| {name} | {collected} | {skipped} | {ran} | {ran - len(bad)} | {len(bad)} | "
          f"{seconds:.0f} s | {why} |", flush=True)
    return [f"{case.get('classname')}::{case.get('name')}: {cause}"
            for (case, _), cause in zip(bad, causes)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--only", default="", help="the families with this text in their name")
    parser.add_argument("--sample", type=int, default=0, help="tests per function; 0 is all")
    parser.add_argument("--full", type=int, default=40, help="families that are run whole")
    parser.add_argument("--timeout", type=float, default=180, help="seconds per test")
    parser.add_argument("--memory", type=int, default=12, help="GiB of address space")
    parser.add_argument("--target", default="trn2")
    parser.add_argument("--mx", action="store_true", help="only tests of MX types")
    parser.add_argument("--failures", action="store_true", help="list the failed tests")
    args = parser.parse_args()
    print("| family | collected | skipped by the suite | run | passed | failed | longest | cause |\n"
          "|---|---:|---:|---:|---:|---:|---:|---|", flush=True)
    failed = []
    for name, files in families(args.library).items():
        if args.only in name:
            with tempfile.TemporaryDirectory() as folder:
                failed += summary(name, *run(args.library, files, args, folder))
    if args.failures:
        print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
