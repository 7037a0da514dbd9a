"""Steps through a run: the engine of `nkisim debug`, of the DAP server and of notebooks (docs/debug.md)."""

from .engine import Breakpoint, Debugger
from .tile import Tile
from .watch import BadExpression

__all__ = ["BadExpression", "Breakpoint", "Debugger", "Tile"]
