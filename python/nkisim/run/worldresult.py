"""Defines WorldResult, which a run of several ranks returns."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import _core
from ..values.errors import Error
from .memory_bound import MemoryBound
from .options import report_files

if TYPE_CHECKING:
    from ..record.recorder import Recorder
    from .options import Options
    from .stop import Stop
    from .world import _World


class RankResult:
    """The result of one rank."""

    def __init__(self, rank: int, recorder: Recorder, found: dict[str, Any]) -> None:
        self.rank = rank
        self.recorder = recorder
        self.outputs: Any = None
        self.executed = found["instructions"]  # dynamic instructions
        self.partial = found["partial"]
        self.summary: dict[str, dict[str, Any]] = json.loads(found.get("json", "{}"))
        self.confidence: dict[str, Any] | None = json.loads(found.get("confidence", "null"))
        self.summary_text = found.get("text", "")
        self.bottleneck: str = found.get("bottleneck", "")  # of this rank alone
        self.span = found.get("span")  # its first start and last end, in fs
        self.latency_ns: float | None = found.get("latency_ns")
        self.stop: Stop | None = None  # the rank as it was at stop_at

    @property
    def latency_us(self) -> float | None:
        """From this rank's first start to its last end on any core, in simulated microseconds."""
        return None if self.latency_ns is None else self.latency_ns / 1e3

    @property
    def output(self) -> Any:
        """The only output, or all of them."""
        return self.outputs

    def __repr__(self) -> str:
        latency = "" if self.latency_ns is None else f", {self.latency_ns / 1e3:.3f} us"
        return f"<nkisim rank {self.rank}{latency}>"


class WorldResult:
    """The result of a run of several ranks: result[k] is rank k's part."""

    def __init__(self, options: Options, name: str, world: _World) -> None:
        self.options = options
        self.name = name
        self.world = world
        self.ranks: list[RankResult] = []
        self.timed_as: list[int] = []   # for each rank, the one whose time is its own too
        self.values_of: list[int] = []  # ... and whose values are
        self.record_seconds = 0.0
        self.run_seconds = 0.0
        self.files = options.files

    def __getitem__(self, rank: int) -> RankResult:
        return self.ranks[rank]

    def __len__(self) -> int:
        return len(self.ranks)

    def __iter__(self) -> Iterator[RankResult]:
        return iter(self.ranks)

    @property
    def outputs(self) -> list[Any]:
        """The value that the kernel returns on each rank."""
        return [r.outputs for r in self.ranks]

    @property
    def partial(self) -> bool:
        """Interrupted: everything is about what ran until then."""
        return any(r.partial for r in self.ranks)

    @property
    def latency_ns(self) -> float | None:
        """From the first start to the last end of anything on any core of any rank."""
        spans = [r.span for r in self.ranks if r.span is not None]
        return _core.latency_ns(spans) if spans else None

    @property
    def latency_us(self) -> float | None:
        """Simulated latency of all ranks in microseconds; None for a run without time."""
        return None if self.latency_ns is None else self.latency_ns / 1e3

    @property
    def confidence(self) -> dict[str, Any] | None:
        """The trust in the latency: as that of the slowest rank."""
        slowest = self._slowest()
        return None if slowest is None else slowest.confidence

    @property
    def bottleneck(self) -> str:
        """The bottleneck in words, that of the rank that ends last, as `nkisim run` says it; "" without time."""
        timed = [r for r in self.ranks if r.span is not None]
        return max(timed, key=lambda r: (r.span or (0, 0))[1]).bottleneck if timed else ""

    def _slowest(self) -> RankResult | None:
        """The rank of the longest latency; None for a run without time."""
        timed = [(r.latency_ns, -r.rank) for r in self.ranks if r.latency_ns is not None]
        return self.ranks[-max(timed)[1]] if timed else None

    @property
    def summary(self) -> dict[str, dict[str, Any]]:
        """The profiler's metrics, one entry per rank and core."""
        return {f"rank {r.rank} {core}": m for r in self.ranks for core, m in r.summary.items()}

    @property
    def recorder(self) -> Recorder:
        """The recorder of the first rank."""
        return self.ranks[0].recorder

    @property
    def recordings(self) -> int:
        """The number of recordings of the kernel: one, unless ranks differ in more than data."""
        return len(self.world.recordings)

    def rank_files(self) -> list[dict[str, Any]]:
        """Reports that each rank writes: paths with {rank} in them."""
        if not self.files:
            return []
        asked = self.options.files_of
        return [{key: os.fspath(path).replace("{rank}", str(r)) for key, path in self.files.items()
                 if asked is None or r in asked} for r in range(self.options.ranks)]

    def write(self, **files: str | os.PathLike) -> None:
        """Runs all ranks again and writes reports, as Result.write. {rank} in a path stands for the rank; each rank
        that was simulated has a file. Without it html= is one page of all ranks. Error for another kind without it."""
        import tempfile  # for reports alone

        from .result import mapped_files, require_apart, write_page

        paths = report_files(files, ("html",))
        page = paths.pop("html", None)
        for kind, path in paths.items():
            if "{rank}" not in path:
                raise Error(rule="option_value", operand=f"{kind}=", found=path,
                            required="a name with {rank} in it, a file for each rank,", code="usage")
        with contextlib.ExitStack() as stack:
            if page is not None and "session" not in paths:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="nkisim-"))
                paths["session"] = os.path.join(folder, "session.{rank}.npz")
            own = [{kind: path.replace("{rank}", str(r)) for kind, path in (*paths.items(), ("html", page or ""))}
                   for r in range(len(self.ranks))]
            written = dict.fromkeys((f"{kind}=", path) for each in own for kind, path in each.items() if path)
            require_apart(list(written),
                          [name for kernel in self.world.kernels() for name in mapped_files(kernel.recorder)],
                          self.options)
            self.files, asked, self.options.files_of = paths, self.options.files_of, None
            try:
                with MemoryBound():
                    self.world.write(self)
            finally:
                self.options.files_of = asked
            if page is None:
                return
            made = [each for each in own if os.path.exists(each["session"])]
            if "{rank}" in page:
                for each in made:
                    write_page([each["session"]], each["html"], self.name)
            else:
                write_page([each["session"] for each in made], page, self.name)

    def save(self, path: str | os.PathLike, compiled: bool = True) -> str:
        """Writes the program as a trace that says how many ranks it has, STEM.npz with every rank's
        inputs as they were before the run and, for each rank, STEM.expected.RANK.npz with what it gave:
        `nkisim run STEM.nisa --expect 'STEM.expected.{rank}.npz'`. All ranks must share one recording."""
        from .hostarrays import bits, save_archive
        from .result import _stem

        if self.recordings != 1:
            raise Error(f"the ranks have {self.recordings} different programs; a trace has one",
                        rule="rank_programs",
                        code="usage", instruction="save")
        path = os.fspath(path)
        folder = os.path.dirname(path) or "."
        kernel = self.world.kernels()[0]
        arrays, keys = self._inputs(kernel)
        archive = f"{_stem(path)}.npz"
        contents = {archive: arrays}
        for r in range(len(self.ranks)):
            contents[f"{_stem(path)}.expected.{r}.npz"] = {
                st.name: bits(value) for st, value in self.world.outputs(r)}
        for name, content in contents.items():
            save_archive(os.path.join(folder, name), content)
        kernel.recorder.program.save(path, self.name, archive, keys, compiled)
        return path

    def _inputs(self, kernel):
        """Arrays of the archive, and the key of each tensor: NAME@RANK where ranks differ."""
        from .hostarrays import bits

        arrays: dict[str, Any] = {}
        keys: dict[int, str] = {}
        given: set[int] = set()
        for i, (_, t) in enumerate(kernel.arguments.pairs):
            given.add(t.st.id)
            own = [self.world.given(r, i) for r in range(len(self.ranks))]
            if all(rank.arrays[i] is self.world.ranks[0].arrays[i] for rank in self.world.ranks):
                arrays[t.st.name], keys[t.st.id] = bits(own[0]), t.st.name
                continue
            keys[t.st.id] = t.st.name + "@{rank}"
            arrays.update({f"{t.st.name}@{r}": bits(a) for r, a in enumerate(own)})
        for st in kernel.recorder.storages:
            if st.array is not None and st.id not in given:
                arrays[st.name], keys[st.id] = bits(st.array), st.name
        return arrays, keys

    def report(self) -> str:
        """A few lines for people."""
        lines = [f"kernel        {self.name} on {len(self.ranks)} ranks of {self.recorder.target}"]
        if self.partial:
            lines.append("PARTIAL       interrupted: all figures are of what ran until then")
        slowest = self._slowest()
        if slowest is not None:
            lines.append(f"latency       {self.latency_us:.3f} us (rank {slowest.rank})")
            lines.append(f"bottleneck    {self.bottleneck}")
        simulated = len(set(self.timed_as))
        if simulated < len(self.ranks) and self.latency_ns is not None:
            lines.append(f"simulated     {simulated} rank in time, for all that are like it")
        return "\n".join(lines)

    def __repr__(self) -> str:
        latency = "" if self.latency_ns is None else f", {self.latency_us:.3f} us"
        return f"<nkisim result: {len(self.ranks)} ranks{latency}>"
