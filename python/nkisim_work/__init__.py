"""Runs simulations in worker processes: `nkisim worker` reads jobs and writes outcomes, both JSON
(docs/jobs.md).

`nkisim evaluate`, `tune`, `sweep`, `compare` and `validate` run their programs here. Standard library only:
Dask sends these modules to its workers as they are.
"""

from .progress_line import ProgressLine
from .host import memory_percent, share_of_machine
from .pool import Dask, Futures, Local, NoPool
from .program import program
from .worker import Ended, Worker, Workers, machine, message, timed

__all__ = ["Dask", "ProgressLine", "Ended", "Futures", "Local", "NoPool", "Worker", "Workers", "machine",
           "memory_percent", "message", "program", "share_of_machine", "timed"]
