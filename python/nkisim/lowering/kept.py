"""Caches tiles that every kernel needs once while it is translated, such as identity matrices for
transposes.
"""

from __future__ import annotations


class TileCache:
    """Tiles that several calls share: `recorder.of(Kept)`."""

    def __init__(self):
        self.identities = {}  # (core, rows, dtype) -> tile with ones on its diagonal
        self.ones = {}        # (core, instance, rows, dtype) -> tile of ones
        self.copies = []      # copies to SBUF of a row repeated in PSUM, by instruction


def copied_rows(recorder):
    """The instructions that copy a row repeated in PSUM to SBUF: readers may take their source."""
    return recorder.of(TileCache).copies
