"""The stages of an evaluation: record, rules and time, values on one seed, values on all.

A candidate's program is data by now (candidate.py made it in a process of its own). It is read,
checked, compiled and simulated by the nkisim program, and its outputs are compared here.
"""

import json
import math
import os
import resource
import shutil
import signal
import subprocess
import time

import numpy as np

from nkisim.record.targets import default_target
from nkisim.run.hostarrays import bits
from nkisim.values.storage import row_major

from .testimony import Outputs, Stop, error_of, forged, read_constants, taken, text_of

VERSION = 1
_DATA, _PROGRAM = "data.npz", "program.nisa"
#: A kernel may bring tables along, but not what a program that computes needs not.
_CONSTANT_BYTES = 64 << 10
#: An output may be a view of what was expected times this.
_OUTPUT_FACTOR = 4
_PROGRAM_BYTES = 1 << 30
_MEMORY_WORDS = ("bad_alloc", "out of memory", "Cannot allocate")


def spec(value):
    """An argument as it is told to the process that records."""
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "dtype": value.dtype.name}
    return {"value": value.item() if isinstance(value, np.generic) else value}


def recording_job(reference, case, job, folder):
    """What the process that records is told of a candidate's job; it writes to the folder."""
    job = {**job, "folder": folder, "reference": reference.path, "args": [spec(a) for a in case.args],
           "kwargs": {k: spec(v) for k, v in case.kwargs.items()}}
    job.setdefault("kernel", reference.kernel)
    job.setdefault("grid", reference.grid)
    return job


def write_data(path, case, constants=None):
    """Writes the archive that a recorded program takes its inputs and constants from."""
    np.savez(path, **(constants or {}), **{f"arg{n}": bits(a) for n, a in enumerate(case.arrays)})


def machine_options(target=None, config=None, overrides=None, switches=None):
    """The machine and the compiler's switches as options of `nkisim run`."""
    words = [w for name, value in (("--target", target), ("--config", config)) if value
             for w in (name, str(value))]
    words += [w for k, v in (overrides or {}).items() for w in ("--set", f"{k}={v}")]
    return words + [w for k, v in (switches or {}).items()
                    for w in (f"--{k.replace('_', '-')}", str(v))]


class Run:
    """What one simulation of a program needs besides the program."""

    def __init__(self, program, target, config, overrides, seconds, memory_bytes, switches):
        self.program, self.seconds, self.memory_bytes = program, seconds, memory_bytes
        self._options = machine_options(target, config, overrides, switches)

    def __call__(self, trace, deadline, *options):
        """The JSON that `nkisim run` prints, or Stop."""
        left = deadline - time.monotonic()
        words = [self.program, "run", trace, "--json", *self._options, *options]
        # In the folder of the trace: a trace may name files of the working folder.
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True, cwd=os.path.dirname(trace))
        try:
            resource.prlimit(process.pid, resource.RLIMIT_AS, (self.memory_bytes,) * 2)
            out, err = process.communicate(timeout=max(left, 0.01))
        except ProcessLookupError:  # it was done before the limit came
            out, err = process.communicate()
        except subprocess.TimeoutExpired:
            raise Stop("timeout", code="timeout",
                       message=f"took more than {self.seconds:g} s") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        return self._judged(process.returncode, out, err)

    @staticmethod
    def _judged(code, out, err):
        if any(word in err for word in _MEMORY_WORDS):
            raise Stop("memory", code="memory", message="took more memory than it may")
        if code == 0:
            return json.loads(out)
        if code < 0:
            raise Stop("crashed", code="crashed",
                       message=f"the simulator ended by {signal.Signals(-code).name}")
        try:
            error = json.loads(out)["error"]
        except (ValueError, KeyError):
            error = {"code": "internal", "message": err.strip()[-2000:] or f"exit code {code}"}
        raise Stop("error" if code == 4 else "illegal", **error)


def _text(fraction):
    return f"{100 * fraction:.0f} %"


def verdict(said):
    """Three lines for people: what bounds the kernel, what its engines and DMA do, what it moves."""
    run, busiest = said["totals"], said["busiest"]
    active = {e: run[f"{e}_engine_active_time_percent"]
              for e in ("tensor", "vector", "scalar", "gpsimd", "sync")}
    active["DMA"] = run["dma_active_time_percent"]
    unit = busiest["unit"]
    return [f"bound by {unit if busiest['binds'] else 'latency'}: {unit} is active "
            f"{_text(busiest['active'])} of {said['latency_us']:.2f} us",
            "active: " + ", ".join(f"{e} {_text(v)}" for e, v in active.items()),
            f"HBM read {run['hbm_read_bytes']} bytes, written {run['hbm_write_bytes']}; MFU "
            f"{_text(run['mfu_estimated_percent'])}, bandwidth "
            f"{_text(run['mbu_estimated_percent'])}"]


class Evaluation:
    """One candidate on its way through the stages; `record` is what is known of it."""

    def __init__(self, judge, job, folder):
        self.judge, self.job, self.folder = judge, job, folder
        self.reference = judge.reference
        self.deadline = time.monotonic() + judge.seconds
        self.first = self.wrong = None  # (seed, case, outputs) of the first; why they are wrong
        self.record = {"id": job.get("id"), "status": "error", "latency_us": None, "speedup": None,
                       "seeds": {}, "flags": {}, "stage_seconds": {}}

    def run(self):
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
        return self.record

    def _stage(self, name, function):
        begin = time.monotonic()
        try:
            function()
        finally:
            self.record["stage_seconds"][name] = round(time.monotonic() - begin, 4)

    # ---- record --------------------------------------------------------------------------------
    def record_program(self):
        self.case = self.reference.case(self.reference.seeds[0])
        job = recording_job(self.reference, self.case, self.job, self.judge.scratch)
        said = self.judge.recorder(job, self.deadline - time.monotonic(), self.judge.memory_bytes)
        self.record["flags"] = {k: text_of(v) for k, v in said.get("flags", {}).items()}
        self.record["beside"] = said.get("beside", False)
        if said.get("printed"):
            self.record["printed"] = said["printed"]
        if said["kind"] != "result":
            raise Stop(said["kind"], code=said["kind"], message=said["message"])
        try:
            self._described(json.loads(said["result"], parse_constant=_no_number))
        except (ValueError, KeyError, TypeError, RecursionError, MemoryError, OverflowError) as problem:
            raise forged(type(problem).__name__) from None

    def _described(self, found):
        """Takes what the candidate's process says as what it is: the word of a stranger."""
        if found["ok"] is not True:
            error = error_of(found["error"])
            raise Stop("error" if error["code"] in ("exception", "usage") else "illegal", **error)
        expected = sum(a.nbytes for a in self.case.expected)
        self.outputs = Outputs(found["outputs"], _OUTPUT_FACTOR * expected + (1 << 20))
        program = taken(self.judge.scratch, _PROGRAM, _PROGRAM_BYTES)
        if program is None:
            raise forged("no program")
        self.constants = read_constants(self.judge.scratch, found["constants"],
                                        self.judge.memory_bytes // 4)
        self.trace = os.path.join(self.folder, _PROGRAM)
        with open(self.trace, "wb") as file:
            file.write(program)

    def _believed(self, facts):
        """What the simulator found the program to be."""
        self.record["instructions"], self.record["api"] = facts["instructions"], facts["api"]
        held = facts["constant_bytes"]
        if held > _CONSTANT_BYTES and held > sum(a.nbytes for a in self.case.arrays):
            self.record["flags"]["constants"] = (
                f"brings {held} bytes along, more than its inputs have")
        self._arguments_written(facts["inputs"])

    def _arguments_written(self, inputs):
        """An argument that is written without being a result is a changed input."""
        arrays = self.case.arrays
        values = (*self.case.args, *self.case.kwargs.values())
        names = [n for n, v in zip([*range(len(self.case.args)), *self.case.kwargs], values)
                 if isinstance(v, np.ndarray)]
        changed = [(int(i["key"].removeprefix("arg")), i["tensor"]) for i in inputs if i["written"]
                   and i["key"].removeprefix("arg").isdecimal()]
        if not self.outputs.described:  # a kernel that returns nothing gives back what it writes
            self.outputs.described = [
                {"tensor": tensor, "shape": arrays[n].shape, "offset": 0, "dtype": arrays[n].dtype,
                 "strides": row_major(arrays[n].shape)} for n, tensor in changed if n < len(arrays)]
            return
        returned = {o["tensor"] for o in self.outputs.described}
        for n, tensor in changed:
            if tensor not in returned and (n >= len(names) or names[n] not in self.reference.mutable):
                self.record["flags"]["changes_inputs"] = text_of(f"writes its argument {tensor}")

    # ---- simulate ------------------------------------------------------------------------------
    def put_data(self, seed):
        """Puts the inputs of a seed where the program looks for them."""
        case = self.reference.case(seed)
        path = os.path.join(self.folder, _DATA)
        if os.path.lexists(path):
            os.remove(path)
        if self.constants:
            write_data(path, case, self.constants)
        else:
            os.link(self.judge.inputs(seed, case), path)
        return case

    def _timed(self):
        """Time, and the values on the first seed, in one run unless time alone is asked for."""
        seed = self.reference.seeds[0]
        case = self.put_data(seed)
        fast = self.judge.baseline and self.judge.stop_slower
        if not self.judge.values or fast:
            try:
                self._note(self._first("--timing-only"))
            except Stop as stop:
                if "timing-only run does not have" not in stop.error.get("message", ""):
                    raise
                self._note(self._first())
            if not self.judge.values:
                return
            if self.record["latency_us"] > self.judge.stop_slower * self.judge.baseline:
                raise Stop("ok", code="slow", message="not compared: slower than the limit")
        out = os.path.join(self.folder, "out.npz")
        self._note(self._first("--outputs", out))
        try:
            self._compare(seed, case, out)
        except Stop as stop:
            self.wrong = stop

    def _first(self, *options):
        """What a simulation says of a program of which nothing is known yet."""
        said = self.judge.simulate(self.trace, self.deadline, "--recorded", _DATA, *options)
        self._believed(said["recorded"])
        return said

    def _note(self, said):
        """Time and what belongs to it, of the slowest run: where it depends on values, no one seed
        decides."""
        if said["latency_us"] <= (self.record["latency_us"] or 0):
            return
        self.record["summary"], self.record["latency_us"] = said["summary"], said["latency_us"]
        if self.judge.baseline:
            self.record["speedup"] = self.judge.baseline / self.record["latency_us"]
        self.record["verdict"] = verdict(said)
        if said.get("confidence"):  # without the list of all rates
            self.record["confidence"] = {k: v for k, v in said["confidence"].items() if k != "rates"}
        for peak in said.get("peaks", ()):
            name = f"{peak['space'].lower()}_partition_bytes"
            self.record[name] = max(self.record.get(name, 0), peak["partition_bytes"])

    def _compare(self, seed, case, out):
        found = self.outputs.read(out)
        errors = self.reference.errors(case, found)
        self.record["seeds"][str(seed)] = {k: _finite(v) for k, v in errors.items()}
        self._independent(seed, case, found)
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
        if all(np.array_equal(a, b) for a, b in zip(other.expected, case.expected)):
            return
        if all(a.tobytes() == b.tobytes() for a, b in zip(then, found)):
            self.record["flags"]["constant_output"] = (
                f"the outputs for seed {seed} are those for seed {before}")

    def _values(self, seed, timed=False):
        case, out = self.put_data(seed), os.path.join(self.folder, "out.npz")
        how = () if timed else ("--functional",)
        said = self.judge.simulate(self.trace, self.deadline, *how, "--outputs", out)
        if timed:
            self._note(said)
        self._compare(seed, case, out)

    def _valued(self):
        """The other seeds, and one that is drawn now that the program is fixed; in time as well, so
        that nobody gains by telling known inputs from others."""
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
    """

    def __init__(self, reference, recorder, program, folder, target=None, config=None,
                 overrides=None, seconds=60.0, memory_bytes=4 << 30, values=True, baseline=None,
                 stop_slower=None, allow_flags=False, switches=None):
        self.reference, self.recorder, self.folder = reference, recorder, folder
        self.scratch = scratch_of(folder)
        self.seconds, self.memory_bytes, self.values = seconds, memory_bytes, values
        self.baseline, self.stop_slower, self.allow_flags = baseline, stop_slower, allow_flags
        # A program does not decide which machine it is judged on.
        target = target or reference.target or (None if config else default_target())
        self.simulate = Run(program, target, config, overrides, seconds, memory_bytes, switches)
        self._written = {}

    def inputs(self, seed, case):
        """Path of the archive with the inputs of a seed: arg0, arg1, ..."""
        if seed not in self._written:
            path = os.path.join(self.folder, f"seed{seed}.npz")
            write_data(path, case)
            self._written[seed] = path
            stale = [s for s in self._written if s not in (*self.reference.seeds, seed)]
            for s in stale:  # held-out seeds are of one candidate
                os.remove(self._written.pop(s))
        return self._written[seed]

    def record(self, job, folder):
        """Leaves the program of a candidate and the inputs of the first seed in a folder: the path of
        the program, or Stop."""
        evaluation = Evaluation(self, job, folder)
        evaluation.record_program()
        write_data(os.path.join(folder, _DATA), evaluation.case, evaluation.constants)
        return evaluation.trace

    def evaluate(self, job):
        """The record of one candidate: {id, path, digest, and optionally kernel, grid, params}."""
        folder = os.path.join(self.folder, "run")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        emptied(self.scratch)
        try:
            return Evaluation(self, job, folder).run()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            emptied(self.scratch)


def scratch_of(folder):
    """The only folder that candidates write to, within a judge's own."""
    path = os.path.join(folder, "scratch")
    os.makedirs(path, exist_ok=True)
    return path


def emptied(folder):
    """Removes what is in a folder, which stays itself: a mount may be on it."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)
