"""Evaluations on the workers of a Dask scheduler, which need nkisim installed."""

import itertools
import os
import pathlib
import tempfile
import threading

from .evaluator import Evaluator
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
    """A Dask scheduler's workers. Candidates are sent as text, twice as many as there are threads
    at a time; one whose worker dies is given to another."""

    def __init__(self, address, settings):
        try:
            import distributed
        except ImportError:
            raise BadReference("--scheduler needs Dask: pip install 'dask[distributed]'") from None
        self._distributed, self._settings = distributed, settings
        self._text = pathlib.Path(settings.reference_path).read_text(encoding="utf-8")
        settings.load()
        try:
            self._client = distributed.Client(address, timeout="10s")
        except (OSError, TimeoutError, ValueError) as error:
            raise BadReference(f"no Dask scheduler at {address} ({error})") from None

    def _submit(self, candidate):
        if "path" in candidate:
            path = candidate["path"]
            try:
                text = pathlib.Path(path).read_text(encoding="utf-8")
            except (OSError, UnicodeError):
                text = None  # the worker says what is wrong with it
            if text is not None:
                candidate = {k: v for k, v in candidate.items() if k != "path"}
                candidate.update(source=text, id=candidate.get("id", os.fspath(path)))
        return self._client.submit(evaluate_one, self._settings, self._text, candidate, pure=False,
                                   retries=3)

    def records(self, candidates):
        candidates = iter(candidates)
        window = 2 * max(sum(self._client.nthreads().values()), 1)
        running = self._distributed.as_completed(
            [self._submit(c) for c in itertools.islice(candidates, window)])
        for future in running:
            yield future.result()
            for candidate in itertools.islice(candidates, 1):
                running.add(self._submit(candidate))

    def close(self):
        self._client.close()
