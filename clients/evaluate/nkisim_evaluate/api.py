"""Implements nkisim.evaluate and nkisim.evaluate_async, which test and time submitted kernels."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Mapping
from concurrent.futures import Executor
from typing import Any

from .cluster import Cluster
from .evaluator import Evaluator, Settings, as_candidate
from .reference import BadReference

Candidate = Mapping[str, Any] | str | os.PathLike


def sharded(candidates: Iterable[Candidate], shard: tuple[int, int] | None) -> Iterable[Candidate]:
    """Every n-th candidate, beginning with the k-th, of shard (k, n), 1 <= k <= n; all of them for None."""
    if shard is None:
        return candidates
    number, shards = shard
    if not 1 <= number <= shards:
        raise BadReference(f"shard is {number}/{shards}; 1/{shards} to {shards}/{shards} is required")
    return (c for at, c in enumerate(candidates) if at % shards == number - 1)


def evaluate(reference: str | os.PathLike, candidates: Iterable[Candidate], jobs: int | None = None,
             cache: str | os.PathLike | None = None, scheduler: str | None = None,
             executor: Executor | None = None, shard: tuple[int, int] | None = None,
             **settings: Any) -> Generator[dict[str, Any], None, None]:
    """Judges candidate kernels; an iterator of records (dicts) as they are finished.

        for r in nkisim.evaluate("ref.py", ["a.py", "b.py"], target="trn2"):
            print(r["id"], r["status"], r["latency_us"])

    reference: a file with inputs(seed) and reference(*inputs). candidates: paths, or dicts with
    "source" or "path" and optionally "id", "kernel", "grid", "params". jobs: processes at a time
    (default: one a core). cache: a folder of known results, which many may share. scheduler: a Dask scheduler's
    address, whose workers do it. executor: a concurrent.futures.Executor whose workers do it, `jobs` at a time
    where it does not say how many. shard: (3, 16) judges the third sixteenth of the candidates. Settings: target,
    config, overrides, timeout (seconds, 60), memory (bytes, 4 GiB), values (True), seeds, baseline (us),
    stop_slower, allow_flags, switches (the compiler's), kernel, grid, advise (False). Fields of a record:
    docs/evaluate.md. Raises BadReference.
    """
    chosen = sharded(candidates, shard)
    pool: Cluster | Evaluator
    if scheduler:
        pool = Cluster.of_dask(scheduler, Settings(reference, **settings), cache)
    elif executor is not None:
        pool = Cluster.of_executor(executor, Settings(reference, **settings), cache, jobs)
    else:
        pool = Evaluator(Settings(reference, **settings), jobs, cache)
    with contextlib.closing(pool):
        yield from pool.records(map(as_candidate, chosen))


def _drained(candidates, loop):
    """An asynchronous iterable as an iterable for another thread."""
    iterator, end = candidates.__aiter__(), object()

    async def following():
        return await anext(iterator, end)

    while (candidate := asyncio.run_coroutine_threadsafe(following(), loop).result()) is not end:
        yield candidate


async def evaluate_async(reference: str | os.PathLike, candidates: Iterable[Candidate] | AsyncIterable[Candidate],
                         **options: Any) -> AsyncGenerator[dict[str, Any], None]:
    """nkisim.evaluate for event loops: an asynchronous iterator of records as they are finished.

        async for r in nkisim.evaluate_async("ref.py", proposals(), cache="known"):
            ...

    candidates: an iterable or an asynchronous one, from which no more are taken than there are workers for, so
    that it may wait for earlier records. Everything else is as in evaluate. Leaving the loop ends the workers.
    """
    given = (_drained(candidates, asyncio.get_running_loop()) if isinstance(candidates, AsyncIterable)
             else candidates)
    records, end, lock = evaluate(reference, given, **options), object(), threading.Lock()

    def following():
        with lock:
            return next(records, end)

    def close():  # after the step that a cancelled task has left behind
        with lock:
            records.close()

    try:
        while (record := await asyncio.to_thread(following)) is not end:
            yield record
    finally:
        await asyncio.to_thread(close)
