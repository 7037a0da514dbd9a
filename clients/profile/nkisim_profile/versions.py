"""Computes how likely two versions of a kernel have the same order of speed on a chip as in
simulation.
"""

import math
from typing import Any


def likely_faster(latency: float, other: float, spread: float | None) -> float | None:
    """The probability, from 0 to 1, that a simulated `latency` is the shorter one on a chip than `other`'s, a version
    of the same kernel (the same unit). spread: by how much the errors of two versions differ, as a logarithm, taken as
    normal: `confidence["interval"]["versions"]` (docs/evidence.md). None if that is not known (None or 0) or a latency
    is not above 0."""
    if not spread or min(latency, other) <= 0:
        return None
    return round(0.5 * (1 + math.erf(math.log(other / latency) / (spread * math.sqrt(2)))), 3)


def spread_of(confidence: dict[str, Any] | None) -> float | None:
    """The spread that a run's confidence has, or None."""
    return ((confidence or {}).get("interval") or {}).get("versions")
