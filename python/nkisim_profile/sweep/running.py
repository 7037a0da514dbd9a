"""Simulates the points of a sweep: by processes of this machine, or a Dask scheduler's workers."""

import pathlib
import subprocess
import threading
import time

from ..pools import Dask, Local
from . import job


def on_this_machine(jobs, points, source, options):
    """Records in the order in which they finish. Leaving the loop ends the processes."""
    running, ended = set(), threading.Event()

    def one(point, trace):
        start = time.monotonic()
        # Own group: Ctrl-C is for the sweep, which ends its processes itself.
        process = subprocess.Popen(job.words(trace, point, options), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, start_new_session=True)
        running.add(process)
        if ended.is_set():
            process.kill()
        try:
            out, err = process.communicate()
        finally:
            running.discard(process)
        return job.record(point, process.returncode, out, err, time.monotonic() - start)

    try:
        yield from Local([one] * jobs).results((p, source.trace(p)) for p in points)
    finally:
        ended.set()
        for process in list(running):
            process.kill()


def on_scheduler(address, points, source, options):
    """Records in the order in which they finish. The workers need the nkisim program, and nothing of
    this package; files that several points have in common are sent once. Leaving the loop cancels the
    others. Raises BadSession if there is no scheduler at `address`."""
    pool, sent = Dask(address, by_value=[job]), {}

    def task(point):
        stamp = source.stamp(point)
        if stamp not in sent:
            sent[stamp] = pool.share(source.files(point))
        return point, pathlib.Path(source.trace(point)).name, sent[stamp], options

    try:
        yield from pool.results(job.simulate, map(task, points))
    finally:
        pool.close()
