"""Computes how many tokens the busiest of some experts gets, from a router that prefers none.

Kernels have fixed shapes, so a prediction needs a number. All ranks wait for the busiest one.
"""

from __future__ import annotations

import functools
import math

import numpy as np

LEAST = 1e-6  # a chance that is left out
WIDE = 20


@functools.lru_cache(maxsize=256)
def busiest(tokens: int, top_k: int, experts: int, groups: int) -> int:
    """The mean number of pairs (a token, an expert that it chose) of the busiest of `groups` equal groups of experts,
    rounded up.

    The chance that no group has more than c pairs is that of tokens * top_k draws without replacement among tokens *
    experts pairs. For one token that is exact; for more, each may draw an expert twice.
    """
    total, places = tokens * top_k, tokens * experts // groups
    if groups == 1 or top_k == experts:
        return total // groups
    chances = _binomial(places, top_k / experts, min(places, total))
    whole = _binomial(places * groups, top_k / experts, total)[total]
    mean = most = -(-total // groups)  # no less in any case
    while most + 1 < len(chances) and (more := 1 - _power_at(chances[:most + 1], groups, total) / whole) > LEAST:
        mean, most = mean + more, most + 1
    return math.ceil(round(mean, 5))


def _binomial(places, chance, most):
    """The chances of 0 ... most of so many places."""
    j = np.arange(most + 1)
    log = np.array([math.lgamma(n + 1) for n in range(most + 1)])
    left = np.array([math.lgamma(places - n + 1) for n in range(most + 1)])
    return np.exp(math.lgamma(places + 1) - log - left + j * math.log(chance) + (places - j) * math.log1p(-chance))


def _power_at(chances, power, at):
    """The coefficient of x^at of a polynomial's power, whose others are next to nothing further than WIDE standard
    deviations away: a Fourier transform of that size."""
    size = 1 << max(len(chances), math.ceil(WIDE * (at + 1) ** 0.5)).bit_length()
    return np.fft.irfft(np.fft.rfft(chances, size) ** power, size)[at % size]
