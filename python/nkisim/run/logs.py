"""Writes the simulator's log to NKISIM_LOG's destinations and to `logging.getLogger("nkisim")`.

Each category of the core has a logger below that one ("nkisim.compiler", "nkisim.dma"); docs/log.md says
what they say. Where a program does not use logging, its module is not imported either.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .. import _core

if TYPE_CHECKING:
    import logging

CATEGORIES = tuple(_core.log_categories())
#: Levels of the core by name, as the numbers of Python's (whose documentation fixes them); what Python has no name
#: for is below its lowest and above its highest.
LEVELS = dict(zip(_core.log_levels(), (5, 10, 20, 30, 40, 51)))


class _Received:
    """The levels that the core was last given for logging."""

    def __init__(self) -> None:
        self.started = False
        self.levels: list[str] | None = None
        self.asked: list[object] = []  # of logging, when `levels` were found
        self.loggers: list[logging.Logger] = []  # of CATEGORIES, once the program has imported logging


_received = _Received()


def follow() -> None:
    """Before something of the core runs: it says what NKISIM_LOG and logging want by now.
    Raises Error if NKISIM_LOG is no setting."""
    if not _received.started:
        _core.log_start()
        _received.started = True
    if "logging" not in sys.modules:
        return  # no one can have asked for more than the warnings that it says anyway
    if not _received.loggers:
        import logging

        _received.loggers = [logging.getLogger(f"nkisim.{category}") for category in CATEGORIES]
    asked: list[object] = [logger.getEffectiveLevel() for logger in _received.loggers]
    asked += [_received.loggers[0].manager.disable, *[logger.disabled for logger in _received.loggers]]
    if asked == _received.asked:
        return
    _received.asked = asked
    levels = [_lowest(logger) for logger in _received.loggers]
    if levels != (_received.levels or ["warning"] * len(CATEGORIES)):
        _core.log_listen(levels, _on_record)
        _received.levels = levels


def _lowest(logger):
    for name, number in LEVELS.items():
        if logger.isEnabledFor(number):
            return name
    return "off"


def _on_record(category, level, text):
    """A line of the core."""
    _received.loggers[CATEGORIES.index(category)].log(LEVELS[level], "%s", text)
