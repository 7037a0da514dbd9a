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
import stat
import subprocess
import time

import ml_dtypes  # noqa: F401  (its dtypes by name)
import numpy as np

from nkisim.run.hostarrays import bits
from nkisim.values.storage import row_major

VERSION = 1
_DATA, _PROGRAM, _CONSTANTS = "data.npz", "program.nisa", "constants.npz"
#: A kernel may bring tables along, but not what a program that computes needs not.
_CONSTANT_BYTES = 64 << 10
_MEMORY_WORDS = ("bad_alloc", "out of memory", "Cannot allocate")


class Stop(Exception):
    """The evaluation ends here with a status and an error object."""

    def __init__(self, status, **error):
        super().__init__(error.get("message", status))
        self.status, self.error = status, error


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


def read_constants(folder):
    """The arrays that a recorded kernel brings along, by their names in the archive."""
    path = os.path.join(folder, _CONSTANTS)
    if not _regular(path):
        return {}
    with np.load(path) as archive:
        return {k: archive[k] for k in archive.files if k.startswith("const")}


def machine_options(target=None, config=None, overrides=None, switches=None):
    """The machine and the compiler's switches as options of `nkisim run`."""
    words = [w for name, value in (("--target", target), ("--config", config)) if value
             for w in (name, str(value))]
    words += [w for k, v in (overrides or {}).items() for w in ("--set", f"{k}={v}")]
    return words + [w for k, v in (switches or {}).items()
                    for w in (f"--{k.replace('_', '-')}", str(v))]


def _regular(path):
    """Whether a file that a candidate's process left is a plain file."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


class Run:
    """What one simulation of a program needs besides the program."""

    def __init__(self, program, target, config, overrides, seconds, memory_bytes, switches):
        self.program, self.seconds, self.memory_bytes = program, seconds, memory_bytes
        self._options = machine_options(target, config, overrides, switches)

    def __call__(self, trace, deadline, *options):
        """The JSON that `nkisim run` prints, or Stop."""
        left = deadline - time.monotonic()
        words = [self.program, "run", trace, "--json", *self._options, *options]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
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


class Outputs:
    """Reads the outputs that a simulation wrote, as the kernel returned them."""

    def __init__(self, described):
        self.described = described

    def read(self, path):
        with np.load(path) as archive:
            return [self._one(archive, o) for o in self.described]

    @staticmethod
    def _one(archive, o):
        dtype = np.dtype(o["dtype"].removesuffix("_"))
        flat = np.ascontiguousarray(archive[o["tensor"]]).reshape(-1).view(np.uint8)
        last = o["offset"] + dtype.itemsize * (
            1 + sum((n - 1) * s for n, s in zip(o["shape"], o["strides"])))
        if min([o["offset"], *o["strides"], *o["shape"]], default=0) < 0 or last > flat.size:
            raise Stop("error", code="bad_input", message=f"output {o['tensor']} is out of bounds")
        words = flat[o["offset"]:last].view(f"u{dtype.itemsize}")
        view = np.lib.stride_tricks.as_strided(
            words, o["shape"], [s * dtype.itemsize for s in o["strides"]], writeable=False)
        return view.copy().view(dtype)


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
            self._stage("record", self._recorded)
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
    def _recorded(self):
        self.case = self.reference.case(self.reference.seeds[0])
        job = recording_job(self.reference, self.case, self.job, self.folder)
        said = self.judge.recorder(job, self.deadline - time.monotonic(), self.judge.memory_bytes)
        if said.get("printed"):
            self.record["printed"] = said["printed"]
        if said["kind"] != "result":
            raise Stop(said["kind"], code=said["kind"], message=said["message"])
        try:
            found = json.loads(said["result"])
            self.record["flags"] = dict(found["flags"])
            if not found["ok"]:
                error = dict(found["error"])
                raise Stop("error" if error.get("code") in ("exception", "usage") else "illegal",
                           **error)
            self.record["beside"] = bool(found["beside"])
            self.outputs, self.changed = Outputs(found["outputs"]), found["changed"]
            self.record["instructions"] = int(found["instructions"])
            self.record["api"] = "neuronxcc" if found["legacy"] else "nki"
        except (ValueError, KeyError, TypeError) as problem:
            raise Stop("crashed", code="forged", message=f"no sense in what came of the recording "
                                                         f"({problem})") from None
        self.trace = os.path.join(self.folder, _PROGRAM)
        if not _regular(self.trace):
            raise Stop("crashed", code="forged", message="no program came of the recording")
        self._constants()
        self._arguments_written()

    def _constants(self):
        self.constants = read_constants(self.folder)
        held = sum(a.nbytes for a in self.constants.values())
        if held > _CONSTANT_BYTES and held > sum(a.nbytes for a in self.case.arrays):
            self.record["flags"]["constants"] = (
                f"brings {held} bytes along, more than its inputs have")

    def _arguments_written(self):
        """An argument that is written without being a result is a changed input."""
        returned = {o["tensor"] for o in self.outputs.described}
        if not self.outputs.described:  # a kernel that returns nothing gives back what it writes
            arrays = self.case.arrays
            self.outputs.described = [
                {"tensor": c["tensor"], "shape": list(arrays[c["argument"]].shape), "offset": 0,
                 "dtype": arrays[c["argument"]].dtype.name,
                 "strides": row_major(arrays[c["argument"]].shape)} for c in self.changed]
            return
        names = [*range(len(self.case.args)), *self.case.kwargs]
        for c in self.changed:
            arrays = [n for n, v in zip(names, (*self.case.args, *self.case.kwargs.values()))
                      if isinstance(v, np.ndarray)]
            name = arrays[c["argument"]]
            if c["tensor"] not in returned and name not in self.reference.mutable:
                self.record["flags"]["changes_inputs"] = f"writes its argument {c['tensor']}"

    # ---- simulate ------------------------------------------------------------------------------
    def _data(self, seed):
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
        case = self._data(seed)
        fast = self.judge.baseline and self.judge.stop_slower
        if not self.judge.values or fast:
            try:
                self._note(self.judge.simulate(self.trace, self.deadline, "--timing-only"))
            except Stop as stop:
                if "timing-only run does not have" not in stop.error.get("message", ""):
                    raise
                self._note(self.judge.simulate(self.trace, self.deadline))
            if not self.judge.values:
                return
            if self.record["latency_us"] > self.judge.stop_slower * self.judge.baseline:
                raise Stop("ok", code="slow", message="not compared: slower than the limit")
        out = os.path.join(self.folder, "out.npz")
        self._note(self.judge.simulate(self.trace, self.deadline, "--outputs", out))
        try:
            self._compare(seed, case, out)
        except Stop as stop:
            self.wrong = stop

    def _note(self, said):
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

    def _values(self, seed):
        case, out = self._data(seed), os.path.join(self.folder, "out.npz")
        self.judge.simulate(self.trace, self.deadline, "--functional", "--outputs", out)
        self._compare(seed, case, out)

    def _valued(self):
        """The other seeds, and one that follows from the candidate's text."""
        held_out = self.reference.held_out(self.job["digest"])
        if self.wrong is not None:  # does it look at its inputs at all?
            try:
                self._values(held_out)
            except Stop:
                pass
            raise self.wrong
        for seed in (*self.reference.seeds[1:], held_out):
            self._values(seed)


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
        self.seconds, self.memory_bytes, self.values = seconds, memory_bytes, values
        self.baseline, self.stop_slower, self.allow_flags = baseline, stop_slower, allow_flags
        self.simulate = Run(program, target or reference.target, config, overrides, seconds,
                            memory_bytes, switches)
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

    def evaluate(self, job):
        """The record of one candidate: {id, path, digest, and optionally kernel, grid, params}."""
        folder = os.path.join(self.folder, "candidate")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        try:
            return Evaluation(self, job, folder).run()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
