"""Asks Linux to restrict the process in which a submitted, untrusted kernel runs.

Each layer says whether this system has it, and none relies on another (docs/security.md): namespaces
(`leave_namespaces`), a read-only file system (`read_only`), Landlock (`only_files`), system calls (`filtered`).
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal

from .syscalls import MACHINES, MISSING, REFUSED, WATCHED

_NEW = {"mounts": 0x00020000, "ipc": 0x08000000, "user": 0x10000000, "processes": 0x20000000,
        "network": 0x40000000}
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x1000, 0x4000, 1 << 18, 2, 4, 8
_MOUNT_SETATTR, _LANDLOCK = 442, 444  # the same on every machine
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_RDONLY = -100, 0x8000, 1
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 36, 38
#: Elsewhere nothing here is to be had, and every function says so.
LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def prctl(option: int, value: int = 1) -> bool:
    """True if the system took it."""
    return LINUX and _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0


def adopt_orphans() -> None:
    """Children whose parents end become this process's."""
    prctl(_PR_SET_CHILD_SUBREAPER)


def die_with_parent(signal: int) -> None:
    """This process gets the signal when its parent ends."""
    prctl(_PR_SET_PDEATHSIG, signal)


# ---- namespaces and mounts -----------------------------------------------------------------------
def leave_namespaces(kinds: Iterable[str]) -> bool:
    """Leaves the namespaces of these kinds ("network", "ipc", "mounts", "processes": of children);
    whether the system allows it."""
    flags = sum(_NEW[k] for k in kinds)
    if not LINUX:
        return False
    if _libc.unshare(flags) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    if user == 0 or _libc.unshare(flags | _NEW["user"]) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"),
                       ("gid_map", f"{group} {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
        except OSError:
            pass  # files are then somebody's without a number
    return True


def _set_mount(path, flags, setting, clearing):
    attributes = struct.pack("=QQQQ", setting, clearing, 0, 0)
    return _libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, attributes,
                         ctypes.c_size_t(len(attributes))) == 0


def read_only(folder: str) -> bool:
    """Makes every file system read-only for this process and its children, but for a folder. In a
    mount namespace of its own; whether it could."""
    where = folder.encode()
    return (_libc.mount(None, b"/", None, ctypes.c_ulong(_MS_REC | _MS_PRIVATE), None) == 0
            and _libc.mount(where, where, None, ctypes.c_ulong(_MS_BIND), None) == 0
            and _set_mount("/", _AT_RECURSIVE, _MOUNT_RDONLY, 0)
            and _set_mount(folder, 0, 0, _MOUNT_RDONLY))


def hide(path: str) -> bool:
    """Puts an empty folder in place of one, in a mount namespace of this process's own."""
    return _libc.mount(b"none", path.encode(), b"tmpfs", ctypes.c_ulong(
        _MS_NOSUID | _MS_NODEV | _MS_NOEXEC), b"size=0,mode=0") == 0


# ---- Landlock ------------------------------------------------------------------------------------
_READ, _READ_FOLDER, _ALL = 1 << 2, 1 << 3, (1 << 13) - 1
_WRITE, _REMOVE, _MAKE, _REFER, _TRUNCATE, _DEVICE = 1 << 1, 1 << 5, 1 << 8, 1 << 13, 1 << 14, 1 << 15


def landlock_version() -> int:
    """0: none."""
    return max(_libc.syscall(_LANDLOCK, None, ctypes.c_size_t(0), 1), 0) if LINUX else 0


def _allow(rules, path, access):
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        access &= _READ | _WRITE | _TRUNCATE
    rule = struct.pack("=Qi", access, place)
    _libc.syscall(_LANDLOCK + 1, rules, 1, rule, 0)
    os.close(place)


def only_files(readable: Iterable[str], folder: str) -> bool:
    """From here on this process opens nothing but what is below `readable`, to read, and in `folder`,
    and has no way to the network or to processes outside; whether the system has that."""
    version = landlock_version()
    if version < 1:
        return False
    handled = _ALL | (_REFER if version > 1 else 0) | (_TRUNCATE if version > 2 else 0) | (
        _DEVICE if version > 4 else 0)
    attributes = struct.pack("=QQQ", handled, 3 if version > 3 else 0, 3 if version > 5 else 0)
    size = 24 if version > 5 else 16 if version > 3 else 8
    rules = _libc.syscall(_LANDLOCK, attributes, ctypes.c_size_t(size), 0)
    if rules < 0:
        return False
    for path in readable:
        _allow(rules, path, (_READ | _READ_FOLDER) & handled)
    _allow(rules, os.devnull, (_READ | _WRITE) & handled)
    _allow(rules, folder, (_READ | _READ_FOLDER | _WRITE | _REMOVE | _MAKE | _TRUNCATE) & handled)
    prctl(_PR_SET_NO_NEW_PRIVS)
    done = _libc.syscall(_LANDLOCK + 2, rules, 0) == 0
    os.close(rules)
    return done


# ---- processes -----------------------------------------------------------------------------------
def children() -> list[int]:
    """Processes whose parent this one is; none if unknown."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as text:
            return [int(word) for word in text.read().split()]
    except OSError:
        return []


# ---- system calls --------------------------------------------------------------------------------
_LOAD, _EQUAL, _SET, _ABOVE, _GIVE = 0x20, 0x15, 0x45, 0x35, 0x06
_KILL, _ERRNO, _ASK, _PASS = 0x80000000, 0x00050000, 0x7FC00000, 0x7FFF0000
_EPERM, _EBADF, _ENOSYS = 1, 9, 38
_NUMBER, _MACHINE = 0, 4
_CLONE_THREAD = 0x00010000
_STARTS = ("socket", "socketpair", "fork", "vfork", "execve", "execveat")
_LISTENER = 8  # SECCOMP_FILTER_FLAG_NEW_LISTENER


def _argument(index):
    return 16 + 8 * index  # its lower half, little-endian


class _Filter:
    """A program of the kernel's packet filter, over the number and arguments of a system call."""

    def __init__(self) -> None:
        self.code: list[bytes] = []

    def add(self, code: int, value: int = 0, then: int = 0, otherwise: int = 0) -> None:
        self.code.append(struct.pack("=HBBI", code, then, otherwise, value & 0xFFFFFFFF))

    def give(self, answer: int) -> None:
        self.add(_GIVE, answer)

    def on(self, number: int, rules: Callable[[_Filter], Any]) -> None:
        """`rules`: what is done at system call `number`; the last of them ends it."""
        inner = _Filter()
        rules(inner)
        self.add(_EQUAL, number, 0, len(inner.code))
        self.code += inner.code

    def where(self, index: int, value: int, answer: int) -> None:
        """Gives `answer` if argument `index` is `value`, else goes on with the next."""
        self.add(_LOAD, _argument(index))
        self.add(_EQUAL, value, 0, 1)
        self.give(answer)


def _giving(answer: int) -> Callable[[_Filter], None]:
    return lambda rules: rules.give(answer)


def _threads_alone(rules):
    rules.add(_LOAD, _argument(0))
    rules.add(_SET, _CLONE_THREAD, 0, 1)
    rules.give(_PASS)
    rules.give(_ERRNO | _EPERM)


def _rules(machine, channel, alone, ask):
    """The filter's bytes. `channel`: the descriptor that stays as it is. `alone`: whether signals
    reach nothing outside. `ask`: what is answered where a process decides; None: none does."""
    architecture, numbers, highest = MACHINES[machine]
    f = _Filter()
    f.add(_LOAD, _MACHINE)
    f.add(_EQUAL, architecture, 1, 0)
    f.give(_KILL)
    f.add(_LOAD, _NUMBER)
    f.add(_ABOVE, highest + 1, 0, 1)  # x32's calls have high numbers
    f.give(_ERRNO | _ENOSYS)
    refused = _ERRNO | _EPERM
    for name in (*WATCHED, *REFUSED, *MISSING):
        if name == "clone" and ask is None:
            f.on(numbers[name], _threads_alone)
        elif name in numbers:
            answer = (_ERRNO | _ENOSYS if name in MISSING else refused if name in REFUSED else
                      ask if ask is not None else refused if name in _STARTS else _PASS)
            f.on(numbers[name], _giving(answer))
    for name, index in (("close", 0), ("dup2", 1), ("dup3", 1)):
        if name in numbers:
            def keep(g, index=index):
                g.where(index, channel, _ERRNO | _EBADF)
                g.give(_PASS)
            f.on(numbers[name], keep)

    def own_limits(g):  # prlimit64: looked at, not set
        for half in (_argument(2), _argument(2) + 4):
            g.add(_LOAD, half)
            g.add(_EQUAL, 0, 1, 0)
            g.give(refused)
        g.give(_PASS)
    f.on(numbers["prlimit64"], own_limits)
    if not alone:
        f.on(numbers["kill"], _giving(refused))

        def own_threads(g):
            g.where(0, os.getpid(), _PASS)
            g.give(refused)
        f.on(numbers["tgkill"], own_threads)
    f.give(_PASS)
    return b"".join(f.code)


def _load(code, flags):
    program = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    given = Program(len(code) // 8, ctypes.addressof(program))
    number = 317 if os.uname().machine == "x86_64" else 277
    return _libc.syscall(number, 1, flags, ctypes.byref(given))


def filters_calls() -> bool:
    """True if `filtered` has rules for this machine."""
    return LINUX and os.uname().machine in MACHINES


def filtered(channel: int, alone: bool) -> int | Literal[False] | None:
    """Refuses system calls that no recording needs, and lets somebody decide on WATCHED ones: the
    descriptor on which these are asked, None where the kernel cannot ask (they are then refused as
    far as recording can do without), False where it filters nothing."""
    machine = os.uname().machine
    if not filters_calls():
        return False
    prctl(_PR_SET_NO_NEW_PRIVS)
    listener = _load(_rules(machine, channel, alone, _ASK), _LISTENER)
    if listener >= 0:
        return listener
    return None if _load(_rules(machine, channel, alone, None), 0) == 0 else False


def drop_capabilities() -> None:
    """Gives up every capability."""
    if not LINUX:
        return
    header = struct.pack("=Ii", 0x20080522, 0)
    _libc.syscall(126 if os.uname().machine == "x86_64" else 91, header, bytes(24))


def limited(seconds: float, memory_bytes: int, file_bytes: int) -> None:
    """Limits on time, address space and the size of files."""
    used = 0
    if LINUX:  # macOS takes a limit on address space and does not keep it
        with open("/proc/self/statm", encoding="ascii") as text:
            used = int(text.read().split()[0]) * resource.getpagesize()
    for which, value in ((resource.RLIMIT_AS, used + memory_bytes),
                         (resource.RLIMIT_CPU, int(seconds) + 2),
                         (resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
