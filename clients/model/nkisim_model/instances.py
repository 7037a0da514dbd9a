"""Describes EC2 instance types: the chips and memory that a model has on one."""

from __future__ import annotations

from typing import NamedTuple

from .architecture import ModelError
from .instance_table import INSTANCES

GIB = 2**30


class Instance(NamedTuple):
    """A row of configs/instances.json. lnc: cores of a logical core by default. servers: that are one machine here."""

    name: str
    target: str
    chips: int
    cores_per_chip: int
    lnc: int
    memory_gib: int
    servers: int

    def ranks_of(self, lnc: int | None) -> int:
        """Logical cores of so many cores."""
        return self.chips * self.cores_per_chip // (lnc or self.lnc)

    def check(self, share) -> None:
        """Raises a ModelError where a Share has more ranks than there are, or does not fit their memory."""
        ranks = self.ranks_of(share.lnc)
        if share.tp * share.dp > ranks:
            raise ModelError(f"{share.dp} copies of {share.tp} ranks on {self.name}" if share.dp > 1 else
                             f"tp {share.tp} on {self.name}", f"at most its {ranks} ranks", "--instance")
        memory, needed = self.memory_gib * GIB // ranks, share.weight_bytes + share.cache_bytes
        if needed > memory:
            raise ModelError(f"{needed / GIB:.1f} GiB a rank (weights {share.weight_bytes / GIB:.1f}, cache "
                             f"{share.cache_bytes / GIB:.1f}) on {self.name}", f"at most {memory / GIB:.0f}",
                             "--instance")


def find(name: str) -> Instance:
    """The instance type of a name."""
    rows = {row[0]: Instance(*row) for row in INSTANCES}
    if name not in rows:
        raise ModelError(f"{name!r}", f"one of {', '.join(rows)}", "--instance")
    return rows[name]
