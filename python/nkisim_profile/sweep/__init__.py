"""Implements `nkisim sweep`: the latency of a program for every combination of settings."""

from .command import main

__all__ = ["main"]
