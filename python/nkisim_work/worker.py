"""Drives one `nkisim worker`, a process that simulates one job after another, and restarts it where
a job ends it.
"""

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import IO, Any

from .host import limit_memory, share_of_machine
from .program import program

VERSION = 1
#: Rules of what the host refuses, which a process without a past might be given.
_MEMORY = ("host_refuses", "memory_limit")


class Ended(Exception):
    """The worker gave no outcome: `kind` is timeout, memory or crashed; the message says more."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def machine(target: str | None = None, config: str | os.PathLike | None = None,
            overrides: Mapping[str, Any] | None = None,
            switches: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The machine and the compiler's switches as fields of a job."""
    fields = {"target": target and str(target), "config": config and os.fspath(config),
              "set": [f"{k}={v}" for k, v in (overrides or {}).items()],
              "switches": {k.replace("-", "_"): str(v) for k, v in (switches or {}).items()}}
    return {k: v for k, v in fields.items() if v}


class Worker:
    """Runs jobs, one after another. memory_bytes: what its process may take at most. folder: where it works,
    and from where traces may name files. of: the workers that share the machine's memory, itself included."""

    def __init__(self, memory_bytes: int | None = None, path: str | None = None,
                 folder: str | None = None, of: int = 1) -> None:
        self._memory_bytes, self._path, self._folder, self._of = memory_bytes, path, folder, of
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._rest = b""
        self._jobs = 0  # of this process
        self._spent = 0.0  # processor seconds of those that have ended
        self._stopped = False

    def _start(self) -> subprocess.Popen[bytes]:
        if self._stopped:
            raise Ended("crashed", "stopped")
        self.close()
        self._errors = tempfile.TemporaryFile()
        # A session of its own: Ctrl-C is for us, who end it.
        self._process = process = subprocess.Popen(
            [self._path or program(), "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, bufsize=0, start_new_session=True, cwd=self._folder,
            env={**os.environ, **share_of_machine(self._of)})
        if self._memory_bytes:
            with contextlib.suppress(ProcessLookupError):
                limit_memory(process.pid, self._memory_bytes)
        self._rest, self._jobs = b"", 0
        return process

    def run(self, job: Mapping[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """The outcome of a job, a dict: with "error" where the job is at fault. Raises Ended.

        What memory a process has left depends on what it ran before; so where a job lacks some, a
        new one runs it again.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        for _ in range(2):
            process = self._process
            if process is None or process.poll() is not None:
                process = self._start()
            fresh = self._jobs == 0
            self._jobs += 1
            try:
                outcome = self._answer(process, job, seconds, deadline)
            except Ended as ended:
                self.close()
                if fresh or ended.kind == "timeout" or self._stopped:
                    raise
                continue
            if fresh or outcome.get("error", {}).get("rule") not in _MEMORY:
                return outcome
            self.close()
        raise AssertionError("a fresh worker gives an outcome or ends")

    def _answer(self, process, job, seconds, deadline):
        to, answers = process.stdin, process.stdout
        line = json.dumps({"nkisim_job": VERSION, **job}).encode() + b"\n"
        try:
            while line:
                line = line[to.write(line):]
        except BrokenPipeError:
            raise self._end(process) from None
        while b"\n" not in self._rest:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not select.select([answers], [], [], left)[0]:
                raise Ended("timeout", f"took more than {seconds:g} s")
            piece = os.read(answers.fileno(), 1 << 20)
            if not piece:
                raise self._end(process)
            self._rest += piece
        answer, _, self._rest = self._rest.partition(b"\n")
        return json.loads(answer)

    def _end(self, process: subprocess.Popen[bytes]) -> Ended:
        """The reason why the process has ended."""
        assert self._errors is not None  # as long as there is a process
        code = process.wait()
        self._errors.seek(0)
        said = self._errors.read()[-2000:].decode("utf-8", "replace").strip()
        if any(word in said for word in ("bad_alloc", "out of memory", "Cannot allocate")):
            return Ended("memory", "took more memory than it may")
        if code < 0:
            return Ended("crashed", f"the simulator ended by {signal.Signals(-code).name}")
        return Ended("crashed", said or f"the simulator ended with exit code {code}")

    def processor_seconds(self) -> float:
        """The processor time of its processes, those that have ended included."""
        if self._process is None:
            return self._spent
        try:
            # The clock of another process, as clock_getcpuclockid(3) gives it.
            return self._spent + time.clock_gettime((~self._process.pid << 3) | 2)
        except OSError:  # it has ended and was waited for
            return self._spent

    def stop(self) -> None:
        """Ends the process from another thread: a job under way, and any after it, raises Ended."""
        self._stopped = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Ends the process; the next job starts another."""
        if self._process is None:
            return
        self._spent = self.processor_seconds()
        process, self._process = self._process, None
        process.kill()
        process.wait()
        for end in (process.stdin, process.stdout, self._errors):
            assert end is not None  # as long as there is a process
            with contextlib.suppress(BrokenPipeError):
                end.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def timed(worker: "Worker | Workers", job: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of a job without values where the program's course does not depend on any: that is faster."""
    said = worker.run({**job, "want": "time"})
    return worker.run(job) if said.get("error", {}).get("rule") == "timing_only_values" else said


def message(outcome: Mapping[str, Any]) -> str:
    """The command's text for an error."""
    return f"nkisim: {outcome['error']['text']}"


class Workers:
    """As many warm workers as are asked at once, by threads."""

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def run(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """As Worker.run."""
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = Worker(path=self._path)
        try:
            return worker.run(job)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        while not self._idle.empty():
            self._idle.get().close()
