"""A process of its own for what nobody vouches for: limits on time and memory, no network, and an
end that takes its children along.

Linux only. The caller should be small and have one thread: children are forked from it.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time
import traceback

_CLONE_NEWNET, _CLONE_NEWUSER, _CLONE_NEWPID = 0x40000000, 0x10000000, 0x20000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_RESULT_BYTES, _PRINTED_BYTES = 16 << 20, 16 << 10
_MEMORY, _SIGNAL = 77, 128  # exit codes: memory ran out; 128 + the signal that ended it
_libc = ctypes.CDLL(None, use_errno=True)


class Ended:
    """How a child ended: `kind` is result, timeout, memory or crashed; `result` its bytes, `printed`
    the first part of what it printed and how much it was, `message` for people."""

    def __init__(self, kind, result=b"", printed="", printed_bytes=0, message=""):
        self.kind, self.result, self.message = kind, result, message
        self.printed, self.printed_bytes = printed, printed_bytes


def isolate():
    """Called once in the forking process: its children get no network and no sight of processes
    that are not theirs, where the system allows that; orphans come to it. The kinds it could not
    have, as a list."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    missing = []
    flags = _CLONE_NEWNET if os.geteuid() == 0 else _CLONE_NEWUSER | _CLONE_NEWNET
    if _libc.unshare(flags) != 0:
        missing.append("network")
    return missing


def _memory():
    """Address space of this process in bytes."""
    with open("/proc/self/statm", encoding="ascii") as text:
        return int(text.read().split()[0]) * resource.getpagesize()


def _limit(which, value):
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def _enter(seconds, memory_bytes, output):
    """In the child: limits, and standard streams that go nowhere else."""
    _limit(resource.RLIMIT_AS, _memory() + memory_bytes)
    _limit(resource.RLIMIT_CPU, int(seconds) + 2)
    _limit(resource.RLIMIT_FSIZE, 4 << 30)
    _limit(resource.RLIMIT_CORE, 0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _work(function, result):
    """In the child: runs the function, sends its bytes, never returns."""
    code = 1
    try:
        data = function()
        sys.stdout.flush()
        while data:
            data = data[os.write(result, data):]
        code = 0
    except MemoryError:
        code = _MEMORY
    except BaseException:  # SystemExit and the like end a candidate as well
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _child(function, seconds, memory_bytes, output, result):
    """In the first child: a process group, and a second child that is the root of its own
    processes, so that killing it kills them all."""
    os.setsid()
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if _libc.unshare(_CLONE_NEWPID) == 0:
        inner = os.fork()
        if inner:
            os.close(result)
            os.close(output)
            code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
            os._exit(code if code >= 0 else _SIGNAL - code)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _enter(seconds, memory_bytes, output)
    _work(function, result)


def _reap(group):
    """Kills what is left of a child: its group, and orphans that came to this process."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for orphan in _children():
                try:
                    os.kill(orphan, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.001)


def _children():
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as text:
            return [int(word) for word in text.read().split()]
    except OSError:
        return []


class _Streams:
    """Drains the pipes of a child, keeping no more than is wanted of each."""

    def __init__(self, result, output):
        self.kept = {result: bytearray(), output: bytearray()}
        self.limit = {result: _RESULT_BYTES, output: _PRINTED_BYTES}
        self.seen = {result: 0, output: 0}
        self.open = {result, output}

    def drain(self, seconds):
        ready, _, _ = select.select(list(self.open), [], [], max(seconds, 0))
        for pipe in ready:
            data = os.read(pipe, 1 << 20)
            if not data:
                self.open.discard(pipe)
            self.seen[pipe] += len(data)
            room = self.limit[pipe] - len(self.kept[pipe])
            self.kept[pipe] += data[:max(room, 0)]
        return bool(ready)


def run(function, seconds, memory_bytes):
    """Runs function() -> bytes in a child and says how it Ended. Nothing of it is left afterwards."""
    result, result_end = os.pipe()
    output, output_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(result)
        os.close(output)
        _child(function, seconds, memory_bytes, output_end, result_end)
    os.close(result_end)
    os.close(output_end)
    streams = _Streams(result, output)
    deadline, status = time.monotonic() + seconds, None
    while status is None and time.monotonic() < deadline:
        if streams.open:
            streams.drain(min(0.05, deadline - time.monotonic()))
        else:
            time.sleep(0.002)
        pid, ended = os.waitpid(child, os.WNOHANG)
        status = ended if pid else None
    _reap(child)
    while streams.open and streams.drain(0):
        pass
    os.close(result)
    os.close(output)
    text = bytes(streams.kept[output]).decode("utf-8", "replace")
    return _ended(status, bytes(streams.kept[result]), text, streams.seen[output], seconds,
                  streams.seen[result])


def _ended(status, result, printed, printed_bytes, seconds, result_bytes):
    code = None if status is None else os.waitstatus_to_exitcode(status)
    number = None if code is None else -code if code < 0 else code - _SIGNAL
    if code is None or number == signal.SIGXCPU:
        kind, message = "timeout", f"took more than {seconds:g} s"
    elif code == _MEMORY:
        kind, message = "memory", "took more memory than it may"
    elif number in {int(s) for s in signal.Signals}:
        kind, message = "crashed", f"ended by {signal.Signals(number).name}"
    elif code != 0 or not result or result_bytes > _RESULT_BYTES:
        kind, message = "crashed", f"ended without a result (exit code {code})"
    else:
        kind, message = "result", ""
    return Ended(kind, result, printed, printed_bytes, message)
