"""Tests and times a stream of submitted kernels with worker processes, and gives each result as
soon as it is known.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib.metadata
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import nkisim
from nkisim_profile.versions import likely_faster, spread_of
from nkisim_work import Local, Worker, memory_percent, program
from nkisim_work.program import homes

from .cache import Cache
from .header import apis_of
from .judge import VERSION, Judge, scratch_of
from .owned_folder import OwnedFolder
from .records import identifier, problem_of
from .reference import BadReference, Case, Reference
from .testimony import Stop

MAX_SOURCE = 16 << 20
#: The members of a candidate apart from its text (docs/evaluate.md).
KEYS = ("id", "source", "path", "kernel", "grid", "params")


class Settings:
    """Settings that all candidates of an evaluation share; fields as the arguments of `evaluate`."""

    def __init__(self, reference: str | os.PathLike, target: str | None = None,
                 config: str | os.PathLike | None = None, overrides: Mapping[str, Any] | None = None,
                 timeout: float = 60.0, memory: int = 4 << 30, values: bool = True,
                 seeds: Sequence[int] | None = None, baseline: float | None = None,
                 stop_slower: float | None = None, allow_flags: bool = False,
                 switches: Mapping[str, Any] | None = None, kernel: str | None = None,
                 grid: Any = None, advise: bool = False) -> None:
        self.advise = bool(advise)
        self.reference_path = os.fspath(reference)
        self.target, self.config, self.overrides = target, config, dict(overrides or {})
        self.timeout, self.memory, self.values = float(timeout), int(memory), bool(values)
        self.seeds = None if seeds is None else tuple(int(s) for s in seeds)
        for name, value, least in (("baseline", baseline, 0), ("stop-slower", stop_slower, 1)):
            if value is not None and (not math.isfinite(value) or value < least or value == 0):
                raise BadReference(f"--{name} is {value}; {'1 or more' if least else 'more than 0 us'} is required")
        self.baseline, self.stop_slower, self.allow_flags = baseline, stop_slower, allow_flags
        self.switches, self.kernel, self.grid = dict(switches or {}), kernel, grid

    def of(self, reference: str | os.PathLike) -> Settings:
        """The same settings for another reference, or the same at another place."""
        other = copy.copy(self)
        other.reference_path = os.fspath(reference)
        return other

    def load(self) -> Reference:
        """The Reference."""
        reference = Reference(self.reference_path)
        if self.seeds:
            reference.seeds = self.seeds
        reference.kernel = self.kernel or reference.kernel
        reference.grid = self.grid if self.grid is not None else reference.grid
        return reference

    def identity(self, reference: Reference) -> str:
        """The hash of all that results depend on besides the candidate."""
        parts = [VERSION, software_hash(), reference.digest(), reference.seeds, reference.kernel,
                 reference.grid, reference.mutable, reference.rtol, reference.atol, reference.rel_l2,
                 self.target or reference.target, resolved_config_hash(self.config), self.overrides, self.values,
                 self.stop_slower and (self.stop_slower, self.baseline),
                 self.allow_flags, self.advise, self.switches, self.timeout, self.memory, _environment()]
        return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()


def config_hash(config: str | os.PathLike | None) -> str:
    """Identifies a machine description: the content of a file; a built-in one by its name."""
    if config and os.path.isfile(config):
        return hashlib.sha256(pathlib.Path(config).read_bytes()).hexdigest()[:16]
    return str(config or "default")


def resolved_config_hash(config: str | os.PathLike | None) -> str:
    """A machine description with all that it inherits, hashed. Raises BadReference."""
    if not config:
        return "default"
    done = subprocess.run([program(), "config", "show", os.fspath(config)], capture_output=True, check=False)
    if done.returncode != 0:
        raise BadReference(done.stderr.decode("utf-8", "replace").strip())
    return hashlib.sha256(done.stdout).hexdigest()


def version() -> str:
    """nkisim's version."""
    try:
        return importlib.metadata.version("nkisim")
    except importlib.metadata.PackageNotFoundError:
        said = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
        return said.stdout.split()[-1]


def software_hash() -> str:
    """Identifies what simulates and records: the program, the extension module, every Python file of ours, Python
    and NumPy."""
    digest = hashlib.sha256(pathlib.Path(program()).read_bytes())
    digest.update(pathlib.Path(nkisim._core.__file__).read_bytes())
    for folder in (f for root in homes() for f in sorted(root.glob("n*"))):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.read_bytes())
    digest.update(repr((sys.version, np.__version__, ml_dtypes.__version__)).encode())
    return digest.hexdigest()[:16]


def parse_bytes(text: Any) -> int:
    """4G, 512M, ... as a number of bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", str(text).strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"{text!r} is not a size; a number with K, M, G or T is required")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def source_text(path: str | os.PathLike) -> str:
    """A candidate's text. A line of a pipe may name anything: devices and pipes are not read."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{path}: a regular file is required")
    if not os.path.exists(path):
        raise OSError(f"{path}: there is no such file; a kernel's Python file is required")
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_SOURCE + 1)
    except UnicodeDecodeError:
        raise OSError(f"{path} is no text in UTF-8; a kernel's Python file is required") from None
    if len(text) > MAX_SOURCE:
        raise OSError(f"{path} has more than {MAX_SOURCE} characters")
    return text


#: Starts the forking process without a look at the working folder, PYTHONPATH or what a user has set
#: for all programs: it imports from where this process does, in the same order.
_START = ("import sys; sys.path[:] = {path!r}; sys.argv[:] = ['nkisim_evaluate.zygote']; "
          "from nkisim_evaluate.zygote import main; main({folder!r})")
#: Variables that candidates see: none that a judge may have secrets in.
_PASSED_PREFIXES = ("LD_LIBRARY_PATH", "NKISIM_", "NKI_", "NEURON_")
#: The others are the same everywhere, so that a record that others share depends on none.
_FIXED = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8", "TZ": "UTC",
          "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NKISIM_THREADS": "1"}  # none survive a fork


def _environment() -> dict[str, str]:  # that candidates see
    return {**{k: v for k, v in os.environ.items() if k.startswith(_PASSED_PREFIXES)}, **_FIXED}


_said: list[bool] = []  # what a system lacks is said once


class Zygote:
    """The process that forks candidates, started again if something ends it. `folder`: the only one
    that they may write to."""

    def __init__(self, folder: str) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._folder = os.path.realpath(folder)
        self.missing: list[str] = []

    def _start(self) -> subprocess.Popen[str]:
        # The packages this process has imported, ahead of whatever sys.path has come to name since.
        roots = dict.fromkeys(str(pathlib.Path(file).absolute().parent.parent)
                              for file in (nkisim.__file__, __file__))
        path = [*roots, *(os.path.abspath(p) for p in sys.path if p)]
        start = _START.format(path=path, folder=self._folder)
        self._process = process = subprocess.Popen(
            [sys.executable, "-I", "-c", start], env=_environment(), text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, start_new_session=True, cwd=self._folder)
        assert process.stdout is not None  # a pipe
        self.missing = json.loads(process.stdout.readline() or "{}").get("missing", [])
        if self.missing and not _said:
            _said.append(True)
            print("nkisim: this system keeps candidates from less than others do: it lacks "
                  f"{', '.join(self.missing)} (docs/security.md)", file=sys.stderr)
        return process

    def __call__(self, job: dict[str, Any], seconds: float, memory_bytes: int) -> dict[str, Any]:
        """The end of a job's recording in a process of its own (zygote.py)."""
        asked = json.dumps({"job": job, "seconds": seconds, "memory_bytes": memory_bytes})
        for _ in range(2):
            process = self._process
            if process is None or process.poll() is not None:
                process = self._start()
            assert process.stdin is not None and process.stdout is not None  # pipes
            watch = threading.Timer(seconds + 10, process.kill)
            watch.start()
            try:
                process.stdin.write(asked + "\n")
                process.stdin.flush()
                answer = process.stdout.readline()
            except (BrokenPipeError, ValueError):
                answer = ""
            finally:
                watch.cancel()
            if answer:
                return json.loads(answer)
            self.close()
        return {"kind": "crashed", "message": "ended the process that watches it"}

    def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for end in (process.stdin, process.stdout):
                assert end is not None  # a pipe
                with contextlib.suppress(BrokenPipeError):  # of what it did not read any more
                    end.close()


class _Shared:
    """A Reference that several threads use: each seed is computed once."""

    def __init__(self, reference: Reference) -> None:
        self._reference, self._lock = reference, threading.Lock()

    def case(self, seed: int) -> Case:
        with self._lock:
            return self._reference.case(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reference, name)


class EvaluationWorker:
    """Evaluates one candidate at a time, warm: a judge, a zygote, a folder. of: how many share the machine's memory."""

    def __init__(self, settings: Settings, reference: Reference, identity: str | None,
                 cache: Cache | None = None, of: int = 1) -> None:
        self._cache = cache
        self._folder = OwnedFolder("nkisim-evaluate-")
        self._zygote = Zygote(scratch_of(self._folder.name))
        self._source = os.path.join(self._folder.name, "source")  # of which a candidate sees all
        os.mkdir(self._source)
        self._worker = Worker(settings.memory, folder=self._folder.name, of=of)
        self.switch_to(settings, reference, identity)

    def switch_to(self, settings: Settings, reference: Reference, identity: str | None = None) -> None:
        """Judges by another reference from here on, in the same warm processes; the memory that these may take
        stays that of the first settings."""
        self.settings, self._identity, s = settings, identity, settings
        self._judge = Judge(reference, self._zygote, self._worker, self._folder.name, s.target,
                            s.config, s.overrides, s.timeout, s.memory, s.values, s.baseline,
                            s.stop_slower, s.allow_flags, s.switches, s.advise)

    def evaluate(self, candidate: Mapping[str, Any], keep: str | os.PathLike | None = None) -> dict[str, Any]:
        """The finished record of a candidate: a dict with KEYS. keep: a folder that gets its program and data
        (program.nisa) if it is ok; it is judged anew then."""
        record: dict[str, Any] = {"id": identifier(candidate.get("id"))}
        try:
            job, text = self._job(candidate)
            cache = self._cache if keep is None else None
            key, key_listed = self._keys(candidate, text, job["path"]) if cache else ("", "")
            known = cache and (cache.get(key) or cache.get(key_listed))
            if known:
                return self._finished({**known, "id": record["id"], "cached": True})
            record = self._judge.evaluate(job, None if keep is None else os.fspath(keep))
            foreign, listed = record.pop("foreign", False), record.pop("listed", False)
            if cache and not foreign:
                _keep(cache, key_listed if listed else key, record)
        except Stop as stop:
            record.update(status=stop.status, error=stop.error)
        except BadReference as problem:
            record.update(status="error", error={"code": "reference", "message": str(problem)})
        return self._finished(record)

    def _keys(self, candidate, text, path):
        """The hash of all that a candidate's record depends on: its very text, since a kernel may look at its comments
        and lines, and the file's place, which it may look at, too. A second one for a kernel that lists its folder, as
        an import does."""
        place = path if "path" in candidate else None
        parts = [self._identity, text, place, *(candidate.get(k) for k in ("kernel", "grid", "params"))]
        listed = sorted(os.listdir(os.path.dirname(path))) if place else []
        return [hashlib.sha256(json.dumps(p, sort_keys=True).encode()).hexdigest() for p in (parts, [parts, listed])]

    def _job(self, candidate):
        if "invalid" in candidate:
            raise Stop("error", code="usage", message=candidate["invalid"])
        unknown = set(candidate) - set(KEYS)
        if unknown or ("source" in candidate) == ("path" in candidate):
            found = f"has {', '.join(sorted(unknown))}" if unknown else (
                "has both source and path" if "source" in candidate else "has neither")
            raise Stop("error", code="usage", message=f"a candidate {found}; source or path, and "
                                                      f"optionally {', '.join(KEYS[3:])}, required")
        job = {k: candidate[k] for k in ("id", "kernel", "grid", "params") if k in candidate}
        try:
            if "path" in candidate:
                path = os.path.realpath(candidate["path"])
                text = source_text(path)
            else:
                text, path = candidate["source"], os.path.join(self._source, "kernel.py")
                pathlib.Path(path).write_text(text, encoding="utf-8")
        except (OSError, ValueError, TypeError) as problem:
            raise Stop("error", code="usage", message=str(problem)) from None
        return {**job, "path": path, "target": self.settings.target or self._judge.reference.target,
                "config": self.settings.config, "apis": apis_of(text), "text": text}, text

    def _finished(self, record):
        baseline, latency = self.settings.baseline, record.get("latency_us")
        if record["status"] == "ok" and baseline and latency:  # not of the record: of who asks
            spread = spread_of(record.get("confidence"))
            record |= {"speedup": baseline / latency,
                       **({"faster_likely": likely_faster(latency, baseline, spread)} if spread else {})}
        head: dict[str, Any] = {"nkisim_evaluate": VERSION, "version": version_of(), "target":
                self.settings.target or self._judge.reference.target or "default",
                "config_hash": config_hash(self.settings.config), "cached": False, "speedup": None,
                "latency_us": None, "flags": {}, "seeds": {}, "id": None}
        problem = problem_of({**head, **record})
        if problem is None:
            return {**head, **record}
        return {**head, "id": record["id"], "status": "error", "error": {
            "code": "internal", "message": f"the judge's record is none by its schema: {problem}"}}

    def close(self) -> None:
        self._worker.close()
        self._zygote.close()
        self._folder.cleanup()


def _keep(cache, key, record):
    """Keeps a record. A disk that is full is no fault of the candidate: it is said once."""
    try:
        cache.put(key, record)
    except BadReference as problem:
        if not _not_kept:
            _not_kept.append(True)
            print(f"nkisim: {problem}; records are not kept", file=sys.stderr)


_not_kept: list[bool] = []
_version: list[str] = []


def version_of() -> str:
    """The same, looked up once."""
    if not _version:
        _version.append(version())
    return _version[0]


def _that_fit(jobs: int, memory: int) -> int:
    """As many of the jobs as may each take so much memory without taking more of the machine's together than one run
    may."""
    percent = memory_percent()
    most = max(int(nkisim._core.host()["memory_bytes"] * percent / 100) // memory, 1)
    if jobs > most:
        print(f"nkisim: {most} jobs at a time: {jobs} of {memory >> 20} MiB each are more than {percent:.3g} % of this "
              "machine's memory (--memory, --jobs)", file=sys.stderr)
    return min(jobs, most)


class Evaluator:
    """Warm workers on this machine. Use as a context; `records` may be called again and again."""

    def __init__(self, settings: Settings, jobs: int | None = None,
                 cache: str | os.PathLike | None = None) -> None:
        self.settings = settings
        self.jobs = _that_fit(jobs or os.cpu_count() or 1, settings.memory)
        reference = settings.load()
        reference.case(reference.seeds[0])  # a reference that fails is said before any candidate
        self._reference: Any = _Shared(reference)  # in the place of a Reference
        self._cache = Cache(cache) if cache else None
        self._identity = settings.identity(reference) if cache else None  # it reads all of our files
        self._benches: list[EvaluationWorker] = []

    def _bench(self):
        return EvaluationWorker(self.settings, self._reference, self._identity, self._cache, self.jobs)

    def switch_to(self, reference: str | os.PathLike) -> None:
        """Judges by another reference file from here on, with the same settings and warm processes. Raises
        BadReference."""
        self.settings = self.settings.of(reference)
        loaded = self.settings.load()
        loaded.case(loaded.seeds[0])
        self._reference = _Shared(loaded)
        self._identity = self.settings.identity(loaded) if self._cache else None
        for bench in self._benches:
            bench.switch_to(self.settings, self._reference, self._identity)

    def evaluate(self, candidate: Mapping[str, Any], keep: str | os.PathLike | None = None) -> dict[str, Any]:
        """One candidate's record, in this thread. keep: a folder for its program and data, if it is ok."""
        if not self._benches:
            self._benches.append(self._bench())
        return self._benches[0].evaluate(candidate, keep)

    def records(self, candidates: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Records in the order in which they are finished. Takes no more candidates from the
        iterable than it has workers for, and one more each."""
        while len(self._benches) < self.jobs:
            self._benches.append(self._bench())
        return Local(b.evaluate for b in self._benches).results((c,) for c in candidates)

    def close(self) -> None:
        for bench in self._benches:
            bench.close()
        self._benches = []

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def as_candidate(item: Mapping[str, Any] | str | os.PathLike) -> Mapping[str, Any]:
    """A path as a candidate; a dict as it is."""
    if isinstance(item, Mapping):
        return item
    return {"id": os.fspath(item), "path": os.fspath(item)}
