"""Runs the simulations of `nkisim sweep` on worker processes of this machine, or a Dask
scheduler's.
"""

import pathlib
import sys

import nkisim_work
from nkisim_work import Dask, Local, NoPool, Worker

from ..session import BadSession
from . import job


def on_this_machine(jobs, points, source):
    """Records in the order in which they finish. Leaving the loop ends the processes."""
    workers = [Worker(of=jobs) for _ in range(jobs)]

    def calls(worker):
        return lambda point, trace: job.run(worker, point, job.job_of(trace, point))

    try:
        yield from Local(map(calls, workers)).results((p, source.trace(p)) for p in points)
    finally:
        for worker in workers:
            worker.stop()


def on_scheduler(address, points, source):
    """Records in the order in which they finish. The workers need the nkisim program, and no package of
    ours; files that several points have in common are sent once. Leaving the loop cancels the others.
    Raises BadSession if there is no scheduler at `address`."""
    ours = [m for name, m in sys.modules.items() if name.split(".")[0] == nkisim_work.__name__]
    try:
        pool = Dask(address, by_value=[job, *ours])
    except NoPool as problem:
        raise BadSession(str(problem)) from None
    sent = {}

    def task(point):
        stamp = source.stamp(point)
        if stamp not in sent:
            sent[stamp] = pool.share(source.files(point))
        return point, pathlib.Path(source.trace(point)).name, sent[stamp]

    try:
        yield from pool.results(job.simulate, map(task, points))
    finally:
        pool.close()
