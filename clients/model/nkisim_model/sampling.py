"""Chooses the few layers of a model that are simulated in place of all, and tests that their time
is steady.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from typing import NamedTuple

from .architecture import Architecture


class Sample(NamedTuple):
    """The layers that are simulated for the steady state: the first `cold` count as they are; then two groups of
    `group`, which are compared."""

    cold: int
    group: int

    @property
    def layers(self) -> int:
        return self.cold + 2 * self.group


OF_STEP, OF_PROMPT = Sample(4, 10), Sample(2, 2)  # a prompt's layers are longer, and differ less
OF_LONG_STEP, OF_LONGEST = Sample(2, 4), Sample(1, 1)  # of steps whose layers have many instructions (effort.py)
LONGEST = 12                 # layers after which their kinds come again
SAME = 0.005                 # the groups' times differ by at most this fraction, or
SPREAD, MOST = 3.0, 0.02     # by so many standard errors of the difference, and this fraction; else it is not steady


def kind_of(model: Architecture, layer: int) -> tuple:
    """The contents of a layer: layers of one kind are alike."""
    return model.mixer(layer), model.mlp(layer), model.has_window(layer)


def sample_of(model: Architecture, least: Sample) -> Sample | None:
    """The Sample whose groups have each kind of layer as often as the layers after them; None where the kinds do not
    come again one by one, or no layers would be left."""
    kinds = [kind_of(model, n) for n in range(model.layers)]
    for cold in range(least.cold, least.cold + LONGEST):
        for period in range(1, LONGEST + 1):
            if all(a == b for a, b in zip(kinds[cold:], kinds[cold + period:])):
                found = Sample(cold, period * math.ceil(least.group / period))
                return found if found.layers < model.layers else None
    return None


def mixed_sample_of(model: Architecture, least: Sample) -> Sample | None:
    """The shortest Sample whose groups have the same layers in any order, with all kinds that come after them."""
    kinds = [kind_of(model, n) for n in range(model.layers)]
    found = [Sample(cold, group) for cold in range(least.cold, least.cold + LONGEST)
             for group in range(least.group, (model.layers - cold - 1) // 2 + 1)
             if (has := Counter(kinds[cold:cold + group])) == Counter(kinds[cold + group:cold + 2 * group])
             and set(kinds[cold + 2 * group:]) <= set(has)]
    return min(found, key=lambda sample: sample.layers, default=None)


def weights_of(model: Architecture, sample: Sample) -> list[float]:
    """The weight of each layer of a Sample, so that all together are the model's."""
    first = sample.layers
    steady = Counter(kind_of(model, n) for n in range(sample.cold, first))
    further = Counter(kind_of(model, n) for n in range(first, model.layers))
    return [1.0 if n < sample.cold else 1 + further[kind_of(model, n)] / steady[kind_of(model, n)]
            for n in range(first)]


def spread(model: Architecture, sample: Sample, times: list[float]) -> float:
    """The standard deviation of the layers after the cold ones, each less the mean of its kind."""
    kinds = [kind_of(model, n) for n in range(sample.cold, sample.layers)]
    means = {kind: statistics.fmean(t for k, t in zip(kinds, times[sample.cold:]) if k == kind) for kind in set(kinds)}
    left = [t - means[kind] for kind, t in zip(kinds, times[sample.cold:])]
    return math.sqrt(sum(v * v for v in left) / max(1, len(left) - len(means)))


def is_steady(model: Architecture, sample: Sample, times: list[float]) -> bool:
    """True if the groups differ by no more than the layers' spread explains: times of all simulated layers."""
    before, after = (statistics.fmean(times[at:at + sample.group]) for at in (sample.cold, sample.cold + sample.group))
    explained = SPREAD * spread(model, sample, times) * math.sqrt(2 / sample.group)
    return abs(after - before) <= max(SAME * after, min(explained, MOST * after))
