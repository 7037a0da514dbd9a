"""Implements `nkisim sweep`, which simulates a program once for each combination of settings."""

from .command import main

__all__ = ["main"]
