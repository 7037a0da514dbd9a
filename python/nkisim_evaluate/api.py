"""nkisim.evaluate."""

import contextlib

from .cluster import Cluster
from .evaluator import Evaluator, Settings, as_candidate


def evaluate(reference, candidates, jobs=None, cache=None, scheduler=None, **settings):
    """Judges candidate kernels; an iterator of records (dicts) as they are finished.

        for r in nkisim.evaluate("ref.py", ["a.py", "b.py"], target="trn2"):
            print(r["id"], r["status"], r["latency_us"])

    reference: a file with inputs(seed) and reference(*inputs). candidates: paths, or dicts with
    "source" or "path" and optionally "id", "kernel", "grid", "params". jobs: processes at a time
    (default: one a core). cache: an SQLite file of known results. scheduler: a Dask scheduler's
    address, whose workers do it. Settings: target, config, overrides, timeout (seconds, 60),
    memory (bytes, 4 GiB), values (True), seeds, baseline (us), stop_slower, allow_flags, switches
    (the compiler's), kernel, grid. Fields of a record: docs/evaluate.md. Raises BadReference.
    """
    if scheduler:
        pool = Cluster(scheduler, Settings(reference, **settings))
    else:
        pool = Evaluator(Settings(reference, **settings), jobs, cache)
    with contextlib.closing(pool):
        yield from pool.records(map(as_candidate, candidates))
