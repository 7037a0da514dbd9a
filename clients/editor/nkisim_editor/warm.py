"""Runs a process that has imported everything and forks one for each edited text (language server).
Start: python -m nkisim_editor.warm.

A JSON object a line comes in: {"id", "path", "text", "seconds"}, or {"cancel": true}. Lines of JSON go out:
study's answers with the "id", and {"id", "stage": "end", "why"} at last: "" if all was said, "timeout",
"crashed". A new text ends the one under way, of which no more is said. A text is executed with the rights
of this process (docs/security.md).
"""

import ast
import gc
import importlib
import importlib.util
import json
import linecache
import os
import select
import shutil
import signal
import sys
import sysconfig
import tempfile
import time

from nkisim.tools.install import install

_LIBRARIES = tuple({os.path.realpath(sysconfig.get_path(k)) + os.sep
                    for k in ("stdlib", "platstdlib", "purelib", "platlib")})
_WARM = ("nki", "nki.isa", "nki.language", "neuronxcc.nki", "neuronxcc.nki.isa", "neuronxcc.nki.language",
         "nkisim_editor.study")
_FIRST = """import nki.language as nl
# nkisim: x=f32[4,4]
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.exp(nl.load(x)))
    return out
"""


def imported(text):
    """Names of the packages that a text imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def warm_up(text):
    """Imports the installed libraries that a text imports, so that the next process has them already; never
    a module of the user's, which may change."""
    for name in sorted(imported(text) - set(sys.modules)):
        try:
            spec = importlib.util.find_spec(name)
            if spec and spec.origin and os.path.realpath(spec.origin).startswith(_LIBRARIES):
                importlib.import_module(name)
        except Exception:  # the text itself will say so
            continue


class Child:
    """One text's process. `pipe` reads what it says; it is the leader of its own group. Its folder goes with it,
    however it ends."""

    def __init__(self, job):
        self.id, self.ends = job["id"], time.monotonic() + job["seconds"]
        self.rest, self.said_all = b"", False
        self.pipe, there = os.pipe()
        self.folder = tempfile.mkdtemp(prefix="nkisim-lsp-")
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            _child(job, self.folder, there)
        os.close(there)

    def kill(self):
        for end in (os.killpg, os.kill):
            try:
                end(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        os.waitpid(self.pid, 0)
        os.close(self.pipe)
        shutil.rmtree(self.folder, ignore_errors=True)


def _child(job, folder, pipe):
    """Never returns: what the text prints goes nowhere, and it reads nothing."""
    try:
        os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        from . import study

        def say(answer):
            line = json.dumps(answer).encode() + b"\n"
            while line:
                line = line[os.write(pipe, line):]

        study.Study(job["path"], job["text"], folder, say).run()
        say({"stage": "end", "why": ""})
    finally:
        os._exit(0)


class Warm:
    """Reads jobs, forks, hands answers on."""

    def __init__(self, jobs=0, out=1):
        self._jobs, self._out, self._rest, self._child = jobs, out, b"", None

    def _say(self, answer):
        line = json.dumps(answer).encode() + b"\n"
        while line:
            line = line[os.write(self._out, line):]

    def _end(self, why=None):
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            if why is not None:
                self._say({"id": child.id, "stage": "end", "why": why})

    def _take(self, line):
        job = json.loads(line)
        self._end()
        if not job.get("cancel"):
            warm_up(job["text"])
            self._child = Child(job)

    def _on_message(self):
        piece = os.read(self._child.pipe, 1 << 16)
        if not piece:
            self._end(None if self._child.said_all else "crashed")
            return
        *lines, self._child.rest = (self._child.rest + piece).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            self._child.said_all = answer["stage"] == "end"
            self._say({"id": self._child.id, **answer})

    def serve(self):
        """Until there are no more jobs."""
        while True:
            child = self._child
            sources = [self._jobs] + ([child.pipe] if child else [])
            left = max(child.ends - time.monotonic(), 0) if child else None
            ready = select.select(sources, [], [], left)[0]
            if self._jobs in ready:
                piece = os.read(self._jobs, 1 << 16)
                if not piece:
                    self._end()
                    return
                *lines, self._rest = (self._rest + piece).split(b"\n")
                for line in lines[-1:]:  # the newest text is the only one that counts
                    self._take(line)
            elif child and child.pipe in ready:
                self._on_message()
            elif child:
                self._end("timeout")


def _rehearse():
    """One small kernel: what is imported and made ready by the first run, children find done."""
    from .study import Study

    path, given = list(sys.path), sys.dont_write_bytecode
    with tempfile.TemporaryDirectory(prefix="nkisim-lsp-") as folder:
        Study(os.path.join(os.path.dirname(__file__), "rehearsal"), _FIRST, folder, lambda answer: None).run()
    sys.path[:], sys.dont_write_bytecode = path, given
    linecache.clearcache()
    sys.modules.pop("nkisim_kernel_file", None)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends us
    install()
    for name in _WARM:
        importlib.import_module(name)
    _rehearse()
    gc.collect()
    gc.freeze()  # children share these pages
    try:
        Warm().serve()
    except BrokenPipeError:
        pass


if __name__ == "__main__":
    main()
