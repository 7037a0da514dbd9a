"""Runs nki-library's own tests in simulation mode and prints a table of its families of kernels.

    python tests/conformance/library_suite.py DIR [--only core/mlp] [--sample 6] [--seconds 120]

DIR is a checkout of aws-neuron/nki-library, nkisim must be on the path, and the environment needs torch and
what the checkout's README asks for. A family is a folder of tests. Of each test function --sample tests are
run, evenly chosen (one that is skipped as it runs, or too large, makes way for the next), and all of a
family of at most --full. Tests that the suite itself skips in simulation, or on the target, are counted
apart. Kernels, references and tolerances are its own; library_plugin.py stands in for what was not
published. With --mx only tests with "mx" in their file's or function's name run.

A test may take --seconds of the processor's time and --memory GiB, its reference and arrays included, and
its kernel arguments of --megabytes; what takes more is "too large" and counted apart. --keep writes
pytest's report and output of each family to a folder, with the host memory of every test; the ten largest
kernels are printed from them.
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
TOO_LARGE = ("processor time", "arguments", "the host's memory")


def families(root):
    """{folder below TESTS: test files}."""
    found = collections.defaultdict(list)
    for path in sorted((root / TESTS).rglob("test_*.py")):
        folder = path.parent.relative_to(root / TESTS).as_posix()
        found[folder].append(path.relative_to(root).as_posix())
    return found


def _environment(root):
    import nkisim

    ours = Path(nkisim.__file__).absolute().parent.parent
    path = os.pathsep.join(filter(None, [str(HERE), str(ours), str(root / "src"),
                                         os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _limit_memory(gigabytes):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))


def run(root, name, files, args, folder):
    """Runs the tests of some files; (test cases of pytest's report, (tests, skipped ones) of all)."""
    kept = (args.keep or Path(folder)).absolute()
    kept.mkdir(parents=True, exist_ok=True)
    report = kept / f"{name.replace('/', '.')}.xml"
    report.unlink(missing_ok=True)
    counts = Path(folder) / "counts.json"
    command = [sys.executable, "-m", "pytest", "-v", "--tb=short", "-p", "library_plugin", "-p",
               "no:cacheprovider", "--test-mode", "simulation", "--force-local-cleanup",
               "--platform-target", args.target, "--sample", str(args.sample), "--full",
               str(args.full), "--counts", str(counts), "--seconds", str(args.seconds),
               "--megabytes", str(args.megabytes),
               "--output-directory", f"{folder}/out", "-o", f"artifacts_dir={folder}",
               "--continue-on-collection-errors", "--junitxml", str(report), *files]
    if args.small:
        command += ["--small"]
    if args.mx:
        command += ["-k", "mx"]
    log = report.with_suffix(".log")
    with log.open("w") as output:
        subprocess.run(command, cwd=root, env=_environment(root), stdout=output,
                       stderr=subprocess.STDOUT, preexec_fn=_limit_memory(args.memory))
    if not report.exists():
        raise SystemExit(log.read_text())
    collected = json.loads(counts.read_text()) if counts.exists() else (0, 0)
    cases = [case for case in ElementTree.parse(report).getroot().iter("testcase")
             if all(s.get("message") != "beyond the sample" for s in case.iter("skipped"))]
    return cases, collected


def _error(text):
    """The line that says why a test failed, with numbers left out so that like ones count as one."""
    for limit in TOO_LARGE[:2]:
        if f"over the limit of {limit}" in text:
            return limit
    if re.search(r"[Uu]nable to allocate|can.t allocate|bad_alloc|MemoryError", text):
        return TOO_LARGE[2]
    lines = re.findall(r"^(?:E\s+)?(?:[\w.]*(?:Error|Exception)\b.*)$", text, re.M)
    line = (lines or text.strip().splitlines() or [""])[-1]
    return re.sub(r"\d+", "N", re.sub(r"^E?\s*[\w.]*: ", "", line))[:100]


def summary(name, cases, collected):
    """One row of the table, and the failed tests with their causes."""
    skipped = sum(case.find("skipped") is not None for case in cases)
    bad = [(case, _error(case.find(kind).text or "")) for case in cases
           for kind in ("failure", "error") if case.find(kind) is not None]
    failed = [(case, cause) for case, cause in bad if cause not in TOO_LARGE]
    ran = len(cases) - skipped
    causes = collections.Counter(cause for _, cause in bad)
    why = "; ".join(f"{n}: {text}" for text, n in causes.most_common())
    print(f"| {name} | {collected[0]} | {collected[1]} | {ran} | {ran - len(bad)} | "
          f"{len(bad) - len(failed)} | {len(failed)} | {why} |", flush=True)
    return [f"{case.get('classname')}::{case.get('name')}: {cause}" for case, cause in failed]


def largest_kernels(cases, count=10):
    """Rows (test, bytes of its tensors in HBM, peak bytes of the host) of the largest kernels."""
    rows = []
    for case in cases:
        of = {p.get("name"): int(p.get("value")) for p in case.iter("property")}
        rows.append((of.get("tensor_bytes", 0), of.get("peak_bytes", 0), case.get("name")))
    for tensors, peak, name in sorted(rows, reverse=True)[:count]:
        print(f"| `{name}` | {tensors / 2 ** 20:.0f} | {peak / 2 ** 20:.0f} | "
              f"{'yes' if peak <= 3 * tensors + 200 * 2 ** 20 else 'NO'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--only", default=[""], nargs="+", metavar="TEXT",
                        help="the families with such a text in their name, in this order")
    parser.add_argument("--sample", type=int, default=0, help="tests per function; 0 is all")
    parser.add_argument("--full", type=int, default=40, help="families that are run whole")
    parser.add_argument("--seconds", type=float, default=120, help="processor time per test")
    parser.add_argument("--megabytes", type=float, default=256, help="arguments of a kernel")
    parser.add_argument("--memory", type=int, default=12, help="GiB of address space")
    parser.add_argument("--target", default="trn2")
    parser.add_argument("--small", action="store_true",
                        help="sample only the third of a function's tests with the least sizes")
    parser.add_argument("--mx", action="store_true", help="only tests of MX types")
    parser.add_argument("--failures", action="store_true", help="list the failed tests")
    parser.add_argument("--keep", type=Path, help="a folder for pytest's reports")
    args = parser.parse_args()
    print("| family | collected | skipped by the suite | run | passed | too large | failed | cause |"
          "\n|---|---:|---:|---:|---:|---:|---:|---|", flush=True)
    failed, cases = [], []
    found_families = families(args.library)
    for name in dict.fromkeys(n for text in args.only for n in found_families if text in n):
        with tempfile.TemporaryDirectory() as folder:
            found, collected = run(args.library, name, found_families[name], args, folder)
        failed += summary(name, found, collected)
        cases += found
    print("\n| largest kernels | tensors, MiB | peak, MiB | within 3 x + 200 MB |\n"
          "|---|---:|---:|---|")
    largest_kernels(cases)
    if args.failures:
        print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
