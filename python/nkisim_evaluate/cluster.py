"""Evaluations on the workers of a Dask scheduler, which need nkisim installed."""

import os
import pathlib
import tempfile
import threading

from nkisim_work import Dask, NoPool

from .evaluator import Evaluator, source_text
from .reference import BadReference

_lock = threading.Lock()
_warm = {}  # on a worker: (settings, reference's text) -> Evaluator with one bench


def _evaluator(settings, text):
    """The worker's own, made on first use; its files live as long as the worker."""
    key = repr(sorted(vars(settings).items(), key=str)), text
    if key not in _warm:
        for old in list(_warm):
            _warm.pop(old).close()
        folder = tempfile.mkdtemp(prefix="nkisim-reference-")
        path = pathlib.Path(folder) / pathlib.Path(settings.reference_path).name
        path.write_text(text, encoding="utf-8")
        settings.reference_path = str(path)
        _warm[key] = Evaluator(settings, 1)
    return _warm[key]


def evaluate_one(settings, text, candidate):
    """One record, on a Dask worker: one candidate at a time in each worker process."""
    with _lock:
        return _evaluator(settings, text).evaluate(candidate)


class Cluster:
    """A Dask scheduler's workers. Candidates are sent as text. Raises BadReference."""

    def __init__(self, address, settings):
        self._settings = settings
        self._text = pathlib.Path(settings.reference_path).read_text(encoding="utf-8")
        settings.load()
        try:
            self._pool = Dask(address)
        except NoPool as problem:
            raise BadReference(str(problem)) from None

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
        return self._settings, self._text, candidate

    def records(self, candidates):
        """Records in the order in which they are finished."""
        return self._pool.results(evaluate_one, map(self._task, candidates))

    def close(self):
        self._pool.close()
