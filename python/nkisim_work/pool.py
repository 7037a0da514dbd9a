"""Provides pools that run many simulations: threads of this machine, an executor, or a Dask
scheduler's workers.

`nkisim evaluate`, `tune` and `sweep` use these classes. All take tasks (tuples) from an iterable
only as fast as their results are taken, and give these in the order in which they finish.
"""

import concurrent.futures
import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any


class NoPool(Exception):
    """There are no such workers; the message says why."""


class Local:
    """A thread for each of `workers`, which are called with a task's items; usually one process is
    behind each."""

    def __init__(self, workers: Iterable[Callable[..., Any]]) -> None:
        self._workers = list(workers)

    def results(self, tasks: Iterable[tuple]) -> Iterator[Any]:
        """Yields the workers' results. An exception of a worker or of `tasks` is raised here.

        Leaving the loop ends the threads when their present tasks are done.
        """
        todo: queue.Queue[tuple | None] = queue.Queue(len(self._workers))
        done: queue.Queue[tuple[bool | None, Any]] = queue.Queue(len(self._workers))
        stop = threading.Event()
        for worker in self._workers:
            threading.Thread(target=_work, args=(worker, todo, done, stop), daemon=True).start()
        threading.Thread(target=_feed, args=(tasks, todo, done, stop, len(self._workers)),
                         daemon=True).start()
        running = len(self._workers)
        try:
            while running:
                ended, result = done.get()
                if ended is None:
                    running -= 1
                elif ended:
                    raise result
                else:
                    yield result
        finally:
            stop.set()


def _put(into, item, stop):
    """True if the queue took it before the end."""
    while not stop.is_set():
        try:
            into.put(item, timeout=0.2)
            return True
        except queue.Full:
            continue
    return False


def _feed(tasks, todo, done, stop, workers):
    try:
        for task in tasks:
            if not _put(todo, task, stop):
                return
    except Exception as problem:
        _put(done, (True, problem), stop)
    finally:
        for _ in range(workers):
            _put(todo, None, stop)


def _work(worker, todo, done, stop):
    while not stop.is_set():
        try:
            task = todo.get(timeout=0.2)
        except queue.Empty:
            continue
        if task is None:
            break
        try:
            result = False, worker(*task)
        except BaseException as problem:
            result = True, problem
        _put(done, result, stop)
    _put(done, (None, None), stop)


class Futures:
    """Any concurrent.futures.Executor: processes, threads, MPI ranks (mpi4py.futures), a Dask client's
    get_executor(), Ray's. `workers`: how many tasks it runs at a time, where it does not say so itself."""

    def __init__(self, executor: concurrent.futures.Executor, workers: int | None = None) -> None:
        self._executor = executor
        self._window = 2 * (workers or getattr(executor, "_max_workers", None) or os.cpu_count() or 1)

    def results(self, function: Callable, tasks: Iterable[tuple]) -> Iterator[Any]:
        """Yields function(*task), twice as many under way as there are workers. An exception of a task is raised here.
        Leaving the loop cancels what has not begun."""
        tasks = iter(tasks)
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def submit(task):
            future = self._executor.submit(function, *task)
            future.add_done_callback(done.put)
            return future

        under_way = {submit(task) for task in itertools.islice(tasks, self._window)}
        try:
            while under_way:
                future = done.get()
                under_way.discard(future)
                yield future.result()
                under_way.update(submit(task) for task in itertools.islice(tasks, 1))
        finally:
            for future in under_way:
                future.cancel()

    def close(self) -> None:
        """The executor is its owner's."""


class Dask:
    """The workers of the scheduler at `address`. Raises NoPool if there is none.

    by_value: modules that are sent along, so that workers need not have them.
    """

    def __init__(self, address: str, by_value: Iterable[ModuleType] = ()) -> None:
        try:
            import cloudpickle
            import distributed
        except ImportError:
            raise NoPool("--scheduler needs Dask: pip install 'dask[distributed]'") from None
        self._distributed = distributed
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            self._client = distributed.Client(address, timeout="10s")
        except (OSError, TimeoutError, ValueError) as error:
            raise NoPool(f"no Dask scheduler at {address} ({error})") from None

    def share(self, value: Any) -> Any:
        """`value` on every worker, sent once; it takes the value's place in a task."""
        return self._client.scatter(value, broadcast=True)

    def results(self, function: Callable[..., Any], tasks: Iterable[tuple]) -> Iterator[Any]:
        """Yields function(*task), called on the workers, twice as many under way as they have threads. A task whose
        worker dies is given to another. Leaving the loop cancels the others."""
        waiting = (self._client.submit(function, *task, pure=False, retries=3) for task in tasks)
        window = 2 * max(sum(self._client.nthreads().values()), 1)
        under_way = set(itertools.islice(waiting, window))
        running = self._distributed.as_completed(under_way)
        try:
            for future in running:
                under_way.discard(future)
                yield future.result()
                for following in itertools.islice(waiting, 1):
                    under_way.add(following)
                    running.add(following)
        finally:
            self._client.cancel(list(under_way))

    def close(self) -> None:
        self._client.close()
