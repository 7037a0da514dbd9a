"""Implements the NEURON_RT_INSPECT_* variables, which make a profile of an unchanged script.

    NEURON_RT_INSPECT_ENABLE=1 NEURON_RT_INSPECT_DEVICE_PROFILE=1 python script.py
    neuron-explorer view -d output --output-format summary-json

Under NEURON_RT_INSPECT_OUTPUT_DIR (./output) each process has a folder i-simulated_pid_PID with, per
program that ran first, neff_ID.neff and ID_instid_0_vnc_0.ntff (a profile), and of the system
system_profile.json: what the host did, as Chrome's trace events.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import time
from typing import TYPE_CHECKING, Any

from ..values.environment import variable
from . import neff
from .profile_warnings import warn_on_error

if TYPE_CHECKING:
    from .options import Options
    from .result import Result
    from .worldresult import WorldResult

_OFF = ("", "0", "false")
_numbers = itertools.count()


def _set(name, default="0"):
    return variable(f"NEURON_RT_INSPECT_{name}", default).lower()


def enabled() -> bool:
    return _set("ENABLE") not in _OFF


def _device():
    """"" without device profiles, "model" for each program's first run, "session" for every run."""
    mode = _set("DEVICE_PROFILE")
    return "" if mode in _OFF else "session" if mode == "session" else "model"


def folder() -> str:
    """This process's folder of profiles, which is made."""
    above = os.path.realpath(os.environ.get("NEURON_RT_INSPECT_OUTPUT_DIR") or "output")
    path = os.path.join(above, f"i-simulated_pid_{os.getpid()}")
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as problem:
        raise OSError(f"NEURON_RT_INSPECT_OUTPUT_DIR={above}: {problem.strerror}") from None
    return path


def _warm_up():
    """Runs before the one of which a session is kept."""
    text = _set("DEVICE_PROFILE_NUM_WARMUP") or "0"
    if not text.isdecimal() or len(text) > 9:
        raise ValueError(f"NEURON_RT_INSPECT_DEVICE_PROFILE_NUM_WARMUP is {text[:40]!r}; a number is required")
    return int(text)


@warn_on_error
def begin(options: Options) -> None:
    """Before a run: asks it to write a session, unless it writes one anyhow."""
    if enabled() and _device() and options.timing and "session" not in options.files:
        _warm_up()
        ranks = "" if options.ranks == 1 else ".{rank}"
        options.files["session"] = os.path.join(folder(), f".{next(_numbers)}{ranks}.part")


class _System:
    """The host's work, as events of a name, begin, duration and facts."""

    def __init__(self) -> None:
        self.process: int | None = None
        self.events: list[dict[str, Any]] = []
        self.executed: dict[int, int] = {}  # how often, by the program's number

    def begin(self) -> None:
        """In this process, with what it does alone."""
        self.process = os.getpid()
        self.events.clear()
        self.executed.clear()

    def add(self, name: str, begin: float, seconds: float, **facts: Any) -> None:
        self.events.append({"name": name, "ph": "X", "pid": os.getpid(), "tid": 0, "ts": begin * 1e6,
                            "dur": seconds * 1e6, "cat": "host", "args": facts})

    def device(self, name: str, begin: float, nanoseconds: float, **facts: Any) -> None:
        self.events.append({"name": name, "ph": "X", "pid": os.getpid(), "tid": 1 + (facts.get("rank") or 0),
                            "ts": begin * 1e6, "dur": nanoseconds / 1e3, "cat": "device", "args": facts})

    def write(self) -> None:
        if self.events and self.process == os.getpid() and enabled():
            path = os.path.join(folder(), "system_profile.json")
            with open(path + ".part", "w", encoding="utf-8") as file:
                json.dump({"traceEvents": self.events, "displayTimeUnit": "ns"}, file)
            os.replace(path + ".part", path)


_system = _System()


def _mine():
    """The events of this process: one that was forked begins anew."""
    if _system.process != os.getpid():
        _system.begin()
        atexit.register(warn_on_error(_system.write))
    return _system


def _bytes(recorder, roles):
    return sum(st.pitch_bytes for st in recorder.storages if not st.on_chip and st.role in roles)


def _program_id(save):
    """A number of the program, the same wherever it runs."""
    import hashlib
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "program.nisa")
        save(path)
        with open(path, "rb") as file:
            return int.from_bytes(hashlib.sha256(file.read()).digest()[:6], "big")


@warn_on_error
def keep(result: Result) -> None:
    """After a run: puts its program and session in the folder, and notes what the host did."""
    if not enabled() or result.partial:
        return
    system, number = _mine(), _program_id(result.save)
    count = system.executed[number] = system.executed.get(number, 0) + 1
    if _set("SYSTEM_PROFILE", "1") not in _OFF:
        _note(system, result, number, count)
        system.write()
    part = result.files.get("session", "")
    if not os.path.basename(part).startswith(".") or not os.path.exists(part):
        return
    del result.files["session"]
    if _device() == "model" and count != _warm_up() + 1:
        os.remove(part)
        return
    place = folder()
    exec_number = "" if _device() == "model" else f"_exec_{count}"
    os.replace(part, os.path.join(place, f"{number}_instid_0_vnc_0{exec_number}.ntff"))
    program = os.path.join(place, f"neff_{number}.neff")
    if not os.path.exists(program):
        neff.save(result, program)


@warn_on_error
def keep_world(result: WorldResult) -> None:
    """After a run of several ranks: a session of each, and what the host and every rank did."""
    if not enabled() or any(each.partial for each in result.ranks):
        return
    program = result.ranks[0].recorder.program
    system, number = _mine(), _program_id(lambda path: program.save(path, result.name, "", {}, False))
    count = system.executed[number] = system.executed.get(number, 0) + 1
    if _set("SYSTEM_PROFILE", "1") not in _OFF:
        _note_world(system, result, number, count)
        system.write()
    part = str(result.files.get("session", ""))
    if not os.path.basename(part).startswith("."):
        return
    del result.files["session"]
    wanted = _device() == "session" or count == 1 + _warm_up()
    exec_number = "" if _device() == "model" else f"_exec_{count}"
    for r in range(len(result.ranks)):
        own = part.replace("{rank}", str(r))
        if os.path.exists(own) and wanted:
            os.replace(own, os.path.join(folder(), f"{number}_instid_0_vnc_{r}{exec_number}.ntff"))
        elif os.path.exists(own):
            os.remove(own)


def _note_world(system, result, number, count):
    now = time.time()
    begin = now - result.record_seconds - result.run_seconds
    facts = {"kernel": result.name, "model_id": number, "exec": count}
    system.add("compile" if count == 1 else "trace", begin, result.record_seconds, **facts)
    start = begin + result.record_seconds
    for each in result.ranks:
        system.add("nrt_tensor_write", start, 0.0, bytes=_bytes(each.recorder, (1, 3)), rank=each.rank, **facts)
        if each.latency_ns is not None:
            system.device(result.name, start, each.latency_ns, latency_ns=each.latency_ns, rank=each.rank, **facts)
        system.add("nrt_tensor_read", now, 0.0, bytes=_bytes(each.recorder, (2, 3)), rank=each.rank, **facts)
    system.add("nrt_execute", start, result.run_seconds, **facts)


def _note(system, result, number, count):
    recorder, now = result.recorder, time.time()
    begin = now - result.record_seconds - result.run_seconds
    facts = {"kernel": result.name, "model_id": number, "rank": result.options.rank, "nc_count": len(
        {st.core for st in recorder.storages} | recorder.storages.cores or {0}), "exec": count}
    system.add("compile" if count == 1 else "trace", begin, result.record_seconds, **facts)
    system.add("nrt_tensor_write", begin + result.record_seconds, 0.0,
               bytes=_bytes(recorder, (1, 3)), **facts)
    system.add("nrt_execute", begin + result.record_seconds, result.run_seconds, **facts)
    if result.latency_ns is not None:
        system.device(result.name, begin + result.record_seconds, result.latency_ns,
                      latency_ns=result.latency_ns, **facts)
    system.add("nrt_tensor_read", now, 0.0, bytes=_bytes(recorder, (2, 3)), **facts)


@warn_on_error
def note(name: str, begin: float, **facts: Any) -> None:
    """Something that the host did from `begin` (time.time()) until now."""
    if enabled() and _set("SYSTEM_PROFILE", "1") not in _OFF:
        system = _mine()
        system.add(name, begin, time.time() - begin, **facts)
        system.write()
