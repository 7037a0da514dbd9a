"""Runs the stages of `nkisim evaluate` for one submitted kernel: instructions, rules and time,
values on each seed.

The kernel's instructions are data by now (candidate.py made them in a process of its own). An `nkisim
worker` reads, checks and compiles it once and simulates it for each seed; its outputs are compared here,
where the worker left them.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nkisim.record.targets import default_target
from nkisim.run.hostarrays import bits, save_archive
from nkisim_work import Ended, Worker, machine

from . import header
from .reference import Case, Reference
from .testimony import Outputs, Stop, error_of, nonsense_error, no_result, read_constants, read_plain_file, text_of

VERSION = 1
_DATA, _PROGRAM = "data.npz", "program.nisa"
#: A kernel may bring tables along, but not what a program that computes needs not.
_CONSTANT_BYTES = 64 << 10
_PROGRAM_BYTES = 1 << 30
#: Findings in a record, and the size of the largest program that is advised on.
_ADVICE, _ADVISED_BYTES = 5, 4 << 20
#: Rules that a run warns of: an output that is not whole may equal what is expected by chance.
_REFUSED = ["output_partly_written"]
_SAMPLE = 1024  # bytes that distinguish nearly all arrays


def spec(value: Any) -> dict[str, Any]:
    """An argument as the process that records gets it."""
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "dtype": value.dtype.name}
    return {"value": value.item() if isinstance(value, np.generic) else value}


def recording_job(reference: Reference, case: Case, job: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The job for the process that records a candidate; it writes to the folder."""
    return {"kernel": reference.kernel, "grid": reference.grid, **job, "folder": folder,
            "reference": reference.path, "args": [spec(a) for a in case.args],
            "kwargs": {k: spec(v) for k, v in case.kwargs.items()}}


def write_data(path: str, case: Case, constants: Mapping[str, np.ndarray] | None = None) -> None:
    """Writes the archive that a recorded program takes its inputs and constants from."""
    save_archive(path, {**(constants or {}), **{f"arg{n}": bits(a) for n, a in enumerate(case.arrays)}})


def machine_options(target: str | None = None, config: str | os.PathLike | None = None,
                    overrides: Mapping[str, Any] | None = None,
                    switches: Mapping[str, Any] | None = None) -> list[str]:
    """The machine and the compiler's switches as options of `nkisim run`."""
    words = [w for name, value in (("--target", target), ("--config", config)) if value
             for w in (name, str(value))]
    words += [w for k, v in (overrides or {}).items() for w in ("--set", f"{k}={v}")]
    return words + [w for k, v in (switches or {}).items()
                    for w in (f"--{k.replace('_', '-')}", str(v))]


def write_array(path: str, array: np.ndarray) -> None:
    """Writes an .npy file, in place if there is one: no link is followed, and its pages are kept."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        size = os.write(file, head.getvalue())
        rest = array.reshape(-1).view(np.uint8).data
        while rest:
            done = os.write(file, rest)
            size, rest = size + done, rest[done:]
        os.ftruncate(file, size)
    finally:
        os.close(file)


def _same(a, b):
    """True if two arrays have the same bytes."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (a, b))
    return np.array_equal(a[:_SAMPLE], b[:_SAMPLE]) and np.array_equal(a, b)


class Run:
    """Simulates programs on the machine of an evaluation."""

    def __init__(self, worker: Worker | None, seconds: float, **settings: Any) -> None:
        self._worker, self.seconds = worker, seconds
        self.machine = machine(**settings)

    def __call__(self, trace: str, deadline: float, **wishes: Any) -> dict[str, Any]:
        """The outcome of a job on a program as a kernel was recorded, or Stop."""
        assert self._worker is not None  # a judge without one records only (keeping.py)
        try:
            said = self._worker.run({"trace": trace, "recorded": _DATA, "error": _REFUSED, **self.machine, **wishes},
                                    max(deadline - time.monotonic(), 0.01))
        except Ended as ended:
            message = f"took more than {self.seconds:g} s" if ended.kind == "timeout" else str(ended)
            raise Stop(ended.kind, code=ended.kind, message=message) from None
        if "error" not in said:
            return said
        if said["error"]["rule"] == "host_refuses":
            raise Stop("memory", code="memory", message="took more memory than it may")
        raise Stop("error" if said["exit_code"] == 4 else "illegal", **said["error"])


class Evaluation:
    """One candidate on its way through the stages; `record` is what is known of it."""

    def __init__(self, judge: Judge, job: Mapping[str, Any], folder: str) -> None:
        self.judge, self.job, self.folder = judge, job, folder
        self.reference = judge.reference
        self.deadline = time.monotonic() + judge.seconds
        self.first: tuple[int, Case, list[np.ndarray]] | None = None  # seed, case and outputs
        self.wrong: Stop | None = None  # why those are wrong
        grids = [g for g in (job.get("grid"), judge.reference.grid) if g is not None] or [None]
        cores = min(header.cores_of(grid, judge.target) for grid in grids)  # at most those of the reference
        self.header = (cores, job.get("apis") or header.APIS)
        self.record: dict[str, Any] = {"id": job.get("id"), "status": "error", "latency_us": None, "seeds": {},
                                       "flags": {}, "stage_seconds": {}}

    def run(self) -> dict[str, Any]:
        """All stages; the record."""
        try:
            self._stage("record", self.record_program)
            self._stage("time", self._timed)
            if self.judge.values:
                self._stage("values", self._valued)
            self.record["status"] = "ok"
        except Stop as stop:
            self.record["status"], self.record["error"] = stop.status, stop.error
        flags = self.record["flags"]
        if flags and not self.judge.allow_flags and self.record["status"] in ("ok", "wrong"):
            self.record["status"] = "illegal"
            self.record["error"] = {"code": "flagged", "kind": "flagged", "message":
                                    "; ".join(f"{k}: {v}" for k, v in flags.items())}
        if self.judge.advise and self.record["status"] == "ok":
            self._stage("advice", self._advised)
        return self.record

    def _advised(self):
        """Advice to make it faster; none if the time that is left is too short."""
        from nkisim_advise import BadProgram, advise  # a worker elsewhere may lack it: only where it is asked for

        seed = self.reference.seeds[0]
        case = self.reference.case(seed)
        fields = {**self.judge.simulate.machine, "arrays": self.judge.inputs(seed, case)}
        if os.path.getsize(self.trace) > _ADVISED_BYTES:
            return
        with contextlib.suppress(BadProgram, OSError):
            found = advise(self.trace, fields, top=_ADVICE, memory_bytes=self.judge.memory_bytes,
                           seconds=max(self.deadline - time.monotonic(), 0.01)).as_json()
            self.record["advice"] = {k: found[k] for k in ("findings", "combined", "bounds", "variants")}

    def keep(self, folder: str) -> None:
        """Leaves the program and the inputs of the first seed in a folder."""
        shutil.copyfile(self.trace, os.path.join(folder, _PROGRAM))
        write_data(os.path.join(folder, _DATA), self.reference.case(self.reference.seeds[0]), self.constants)

    def _stage(self, name, function):
        begin = time.monotonic()
        try:
            function()
        finally:
            self.record["stage_seconds"][name] = round(time.monotonic() - begin, 4)

    # ---- record --------------------------------------------------------------------------------
    def record_program(self) -> None:
        """Leaves the program in the folder. Raises Stop."""
        self.case = self.reference.case(self.reference.seeds[0])
        job = recording_job(self.reference, self.case, self.job, self.judge.scratch)
        said = self.judge.recorder(job, self.deadline - time.monotonic(), self.judge.memory_bytes)
        self.record["flags"] = {k: text_of(v) for k, v in said.get("flags", {}).items()}
        self.record["foreign"], self.record["listed"] = said.get("foreign", False), said.get("listed", False)
        if self.record["foreign"]:  # what it imports next to itself may be of either API
            self.header = self.header[0], header.APIS
        if said.get("printed"):
            self.record["printed"] = said["printed"]
        if said["kind"] != "result":
            raise Stop(said["kind"], code=said["kind"], message=said["message"])
        try:
            self._described(json.loads(said["result"], parse_constant=_no_number))
        except (ValueError, KeyError, TypeError, RecursionError, MemoryError, OverflowError) as problem:
            raise nonsense_error(type(problem).__name__) from None

    def _described(self, found):
        """Takes what the candidate's process says as what it is: the word of a stranger."""
        if found["ok"] is not True:
            error = error_of(found["error"])
            raise Stop("error" if error["code"] in ("exception", "usage") else "illegal", **error)
        self.outputs = Outputs(found["outputs"])
        program = read_plain_file(self.judge.scratch, _PROGRAM, _PROGRAM_BYTES)
        if program is None:
            raise nonsense_error("no program")
        if hashlib.sha256(program).hexdigest() != found["program"]:
            raise nonsense_error("the program is not the one that was recorded")
        self.constants = read_constants(self.judge.scratch, found["constants"],
                                        self.judge.memory_bytes // 4)
        self.trace = os.path.join(self.folder, _PROGRAM)
        with open(self.trace, "wb") as file:
            file.write(program)
        if self.constants:
            save_archive(os.path.join(self.folder, _DATA), self.constants)

    def _believed(self, facts):
        """Takes what the simulator found the program to be. Stop if that is not what this evaluation is about."""
        if not facts["instructions"]:
            raise no_result("the kernel has no instruction", "one at least")
        self.record["instructions"], self.record["api"] = facts["instructions"], facts["api"]
        header.check(facts, *self.header)
        held = facts["constant_bytes"]
        if held > _CONSTANT_BYTES and held > sum(a.nbytes for a in self.case.arrays):
            self.record["flags"]["constants"] = (
                f"brings {held} bytes along, more than its inputs have")
        self._arguments_written(facts["inputs"])

    def _arguments_written(self, inputs):
        """Arguments are written or returned where the reference says that they may be, MUTABLE: what else comes back
        of them was not computed. A kernel that returns nothing gives back what it writes of those."""
        arrays = self.case.arrays
        values = (*self.case.args, *self.case.kwargs.values())
        names = [n for n, v in zip([*range(len(self.case.args)), *self.case.kwargs], values)
                 if isinstance(v, np.ndarray)]
        given = [(int(i["key"].removeprefix("arg")), i) for i in inputs if i["key"].removeprefix("arg").isdecimal()]
        for n, i in given:
            if n < len(arrays):
                header.check_argument(i, arrays[n])
        mutable = {n for n, name in enumerate(names) if name in self.reference.mutable}
        if not self.outputs.described:
            self.outputs.described = [{"tensor": i["tensor"], "shape": arrays[n].shape, "dtype": arrays[n].dtype}
                                      for n, i in given if i["written"] and n in mutable]
        returned = {o["tensor"] for o in self.outputs.described}
        for n, i in given:
            if i["tensor"] in returned and n not in mutable:
                raise no_result(f"the kernel returns its argument {i['tensor'][:80]}",
                                "a buffer that it computes (or MUTABLE in the reference)")
            if i["written"] and n not in mutable:
                self.record["flags"]["changes_inputs"] = text_of(f"writes its argument {i['tensor']}")
        if not returned:
            raise no_result("the kernel returns nothing", "a buffer, or an argument written that the reference's "
                            "MUTABLE names")

    # ---- simulate ------------------------------------------------------------------------------
    def _timed(self):
        """Time, and the values on the first seed, in one run unless time alone is asked for."""
        seed = self.reference.seeds[0]
        judge = self.judge
        limit = judge.stop_slower * judge.baseline if judge.stop_slower and judge.baseline else None
        if not judge.values or limit is not None:
            try:
                self._note(self._first(None, want="time"))
            except Stop as stop:
                if stop.error.get("rule") != "timing_only_values":
                    raise
                self._note(self._first(seed))
            if not judge.values:
                return
            if limit is not None and self.record["latency_us"] > limit:
                raise Stop("ok", code="slow", message="not compared: slower than the limit")
        said = self._first(seed, output_arrays=self.judge.file("first"))
        self._note(said)
        try:
            self._compare(seed, said)
        except Stop as stop:
            self.wrong = stop

    def _simulated(self, seed, **wishes):
        """An outcome, with the inputs of a seed; self.case is the seed's then."""
        if seed is not None:
            self.case = self.reference.case(seed)
            wishes["arrays"] = self.judge.inputs(seed, self.case)
        return self.judge.simulate(self.trace, self.deadline, **wishes)

    def _first(self, seed, **wishes):
        """The result of a simulation of a program of which nothing is known yet."""
        said = self._simulated(seed, **wishes)
        self._believed(said["recorded"])
        return said

    def _note(self, said):
        """Time and what belongs to it, of the slowest run: where it depends on values, no one seed
        decides."""
        if said["latency_us"] <= (self.record["latency_us"] or 0):
            return
        self.record["summary"], self.record["latency_us"] = said["summary"], said["latency_us"]
        self.record["verdict"] = said["brief"]
        if said.get("confidence"):  # without the list of all rates
            self.record["confidence"] = {k: v for k, v in said["confidence"].items() if k != "rates"}
        for peak in said.get("peaks", ()):
            name = f"{peak['space'].lower()}_partition_bytes"
            self.record[name] = max(self.record.get(name, 0), peak["partition_bytes"])

    def _compare(self, seed, said):
        found = self.outputs.read(said.get("files", {}))
        errors = self.reference.errors(self.case, found)
        self.record["seeds"][str(seed)] = {k: _finite(v) for k, v in errors.items()}
        self._independent(seed, self.case, found)
        if not errors["equal"]:
            raise Stop("wrong", code="wrong", message=errors.get("message", "differs"),
                       kind="wrong", seed=seed)

    def _independent(self, seed, case, found):
        """Flags outputs that are the same to the bit for other inputs, where the reference's are
        not."""
        if self.first is None:
            self.first = seed, case, found
            return
        before, other, then = self.first
        if all(map(_same, other.expected, case.expected)):
            return
        if all(map(_same, then, found)):
            self.record["flags"]["constant_output"] = (
                f"the outputs for seed {seed} are those for seed {before}")

    def _values(self, seed, timed=False):
        said = self._simulated(seed, want="all" if timed else "values",
                               output_arrays=self.judge.file("other"))
        if timed:
            self._note(said)
        self._compare(seed, said)

    def _valued(self):
        """The other seeds, and one that is drawn now that the program is fixed; in time as well, so
        that to distinguish known inputs from others gains nothing."""
        held_out = self.reference.held_out()
        if self.wrong is not None:  # does it look at its inputs at all?
            try:
                self._values(held_out)
            except Stop:
                pass
            raise self.wrong
        for seed in self.reference.seeds[1:]:
            self._values(seed)
        self._values(held_out, timed=True)


def _no_number(text):
    raise ValueError(text)


def _finite(value):
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


class Judge:
    """Evaluates candidates against one reference, one after another.

    recorder: called as recorder(job, seconds, memory_bytes), gives how recording in a process of
    its own ended. seconds, memory_bytes: limits of each candidate. baseline: latency in us that
    speed-ups are over. stop_slower: candidates slower than this times the baseline get no values.
    advise: records of what is ok have what would make it faster.
    """

    def __init__(self, reference: Reference, recorder: Callable[[dict[str, Any], float, int], dict[str, Any]],
                 worker: Worker | None, folder: str, target: str | None = None,
                 config: str | os.PathLike | None = None, overrides: Mapping[str, Any] | None = None,
                 seconds: float = 60.0, memory_bytes: int = 4 << 30, values: bool = True,
                 baseline: float | None = None, stop_slower: float | None = None,
                 allow_flags: bool = False, switches: Mapping[str, Any] | None = None,
                 advise: bool = False) -> None:
        self.advise = advise
        self.reference, self.recorder, self.folder = reference, recorder, folder
        self.scratch = scratch_of(folder)
        self.seconds, self.memory_bytes, self.values = seconds, memory_bytes, values
        self.baseline, self.stop_slower, self.allow_flags = baseline, stop_slower, allow_flags
        # A program does not decide which machine it is judged on.
        target = target or reference.target or (None if config else default_target())
        self.target = target
        self.simulate = Run(worker, seconds, target=target, config=config, overrides=overrides,
                            switches=switches)
        self._written: dict[int, dict[str, str]] = {}  # seed: files of its inputs
        self._count = 0

    def file(self, name: str) -> str:
        """The path of a file of this judge's."""
        return os.path.join(self.folder, name)

    def inputs(self, seed: int, case: Case) -> dict[str, str]:
        """Files of the inputs of a seed by their keys, arg0, arg1, ...; those of a held-out seed are
        one candidate's."""
        if seed not in self._written:
            own = seed if seed in self.reference.seeds else "other"
            self._written = {s: f for s, f in self._written.items() if s in self.reference.seeds}
            files = {f"arg{n}": self.file(f"{own}.arg{n}.npy") for n in range(len(case.arrays))}
            for path, array in zip(files.values(), case.arrays):
                write_array(path, np.ascontiguousarray(bits(array)))
            self._written[seed] = files
        return self._written[seed]

    def evaluate(self, job: Mapping[str, Any], keep: str | None = None) -> dict[str, Any]:
        """The record of one candidate: {id, path, digest, and optionally kernel, grid, params}. keep: a folder that
        gets the program that was judged, with the inputs of the first seed, if the candidate is ok."""
        # Under a name of its own each time: the worker knows a program by its file.
        self._count += 1
        folder = self.file(f"run{self._count}")
        os.mkdir(folder)
        emptied(self.scratch)
        try:
            evaluation = Evaluation(self, job, folder)
            record = evaluation.run()
            if keep is not None and record["status"] == "ok":
                evaluation.keep(keep)
            return record
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            emptied(self.scratch)


def scratch_of(folder: str) -> str:
    """The only folder that candidates write to, within a judge's own."""
    path = os.path.join(folder, "scratch")
    os.makedirs(path, exist_ok=True)
    return path


def emptied(folder: str) -> None:
    """Removes what is in a folder, which stays itself: a mount may be on it."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)
