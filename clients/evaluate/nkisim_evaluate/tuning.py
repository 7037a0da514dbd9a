"""Implements nkisim.tune, which searches a kernel's own parameters for the lowest latency.

Optuna proposes, workers of `nkisim evaluate` test and time; what is illegal or wrong is found by running it and
never proposed again. Simulated time has no noise, so one run of a combination is all there is.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import queue
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nkisim_profile.sweep.journal import Journal
from nkisim_profile.versions import likely_faster, spread_of

from .cache import is_record
from .cluster import Cluster
from .evaluator import Evaluator, Settings
from .reference import BadReference

HEADER = {"nkisim_tune": 1}
SAMPLERS = ("grid", "random", "tpe")
Row = tuple[dict[str, Any], dict[str, Any]]  #: (point, record)


class Space:
    """The combinations: values by parameter, the first of each is the default."""

    def __init__(self, kernels: Iterable[str], parameters: Mapping[str, Iterable[Any]]) -> None:
        self.kernels = list(kernels)
        if not self.kernels:
            raise BadReference("there is no kernel to tune; one or more are required")
        self.values = {name: list(values) for name, values in parameters.items()}
        if len(self.kernels) > 1:
            self.values = {"kernel": self.kernels, **self.values}

    @property
    def default(self) -> dict[str, Any]:
        """The combination of the first values."""
        return {name: values[0] for name, values in self.values.items()}

    def __len__(self) -> int:
        size = 1
        for values in self.values.values():
            size *= len(values)
        return size

    def grid(self) -> Iterator[dict[str, Any]]:
        """Every combination, the first parameter changing slowest."""
        for chosen in itertools.product(*self.values.values()):
            yield dict(zip(self.values, chosen))

    def candidate(self, point: Mapping[str, Any], number: Any) -> dict[str, Any]:
        """The evaluator's candidate for a combination."""
        chosen = point["kernel"] if len(self.kernels) > 1 else self.kernels[0]
        path, _, name = chosen.rpartition(":")
        return {"id": number, "path": path, "kernel": name,
                "params": {k: v for k, v in point.items()
                           if k != "kernel" or len(self.kernels) == 1}}


def _optuna():
    try:
        import optuna
    except ImportError:
        raise BadReference("tuning needs the Python package optuna: pip install "
                           "'nkisim[tune]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class Search:
    """Proposes combinations that are new, and learns from records."""

    def __init__(self, space: Space, sampler: str, seed: int) -> None:
        self.space, self.sampler = space, sampler
        self._seen: set[str] = set()
        self._asked: dict[str, Any] = {}  # Optuna's trials
        if sampler == "grid":
            self._points = space.grid()
            return
        optuna = _optuna()
        kinds = {"random": optuna.samplers.RandomSampler,
                 "tpe": lambda seed: optuna.samplers.TPESampler(
                     seed=seed, n_startup_trials=min(10, max(4, len(space) // 8)),
                     constant_liar=True, multivariate=True)}
        with _quiet():
            self._study = optuna.create_study(sampler=kinds[sampler](seed=seed))
            self._study.enqueue_trial(self._encoded(space.default))
        self._states = optuna.trial.TrialState

    def _encoded(self, point):
        """Numbers stay numbers for the model; anything else is a place in its list."""
        return {name: self.space.values[name].index(value) for name, value in point.items()}

    def next(self) -> dict[str, Any] | None:
        """A combination not proposed before, or None if there is none left."""
        if self.sampler == "grid":
            return next(self._points, None)
        for _ in range(200):
            with _quiet():
                trial = self._study.ask()
                point = {name: values[trial.suggest_int(name, 0, len(values) - 1)]
                         for name, values in self.space.values.items()}
            key = _key(point)
            if key not in self._seen:
                self._seen.add(key)
                self._asked[key] = trial
                return point
            self._study.tell(trial, state=self._states.FAIL)
        left = next((p for p in self.space.grid() if _key(p) not in self._seen), None)
        if left is not None:
            self._seen.add(_key(left))
        return left

    def learn(self, point: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Gives the model the result of a combination."""
        trial = self._asked.pop(_key(point), None)
        if trial is None:
            return
        with _quiet():
            if record["status"] == "ok":
                self._study.tell(trial, record["latency_us"])
            else:
                self._study.tell(trial, state=self._states.FAIL)


@contextlib.contextmanager
def _quiet():
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _key(point):
    return json.dumps(point, sort_keys=True, default=str)


class Tuning:
    """The result of a search. rows: (point, record) in the order in which they were finished."""

    def __init__(self, space: Space, rows: list[Row]) -> None:
        self.space, self.rows = space, rows

    @property
    def best(self) -> Row | None:
        """(point, record) of the fastest right one, or None."""
        good = [row for row in self.rows if row[1]["status"] == "ok"]
        return min(good, key=lambda row: row[1]["latency_us"], default=None)

    @property
    def default(self) -> Row | None:
        """(point, record) of the first values, or None if they were not tried."""
        return next((r for r in self.rows if _key(r[0]) == _key(self.space.default)), None)

    @property
    def likely(self) -> float | None:
        """The probability, from 0 to 1, that the best is faster than the default on a chip (docs/evidence.md, "How far
        to trust one run"); None if that is not known, or the default is the best."""
        best, default = self.best, self.default
        if not best or not default or default[1]["status"] != "ok" or best[1] is default[1]:
            return None
        spreads = [spread_of(row[1].get("confidence")) or 0 for row in (best, default)]
        return likely_faster(best[1]["latency_us"], default[1]["latency_us"],
                             max(spreads) if min(spreads) else None)

    def pareto(self) -> list[Row]:
        """The right ones that no other beats in both latency and SBUF, by latency."""
        good = sorted((r for r in self.rows if r[1]["status"] == "ok"),
                      key=lambda r: (r[1]["latency_us"], _sbuf(r[1])))
        front, least = [], None
        for row in good:
            if least is None or _sbuf(row[1]) < least:
                front.append(row)
                least = _sbuf(row[1])
        return front


def _finished(row):
    return is_record(row.get("record"))


def _sbuf(record):
    return record.get("sbuf_partition_bytes", 0)


def _stamp(kernels, settings):
    """Identifies what the results of a journal depend on, apart from the parameters."""
    digest = hashlib.sha256(settings.identity(settings.load()).encode())
    for kernel in kernels:
        digest.update(pathlib.Path(kernel.rpartition(":")[0]).read_bytes())
    return digest.hexdigest()[:16]


class Tuner:
    """One search; see `tune`."""

    def __init__(self, kernels: str | Sequence[str], parameters: Mapping[str, Iterable[Any]],
                 settings: Settings, sampler: str | None = None, trials: int | None = None,
                 patience: int | None = None, seed: int = 0, jobs: int | None = None,
                 journal: str | os.PathLike | None = None, scheduler: str | None = None,
                 cache: str | os.PathLike | None = None) -> None:
        self.space = Space([kernels] if isinstance(kernels, str) else kernels, parameters)
        if not self.space.values:
            raise BadReference("nothing varies: a parameter or a second kernel is required")
        for kernel in self.space.kernels:
            if not os.path.isfile(kernel.rpartition(":")[0]):
                raise BadReference(f"{kernel}: FILE.py:FUNCTION with an existing file is required")
        self.trials = min(trials or len(self.space), len(self.space))
        self.patience = patience
        self.search = Search(self.space, sampler or (
            "grid" if self.trials == len(self.space) else "tpe"), seed)
        self.rows: list[Row] = []
        self._stale = 0
        self._pool: Cluster | Evaluator = (Cluster.of_dask(scheduler, settings, cache) if scheduler
                                           else Evaluator(settings, jobs, cache))
        self._journal = None
        if journal:
            stamp = _stamp(self.space.kernels, settings)
            self._journal = Journal(journal, lambda point: stamp, HEADER, _finished)
        self._points: dict[int, dict[str, Any]] = {}
        self._known: queue.SimpleQueue[Row] = queue.SimpleQueue()

    def _proposals(self):
        """Candidates for the evaluator; what the journal knows goes straight to the results."""
        for number in range(self.trials):
            if self.patience and self._stale >= self.patience:
                return
            point = self.search.next()
            if point is None:
                return
            if self._journal and point in self._journal:
                self._known.put((point, self._journal[point]["record"]))
                continue
            self._points[number] = point
            yield self.space.candidate(point, number)

    def _learn(self, point, record):
        best = min((r["latency_us"] for _, r in self.rows if r["status"] == "ok"), default=None)
        better = record["status"] == "ok" and (best is None or record["latency_us"] < best)
        self._stale = 0 if better else self._stale + 1
        self.rows.append((point, record))
        self.search.learn(point, record)
        return point, record

    def _drain(self):
        while not self._known.empty():
            yield self._learn(*self._known.get())

    def run(self) -> Iterator[Row]:
        """Yields (point, record) as they are known."""
        for record in self._pool.records(self._proposals()):
            yield from self._drain()
            point = self._points.pop(record["id"])
            if self._journal:
                self._journal.add({"point": point, "record": record})
            yield self._learn(point, record)
        yield from self._drain()

    @property
    def found(self) -> Tuning:
        """The result so far."""
        return Tuning(self.space, self.rows)

    def close(self) -> None:
        self._pool.close()


def tune(kernels: str | Sequence[str], parameters: Mapping[str, Iterable[Any]],
         reference: str | os.PathLike, sampler: str | None = None, trials: int | None = None,
         patience: int | None = None, seed: int = 0, jobs: int | None = None,
         journal: str | os.PathLike | None = None, scheduler: str | None = None,
         cache: str | os.PathLike | None = None, **settings: Any) -> Tuning:
    """Searches parameters of a kernel for the lowest latency; a Tuning.

        found = nkisim.tune("matmul.py:make", {"tile": [128, 256, 512], "bufs": [1, 2, 3]}, "ref.py")
        found.best, found.default, found.pareto()

    kernels: "FILE.py:FUNCTION", or several of one interface. FUNCTION is a factory that is called
    with the parameters and gives a kernel, or a kernel that takes them as keyword arguments.
    parameters: values by name, the default first. sampler: grid (the default where all
    combinations may be tried), random or tpe. trials: how many at most. patience: stops after so
    many without a better one. journal: a file that resumes an interrupted search. reference, jobs,
    scheduler, cache and settings: as nkisim.evaluate. Raises BadReference.
    """
    tuner = Tuner(kernels, parameters, Settings(reference, **settings), sampler, trials, patience,
                  seed, jobs, journal, scheduler, cache)
    with contextlib.closing(tuner):
        collections.deque(tuner.run(), maxlen=0)
    return tuner.found
