"""Tests and times submitted kernels on other machines: a Dask scheduler's workers or an executor."""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from multiprocessing.util import Finalize
from typing import Any

from nkisim_work import Dask, Futures, NoPool

from .evaluator import Evaluator, Settings, source_text
from .reference import BadReference


class _Warm(threading.local):
    """The state of a worker's thread: an Evaluator with one bench for its present settings and reference."""

    key: tuple[str, str, str | None] | None = None
    evaluator: Evaluator | None = None
    folder: Finalize | None = None

    def of(self, settings: Settings, text: str, cache: str | None) -> Evaluator:
        """The Evaluator for these, made where the last one is another."""
        key = repr(sorted(vars(settings).items(), key=str)), text, cache
        if key != self.key or self.evaluator is None:
            if self.evaluator is not None:
                self.evaluator.close()
            folder = tempfile.mkdtemp(prefix="nkisim-reference-")  # lives as long as the evaluator
            if self.folder is not None:
                self.folder()
            self.folder = Finalize(None, shutil.rmtree, (folder, True), exitpriority=1)  # also in a pool's worker
            path = pathlib.Path(folder) / pathlib.Path(settings.reference_path).name
            path.write_text(text, encoding="utf-8")
            self.key, self.evaluator = key, Evaluator(settings.of(str(path)), 1, cache)
        return self.evaluator


_warm = _Warm()


def evaluate_one(settings: Settings, text: str, cache: str | None, candidate: Mapping[str, Any]) -> dict[str, Any]:
    """One record, on a worker: one candidate at a time in each of its threads."""
    return _warm.of(settings, text, cache).evaluate(candidate)


class Cluster:
    """Workers of `pool`, which has results(function, tasks) and close(). Candidates are sent as text, the cache as
    the name of a folder that all workers see. Raises BadReference."""

    def __init__(self, pool: Callable[[], Any], settings: Settings, cache: str | os.PathLike | None = None) -> None:
        self._settings, self._cache = settings, os.path.abspath(cache) if cache else None
        settings.load()
        self._text = pathlib.Path(settings.reference_path).read_text(encoding="utf-8")
        try:
            self._pool = pool()
        except NoPool as problem:
            raise BadReference(str(problem)) from None

    @classmethod
    def of_dask(cls, address: str, settings: Settings, cache: str | os.PathLike | None = None) -> Cluster:
        """The workers of the Dask scheduler at an address."""
        return cls(lambda: Dask(address), settings, cache)

    @classmethod
    def of_executor(cls, executor: Executor, settings: Settings, cache: str | os.PathLike | None = None,
                    workers: int | None = None) -> Cluster:
        """The workers of an executor, `workers` at a time where it does not say how many."""
        return cls(lambda: Futures(executor, workers), settings, cache)

    def _task(self, candidate):
        if "path" in candidate:
            path = candidate["path"]
            try:
                text = source_text(path)
            except (OSError, ValueError, TypeError):
                text = None  # the worker says what is wrong with it
            if text is not None:
                candidate = {k: v for k, v in candidate.items() if k != "path"}
                candidate.update(source=text, id=candidate.get("id", os.fspath(path)))
        return self._settings, self._text, self._cache, candidate

    def records(self, candidates: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Records in the order in which they are finished."""
        return self._pool.results(evaluate_one, map(self._task, candidates))

    def close(self) -> None:
        self._pool.close()
