#!/usr/bin/env python3
"""Runs the whole program on damaged input: nothing may crash, hang, or end as an internal error.

    tests/fuzz/runs.py --runs 25000 --jobs 2
    tests/fuzz/runs.py --seed 1 --run 4711          one of them again; its files are kept

Each run is a command on a damaged program, machine description, .npz or profile file, or with odd arguments,
under limits of time and memory. Right are the
exit codes 0 to 3 without a Python traceback; wrong are a signal, code 4, any other code, and no end within
--timeout. Exit code 1 if any run was wrong.
The commands written in Python run in processes forked from one that has loaded them.
"""

import argparse
import contextlib
import gzip
import io
import json
import multiprocessing
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
sys.path += [str(ROOT / "python"), *(str(p) for p in sorted((ROOT / "clients").glob("*/")))]
import mutate  # noqa: E402

PROGRAM = os.environ.get("NKISIM_PROGRAM", str(ROOT / "build" / "release" / "nkisim"))
MEMORY = 8 << 30
LIMITS = ["--max-time", "2", "--max-instructions", "20000"]
SMALL_TRACES = 40_000  # bytes


def _tensor(name, role=None, space="hbm", core=0, **more):
    place = {"role": role or "internal"} if space == "hbm" else {"address": 0, "core": core}
    return {"tensor": {"name": name, "space": space, "dtype": "float32", "shape": [8, 4], **place, **more}}


_X = _tensor("x", "input", data={"generator": "normal", "seed": 3, "per_rank": True})
_Y = _tensor("y", "output")
_LOAD, _STORE = ({"i": "dma_copy", "dst": d, "src": s} for d, s in (("s", "x"), ("y", "d")))
# Programs of several ranks, and of the cores of a pair.
WORLDS = [
    [{"nisa": 1, "target": "trn2", "ranks": 4}, _X, _Y, _tensor("s"), _tensor("d"), _LOAD,
     {"i": "all_reduce", "srcs": ["s"], "dsts": ["d"], "replica_group": [[0, 1], [2, 3]], "op": "add"}, _STORE],
    [{"nisa": 1, "target": "trn2", "ranks": 4}, _X, _Y, _tensor("s"), _tensor("d"), _LOAD,
     {"i": "collective_permute", "srcs": ["s"], "dsts": ["d"],
      "source_target_pairs": [[0, 1], [1, 2], [2, 3], [3, 0]]}, _STORE],
    [{"nisa": 1, "target": "trn2", "cores": 2}, _X, _Y,
     *(_tensor(f"{n}{c}", space="sbuf", core=c, address=a) for c in (0, 1) for n, a in (("a", 0), ("b", 64))),
     *({"i": "dma_copy", "core": c, "dst": f"a{c}", "src": "x"} for c in (0, 1)),
     *({"i": "sendrecv", "core": c, "src": f"a{c}", "dst": f"b{c}", "send_to_rank": 1 - c,
        "recv_from_rank": 1 - c, "pipe_id": 0} for c in (0, 1)),
     *({"i": "dma_copy", "core": c, "dst": f"y[{4 * c}:{4 * c + 4}]", "src": f"b{c}[0:4]"} for c in (0, 1)),
     *({"i": "core_barrier", "core": c, "data": "y", "cores": [0, 1]} for c in (0, 1))]]
REFERENCE = b"""import numpy as np
SEEDS = (0,)
def inputs(seed):
    return (np.random.default_rng(seed).standard_normal((8, 4), dtype=np.float32),)
def reference(x):
    return x * 2
"""
CANDIDATE = """import nki, nki.isa as nisa, nki.language as nl
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nl.store(out, tile)
    return out
"""


class Seeds:
    """Files to damage, by kind."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.traces = [f for f in sorted((ROOT / "traces").glob("*.jsonl"))
                       if f.stat().st_size < SMALL_TRACES]
        self.configs = sorted((ROOT / "configs").glob("t*.json"))
        self.profiles = [ROOT / "tests/src/data/profile_small.json"]
        self.profiles += [f for f in sorted((ROOT / "clients/validation/table/profiles").glob("*.json*"))
                          if f.stat().st_size < SMALL_TRACES]
        self.journal = b""
        self.worlds = [_file(self.folder, f"world{i}.jsonl", "\n".join(map(json.dumps, lines)).encode())
                       for i, lines in enumerate(WORLDS)]
        self.reference = _file(self.folder, "reference.py", REFERENCE)
        self.binary, self.sessions = [], []
        for trace in self.traces:
            binary, session = (self.folder / f"{trace.stem}{end}" for end in (".nisa", ".session"))
            for words in (["convert", trace, "-o", binary], ["run", trace, "-q", "--session", session]):
                subprocess.run([PROGRAM, *map(str, words)], check=True, capture_output=True)
            self.binary.append(binary)
            self.sessions.append(session)


def _file(folder, name, content):
    path = pathlib.Path(folder) / name
    path.write_bytes(content)
    return path


def _reports(rng, folder):
    kinds = ["session", "chrome", "perfetto", "accounting-json", "summary-json", "outputs", "junit"]
    return [w for k in kinds if rng.random() < 0.2 for w in (f"--{k}", str(folder / f"out.{k}"))]


def trace_run(rng, seeds, folder):
    if rng.random() < 0.4:
        trace = _file(folder, "k.nisa", mutate.edit_bytes(rng.choice(seeds.binary).read_bytes(), rng))
    else:
        trace = _file(folder, "k.jsonl", mutate.edit_lines(rng.choice(seeds.traces).read_bytes(), rng))
    if rng.random() < 0.1:
        data = gzip.compress(trace.read_bytes())
        trace.write_bytes(mutate.edit_bytes(data, rng) if rng.random() < 0.5 else data)
    how = rng.randrange(10)
    if how < 5:
        mode = rng.choice([[], [], ["--functional"], ["--timing-only"], ["--explain"], ["--json"],
                           ["--targets", "trn1,trn3"], ["--schedule", "list"], ["--summary-text"]])
        return ["run", trace, *LIMITS, *mode, *_reports(rng, folder)]
    return {5: ["check", trace], 6: ["disasm", trace],
            7: ["convert", trace, "-o", folder / rng.choice(["o.nisa", "o.jsonl", "o.jsonl.gz"])],
            8: ["compile", trace, "-o", folder / "o.nisa"],
            9: ["check", trace, "--json", "--target", rng.choice(["trn1", "trn3"])]}[how]


def config_run(rng, seeds, folder):
    config = _file(folder, "c.json", mutate.edit_document(rng.choice(seeds.configs).read_bytes(), rng))
    trace = rng.choice(seeds.traces)
    return rng.choice([["config", "validate", config], ["config", "show", config],
                       ["config", "diff", config, "trn2"],
                       ["run", trace, "--config", config, *LIMITS],
                       ["run", trace, "--config", config, "--explain", *LIMITS]])


def npz_run(rng, seeds, folder):
    trace = rng.choice(seeds.traces)
    golden = trace.with_suffix(".npz")
    data = golden.read_bytes() if golden.exists() else b"PK"
    arrays = _file(folder, "a.npz", mutate.edit_npz(data, rng) if len(data) > 2 else data)
    return ["run", trace, *LIMITS, rng.choice(["--expect", "--expect", "--inputs"]), arrays]


def session_run(rng, seeds, folder):
    session = _file(folder, "s.npz", mutate.edit_npz(rng.choice(seeds.sessions).read_bytes(), rng))
    form = rng.choice(["summary-text", "summary-json", "json", "csv", "parquet", "chrome",
                       "perfetto"])
    return rng.choice([["view", session, "-f", form, "-o", folder / "out"],
                       ["view", session, "--json"], ["report", session, "-o", folder / "out.html"],
                       ["compare", session, rng.choice(seeds.sessions)],
                       ["view", session, "-f", "csv", "-o", folder / "out"]])


def profile_run(rng, seeds, folder):
    seed = rng.choice(seeds.profiles)
    data = seed.read_bytes()
    data = gzip.decompress(data) if seed.suffix == ".gz" else data
    profile = _file(folder, "p.json", mutate.edit_document(data, rng))
    return rng.choice([["import-profile", profile, "-o", folder / "o.nisa"],
                       ["import-profile", profile, "-o", folder / "o.jsonl", "--json"],
                       ["diff-profile", seeds.binary[0], profile]])


_OPTION = re.compile(r"(--[a-z][a-z0-9-]+)")
_WORDS = ["", "0", "-1", "1e400", "nan", "trn1", "trn9", "x=y", "a.b=1", "/dev/null", "/nowhere/x",
          "/proc/self/mem", ".", "..", "\x1b[2J", "=1", "\udcff", "a" * 5000, "total_time<=1us", "--", "-",
          "list", "yes", "no", "[[[[", "{}", "2147483648", "99999999999999999999", "1G", "5m", "@x"]
_COMMANDS = ["run", "compile", "check", "disasm", "isa", "config", "convert", "completion",
             "import-profile", "diff-profile", "explain", "view", "report", "compare", "collective",
             "doctor", "sweep", "validate"]
_options = {}


def options_of(command):
    if command not in _options:
        said = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True, check=True)
        _options[command] = sorted(set(_OPTION.findall(said.stdout)))
    return _options[command]


def argument_run(rng, seeds, folder):
    command = rng.choice(_COMMANDS)
    files = [*seeds.traces, *seeds.configs, *seeds.sessions, *seeds.profiles, folder]
    words = [command]
    for _ in range(rng.randint(0, 5)):
        kind = rng.random()
        if kind < 0.4:
            words.append(rng.choice(options_of(command)))
        elif kind < 0.7:
            words.append(rng.choice(_WORDS))
        else:
            words.append(rng.choice(files))
    return [*words, *(LIMITS if command == "run" else [])]


def world_run(rng, seeds, folder):
    lines = rng.choice(seeds.worlds).read_bytes()
    trace = _file(folder, "w.jsonl", mutate.edit_lines(lines, rng) if rng.random() < 0.8 else lines)
    ranks = rng.choice([[], [], ["--ranks", rng.choice(["1", "2", "4", "8", "0", "-1", "64", "9999999", "x"])]])
    mode = rng.choice([[], ["--functional"], ["--timing-only"], ["--json"], ["--any-world"], ["--no-fold"],
                       ["--ring-order", rng.choice(["reverse", "shuffle:1", "shuffle:", "group"])]])
    files = [w for k in ("--outputs", "--session", "--perfetto", "--accounting-json") if rng.random() < 0.2
             for w in (k, folder / rng.choice(["o.{rank}", "o", "{rank}/o", "o.{rank}.{x}"]))]
    return rng.choice([["check", "--races", trace], *[["run", trace, *LIMITS, *ranks, *mode, *files]] * 4])


def pipe_run(rng, seeds, folder):
    """Candidates as lines on standard input."""
    lines = []
    for _ in range(rng.randint(1, 3)):
        item = {"id": rng.choice(mutate.TEXTS + mutate.NUMBERS), "source": CANDIDATE}
        if rng.random() < 0.5:
            item["source"] = mutate.edit_bytes(CANDIDATE.encode(), rng).decode(errors="replace")
        for key in ("path", "kernel", "grid", "params", "id", "target"):
            if rng.random() < 0.2:
                item[key] = rng.choice([*mutate.TEXTS, *mutate.NUMBERS, float("nan"), None, [], {}, {"x": 1}])
        lines.append(json.dumps(item).encode())
    data = b"\n".join(lines)
    _file(folder, "stdin", mutate.edit_bytes(data, rng) if rng.random() < 0.5 else data)
    cache = ["--cache", _file(folder, "c.db", mutate.edit_bytes(b"SQLite format 3\0" + bytes(90), rng))]
    return ["evaluate", "--reference", seeds.reference, "--candidates", "-", "--jobs", "1", "--timeout",
            "10", *rng.choice([[], [], cache])]


def journal_run(rng, seeds, folder):
    kernel = _file(folder, "k.py", CANDIDATE.replace("(x)", "(x, bufs=1)", 1).encode())
    words = ["tune", f"{kernel}:kernel", "--param", "bufs=1,2", "--reference", seeds.reference, "--jobs",
             "1", "--timeout", "10", "--journal", folder / "j.jsonl"]
    if not seeds.journal:
        run_program([os.fspath(w) for w in words], folder, 60)
        written = folder / "j.jsonl"
        seeds.journal = written.read_bytes() if written.exists() else b'{"nkisim_tune": 1}\n'
    _file(folder, "j.jsonl", mutate.edit_lines(seeds.journal, rng))
    return words


KINDS = {"trace": (trace_run, 36), "config": (config_run, 14), "npz": (npz_run, 13),
         "session": (session_run, 10), "profile": (profile_run, 7), "argument": (argument_run, 11),
         "world": (world_run, 8), "pipe": (pipe_run, 0.7), "journal": (journal_run, 0.3)}
IN_PYTHON = {"view", "report", "compare"}


# ---- running ---------------------------------------------------------------------------------
def _limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_program(words, folder, timeout):
    """(exit code or None for no end, what was said)."""
    with open(folder / "said", "w+b") as said:
        given = folder / "stdin" if (folder / "stdin").exists() else os.devnull
        with open(given, "rb") as stdin:
            process = subprocess.Popen([PROGRAM, *words], stdout=said, stderr=said, cwd=folder,
                                       stdin=stdin, preexec_fn=_limited, start_new_session=True)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        said.seek(0)
        return code, said.read(100_000).decode(errors="replace")


def _child(words, folder):
    os.chdir(folder)
    _limited()
    with open("said", "w", encoding="utf-8", errors="replace") as said:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                from nkisim_profile.__main__ import run, run_json
                code = (run_json if "--json" in words else run)(words[0], words[1:])
            except BaseException:  # whatever leaves main is a traceback for the user
                traceback.print_exc()
                code = 1
            said.flush()
    os._exit(code if isinstance(code, int) else 1)


def run_forked(words, folder, timeout):
    """The same of a command in Python."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _child(words, folder)
        os._exit(99)
    end = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, ""
        time.sleep(0.002)
    said = folder / "said"
    text = said.read_text(errors="replace") if said.exists() else ""
    return os.waitstatus_to_exitcode(status), text


def verdict(code, said):
    """None, or what is wrong."""
    if code is None:
        return "no end"
    if code < 0:
        return f"signal {-code}"
    if "Traceback (most recent call last)" in said:
        return "traceback"
    return None if 0 <= code <= 3 else f"exit code {code}"


def one(number, seed, seeds, timeout, keep=None):
    """(kind, command, exit code, what is wrong or None) of run `number`."""
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choices(list(KINDS), [weight for _, weight in KINDS.values()])[0]
    with tempfile.TemporaryDirectory(dir=seeds.folder, prefix="run") as name:
        folder = pathlib.Path(name)
        words = [os.fsdecode(str(w)) for w in KINDS[kind][0](rng, seeds, folder)]
        words = [w.replace("\0", "") for w in words]
        how = run_forked if words[0] in IN_PYTHON and kind == "session" else run_program
        code, said = how(words, folder, timeout)
        wrong = verdict(code, said)
        if keep and (wrong or keep.get("always")):
            target = pathlib.Path(keep["folder"]) / f"run-{seed}-{number}"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folder, target, symlinks=True)
            (target / "command").write_text(repr(words) + f"\n{wrong}\n{said[-5000:]}",
                                            errors="replace")
    return kind, words, code, wrong


_state = {}


def _start(seed, timeout, keep):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = tempfile.mkdtemp(prefix="nkisim-fuzz-")
    _state.update(seed=seed, timeout=timeout, keep=keep, seeds=Seeds(folder))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(ImportError):
        from nkisim_profile import compare, report, view  # noqa: F401  loaded before forking
        import pyarrow.parquet  # noqa: F401


def _run(number):
    return number, one(number, _state["seed"], _state["seeds"], _state["timeout"], _state["keep"])


def many(runs, seed=1, jobs=1, timeout=30.0, keep=None, first=0):
    """Counters of (kind, exit code), and the runs that were wrong."""
    codes, wrong = Counter(), []
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, _start, (seed, timeout, keep)) as pool:
        for number, (kind, words, code, what) in pool.imap_unordered(
                _run, range(first, first + runs), 8):
            codes[kind, code] += 1
            if what:
                wrong.append((number, kind, what, words))
                print(f"run {number} ({kind}): {what}: {words}", flush=True)
    return codes, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=30)
    parser.add_argument("--run", type=int, help="only this one")
    parser.add_argument("--keep", default="fuzz-failures", help="folder for what was wrong")
    args = parser.parse_args()
    keep = {"folder": os.path.abspath(args.keep), "always": args.run is not None}
    first, runs = (args.run, 1) if args.run is not None else (0, args.runs)
    os.makedirs(args.keep, exist_ok=True)
    begin = time.monotonic()
    codes, wrong = many(runs, args.seed, args.jobs, args.timeout, keep, first)
    for kind in KINDS:
        mine = {code: n for (k, code), n in sorted(codes.items(), key=str) if k == kind}
        print(f"{kind:<9} {sum(mine.values()):>6} runs  exit codes {mine}")
    print(f"{runs} runs, {len(wrong)} wrong, {time.monotonic() - begin:.0f} s, seed {args.seed}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
