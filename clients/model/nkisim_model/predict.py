"""Predicts the time per token of a model: it simulates a decode step and reports the time of each
part.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from nkisim.run.compiling import Choices
from nkisim.run.kernel import run
from nkisim.run.options import Options
from nkisim.values.errors import Error
from nkisim_profile.session import ENGINES, FS_PER_NS, Session

from . import effort, prefill
from .library import load
from .routes import Refused, check, routes, said_of
from .sampling import (OF_PROMPT, OF_STEP, Sample, is_steady, mixed_sample_of, sample_of, spread,
                       weights_of)
from .share import Share
from .stack import Part, parts_of
from .step import OF_A_LAYER, PARTS, REPLACEABLE, arguments, decode
from .trust import Trust, interval, rests_on, trust_of


GAP_US = 0.05             # between slices of a timeline that are drawn as one


class Slice(NamedTuple):
    """The time of an engine, the transfers or the collectives in one layer, in microseconds of the run."""

    row: str
    begin: float
    end: float
    part: str


@dataclasses.dataclass
class Prediction:
    """A decode step of a model, or a prompt's way through it: microseconds, and by part.

    steady: whether the layers' time is that of few, times their number (else all were simulated).
    layers_us: each simulated layer's time. instructions: simulated, of one rank. prompt: tokens of the
    prompt, without those that pad it, 0 for a decode step; run_as: with them. timeline: of one layer. trust: of the
    simulated run. sample: the layers that were simulated, where not all were. kernels: whose kernel each part is, and
    why.
    """

    share: Share
    step_us: float
    layer_us: float
    parts: dict[str, Part]
    steady: bool
    instructions: int
    layers_us: list[float] = dataclasses.field(default_factory=list)
    prompt: int = 0
    timeline: list[Slice] = dataclasses.field(default_factory=list)
    trust: Trust = Trust()
    sample: Sample = OF_STEP
    kernels: dict[str, str] = dataclasses.field(default_factory=dict)
    run_as: int = 0

    @property
    def between(self) -> dict[str, float]:
        """The times between kernels, in microseconds by name."""
        return {name: part.us for name, part in self.parts.items() if name not in PARTS}

    @property
    def interval(self) -> dict | None:
        """low_us, high_us and coverage of step_us; None where nothing is known."""
        return interval(self.trust, self.step_us - sum(self.between.values()), self.between)

    @property
    def rests_on(self) -> list[str]:
        """The measurements that the interval rests on, or why there is none."""
        return rests_on(self.trust, self.between)

    @property
    def tokens_per_second(self) -> float:
        return self.share.dp * self.share.batch * 1e6 / self.step_us

    @property
    def error(self) -> float:
        """The standard error of step_us, as a fraction of it: of layers that differ by chance, few were simulated."""
        if not self.steady:
            return 0.0
        model = self.share.model
        more, seen = model.layers - len(self.layers_us), len(self.layers_us) - self.sample.cold
        return more * spread(model, self.sample, self.layers_us) / seen ** 0.5 / self.step_us

    @property
    def next_kernel(self) -> str:
        """The part with a kernel whose roof would gain most."""
        return max(PARTS, key=lambda name: self.parts[name].gain_us)

    def as_json(self) -> dict:
        s = self.share
        return {"model": dataclasses.asdict(s.model), "target": s.target, "tp": s.tp, "lnc": s.lnc,
                "batch": s.batch, "dp": s.dp, "ep": s.ep, "context": s.context, "dtype": s.dtype,
                "tpot_us": self.step_us, "layer_us": self.layer_us,
                "tokens_per_second": self.tokens_per_second, "steady": self.steady, "error": self.error,
                "layers_us": self.layers_us, "interval": self.interval, "rests_on": self.rests_on,
                "instances": s.instances, "ultraserver": s.ultraserver,
                "weight_bytes": s.weight_bytes, "cache_bytes": s.cache_bytes,
                "kernels": self.kernels, "padded_heads": s.padding,
                "memory_bytes": s.memory_bytes, "fits": s.fits, "next_kernel": self.next_kernel,
                "parts": {name: p.as_json() for name, p in self.parts.items()}}


@dataclasses.dataclass
class _Run:
    """One simulated step of few layers, or of all: parts by layer and name."""

    us: float
    parts: dict[tuple[int, str], Part]
    instructions: int
    timeline: list[Slice]
    trust: Trust

    def layers_us(self) -> list[float]:
        """The critical path's time in each layer."""
        found: dict[int, float] = defaultdict(float)
        for (layer, name), part in self.parts.items():
            if name in OF_A_LAYER:
                found[layer] += part.us
        return [found[n] for n in range(len(found))]


def predict(share: Share, library, replaced=None, exact=False, config=None, said=None, prompt=None) -> Prediction:
    """The Prediction of a decode step, or of a prompt of `prompt` tokens.

    library: a checkout of nki-library, what load() made of it, or None for nkisim's own kernels.
    replaced: functions by part of a decode step (library.py says what they take).
    exact: simulates all layers. config: a machine description instead of the target's. said: called
    with a line before each simulation.
    """
    replaced = dict(replaced or {})
    check(replaced, REPLACEABLE)
    asked = share
    if prompt is not None:
        prefill.check(share, prompt)
    lib = library if library is None or hasattr(library, "root") else load(library)
    said = said or (lambda line: None)
    refused: dict[str, str] = {}
    while True:
        tokens = None
        if prompt is None:
            chosen = routes(share, lib, replaced, refused)
        else:
            chosen = prefill.routes(asked, lib, prompt, refused)
            tokens = prefill.padded(prompt, any(route.whose == "nkisim" for route in chosen.values()))
            share = dataclasses.replace(asked, context=max(asked.context, tokens))
        try:
            found = _predicted(share, lib, chosen, (exact, config, said, tokens))
            found.prompt, found.run_as = prompt or 0, tokens or 0
            return found
        except Refused as problem:
            refused[problem.part] = problem.why
        except Error as problem:  # of the step as a whole, such as too little SBUF
            if not any(route.whose == "nki-library" for route in chosen.values()):
                raise
            refused[""] = said_of(problem)
        said("nki-library refuses it: nkisim's own kernels instead")


def _predicted(share, lib, chosen, how):
    """The Prediction with these Routes."""
    exact, config, said, prompt = how
    total = share.model.layers

    def simulated(layers):
        if not prompt:
            effort.check(share, layers)
        said(f"simulating {layers} of {total} layers" + (f", prompt of {prompt}" if prompt else ""))
        kernel = prefill.prefill(share, lib, chosen) if prompt else decode(share, lib, chosen)
        given = prefill.arguments(share, prompt, layers, next(iter(chosen.values())).whose) if prompt else \
            arguments(share, layers, chosen)
        return _simulate(share, kernel, given, config)

    kernels = {part: route.said for part, route in chosen.items()}
    for least in () if exact else (OF_PROMPT,) if prompt else effort.samples(share):
        sample = sample_of(share.model, least)
        if prompt and sample is None:  # whose layers take long
            sample = mixed_sample_of(share.model, least)
        if sample is None:
            continue
        few = simulated(sample.layers)
        if is_steady(share.model, sample, few.layers_us()):
            return _prediction(share, few, sample, prompt, kernels)
    return _prediction(share, simulated(total), None, prompt, kernels)


def _prediction(share, run, sample, prompt, kernels):
    """The Prediction from a run of a Sample's layers, or of all; further layers take the mean of their kind."""
    layers = run.layers_us()
    times = weights_of(share.model, sample) if sample else [1.0] * len(layers)
    parts = {name: Part() for name in PARTS}
    for (layer, name), part in run.parts.items():
        many = times[layer] if name in OF_A_LAYER else 1
        parts[name].add(part, many)
    for part in parts.values():
        part.read_bytes, part.flops = round(part.read_bytes), round(part.flops)
    steady = layers[sample.cold:] if sample else layers
    us = run.us + sum((many - 1) * t for many, t in zip(times, layers))
    return Prediction(share, us, sum(steady) / len(steady), parts, sample is not None, run.instructions, layers,
                      prompt or 0, run.timeline, run.trust, sample or OF_STEP, kernels)


def _simulate(share, kernel, given, config):
    """A _Run of a kernel."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's kernels have some of their own
        ranks = share.tp * share.dp
        options = Options(share.target, timing="only", allow_unwritten=True, any_world=True, config=config,
                          overrides=share.overrides,
                          compiler=Choices(), ranks=ranks, files={"session": str(Path(folder) / "0.npz")})
        options.files_of = {0}
        with contextlib.redirect_stdout(io.StringIO()):  # where the library says how it uses SBUF
            result = run(kernel, **given, options=options, lnc=share.lnc,
                         ranks=ranks if ranks > 1 else None)
        session = Session(str(Path(folder) / "0.npz"))
    executed = result[0].executed if ranks > 1 else result.executed
    regions = _regions(session)
    parts = parts_of(session, regions, (0, PARTS[0]), (0, PARTS[-1]))
    return _Run(result.latency_us, parts, executed, _timeline(session, regions),
                trust_of(result.confidence, result.latency_us))


def _timeline(session, regions):
    """Slices of the layer in the middle, of the first core: those of one part that follow each other within GAP_US
    are one."""
    layer = max((n for n, _ in regions.values()), default=0) // 2
    moved, parts, met = session.transfers, session.parts, session.collectives
    kinds = [(parts.core, parts.inst, parts.start, parts.end, [ENGINES[e] for e in parts.engine.tolist()])]
    kinds += [(t.core, t.inst, begin, end, [row] * len(t)) for t, begin, end, row in (
        (moved, moved.first_packet, moved.last_packet, "transfers"), (met, met.start, met.end, "collectives"))]
    rows = defaultdict(list)
    for kind in kinds:
        for core, inst, begin, end, row in zip(*(c if isinstance(c, list) else c.tolist() for c in kind)):
            found = regions.get(inst)
            if core == 0 and found and found[0] == layer and found[1] in OF_A_LAYER and end > begin:
                rows[row].append((begin / FS_PER_NS / 1e3, end / FS_PER_NS / 1e3, found[1]))
    out = []
    for row in [r for r in (*ENGINES, "transfers", "collectives") if r in rows]:
        last = None
        for begin, end, part in sorted(rows[row]):
            if last and last.part == part and begin <= last.end + GAP_US:
                last = out[-1] = last._replace(end=max(end, last.end))
            else:
                last = Slice(row, begin, end, part)
                out.append(last)
    return out


def _regions(session):
    """The layer and part of every instruction: its region's, or for what the compiler added those of the instruction
    before it on its core."""
    found, last = {}, {}
    regions = session.text(session.insts.region.tolist())
    for inst, (core, region) in enumerate(zip(session.insts.core.tolist(), regions)):
        if region:
            layer, part = region.split("/")[:2]
            last[core] = int(layer), part
        if core in last:
            found[inst] = last[core]
    return found
