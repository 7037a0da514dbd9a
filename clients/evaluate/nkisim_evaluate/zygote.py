"""Forks a process for each submitted kernel from one that has already imported everything.

Started by evaluator.Zygote: main(FOLDER). One JSON object a line comes in, {"job", "seconds",
"memory_bytes"}, and one goes out, {"kind", "result", "printed", "printed_bytes", "message", "flags",
"foreign", "listed"}: sandbox.ProcessEnd and what the overseer saw. It knows no inputs, no reference and no other
kernel. FOLDER is the only one that submitted kernels may write to.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from collections.abc import Iterable
from typing import IO, Any

from nkisim import _core
from nkisim.tools.install import install
from nkisim_work.program import homes

from . import sandbox
from .candidate import describe
from .overseer import Overseer, library_folders

_WARM = ("nki", "nki.isa", "nki.language", "neuronxcc.nki", "neuronxcc.nki.isa",
         "neuronxcc.nki.language", "ml_dtypes", "math", "functools", "numpy.testing")


def readable(job: dict[str, Any], roots: Iterable[str]) -> list[str]:
    """The files that a candidate may read: libraries, its own folder, and those that these look at by themselves."""
    own = os.path.realpath(job["path"])
    folder = os.path.dirname(own)
    return [*roots, own if folder == os.sep else folder, "/etc/ld.so.cache", "/etc/localtime",
            "/usr/share/zoneinfo", "/dev/urandom", "/sys/devices/system/cpu"]


def serve(lines: Iterable[str], out: IO[str], roots: tuple[str, ...]) -> None:
    """Answers every line until there are no more."""
    for line in lines:
        asked = json.loads(line)
        job = asked["job"]
        overseer = Overseer(job["path"], job.pop("reference", None), job["folder"], roots)
        ended = sandbox.run(lambda *ends: describe(job, roots, *ends),  # noqa: B023
                            asked["seconds"], asked["memory_bytes"], overseer, readable(job, roots),
                            job["folder"])
        said = {"kind": ended.kind, "message": ended.message, "flags": overseer.flags,
                "foreign": overseer.foreign, "listed": overseer.listed_own,
                "result": ended.result.decode("utf-8", "replace")}
        if ended.printed:
            said.update(printed=ended.printed, printed_bytes=ended.printed_bytes)
        out.write(json.dumps(said) + "\n")
        out.flush()


def main(folder: str) -> None:
    """Says what this system lacks, and answers standard input on standard output."""
    install()
    _core.without_memory_bounds()  # a candidate has limits of its own, and starts no thread
    for name in _WARM:
        importlib.import_module(name)
    roots = (*library_folders(), *map(str, homes()))
    missing = sandbox.isolate(folder)
    gc.collect()
    gc.freeze()  # children share these pages
    try:
        sys.stdout.write(json.dumps({"ready": True, "missing": missing}) + "\n")
        sys.stdout.flush()
        serve(sys.stdin, sys.stdout, roots)
    except (BrokenPipeError, KeyboardInterrupt):  # whoever asked is gone
        os._exit(0)
