"""Estimates how far a prediction for a model can be trusted: an interval, and its evidence
(docs/model-evidence.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: Three steps that are one kernel are known and measured: docs/model-evidence.md.
WHOLE_STEPS = "three whole steps of one author are measured: too few for how many are within"


class Trust(NamedTuple):
    """The measured time of such kernels over the simulated one, from `low` to `high`, None where nothing is known;
    and what that rests on."""

    low: float | None = None
    high: float | None = None
    reasons: tuple[str, ...] = ()


def trust_of(confidence: dict[str, Any] | None, us: float) -> Trust:
    """The trust in a run of `us` microseconds with this `confidence` (docs/evidence.md)."""
    if confidence is None:
        return Trust(reasons=("the run says nothing of its trust",))
    found = confidence["interval"]
    if not found:
        return Trust(reasons=tuple(confidence["reasons"]))
    return Trust(found["low_us"] / us, found["high_us"] / us, (*confidence["reasons"], WHOLE_STEPS))


def interval(trust: Trust, kernel_us: float, between: dict[str, float]) -> dict[str, Any] | None:
    """The interval of a step whose kernel takes kernel_us, with the times between kernels by name, which are added as
    they are; None where nothing is known. coverage is null: how many steps are within is not known."""
    if trust.low is None or trust.high is None:
        return None
    more = sum(between.values())
    return {"low_us": kernel_us * trust.low + more, "high_us": kernel_us * trust.high + more, "coverage": None}


def rests_on(trust: Trust, between: dict[str, float]) -> list[str]:
    """The reasons for an interval, or for its absence."""
    said = [*trust.reasons]
    if "boundaries" in between:
        said.append("boundaries are of one published case, without an interval")
    if "host" in between:
        said.append("the host's time is as given")
    left = [words for name, words in (("boundaries", "launches"), ("host", "the host")) if name not in between]
    return [*said, *([f"without {' and '.join(left)}"] if left else [])]
