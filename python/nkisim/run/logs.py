"""What the simulator says of its work: NKISIM_LOG's destinations and `logging.getLogger("nkisim")`.

Each room of the core has a logger below that one ("nkisim.compiler", "nkisim.dma"); docs/profile.md says
what they say. Where a program does not use logging, asking costs some microseconds a run.
"""

from __future__ import annotations

import logging

from .. import _core

ROOMS = tuple(_core.log_rooms())
#: Levels of the core by name; what Python has no name for is below DEBUG.
LEVELS = dict(zip(_core.log_levels(), (5, logging.DEBUG, logging.INFO, logging.WARNING,
                                       logging.ERROR, logging.CRITICAL + 1)))
LOGGERS = {room: logging.getLogger(f"nkisim.{room}") for room in ROOMS}


class _Heard:
    """What the core was last told that logging wants to hear."""

    def __init__(self) -> None:
        self.started = False
        self.levels: list[str] | None = None


_heard = _Heard()


def follow() -> None:
    """Before something of the core runs: it says what NKISIM_LOG and logging want to hear by now.
    Raises Error if NKISIM_LOG is no setting."""
    if not _heard.started:
        _core.log_start()
        _heard.started = True
    levels = [_lowest(logger) for logger in LOGGERS.values()]
    if levels != (_heard.levels or ["warning"] * len(ROOMS)):
        _core.log_listen(levels, _hear)
        _heard.levels = levels


def _lowest(logger):
    for name, number in LEVELS.items():
        if logger.isEnabledFor(number):
            return name
    return "off"


def _hear(room, level, text):
    """A line of the core."""
    LOGGERS[room].log(LEVELS[level], "%s", text)


def wants(room: str, level: str) -> bool:
    """Whether anybody listens to a room at a level, by their names."""
    follow()
    return _core.log_on(room, level)


def say(room: str, level: str, text: str) -> None:
    """A line of what is written in Python."""
    _core.log_say(room, level, text)
