#!/usr/bin/env python3
"""Runs nkisim's long-lived processes for long: memory must not grow, nothing may stay behind or be
lost.

    tests/soak/run.py                            20,000 kernels judged, 100,000 jobs, 5,000 edits, 2,000 runs of ranks
    tests/soak/run.py --scale 0.05 judge worker

A subject has a process or several, which do one thing again and again; every tenth thing is hostile or wrong. Samples
of memory, open files, processes and temporary files are taken as it goes on. Right are: an answer of the expected kind
for each thing; memory whose line through the last three quarters of the samples rises by less than 4 % and 8 MiB; no
more open files, processes and temporary files in the last sample than in one before; and nothing left when it has
ended. Exit code 1 otherwise.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from candidates import BODY, GOOD, HEAD, REFERENCE  # noqa: E402
from running import PROGRAM  # noqa: E402

SAMPLES = 24
MIB = 1 << 20
#: A candidate's text and the status that it has: nine tenths honest.
CANDIDATES = [*[(GOOD, "ok")] * 7, (GOOD.replace("op=nl.add", "op=nl.subtract"), "wrong"),
              (GOOD.replace("data2=y", "data2=z"), "error")]
HOSTILE = [(HEAD + "os._exit(0)\n" + BODY.replace("INSERT", ""), "crashed"),
           (HEAD + "x = bytearray(64 << 30)\n" + BODY.replace("INSERT", ""), "memory"),
           (HEAD + "open('big', 'wb').truncate(5 << 30)\n" + BODY.replace("INSERT", ""), None),
           (HEAD + "import subprocess\nsubprocess.Popen(['/bin/sleep', '100'])\n" + BODY.replace("INSERT", ""), None),
           (HEAD + "def f(): f()\nf()\n" + BODY.replace("INSERT", ""), "error"),
           (HEAD + "import signal\nos.kill(0, signal.SIGKILL)\n" + BODY.replace("INSERT", ""), None),
           (HEAD + "[open(f'f{n}', 'w').write('x' * 4096) for n in range(200)]\n" + BODY.replace("INSERT", ""), None),
           (HEAD + "print('x' * (1 << 20))\n" + BODY.replace("INSERT", ""), "ok")]
TRACE = [{"nisa": 1, "target": "trn2", "name": "k"},
         {"tensor": {"name": "x", "space": "hbm", "dtype": "float32", "shape": [128, 64], "role": "input",
                     "data": {"generator": "ones"}}},
         {"tensor": {"name": "y", "space": "hbm", "dtype": "float32", "shape": [128, 64], "role": "output"}},
         {"tensor": {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [128, 64], "address": 0}},
         {"i": "dma_copy", "dst": "t", "src": "x"},
         {"i": "tensor_scalar", "dst": "t", "data": "t", "op0": "multiply", "operand0": 2.0},
         {"i": "dma_copy", "dst": "y", "src": "t"}]
COMMENT = "# nkisim: a=f32[128,64] b=f32[128,64]\n@nki.jit"
TEXT = GOOD.replace("@nki.jit", COMMENT)


def _processes(root):
    """The process `root` and all below it, as (pid, KiB of its own)."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = pathlib.Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, more = {root}, True
    while more:
        new = {p for p, parent in parents.items() if parent in found} - found
        found, more = found | new, bool(new)
    return found


def sample(folder):
    """Memory in bytes (each shared page in parts), open files, processes, temporary files."""
    memory = files = count = 0
    for pid in _processes(os.getpid()):
        try:
            text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            memory += 1024 * sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
            files += len(os.listdir(f"/proc/{pid}/fd"))
            count += 1
        except OSError:
            continue
    return memory, files, count, sum(len(names) + len(folders) for _, folders, names in os.walk(folder))


def rise(memories):
    """Bytes by which the line through the last three quarters rises from its first to its last sample."""
    kept = np.array(memories[len(memories) // 4:], float)
    return float(np.polyfit(np.arange(len(kept)), kept, 1)[0] * (len(kept) - 1)) if len(kept) > 1 else 0.0


class Soak:
    """Samples as the things of a subject are done."""

    def __init__(self, name, total, folder):
        self.name, self.total, self.folder = name, max(total, SAMPLES), folder
        self.done, self.samples, self.wrong = 0, [], collections.Counter()
        self.before = None  # a sample
        self.begin = time.monotonic()

    def did(self, expected, found):
        """One thing is done. `expected`: None where the machine decides."""
        self.done += 1
        if expected is not None and expected != found:
            self.wrong[f"{found} for {expected}"] += 1
        if self.done % (self.total // SAMPLES) == 0:
            self.samples.append(sample(self.folder))

    def problems(self, left):
        memories = [s[0] for s in self.samples]
        if rise(memories) > 0.04 * np.mean(memories) + 8 * MIB:
            yield f"memory rises by {rise(memories) / MIB:.1f} MiB"
        for column, what in ((1, "open files"), (2, "processes"), (3, "temporary files")):
            values = [s[column] for s in self.samples]
            if values[-1] > max(values[:-1]):
                yield f"{values[-1]} {what}"
        if self.done != self.total:
            yield f"{self.done} answers of {self.total}"
        yield from (f"{n} times {what}" for what, n in self.wrong.items())
        if left[1:] != self.before[1:]:
            yield f"left: {left[1]} open files, {left[2]} processes, {left[3]} temporary files"

    def row(self, problems):
        memories = [s[0] for s in self.samples]
        cells = (self.name, f"{self.done:,}", f"{time.monotonic() - self.begin:.0f}", f"{np.mean(memories) / MIB:.0f}",
                 f"{rise(memories) / MIB:+.1f}", *self.samples[-1][1:], "; ".join(problems))
        return f"| {' | '.join(map(str, cells))} |"


def judge(soak, folder):
    from nkisim_evaluate import Evaluator, Settings
    reference = folder / "reference.py"
    reference.write_text(REFERENCE)
    expected = {}

    def candidates():
        for n in range(soak.total):
            text, expected[n] = HOSTILE[n // 10 % len(HOSTILE)] if n % 10 == 9 else CANDIDATES[n % 9]
            yield {"id": n, "source": text}

    with Evaluator(Settings(reference, target="trn2", timeout=20, memory=1 << 30), 1) as evaluator:
        for record in evaluator.records(candidates()):
            soak.did(expected.pop(int(record["id"])), record["status"])


def worker(soak, folder):
    from nkisim_work import Worker
    trace = folder / "k.jsonl"
    trace.write_text("".join(json.dumps(line) + "\n" for line in TRACE))
    wrong = [({"trace": "/none"}, 3), ({"trace": str(trace), "no_field": 1}, 2),
             ({"trace": str(trace), "set": ["x=1"]}, 3), ({"trace": str(trace), "max_instructions": "1"}, None),
             ({"trace": str(folder)}, 3), ({"trace": 5}, 2)]
    wishes = [{}, {"want": "time"}, {"want": "values"}, {"ranks": 2}, {"set": ["dma.bytes_per_ns=13.6"]}]
    with Worker() as process:
        for n in range(soak.total):
            job, code = wrong[n // 10 % len(wrong)] if n % 10 == 9 else ({"trace": str(trace), **wishes[n % 5]}, 0)
            answer = process.run({**job, "id": n})
            soak.did(code, answer["exit_code"] if answer.get("id") == n else "the answer of another job")


def world(soak, folder):
    import nkisim
    space = {}
    path = folder / "k.py"
    path.write_text(GOOD)
    exec(compile(GOOD, str(path), "exec"), space)
    a = np.ones((128, 64), np.float32)
    for n in range(soak.total):
        found = nkisim.run(space["kernel"], a, a * n, ranks=2 << n % 2, target="trn2")
        soak.did("right", "right" if all(np.array_equal(np.asarray(o), a + a * n) for o in found.outputs) else "wrong")


class _Server:
    """`nkisim lsp` and its messages."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nkisim_editor", "lsp", "--trust"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})

    def send(self, method, params, number=None):
        message = {"jsonrpc": "2.0", "method": method, "params": params, **({"id": number} if number else {})}
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def next(self):
        size = 0
        while (line := self.process.stdout.readline().strip()) or not size:
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(size))

    def until(self, wanted):
        while not wanted(message := self.next()):
            pass
        return message


def editor(soak, folder):
    texts = [(TEXT, 0), (TEXT + "\n# one more line\n", 0), (TEXT.replace("data2=y", "data2=z"), 1),
             (TEXT.replace("return out", "return out ("), 1), (TEXT.replace("nl.add", "nl.adt"), 1)]
    server, uri = _Server(), (folder / "k.py").as_uri()
    server.send("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1)
    server.until(lambda m: m.get("id") == 1)
    server.send("initialized", {})
    opened = {"uri": uri, "languageId": "python", "version": 1, "text": TEXT}
    server.send("textDocument/didOpen", {"textDocument": opened})
    for n in range(soak.total):
        text, problems = texts[n % len(texts)]
        server.send("textDocument/didChange", {"textDocument": {"uri": uri, "version": n + 2},
                                               "contentChanges": [{"text": text}]})
        said = server.until(lambda m, v=n + 2: m.get("method") == "textDocument/publishDiagnostics"
                            and m["params"].get("version") == v)["params"]["diagnostics"]
        soak.did(None if problems else 0, sum(d.get("severity") == 1 for d in said))
    server.send("shutdown", None, 2)
    server.until(lambda m: m.get("id") == 2)
    server.send("exit", None)
    server.process.wait(20)
    server.process.stdin.close()
    server.process.stdout.close()


SUBJECTS = {"judge": (judge, 20_000), "worker": (worker, 100_000), "editor": (editor, 5_000), "world": (world, 2_000)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", choices=[*SUBJECTS, []], metavar="SUBJECT", help=", ".join(SUBJECTS))
    parser.add_argument("--scale", type=float, default=1.0, help="the part of all things that is done")
    args = parser.parse_args()
    os.environ["NKISIM_PROGRAM"] = PROGRAM
    print("| Subject | Done | s | MiB | Rise | Open files | Processes | Temporary files | Wrong |\n"
          "|---|--:|--:|--:|--:|--:|--:|--:|---|", flush=True)
    wrong = False
    for name in args.subjects or SUBJECTS:
        function, total = SUBJECTS[name]
        with tempfile.TemporaryDirectory(prefix="nkisim-soak-") as folder, tempfile.TemporaryDirectory() as own:
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            function(Soak(name, SAMPLES, folder), pathlib.Path(own))  # what is loaded once, is loaded
            soak = Soak(name, int(total * args.scale) // SAMPLES * SAMPLES, folder)
            soak.before = sample(folder)
            function(soak, pathlib.Path(own))
            time.sleep(0.5)
            problems = list(soak.problems(sample(folder)))
            tempfile.tempdir = None
            del os.environ["TMPDIR"]
        print(soak.row(problems), flush=True)
        wrong = wrong or bool(problems)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
