"""Finds changes that make a program faster, each confirmed by a simulation (docs/advise.md)."""

from .program import BadProgram
from .search import Advice, Finding, advise

__all__ = ["Advice", "BadProgram", "Finding", "advise"]
