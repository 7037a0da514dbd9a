"""What lies between kernels: boundaries of a compiled graph, and the host. One kernel that is the whole step has
neither, so both are nothing unless they are asked for. docs/models.md has the evidence."""

from __future__ import annotations

import dataclasses

from .architecture import ModelError
from .predict import Part, Prediction

#: A boundary between two kernels of a compiled graph, in microseconds. Source: one published case, a block of
#: Qwen3-30B-A3B on trn3 whose 98 boundaries take 34 us a layer, which it gained as one kernel. Confidence: low.
BOUNDARY_US = 34 / 98
PARTS_BETWEEN = ("boundaries", "host")


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
