"""Records what a build computes (outputs, latencies, reports), and compares the records of two
builds.

    scripts/snapshot record OUT.json [--tree DIR] [--checkouts DIR] [--only traces,examples]
    scripts/snapshot compare BEFORE.json AFTER.json

Parts:
  traces       every trace of traces/ and those made on demand, on every target that it lists:
               timed, --functional, --timing-only, --schedule list and each other --dma-queues;
               converted to binary and back; disassembled
  examples     every example's own command line on every target; with the compiler's switches the
               other way; its cases with values only and with time only
  conformance  every case of tests/conformance/run.py, from the checkouts
  public       the kernels of clients/validation/table/public at their measured sizes, time only
  validate     the table of `nkisim validate`

Programs, tests, examples and traces are those of --tree, built in its build/release; --checkouts
has the folders aws-neuron-sdk, nki-samples, nki-autotune, nki-library and nki-samples-retired, at
the commits of docs/compatibility.md. A part recorded again replaces what the file had of it.

How it compares: exactly. Of each output array the type, the shape and a hash of its bits; of each
run the latency in femtoseconds, the numbers of instructions in the program and executed, every
metric of the summary, the memory peaks, and hashes of the placed program, of the text reports, of
the time accounting (femtoseconds by instruction, opcode and source line), of the Perfetto and
Chrome timelines and of the HTML report; of a saved session the hash of each array, not of the zip
file around it. A changed exit code or message is a difference, and so is a case that only one
record has. Taken out before: the paths of --tree and --checkouts, and measured wall-clock times.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import compare
from hashes import of_npz, of_text

HERE = Path(__file__).resolve().parent
PARTS = ("traces", "examples", "conformance", "public", "validate")
CHECKOUTS = {"sdk": "aws-neuron-sdk", "samples": "nki-samples", "autotune": "nki-autotune",
             "library": "nki-library", "retired": "nki-samples-retired"}
#: Each switch of the compiler's part the other way (docs/compiler.md), and all of them.
SWITCHES = {"SCHEDULE": "program", "DMA_QUEUES": "one", "CLEARS": "keep", "BROADCASTS": "vector",
            "REUSE": "none", "RENAME": "none"}
VARIANTS = {"all-off": SWITCHES, "software-queues": {"DMA_QUEUES": "software"},
            **{f"{k}={v}".lower(): {k: v} for k, v in SWITCHES.items()}}


class Build:
    """A tree with its build, and the checkouts its tests run on."""

    def __init__(self, tree, checkouts, timeout):
        self.tree, self.checkouts, self.timeout = tree, checkouts, timeout
        self.release = tree / "build" / "release"
        self.nkisim = str(self.release / "nkisim")
        python = tree / "build" / "venv" / "bin" / "python"
        self.python = str(python) if python.exists() else sys.executable
        # With the recorder's own tree: a call from child.py is a source location, too.
        self.roots = [str(p) for p in (tree, checkouts, HERE.parents[1]) if p]

    def environment(self, changes):
        path = os.pathsep.join([str(self.release / "python"), str(self.tree / "python")])
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("NKISIM", "NKI_", "NEURON_"))}
        return {**kept, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "NKISIM": self.nkisim,
                "NKISIM_PROGRAM": self.nkisim, "PYTHONDONTWRITEBYTECODE": "1", **changes}

    def portable(self, text, *folders):
        for root in (*folders, *self.roots):
            text = text.replace(f"{root}/", "")
        return text

    def call(self, command, folder, changes=None):
        """(exit code, standard output, standard error) of a command."""
        try:
            done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True,
                                  text=True, timeout=self.timeout, check=False,
                                  env=self.environment(changes or {}))
        except subprocess.TimeoutExpired:
            return "timeout", "", f"more than {self.timeout} s"
        return done.returncode, done.stdout, done.stderr


def _latency_fs(summary):
    nodes = [summary, *(v for v in summary.values() if isinstance(v, dict))]
    return round(1e15 * max(n["total_time"] for n in nodes if "total_time" in n))


# ---- traces ----------------------------------------------------------------------------------
def run_trace(build, trace, options, reports):
    """One run of a trace by the program, with its reports; they contain the name it is run by."""
    with tempfile.TemporaryDirectory() as folder:
        names = {"outputs": "outputs.npz"}
        if "--timing-only" in options:
            names = {}
        if reports:
            names.update({"summary-json": "summary.json", "accounting-json": "accounting.json",
                          "perfetto": "t.pftrace", "chrome": "chrome.json", "html": "report.html",
                          "session": "session.npz"})
        files = [x for option, name in names.items() for x in (f"--{option}", f"{folder}/{name}")]
        command = [build.nkisim, "run", trace.name, "--json", *options, *files]
        code, out, err = build.call(command, trace.parent)
        entry = {"exit": code, "errors": build.portable(err, folder)}
        entry["result"] = json.loads(build.portable(out, folder) or "{}")
        if "summary" in entry["result"]:
            entry["latency_fs"] = _latency_fs(entry["result"]["summary"])
        for option, name in names.items():
            path = Path(folder, name)
            if not path.exists():
                entry[option] = None
            elif path.suffix == ".npz":
                entry[option] = of_npz(path)
            else:
                entry[option] = of_text(build.portable(path.read_text("latin-1")))
    return [("", entry)]


def print_trace(build, trace, options):
    """The texts for people."""
    code, out, err = build.call([build.nkisim, "run", trace, *options, "--summary-text",
                                 "--explain"], build.tree)
    return [("", {"exit": code, "errors": build.portable(err), "text": out.splitlines()})]


def convert_trace(build, trace):
    """A trace in its other forms; `convert` must lose nothing."""
    with tempfile.TemporaryDirectory() as folder:
        entry = {}
        for source, name in ((trace, "a.nisa"), (f"{folder}/a.nisa", "b.jsonl")):
            code, _, err = build.call([build.nkisim, "convert", source, f"{folder}/{name}"], folder)
            path = Path(folder, name)
            entry[name] = [code, build.portable(err, folder),
                           of_text(path.read_bytes()) if path.exists() else None]
        code, out, err = build.call([build.nkisim, "disasm", trace], folder)
        entry["disasm"] = [code, build.portable(err), of_text(out)]
    return [("", entry)]


def traces(build, scratch):
    folder = build.tree / "traces"
    about = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
    for name in sorted({*about, *(p.stem for p in folder.glob("*.jsonl"))}):
        path = folder / f"{name}.jsonl"
        if not path.exists():  # made on demand
            build.call([build.python, folder / "make.py", name, "--out", scratch], scratch)
            path = scratch / path.name
        yield f"{name} forms", convert_trace, (path,)
        for target in about.get(name, {}).get("targets", ["trn2"]):
            on = ["--target", target]
            modes = {"timed": on, "functional": [*on, "--functional"],
                     "timing-only": [*on, "--timing-only"], "list": [*on, "--schedule", "list"],
                     "split": [*on, "--dma-queues", "split"],
                     "software": [*on, "--dma-queues", "software"]}
            for mode, options in modes.items():
                yield f"{name} {target} {mode}", run_trace, (path, options, mode == "timed")
            yield f"{name} {target} text", print_trace, (path, on)


# ---- Python ----------------------------------------------------------------------------------
def run_python(build, mode, command, folder, changes):
    """A Python program under child.py: how it ended, and each kernel run in it."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "runs.json")
        code, text, err = build.call([build.python, HERE / "child.py", mode, out,
                                      os.pathsep.join(build.roots), *command], folder, changes)
        runs = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    ended = {"exit": code, "runs": len(runs)}
    if code:
        message = re.findall(r"^(?:E +)?[\w.]*(?:Error|Exception)\b.*$", err + text, re.M)
        ended["message"] = build.portable(message[-1]) if message else "no message"
    return [("", ended), *((f" #{i} {run.pop('kernel')}", run) for i, run in enumerate(runs))]


def examples(build, _scratch):
    for path in sorted((build.tree / "examples").glob("*.py")):
        if path.stem == "common":
            continue
        command = ["-m", "nkisim", path]
        for target in ("trn1", "trn2", "trn3"):
            yield (f"{path.stem} {target}", run_python,
                   ("run", [*command, "--target", target], build.tree, {}))
        for name, switches in VARIANTS.items():
            yield (f"{path.stem} trn2 {name}", run_python,
                   ("run", command, build.tree, {f"NKISIM_{k}": v for k, v in switches.items()}))
        for timing, name in (("no", "functional"), ("only", "timing-only")):
            yield f"{path.stem} {name}", run_python, ("cases", [path, timing], build.tree, {})


def conformance(build, _scratch):
    folders = {group: str(build.checkouts / name) for group, name in CHECKOUTS.items()
               if (build.checkouts / name).is_dir()}
    if len(folders) < len(CHECKOUTS):
        missing = ", ".join(CHECKOUTS[g] for g in CHECKOUTS if g not in folders)
        print(f"snapshot: no checkout of {missing} in {build.checkouts}", file=sys.stderr)
    code, out, err = build.call([build.python, HERE / "child.py", "public",
                                 build.tree / "tests" / "conformance", json.dumps(folders)],
                                build.tree)
    if code:
        raise SystemExit(f"snapshot: the public cases cannot be listed\n{err}")
    for group, name, command, folder, changes in json.loads(out):
        note = "".join(f" {k}={v}" for k, v in changes.items())
        yield f"{group} {name}{note}", run_python, ("run", command, folder, changes)


def public(build, _scratch):
    families = {"nki-autotune": [""], "nki-library": [""],
                "aws-neuron-sdk": ["mamba-v1", "mamba-v2", "mamba-v3", "trn1-doc-matmul",
                                   "trn2-doc-matmul"]}
    for checkout, names in families.items():
        for name in names:  # a process for each: starting takes as long as a small kernel
            yield (f"{checkout} {name}".strip(), run_python,
                   ("run", [_table(build.tree) / "public", f"--{checkout}",
                            build.checkouts / checkout, "--only", name], build.tree, {}))


def _table(tree):
    """The folder of the validation table, in a tree of today or an older one."""
    now = tree / "clients" / "validation" / "table"
    return now if now.exists() else tree / "validation"


def validate_table(build):
    code, out, err = build.call([build.python, _table(build.tree) / "run", "--json",
                                 "--jobs", "1", "--nkisim", build.nkisim], build.tree)
    return [("", {"exit": code, "errors": build.portable(err), "table": json.loads(out or "{}")})]


def validate(_build, _scratch):
    yield "table", validate_table, ()


# ---- the command -----------------------------------------------------------------------------
def record_part(build, part, match, jobs):
    """The cases of one part, and how long it took."""
    begin = time.time()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        planned = {f"{part}/{name}": pool.submit(make, build, *arguments)
                   for name, make, arguments in globals()[part](build, Path(scratch))
                   if match in f"{part}/{name}"}
        cases = {}
        for name, future in planned.items():
            for suffix, entry in future.result():
                cases[name + suffix] = entry
                if entry.get("exit"):
                    print(f"{name}: exit {entry['exit']} {entry.get('message', '')}", flush=True)
    return cases, time.time() - begin


def read(path):
    """A snapshot; anything else is refused, so that `record` overwrites no other file."""
    try:
        snapshot = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise SystemExit(f"snapshot: {path} cannot be read: {problem}") from None
    if not isinstance(snapshot, dict) or not {"parts", "cases"} <= snapshot.keys():
        raise SystemExit(f"snapshot: {path} is no snapshot")
    return snapshot


def record(args):
    build = Build(args.tree.resolve(), args.checkouts and args.checkouts.resolve(), args.timeout)
    parts = args.only.split(",") if args.only else [
        p for p in PARTS if args.checkouts or p not in ("conformance", "public")]
    for part in parts:
        if part not in PARTS:
            raise SystemExit(f"snapshot: no part is called {part!r}; there are {', '.join(PARTS)}")
        if part in ("conformance", "public") and not args.checkouts:
            raise SystemExit(f"snapshot: {part} needs --checkouts")
    if args.file.exists():
        read(args.file)
    for part in parts:
        cases, seconds = record_part(build, part, args.match, args.jobs)
        snapshot = read(args.file) if args.file.exists() else {"parts": {}, "cases": {}}
        kept = {k: v for k, v in snapshot["cases"].items() if not k.startswith(f"{part}/")}
        snapshot["cases"] = {**kept, **cases}
        snapshot["parts"][part] = {"match": args.match, "seconds": round(seconds, 1)}
        args.file.write_text(json.dumps(snapshot, indent=1), encoding="utf-8")
        print(f"{part}: {len(cases)} cases, {seconds:.0f} s", flush=True)
    return 0


def compare_files(args):
    report, count = compare.lines(read(args.before), read(args.after))
    print("\n".join(report))
    return 1 if count else 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/snapshot", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("record", help="run everything and write it down")
    one.add_argument("file", type=Path)
    one.add_argument("--tree", type=Path, default=HERE.parents[1], help="source tree with a build")
    one.add_argument("--checkouts", type=Path, help="folder with the public repositories")
    one.add_argument("--only", default="", help=f"parts, by commas: {','.join(PARTS)}")
    one.add_argument("--match", default="", help="only cases whose name has this text")
    one.add_argument("--jobs", type=int, default=os.cpu_count())
    one.add_argument("--timeout", type=float, default=1200, help="seconds for one process")
    one.set_defaults(run=record)
    two = commands.add_parser("compare", help="print each difference; exit code 1 if there is one")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    two.set_defaults(run=compare_files)
    args = parser.parse_args()
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
