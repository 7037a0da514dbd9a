"""Where points are simulated: processes of this machine, or the workers of a Dask scheduler."""

import concurrent.futures
import pathlib
import subprocess
import time

from ..session import BadSession
from . import job


class Local:
    """`jobs` simulations at a time, each a process."""

    def __init__(self, jobs):
        self._jobs = jobs
        self._running = set()

    def results(self, points, source, options):
        """Records in the order in which they finish. Leaving the loop ends the processes."""
        with concurrent.futures.ThreadPoolExecutor(self._jobs) as pool:
            waiting = [pool.submit(self._one, p, source.trace(p), options) for p in points]
            try:
                for done in concurrent.futures.as_completed(waiting):
                    yield done.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(self._running):
                    process.kill()

    def _one(self, point, trace, options):
        start = time.monotonic()
        # Own group: Ctrl-C is for the sweep, which ends its processes itself.
        process = subprocess.Popen(job.words(trace, point, options), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        self._running.add(process)
        try:
            out, err = process.communicate()
        finally:
            self._running.discard(process)
        return job.record(point, process.returncode, out, err, time.monotonic() - start)


class Dask:
    """The workers of a scheduler. They need the nkisim program, and nothing of this package."""

    def __init__(self, address):
        try:
            import cloudpickle
            import distributed
        except ImportError:
            raise BadSession("--scheduler needs Dask: pip install 'dask[distributed]'") from None
        self._distributed = distributed
        self._sent = {}
        cloudpickle.register_pickle_by_value(job)
        try:
            self._client = distributed.Client(address, timeout="10s")
        except (OSError, TimeoutError, ValueError) as error:
            raise BadSession(f"no Dask scheduler at {address} ({error})") from None

    def results(self, points, source, options):
        """Records in the order in which they finish. Leaving the loop cancels the others."""
        waiting = [self._client.submit(job.simulate, p, pathlib.Path(source.trace(p)).name,
                                       self._shipped(source, p), options, pure=False)
                   for p in points]
        try:
            for done in self._distributed.as_completed(waiting):
                yield done.result()
        finally:
            self._client.cancel(waiting)
            self._client.close()

    def _shipped(self, source, point):
        """The files of a point on the workers; the same files are sent once."""
        stamp = source.stamp(point)
        if stamp not in self._sent:
            self._sent[stamp] = self._client.scatter(source.files(point), broadcast=True)
        return self._sent[stamp]
