"""Checks a newer checkout of AWS's kernels for what nkisim does not support yet, on the day of a
release.

    python tests/conformance/upstream.py CHECKOUT [--sdk 2.33] [--jobs 2] [--cases samples]

CHECKOUT is aws-neuron/nki-library or aws-neuron/nki-samples, at any commit. Every file that imports NKI is
read (names and keywords that no release has: `nkisim check --migrate`) and imported in a process of its
own with nkisim's packages on the path; --cases also runs this project's cases of that repository
(run.py: library or samples). Printed: a line per file that fails, with the reason, then reasons by how
many files they stop. A file fails that cannot be imported or names what no release has; what a release took
back is said, and runs here. Exit code 1 if any fails.
"""

import argparse
import collections
import concurrent.futures
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run  # noqa: E402

from nkisim.tools import migrate  # noqa: E402

_NKI = re.compile(r"^\s*(?:from|import) +(?:neuronxcc\.)?nki\b", re.M)
_UNKNOWN = "no page of any release lists it"  # of names.why_absent
_HARNESS = {"boto3", "botocore", "fabric2", "paramiko", "torch_xla", "pytest"}  # AWS's own test farm


def files(root):
    """Python files that import NKI, in the checkout's order."""
    for path in sorted(root.rglob("*.py")):
        if ".git" not in path.parts and _NKI.search(path.read_text(encoding="utf-8", errors="replace")):
            yield path


def package_of(path, root):
    """(folder to put on the path, dotted name) by which a file's relative imports work."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").exists() and folder != root:
        parts.append(folder.name)
        folder = folder.parent
    return folder, ".".join(reversed(parts))


def imported(path, root):
    """The reason why a file cannot be imported, or None."""
    folder, name = package_of(path, root)
    code = (f"import sys; sys.path[:0] = [{str(root / 'src' / 'nkilib_src')!r}, {str(folder)!r}]; "
            "import nkisim; nkisim.install(); import importlib.util; "
            f"name = {name!r}\n"
            "if '.' in name or not any(c in name for c in ' -'):\n"
            "    import importlib; importlib.import_module(name)\n")
    status, text, _ = run._run([sys.executable, "-c", code], root, 120, {})
    return None if status == 0 else run._reason(text)


def named(path, release):
    """Findings of a file that no release up to this one has: what a later one may have added."""
    source = path.read_text(encoding="utf-8", errors="replace")
    try:
        return [f for f in migrate.findings(source, release, str(path)) if f.must]
    except SyntaxError as problem:
        return [migrate.Finding(_Line(problem.lineno or 1), f"no valid Python ({problem.msg})", "")]


class _Line:
    col_offset = 0

    def __init__(self, number):
        self.lineno = number


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--sdk", default="2.33")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cases", choices=("library", "samples"))
    args = parser.parse_args(words)
    root, release = args.checkout.resolve(), int(args.sdk.split(".")[1])
    paths, reasons, failed = list(files(root)), collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        stops = list(pool.map(lambda p: imported(p, root), paths))
    for path, stop in zip(paths, stops):
        place, found = path.relative_to(root), named(path, release)
        stop = None if stop and any(h in stop for h in _HARNESS) else stop
        failed += bool(stop) or any(_UNKNOWN in finding.what for finding in found)
        if stop:
            reasons[f"import: {stop}"] += 1
            print(f"{place}: import: {stop}")
        for finding in found:
            reasons[f"name: {finding.what}"] += 1
            print(finding.text(place))
    for name, command, folder in run.cases(args.cases, root) if args.cases else ():
        status, text, seconds = run._run(command, folder, 600, {})
        if status:
            failed += 1
            reasons[f"case: {run._reason(text)}"] += 1
        print(f"case {name}: {'passed' if status == 0 else run._reason(text)} ({seconds:.0f} s)")
    print(f"\n{len(paths)} files import NKI; {failed} fail")
    for reason, count in reasons.most_common():
        print(f"{count:5}  {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
