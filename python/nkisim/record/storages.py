"""Lists the storages of a recording, without the tiles that nothing refers to any more."""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

from ..values.storage import PSUM, Storage

if TYPE_CHECKING:
    from .recorder import Recorder


class Storages(list[Storage]):
    """In the program's order, in which each is added.

    A legacy kernel makes a tile for every instruction, and most are soon out of reach. Their storages go
    as the list doubles; their numbers are kept for `unreachable`.
    """

    _FEWEST = 1024  # that are worth a look

    def __init__(self) -> None:
        super().__init__()
        self.next_look = self._FEWEST  # at this length
        self.cores: set[int] = set()   # of tiles that are gone
        self._gone = array("I")        # their numbers, until asked for
        self._reported: set[int] = set()   # tiles that were said to be out of reach and are here yet

    def look(self, recorder: Recorder) -> None:
        """Forgets the tiles that nothing but this list refers to, and that nothing asks for."""
        kept: list[Storage] = []
        for st, alone in zip(self, _alone(self)):
            if alone and st.on_chip and _not_asked_for(st, recorder):
                self._gone.append(st.id)
                self.cores.add(st.core)
            else:
                kept.append(st)
        self[:] = kept
        self.next_look = max(self._FEWEST, 2 * len(kept))

    def unreachable(self, recorder: Recorder) -> list[int]:
        """The numbers of tiles, each once, that only what is recorded can read."""
        self.look(recorder)
        numbers = [number for number in self._gone if number not in self._reported]
        self._gone = array("I")
        for st, alone in zip(self, _alone(self)):
            if alone and st.on_chip and st.id not in self._reported:
                self._reported.add(st.id)
                numbers.append(st.id)
        return numbers

    def settle(self) -> None:
        """The kernel has ended: only tiles at addresses of its own are asked for."""
        self.cores.update(st.core for st in self if st.on_chip)
        self[:] = [st for st in self if not st.on_chip or st.address is not None]
        self._gone, self._reported = array("I"), set()


def _references(objects):
    return [sys.getrefcount(each) for each in objects]


_LISTED = _references([object()])[0]  # of what only the list refers to


def _alone(storages):
    return [references == _LISTED for references in _references(storages)]


def _not_asked_for(st, recorder):
    """True unless the compiler asks for the tile's address, or a dynamic loop whether PSUM has values."""
    if st.address is not None:
        return False
    return st.space != PSUM or (st.zeroed_at is None and recorder.program.written(st.id))
