"""Where many jobs run: threads of this machine, or the workers of a Dask scheduler.

Evaluations, searches and sweeps go through these two classes. Both take tasks (tuples) from an iterable
only as fast as their results are taken, and give these in the order in which they finish.
"""

import itertools
import queue
import threading


class NoPool(Exception):
    """There are no such workers; the message says why."""


class Local:
    """A thread for each of `workers`, which are called with a task's items; usually one process is
    behind each."""

    def __init__(self, workers):
        self._workers = list(workers)

    def results(self, tasks):
        """What the workers return. An exception of a worker or of `tasks` is raised here.

        Leaving the loop ends the threads when their present tasks are done.
        """
        todo, done = queue.Queue(len(self._workers)), queue.Queue(len(self._workers))
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
    """Whether the queue took it before the end."""
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


class Dask:
    """The workers of the scheduler at `address`. Raises NoPool if there is none.

    by_value: modules that are sent along, so that workers need not have them.
    """

    def __init__(self, address, by_value=()):
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

    def share(self, value):
        """`value` on every worker, sent once; it takes the value's place in a task."""
        return self._client.scatter(value, broadcast=True)

    def results(self, function, tasks):
        """What function(*task) returns, called on the workers, twice as many under way as they have
        threads. A task whose worker dies is given to another. Leaving the loop cancels the others."""
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

    def close(self):
        self._client.close()
