"""Implements the debugger behind `nkisim debug`, editors (DAP) and notebooks: it steps through a
simulated run.
"""

from .engine import Breakpoint, Debugger
from .tile import Tile
from .watch import BadExpression

__all__ = ["BadExpression", "Breakpoint", "Debugger", "Tile"]
