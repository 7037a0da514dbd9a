"""Shows a simulated run as it is at one instant: nkisim.run(kernel, x, stop_at="12.3us").stop."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..values import dtypes

if TYPE_CHECKING:
    from ..record.recorder import Recorder
    from .options import Options


class Stop:
    """A run at an instant, events of that instant included. print(stop) shows all of it. An Error that ends the run has
    it as its `stop` (that of a world: a list, `stops`), if the run came that far."""

    def __init__(self, at_us: float, found: dict[str, Any], values: dict[str, tuple], text: str) -> None:
        self.at_us = at_us
        self.json = {"at_us": at_us, **found}  # as in nkisim run --json
        self.complete: int = found["complete"]          # instructions and transfers that have ended
        self.instructions: int = found["instructions"]  # ... of all that the run executes
        #: Each engine: what it runs ("runs", or None), its next instruction ("next") and what this waits for
        #: ("waits_for").
        self.engines: list[dict[str, Any]] = found["engines"]
        #: Instructions and transfers that have begun and not ended, and what they write.
        self.under_way: list[dict[str, Any]] = found["under_way"]
        #: By name: what complete instructions have written.
        self.values: dict[str, np.ndarray] = {}
        #: By name: which elements have a value. The others of `values` are whatever memory held.
        self.valid: dict[str, np.ndarray] = {}
        self.text = text
        for name, (dtype, shape, data, valid) in values.items():
            self.values[name] = np.frombuffer(data, dtypes.BY_NAME[dtype].dtype).reshape(shape)
            self.valid[name] = np.frombuffer(valid, np.bool_).reshape(shape)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<nkisim stop at {self.at_us:.3f} us: {self.complete} of {self.instructions} instructions complete>"


def choices(options: Options, recorders: Sequence[Recorder]) -> dict[str, Any]:
    """The wishes for a stop, as the extension takes them."""
    if not options.stop_at:
        return {}
    dump = options.dump
    if dump is None:
        own = [[st.name for st in r.storages if not st.on_chip] for r in recorders]
        dump = [name for name in own[0] if options.timing != "only" and all(name in names for names in own)]
    return {"stop_at": str(options.stop_at), "dump": [str(name) for name in dump]}


def stops_of(found: tuple[str, list[str], list[dict[str, tuple]]] | None, ranks: int = 1) -> list[Stop | None]:
    """One for each rank of what the extension gives; Nones where no stop was asked for."""
    if found is None:
        return [None] * ranks
    state = json.loads(found[0])
    values = found[2] or [{}] * ranks
    return [Stop(state["at_us"], state["ranks"][r], values[r], found[1][r]) for r in range(ranks)]
