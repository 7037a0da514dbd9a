"""Gives the time between kernels: boundaries of a compiled graph, and the host. One kernel that is
the whole step has no boundaries, so a prediction has neither unless it is asked for; a server's
cost is reported apart. docs/model-evidence.md has the evidence.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import NamedTuple

from .architecture import ModelError
from .predict import Part, Prediction
from .served_points import FIRST_TOKENS, POINTS

#: A boundary between two kernels of a compiled graph, in microseconds. Source: one published case, a block of
#: Qwen3-30B-A3B on trn3 whose 98 boundaries take 34 us a layer, which it gained as one kernel. Confidence: low.
BOUNDARY_US = 34 / 98
#: Boundaries of a layer where a graph runs it, and the host's time per token, in microseconds. Source: that case; and
#: time per token less the device's, less head and embedding as simulated here, 1,356 us for Qwen3-30B-A3B (8.15 ms, 48
#: layers of 134.47 us) and 2,140 for GPT-OSS-20B (5.88 ms, 3.41), both as one kernel on trn3. Confidence: low.
BOUNDARIES, HOST_US = 98, 1750.0
PARTS_BETWEEN = ("boundaries", "host")


class Served(NamedTuple):
    """Time per token, or to the first one, in microseconds, where a server runs a step as a compiled graph: that of the
    prediction, and of boundaries and host what the prediction has not."""

    us: float
    boundaries_us: float
    host_us: float
    tokens_per_second: float
    first: bool = False

    @property
    def interval(self) -> dict[str, float]:
        """low_us and high_us: nine of ten models of a family that is not known are expected within, by what is known of
        the others; coverage: the part of the published points that are, each by the families that are not its own."""
        points = FIRST_TOKENS if self.first else POINTS
        low, high = expected_range(points)
        inside = [low <= point.measured_ms / point.predicted_ms <= high for point, (low, high) in
                  ((point, expected_range([p for p in points if p.family != point.family])) for point in points)]
        return {"low_us": self.us * low, "high_us": self.us * high, "coverage": sum(inside) / len(inside)}

    def as_json(self) -> dict:
        return {"tpot_us": self.us, **{k: v for k, v in self._asdict().items() if k not in ("us", "first")},
                "interval": self.interval}


#: Limits of Student's t with 1, 2, ... degrees of freedom, which one of twenty exceeds.
STUDENT = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782)


def expected_range(points):
    """The least and the greatest of measured over predicted times that are expected of one more family: logarithms are
    normal, with a mean of each family and the points of a family around it."""
    families: dict[str, list[float]] = {}
    for point in points:
        families.setdefault(point.family, []).append(math.log(point.measured_ms / point.predicted_ms))
    means = [statistics.fmean(found) for found in families.values()]
    within = sum((v - mean) ** 2 for found, mean in zip(families.values(), means) for v in found)
    spread = statistics.variance(means) + within / max(1, len(points) - len(means))
    wide = STUDENT[min(len(means), len(STUDENT)) - 2] * math.sqrt(spread * (1 + 1 / len(means)))
    return tuple(math.exp(statistics.fmean(means) + sign * wide) for sign in (-1, 1))


def with_between(prediction: Prediction, boundaries: int = 0, host_us: float = 0.0) -> Prediction:
    """The prediction of a step that has so many boundaries in each layer, and a host that takes so long."""
    if boundaries < 0 or not 0 <= host_us < float("inf"):
        raise ModelError(f"{boundaries} boundaries a layer and {host_us} us of the host", "at least 0")
    parts = dict(prediction.parts)
    layer = boundaries * BOUNDARY_US
    for name, us in zip(PARTS_BETWEEN, (layer * prediction.share.model.layers, host_us)):
        if us:
            parts[name] = Part(us, bounds={name: us})
    more = sum(part.us for part in parts.values()) - sum(part.us for part in prediction.parts.values())
    return dataclasses.replace(prediction, step_us=prediction.step_us + more, layer_us=prediction.layer_us + layer,
                               parts=parts)


def served(prediction: Prediction) -> Served:
    """The serving of a prediction: see Served."""
    has = prediction.between
    boundaries = 0.0 if "boundaries" in has else BOUNDARIES * BOUNDARY_US * prediction.share.model.layers
    host = 0.0 if "host" in has else HOST_US
    us = prediction.step_us + boundaries + host
    return Served(us, has.get("boundaries", boundaries), has.get("host", host),
                  prediction.tokens_per_second * prediction.step_us / us, bool(prediction.prompt))
