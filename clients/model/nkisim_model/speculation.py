"""Models speculative decoding: a draft proposes tokens, and one step of the model verifies all of them."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from .architecture import ModelError
from .between import served
from .predict import Prediction
from .share import Share


class Speculation(NamedTuple):
    """tokens: proposed for each step. acceptance: the chance that a token is accepted where the one before it was.
    step: the Prediction of a step that verifies them. The draft's own time is not counted."""

    tokens: int
    acceptance: float
    step: Prediction

    @property
    def expected(self) -> float:
        """Tokens that a step gives each sequence: those that are accepted, and one of the model's own."""
        return sum(self.acceptance ** n for n in range(self.tokens + 1))

    @property
    def tpot_us(self) -> float:
        return self.step.step_us / self.expected

    def as_json(self) -> dict:
        return {"tokens": self.tokens, "acceptance": self.acceptance, "tokens_per_step": self.expected,
                "step_us": self.step.step_us, "tpot_us": self.tpot_us,
                "served_tpot_us": served(self.step).us / self.expected}


def check(tokens: int, acceptance: float | None) -> None:
    """Raises a ModelError where the two do not fit together."""
    if tokens < 0 or (tokens == 0) != (acceptance is None):
        found = f"{tokens} proposed tokens" + (" without an acceptance" if acceptance is None else
                                               f" with an acceptance of {acceptance}")
        raise ModelError(found, "--speculate of at least one token and --acceptance, or neither", "--speculate")
    if acceptance is not None and not 0 <= acceptance <= 1:
        raise ModelError(f"an acceptance of {acceptance}", "a chance from 0 to 1", "--acceptance")


def verifying(share: Share, tokens: int) -> Share:
    """The Share of a step that verifies so many tokens of each sequence: they are sequences of their own, so that each
    reads the cache, which a kernel for them would read once."""
    return dataclasses.replace(share, batch=share.batch * (tokens + 1))
