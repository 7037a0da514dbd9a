"""Watches from outside if a submitted kernel's code does anything but describe a kernel. The
operating system and witness.py within that process report it; the flags of the result are
decided here (docs/evaluate.md).

System calls cannot be hidden by whatever the kernel's code does to its own memory; what only Python knows
(witness.py) can be hidden by that alone.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import sys
from collections.abc import Iterable

from .syscalls import MACHINES

_RECEIVE, _SEND, _STILL, _HAND = 0xC0502100, 0xC0182101, 0x40082102, 0x40182103
_AND_ANSWER = 2  # of _HAND: one step, since Linux 5.14
_NOTICE, _CONTINUE = struct.Struct("=QIIiIQ6Q"), 1
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD = 0x00010000
_PATH_BYTES = 4096
#: Flags that the witness may raise.
KINDS = ("reads_values", "reference", "files", "processes", "network", "memory", "introspection",
         "rebinds", "environment")
#: Paths that libraries read by themselves: harmless, and the same for every candidate.
_USUAL = ("/dev/null", "/dev/urandom", "/dev/random", "/dev/zero", "/etc/localtime",
          "/etc/ld.so.cache", "/etc/ld.so.preload", "/proc/self/maps", "/proc/self/status",
          "/proc/self/statm", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/self/stat",
          "/proc/sys/vm/overcommit_memory", "/proc/self/cgroup", "/proc/mounts",
          "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_USUAL_BELOW = ("/usr/share/zoneinfo/", "/usr/share/locale/", "/usr/lib/locale/",
                "/sys/devices/system/cpu/", "/sys/devices/system/node/")
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
#: Position of (folder's descriptor, path) among the arguments: of what opens, of what changes.
_OPENS: dict[str, tuple[int | None, int]] = {"open": (None, 0), "openat": (0, 1), "creat": (None, 0)}
_CHANGES: dict[str, list[tuple[int | None, int]]] = {
            "unlink": [(None, 0)], "unlinkat": [(0, 1)], "rename": [(None, 0), (None, 1)],
            "renameat": [(0, 1), (2, 3)], "renameat2": [(0, 1), (2, 3)]}
_STARTS = {"fork", "vfork", "execve", "execveat"}
_TALKS = {"socket", "socketpair"}


def library_folders() -> tuple[str, ...]:
    """Folders from which this interpreter imports and loads."""
    folders = {os.path.dirname(os.__file__), sys.prefix, sys.base_prefix, sys.exec_prefix,
               *(p for p in sys.path if p), *_mapped(), *_LIBRARIES}
    return tuple(sorted({os.path.realpath(f) for f in folders if os.path.exists(f)} - {"/"}))


def _mapped():
    """Folders of the shared libraries of this process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:
            return {os.path.dirname(words[5]) for words in map(str.split, lines)
                    if len(words) == 6 and words[5].startswith("/") and ".so" in words[5]}
    except OSError:
        return set()


class Overseer:
    """Decides on a candidate's system calls and keeps its flags. `own`: the candidate's file;
    `reference`: what it must not read, or None; `scratch`: the folder that it may write to."""

    def __init__(self, own: str, reference: str | None, scratch: str, roots: Iterable[str]) -> None:
        self.flags: dict[str, str] = {}
        self.foreign = False  # it imported what lies next to it
        self.listed_own = False  # it knows what lies next to it
        self._own, self._scratch = os.path.realpath(own), os.path.realpath(scratch)
        self._folder = os.path.dirname(self._own)
        self._reference = reference and os.path.realpath(reference)
        self._roots = tuple(r + os.sep for r in roots)
        machine = MACHINES.get(os.uname().machine)
        self._names = {number: name for name, number in machine[1].items()} if machine else {}

    def add(self, kind: str, what: object) -> None:
        """Raises a flag; the first of a kind counts."""
        text = str(what)[:200].encode("utf-8", "replace").decode()
        self.flags.setdefault(kind, text)

    # ---- what the system reports ------------------------------------------------------------------
    def decide(self, listener: int) -> None:
        """Answers one waiting system call."""
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notice)
        except OSError:  # the caller is gone
            return
        number, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
        name = self._names.get(call, "")
        try:
            if name in _OPENS:
                return self._open(name, pid, arguments, listener, number)
            refusal = self._judged(name, pid, arguments)
        except (OSError, ValueError):
            refusal = errno.EPERM
        self._answer(listener, number, refusal)

    @staticmethod
    def _answer(listener: int, number: int, refusal: int, value: int = 0, going_on: bool = True) -> None:
        """It goes on or gets a value, or else an error."""
        answer = struct.pack("=QqiI", number, value, -refusal, _CONTINUE if going_on and not refusal else 0)
        try:
            fcntl.ioctl(listener, _SEND, bytearray(answer))
        except OSError:
            pass

    def _open(self, name, pid, arguments, listener, number):
        """Opens for the candidate: it could change the path in its memory between a look at it and a call that goes
        on. Raises OSError before anything is answered."""
        at = _OPENS[name][1]
        path = self._path(pid, arguments, _OPENS[name])
        fcntl.ioctl(listener, _STILL, bytearray(struct.pack("=Q", number)))  # it was that process
        flags = _WRITES if name == "creat" else ctypes.c_int(arguments[at + 1] & 0xFFFFFFFF).value
        mode = arguments[at + (1 if name == "creat" else 2)]
        refusal = self.opened(path, bool(flags & _WRITES), bool(flags & os.O_DIRECTORY))
        if refusal or path.startswith("/proc/"):  # of this process it would be
            return self._answer(listener, number, refusal or errno.ENOENT)
        if name == "creat":
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            file = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, mode & 0o700)
        except OSError as problem:
            return self._answer(listener, number, problem.errno or errno.EPERM)
        try:
            if not flags & (os.O_NONBLOCK | os.O_PATH):
                os.set_blocking(file, True)
            self._hand(listener, number, file, flags & os.O_CLOEXEC)
        finally:
            os.close(file)

    def _hand(self, listener, number, file, closed_on_exec):
        """Gives the candidate a file as what its call returns; before Linux 5.9 the call goes on."""
        for answers in (_AND_ANSWER, 0):
            asked = struct.pack("=QIIII", number, answers, file, 0, closed_on_exec)
            try:
                given = fcntl.ioctl(listener, _HAND, bytearray(asked))
            except OSError as problem:
                if problem.errno == errno.ENOENT:  # the caller is gone
                    return
                if problem.errno != errno.EINVAL:
                    return self._answer(listener, number, problem.errno or errno.EPERM)
                continue
            if not answers:
                self._answer(listener, number, 0, given, going_on=False)
            return
        self._answer(listener, number, 0)

    def _judged(self, name, pid, arguments):
        """0: it may go on; else the error that it gets."""
        if name in _CHANGES:
            paths = [self._path(pid, arguments, place) for place in _CHANGES[name]]
            if all(os.path.dirname(p) == self._scratch for p in paths):
                return 0
            outside = next(p for p in paths if os.path.dirname(p) != self._scratch)
            return self.changed(f"os.{name.removesuffix('at').removesuffix('at2')}", outside)
        if name == "clone" and arguments[0] & _CLONE_THREAD:
            self.add("processes", "a thread started")
            return 0
        if name == "clone" or name in _STARTS:
            self.add("processes", "os.fork" if name == "clone" else f"os.{name}")
            return errno.EPERM
        if name in _TALKS:
            self.add("network", f"socket.{name}")
            return errno.EPERM
        places = {"link": (None, 0), "linkat": (0, 1), "symlink": (None, 0), "symlinkat": (None, 0)}
        place = places.get(name, (0, 1) if name.endswith("at") else (None, 0))
        path = f"descriptor {arguments[0]}" if name.startswith("f") and not name.endswith("at") else (
            self._path(pid, arguments, place))
        return self.changed(f"os.{name}", path)

    def _path(self, pid, arguments, place):
        """The path that an argument names, links resolved. Raises OSError."""
        folder, at = place
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            start, text = arguments[at], b""
            while b"\0" not in text and len(text) < _PATH_BYTES:
                here = start + len(text)  # no further than the page: the next may not be there
                more = os.pread(memory, min(4096 - here % 4096, _PATH_BYTES), here)
                if not more:
                    break
                text += more
        finally:
            os.close(memory)
        path = os.fsdecode(text.split(b"\0")[0])
        if path.startswith("/"):
            return _resolved(path)
        number = None if folder is None else ctypes.c_int(arguments[folder] & 0xFFFFFFFF).value
        base = f"/proc/{pid}/cwd" if number in (None, -100) else f"/proc/{pid}/fd/{number}"
        return _resolved(os.path.join(self._named(base), path))

    def _named(self, link):
        """The folder that a link of /proc leads to. In a chroot the kernel names a folder of another mount
        namespace from the true root, under a name that is nothing here: the scratch folder is known by itself."""
        try:
            if os.path.samestat(os.stat(link), os.stat(self._scratch)):
                return self._scratch
        except OSError:
            pass
        return os.readlink(link)

    # ---- what the witness reports -----------------------------------------------------------------
    def on_report(self, kind: str, text: str) -> None:
        """A line of the witness: a flag, or where nothing else sees it a file and what is done to it."""
        if kind in ("open", "write", "list", "change"):
            where = os.path.realpath(os.path.join(self._scratch, text))
            if kind == "change":
                if os.path.dirname(where) != self._scratch:
                    self.changed("changed", where)
            elif kind == "list":
                self.listed(where)
            else:
                self.opened(where, kind == "write")
        else:
            self.add(kind if kind in KINDS else "introspection", text)

    # ---- what either reports ----------------------------------------------------------------------
    def opened(self, where: str, writes: bool, folder: bool = False) -> int:
        """Notes that a file is to be opened: 0, or the error that this should be."""
        if self._is_reference(where):
            self.add("reference", f"opened {where}")
            return errno.EACCES
        if os.path.dirname(where) == self._scratch or where == self._scratch or where == os.devnull:
            return 0
        if writes:
            self.add("files", f"wrote {where}")
            return errno.EROFS
        if where in _USUAL or where.startswith(_USUAL_BELOW):
            return 0
        if folder or os.path.isdir(where):
            return self.listed(where)
        if self._importable(where):
            if os.path.dirname(where).startswith(self._folder) and where != self._own:
                self.foreign = self.foreign or not (where + os.sep).startswith(self._roots)
            return 0
        if not os.path.lexists(where):
            return errno.ENOENT
        self.add("files", f"opened {where}")
        return errno.EACCES

    def listed(self, where: str) -> int:
        """The same of a folder that is to be listed."""
        self.listed_own = self.listed_own or where == self._folder
        if (where + os.sep).startswith(self._roots) or where == self._folder:
            return 0
        self.add("files", f"os.listdir {where}")
        if self._reference and where == os.path.dirname(self._reference):
            self.add("reference", f"os.listdir {where}")  # as an import of it begins
        return errno.EACCES

    def changed(self, event: str, path: str) -> int:
        """The same of what is to be changed by other means."""
        self.add("reference" if self._is_reference(path) else "files", f"{event} {path!r}")
        return errno.EROFS

    def _is_reference(self, where):
        """The file itself, under any name, or its bytecode, which Python reads in its place."""
        if self._reference is None:
            return False
        folder, name = os.path.split(where)
        parent, own = os.path.split(self._reference)
        bytecode = name.endswith(".pyc") and name.split(".")[0] == own.rpartition(".")[0]
        if bytecode and folder in (parent, os.path.join(parent, "__pycache__")):
            return True
        try:
            return where == self._reference or os.path.samefile(where, self._reference)
        except OSError:
            return False

    def _importable(self, where):
        if where == self._own:
            return True
        code = where.endswith((".py", ".pyc", ".so", ".pth", ".zip"))
        neighbour = os.path.dirname(where) in (self._folder, os.path.join(self._folder, "__pycache__"))
        return (where.startswith(self._roots) and not neighbour) or (neighbour and code)


def _resolved(path):
    """A path without links; of this process's own ones (/proc/self) it keeps the name."""
    return path if path in _USUAL else os.path.realpath(path)


__all__ = ["Overseer", "library_folders"]
