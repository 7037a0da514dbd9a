"""Runs untrusted code in a process of its own: limits on time and memory, no network, no files but
the libraries and one folder, and an end that takes its children along.

Elsewhere than on Linux only the limits and the end are left. The caller should be small and have one thread: children
are forked from it.
"""

from __future__ import annotations

import array
import json
import os
import re
import secrets
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from . import confine

if TYPE_CHECKING:
    from .overseer import Overseer

_CHANNEL, _CONTROL = 3, 4  # descriptors of a child
_RESULT_BYTES, _PRINTED_BYTES, _FILE_BYTES = 16 << 20, 16 << 10, 1 << 30
_MEMORY, _SIGNAL = 77, 128  # exit codes: memory ran out; 128 + the signal that ended it
_FRAME = re.compile(rb" (\w{1,16}) ([0-9a-f]*)\n")


class ProcessEnd:
    """The end of a child: `kind` is result, timeout, memory or crashed; `result` its bytes, `printed` the first part of
    what it printed and how much it was, `message` for people."""

    def __init__(self, kind: str, result: bytes = b"", printed: str = "", printed_bytes: int = 0,
                 message: str = "") -> None:
        self.kind, self.result, self.message = kind, result, message
        self.printed, self.printed_bytes = printed, printed_bytes


def isolate(scratch: str) -> list[str]:
    """Called once in the forking process: its children get no network and no sight of processes that
    are not theirs, write nowhere but in a folder, and come to it when they are orphans; where the
    system allows that. The names of what it does not, as a list (docs/security.md)."""
    confine.adopt_orphans()
    missing = []
    if not confine.leave_namespaces(("network", "ipc")):
        missing += ["network", "processes"]
    if missing or not confine.leave_namespaces(("mounts",)) or not confine.read_only(os.path.realpath(scratch)):
        missing.append("mounts")
    if confine.landlock_version() < 1:
        missing.append("landlock")
    if not confine.filters_calls():
        missing.append("system calls")
    return missing


#: The consequence if a system lacks one of these (docs/security.md).
FOLLOWS = {
    "network": "a candidate has no network of its own to be shut in; the filter of system calls alone refuses sockets",
    "processes": "a candidate's processes are ended by group and by parent, not all at once, and it sees others",
    "mounts": "the file system is writable to a candidate where Landlock does not refuse it",
    "landlock": "a candidate reads and writes what the user may, where system calls are not watched",
    "system calls": "nothing refuses a candidate's system calls: run nkisim evaluate in a container",
    "watching": "system calls are refused without anybody deciding: what starts or connects raises no flag"}


def probe(scratch: str) -> NoReturn:
    """For `nkisim doctor`: prints what is missing and what follows as JSON, and ends this process, which can do little
    else from here on. The folder is one that exists."""
    missing = isolate(scratch)
    listener = confine.filtered(_CHANNEL, False)
    if listener is None:
        missing.append("watching")
    elif listener is False and "system calls" not in missing:
        missing.append("system calls")
    os.write(1, json.dumps({name: FOLLOWS[name] for name in missing}).encode())
    os._exit(0)


def _enter(limits, alone):
    """In the child: everything that it is to have no way to. Whether its system calls are watched."""
    seconds, memory_bytes, readable, scratch = limits
    confine.limited(seconds, memory_bytes, _FILE_BYTES)
    if alone and confine.leave_namespaces(("mounts",)):
        confine.hide("/proc")
    os.chdir(scratch)
    os.umask(0o077)
    confine.drop_capabilities()
    confine.only_files(readable, scratch)
    control = socket.socket(fileno=_CONTROL)
    listener = confine.filtered(_CHANNEL, alone)
    watched = listener is not None and listener is not False
    if listener is None or listener is False:
        control.sendmsg([b"n"])
    else:
        control.sendmsg([b"w"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener]))])
        os.close(listener)
    control.close()
    return watched


def _streams(output, channel, control):
    """In the child: standard streams that go nowhere else, the channel, and nothing else."""
    null = os.open(os.devnull, os.O_RDONLY)
    spare = max(null, output, channel, control, _CONTROL) + 1
    for number, end in enumerate((null, output, output, channel, control)):
        os.dup2(end, spare + number)  # first out of each other's way
    for number in range(5):
        os.dup2(spare + number, number)
    os.closerange(_CONTROL + 1, max(spare + 6, os.sysconf("SC_OPEN_MAX")))


def _work(function: Callable[[list[bytes], int, bool], object], secret: list[bytes], watched: bool) -> NoReturn:
    """In the child: runs the function, which ends the process if all goes well; never returns."""
    code = 1
    try:
        function(secret, _CHANNEL, watched)
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


def _child(function: Callable[[list[bytes], int, bool], object], limits: tuple[float, int, Sequence[str], str],
           ends: tuple[int, int, int], secret: list[bytes]) -> NoReturn:
    """In the first child: a process group, and a second child that is the root of its own
    processes, so that killing it kills them all."""
    os.setsid()
    confine.die_with_parent(signal.SIGKILL)
    alone = confine.leave_namespaces(("processes",))
    if alone:
        inner = os.fork()
        if inner:
            for end in ends:
                os.close(end)
            code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
            os._exit(code if code >= 0 else _SIGNAL - code)
        confine.die_with_parent(signal.SIGKILL)
    _streams(*ends)
    watched = _enter(limits, alone)
    _work(function, secret, watched)


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
            for orphan in confine.children():
                try:
                    os.kill(orphan, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.001)


class _Streams:
    """Drains the pipes of a child, keeping no more than is wanted of each, and answers its system
    calls."""

    def __init__(self, channel: int, output: int, control: socket.socket, overseer: Overseer) -> None:
        self.kept = {channel: bytearray(), output: bytearray()}
        self.limit = {channel: _RESULT_BYTES, output: _PRINTED_BYTES}
        self.seen = {channel: 0, output: 0}
        self._control, self._overseer = control, overseer
        self._listener: int | None = None
        self._poll, self._open = select.poll(), 2
        for end in (channel, output, control.fileno()):
            self._poll.register(end, select.POLLIN)

    def drain(self, seconds: float) -> bool:
        """True if anything came. Where nothing can come any more it waits as long as an end takes."""
        ready = self._poll.poll(max(seconds if self._open else min(seconds, 0.002), 0) * 1000)
        for end, events in ready:
            if end == self._listener:
                if events & select.POLLIN:
                    self._overseer.decide(end)
                else:
                    self._poll.unregister(end)
            elif end == self._control.fileno():
                self._take_listener()
            else:
                self._read(end)
        return bool(ready)

    def _take_listener(self):
        self._poll.unregister(self._control)
        size = array.array("i").itemsize
        _, sent, _, _ = self._control.recvmsg(1, socket.CMSG_SPACE(size))
        for level, kind, data in sent:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._listener = array.array("i", data[:size])[0]
                self._poll.register(self._listener, select.POLLIN)

    def _read(self, end):
        data = os.read(end, 1 << 20)
        if not data:
            self._poll.unregister(end)
            self._open -= 1
        self.seen[end] += len(data)
        left = self.limit[end] - len(self.kept[end])
        self.kept[end] += data[:max(left, 0)]

    def close(self) -> None:
        if self._listener is not None:
            os.close(self._listener)
        self._control.close()
        for end in self.kept:
            os.close(end)


def run(function: Callable[[list[bytes], int, bool], object], seconds: float, memory_bytes: int,
        overseer: Overseer, readable: Sequence[str], scratch: str) -> ProcessEnd:
    """Runs function(secret, channel, watched) in a child and says how it ended: with a result only if
    the child's witness sent it. Nothing of it is left afterwards."""
    channel, channel_end = os.pipe()
    output, output_end = os.pipe()
    control, control_end = socket.socketpair()
    nonce = secrets.token_hex(16).encode()
    child = os.fork()
    if child == 0:
        os.close(channel)
        os.close(output)
        control.close()
        secret = [nonce]
        del nonce  # frames of this process keep it nowhere
        _child(function, (seconds, memory_bytes, readable, scratch),
               (output_end, channel_end, control_end.detach()), secret)
    os.close(channel_end)
    os.close(output_end)
    control_end.close()
    streams = _Streams(channel, output, control, overseer)
    deadline, status = time.monotonic() + seconds, None
    while status is None and time.monotonic() < deadline:
        streams.drain(min(0.05, deadline - time.monotonic()))
        pid, ended = os.waitpid(child, os.WNOHANG)
        status = ended if pid else None
    _reap(child)
    while streams.drain(0):
        pass
    streams.close()
    result = None
    if streams.seen[channel] <= _RESULT_BYTES:
        result = read_channel(bytes(streams.kept[channel]), nonce, overseer)
    text = bytes(streams.kept[output]).decode("utf-8", "replace")
    return _ended(status, result, text, streams.seen[output], seconds)


def read_channel(data: bytes, nonce: bytes, overseer: Overseer) -> bytes | None:
    """The result that a witness sent, or None; its other reports go to the overseer. Whatever has
    no nonce was written by the candidate."""
    strange, *frames = data.split(nonce)
    result = None
    for number, frame in enumerate(frames):
        match = _FRAME.match(frame)
        end = re.match(rb" end (\d{1,9})\n", frame)
        if end:
            rest = nonce.join([frame[end.end():], *frames[number + 1:]])
            if len(rest) >= int(end[1]):
                result = rest[:int(end[1])]
            break
        if match is None or len(match[2]) % 2:
            strange += frame
            continue
        overseer.on_report(match[1].decode(), bytes.fromhex(match[2].decode()).decode("utf-8", "replace"))
        strange += frame[match.end():]
    if strange:
        overseer.add("introspection", "wrote to the descriptor that is its judge's")
    return result


def _ended(status, result, printed, printed_bytes, seconds):
    code = None if status is None else os.waitstatus_to_exitcode(status)
    number = None if code is None else -code if code < 0 else code - _SIGNAL
    if code is None or number == signal.SIGXCPU:
        kind, message = "timeout", f"took more than {seconds:g} s"
    elif code == _MEMORY:
        kind, message = "memory", "took more memory than it may"
    elif number in {int(s) for s in signal.Signals}:
        kind, message = "crashed", f"ended by {signal.Signals(number).name}"
    elif code != 0 or not result:
        kind, message = "crashed", f"ended without a result (exit code {code})"
    else:
        kind, message = "result", ""
    return ProcessEnd(kind, result or b"", printed, printed_bytes, message)
