"""Runs as data, by warm processes: `nkisim worker` takes jobs and answers outcomes (docs/jobs.md).

Evaluations, tuning, sweeps, comparisons and the validation run their programs here. Standard library only:
Dask sends these modules to its workers as they are.
"""

from .pool import Dask, Local, NoPool
from .program import program
from .worker import Ended, Worker, Workers, machine, message, timed

__all__ = ["Dask", "Ended", "Local", "NoPool", "Worker", "Workers", "machine", "message", "program", "timed"]
