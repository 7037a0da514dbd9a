"""Predicts one model in several configurations (`nkisim model` with lists), in as many processes as
there are cores.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import itertools
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import nkisim
from nkisim.values.errors import Error
from nkisim_profile.sweep.journal import Journal, is_figure
from nkisim_work import ProgressLine, share_of_machine

from . import speculation
from .architecture import Architecture, ModelError
from .between import served, with_between
from .instances import Instance
from .library import load
from .predict import Prediction, predict
from .share import share_of
from .speculation import Speculation

SWEPT = ("tp", "batch", "context")


@dataclasses.dataclass
class Point:
    """One configuration. found: the prediction, None where there can be none, of which `problem` says why; without:
    with no function of the user's; prompt: of the prompt."""

    tp: int
    batch: int
    context: int
    found: Prediction | None = None
    without: Prediction | None = None
    prompt: Prediction | None = None
    problem: str = ""
    speculation: Speculation | None = None
    kept: dict | None = None  # what an earlier run found, as JSON

    @property
    def settings(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in SWEPT}

    def as_json(self) -> dict:
        if self.kept is not None:
            return self.kept
        if self.found is None:
            return self.settings | {"error": self.problem}
        out = self.found.as_json() | {"served": served(self.found).as_json()}
        if self.without is not None:
            out["without_kernel"] = self.without.as_json()
        if self.speculation is not None:
            out["speculation"] = self.speculation.as_json()
        if self.prompt is not None:
            first = served(self.prompt)
            out |= {"ttft_us": self.prompt.step_us, "served_ttft_us": first.us,
                    "served_ttft_interval": first.interval, "prompt": self.prompt.as_json()}
        return out


def is_found(row: dict, prompted: bool, speculated: bool = False) -> bool:
    """True if a journal's row has what the line of a point shows (report.row): somebody else may have written it."""
    result = row.get("result")
    if not isinstance(result, dict):
        return False
    if "tpot_us" not in result:
        return isinstance(result.get("error"), str)
    served = result.get("served")
    figures = ["tpot_us", "tokens_per_second", "layer_us", "weight_bytes", "cache_bytes", *["ttft_us"] * prompted]
    speculation = result.get("speculation") if speculated else {"tpot_us": 1.0}
    if not isinstance(speculation, dict) or not is_figure(speculation.get("tpot_us")):
        return False
    return (all(is_figure(result.get(name)) for name in figures) and isinstance(served, dict)
            and is_figure(served.get("tpot_us")) and isinstance(result.get("fits"), bool)
            and isinstance(result.get("next_kernel"), str))


@dataclasses.dataclass
class Sweep:
    """The task of a sweep: a model, the values of each of SWEPT, and the settings that all points share."""

    model: Architecture
    target: str
    dtype: str
    axes: dict[str, list[int]]
    library: object = None
    replaced: dict[str, Callable] = dataclasses.field(default_factory=dict)
    exact: bool = False
    machine: str | None = None
    prompt: int | None = None
    boundaries: int = 0
    host_us: float = 0.0
    dp: int = 1
    ep: int = 1
    instances: int = 1
    ultraserver: bool = False
    compares: bool = True  # with functions of the user's, also the prediction without
    lnc: int | None = None
    cache_dtype: str = ""
    own: bool = False
    instance: Instance | None = None
    speculate: int = 0
    acceptance: float | None = None

    def points(self, shard: tuple[int, int] = (1, 1)) -> list[Point]:
        """The points to be predicted, in the order of SWEPT; shard: (K, N), every N-th, beginning with the K-th."""
        found = [Point(*values) for values in itertools.product(*(self.axes[name] for name in SWEPT))]
        return found[shard[0] - 1::shard[1]]

    def stamp(self) -> str:
        """Identifies all that a point's result depends on, apart from its own settings."""
        sources = {part: Path(inspect.getsourcefile(f) or "").read_text() for part, f in self.replaced.items()}
        machine = Path(self.machine).read_text() if self.machine and Path(self.machine).is_file() else self.machine
        settings = [repr(getattr(self, field.name)) for field in dataclasses.fields(self)
                    if field.name not in ("axes", "library", "replaced", "machine")]
        library = str(getattr(self.library, "root", self.library))
        return hashlib.sha256(repr((nkisim.__version__, settings, library, sources, machine)).encode()).hexdigest()

    def predicted(self, point: Point, said: Callable[[str], None] | None = None) -> Point:
        """The point with its predictions. Raises Error, or the library's AssertionError."""
        share = share_of(self.model, self.target, point.tp, point.batch, point.context, self.dtype, dp=self.dp,
                         ep=self.ep, instances=self.instances, ultraserver=self.ultraserver, lnc=self.lnc,
                         cache_dtype=self.cache_dtype, own=self.own)
        if self.instance is not None:
            self.instance.check(share)
        alone = functools.partial(predict, share, self.library, exact=self.exact, config=self.machine, said=said)

        speculation.check(self.speculate, self.acceptance)

        def one(*replaced, **options):
            return with_between(alone(*replaced, **options), self.boundaries, self.host_us)

        point.found = one(self.replaced)
        if self.compares and self.replaced and self.library is not None:
            point.without = one()
        if self.speculate:
            step = predict(speculation.verifying(share, self.speculate), self.library, self.replaced, exact=self.exact,
                           config=self.machine, said=said)
            point.speculation = Speculation(self.speculate, self.acceptance or 0.0,
                                            with_between(step, self.boundaries, self.host_us))
        if self.prompt is not None:
            point.prompt = one(prompt=self.prompt)
        return point

    def tried(self, point: Point) -> Point:
        """The point with its predictions, or with the problem that it has."""
        try:
            return self.predicted(point)
        except (Error, AssertionError) as problem:  # an AssertionError is how the library refuses
            return Point(point.tp, point.batch, point.context, problem=str(problem).splitlines()[0])

    def run(self, jobs: int | None = None, executor: Executor | None = None, shard: tuple[int, int] = (1, 1),
            journal: Journal | None = None, each: Callable[[Point], None] = lambda point: None) -> list[Point]:
        """All points of the shard, without those that the journal has; each(point) is called when one is known. Workers
        are forked from this process, which has read the library already; or they are an executor's, such as
        dask.distributed.Client(...).get_executor(), which find the library by its path."""
        points = self.points(shard)
        for point in points:
            if journal is not None and point.settings in journal:
                point.kept = journal[point.settings]["result"]
                each(point)
        left = [at for at, point in enumerate(points) if point.kept is None]

        def known(at, future):
            points[at] = _of(future, points[at])
            if journal is not None and future.exception() is None:
                journal.add({"point": points[at].settings, "result": points[at].as_json()})
            each(points[at])

        if executor is not None:
            root = None if self.library is None else os.path.abspath(getattr(self.library, "root", self.library))
            sent = dataclasses.replace(self, library=root)
            for at, future in [(at, executor.submit(_sent, sent, points[at])) for at in left]:
                known(at, future)
        elif left:
            self._forked(points, left, max(1, min(jobs or os.cpu_count() or 1, len(left))), known)
        return points

    def _forked(self, points, left, jobs, known):
        """Predicts points[left] in forked processes; known(number of the point, future) as they end."""
        with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork"), _begin, (self, jobs)) as pool:
            coming = {pool.submit(_tried, points[at]): at for at in left}
            try:
                with ProgressLine("simulating") as progress:  # whose thread begins when all are forked
                    for done, future in enumerate(as_completed(coming), 1):
                        known(coming[future], future)
                        progress.say(f"simulating: {done} of {len(left)} configurations")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _of(future, point):
    """A point's result, whatever became of its process."""
    try:
        return future.result()
    except BrokenProcessPool:
        point.problem = "its process has ended before its time: too little memory?"
        return point


_SWEEP: list[Sweep] = []  # a worker's, as functions of the user's cannot be sent


@functools.cache
def _library(root):
    return load(root)


def _sent(sweep, point):
    """A point of a sweep that came from another process."""
    if sweep.library is not None:
        try:
            sweep = dataclasses.replace(sweep, library=_library(sweep.library))
        except ModelError as problem:
            point.problem = f"on worker {socket.gethostname()}: {problem}"
            return point
    return sweep.tried(point)


def _begin(sweep, processes):
    os.environ.update(share_of_machine(processes))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends us
    _SWEEP.append(sweep)


def _tried(point):
    return _SWEEP[0].tried(point)
