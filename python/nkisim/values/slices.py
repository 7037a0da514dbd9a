"""Defines nl.ds, the slice that may start at a register."""


class ds:
    """nl.ds(start, size): the slice start:start+size, whose start may be a register."""

    __slots__ = ("start", "size")

    def __init__(self, start, size):
        self.start = start
        self.size = size
